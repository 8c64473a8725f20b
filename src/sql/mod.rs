//! The integration with DataFusion: arrays as tables of a session.
//!
//! [`register`] adds `STORED AS TILEDB`, the `tiledb.*` options, paths of arrays as table names, and the table
//! [`functions`] to a session. [`TileDbTable`] is the provider; [`source`] the scan operator; [`expressions`] turns
//! conditions into ranges of coordinates, pruners of tiles and predicates on rows; [`optimizer`] rewrites plans over
//! scans; `labels` adds dimension labels.

pub(crate) mod budget;
pub mod catalog;
mod chains;
mod changes;
#[doc(hidden)]
pub mod claims;
mod create;
mod diff;
#[doc(hidden)]
pub mod dml;
mod encryption;
pub mod evolve;
mod execute;
#[doc(hidden)]
pub mod expressions;
mod factory;
mod from_first;
pub mod functions;
mod labels;
mod location;
mod moment;
mod names;
mod one_moment;
mod open;
pub mod optimizer;
pub mod options;
mod planning;
#[doc(hidden)]
pub mod progress;
pub mod provider;
pub mod query;
mod register;
#[doc(hidden)]
mod scan_box;
pub mod secrets;
mod session;
pub mod settings;
pub mod source;
mod statements;
mod statistics;
mod stored_bits;
mod table_scan;
mod time_travel;
mod url_table;
mod wide_lists;
#[cfg(feature = "distributed")]
mod wire;
mod written;

pub use self::catalog::{TileDbGroup, TileDbGroupBuilder, detach_group, register_group};
pub use self::encryption::SESSION_KEY;
pub use self::execute::execute;
pub use self::factory::TileDbTableFactory;
pub use self::open::TileDbTableBuilder;
pub use self::provider::TileDbTable;
pub use self::register::{equip, register};
pub use self::session::TileDbSessionExt;
pub use self::statements::{plan_statement, with_home_expanded};

use datafusion::error::DataFusionError;
use tiledb_engine::{Error, ErrorKind};

/// An error of the engine as one of DataFusion's. Code that runs in DataFusion's traits uses it wherever it calls the engine.
pub fn to_datafusion_error(error: Error) -> DataFusionError {
    match error.kind() {
        ErrorKind::OutOfMemory => DataFusionError::ResourcesExhausted(error.to_string()),
        _ => DataFusionError::External(Box::new(error)),
    }
}

/// Whether an error says that somebody else has changed the array meanwhile.
fn is_conflict(error: &DataFusionError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<Error>() {
            return error.kind() == ErrorKind::Conflict;
        }
        cause = error.source();
    }
    false
}
