//! The DataFusion seam: arrays as tables of a session.
//!
//! [`register`] teaches a session `STORED AS TILEDB`, the `tiledb.*` options, paths of arrays as table names, and the
//! table [`functions`]. [`TileDbTable`] is the provider; [`source`] the scan operator; [`ranges`] turns predicates into
//! subarrays; `labels` adds dimension labels.

pub mod aggregate;
mod below;
mod budget;
pub mod catalog;
pub mod claims;
mod elements;
mod encryption;
mod enumerated;
mod factory;
mod first_cells;
pub mod functions;
pub mod groups;
mod guards;
mod labels;
mod leading;
mod open;
pub mod options;
mod ordered;
mod predicate;
pub mod provider;
mod pruning;
pub mod ranges;
pub mod rules;
mod runtime;
pub mod source;
mod statistics;
mod text_conditions;
mod url_table;

use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use futures::FutureExt;

pub use self::catalog::{TileDbGroup, TileDbGroupBuilder, detach_group, register_group};
pub use self::encryption::SESSION_KEY;
pub use self::open::TileDbTableBuilder;
pub use self::provider::TileDbTable;
use crate::error::{Error, ErrorKind, Result};

/// Teaches a session arrays: `CREATE EXTERNAL TABLE … STORED AS TILEDB`, options under `tiledb.`, and paths or URLs
/// of arrays as table names (`SELECT * FROM '/data/array'`), and the table [`functions`] that describe arrays
/// (`SELECT * FROM tiledb_schema('/data/array')`), and the optimizer [rules] that make the most of arrays.
///
/// Registering twice does no harm. Call it before or after `enable_url_table`, and before anything is prepared: prepared
/// statements are forgotten.
pub fn register(ctx: &SessionContext) -> Result<()> {
    ctx.state_ref()
        .write()
        .table_factories_mut()
        .insert("TILEDB".to_owned(), Arc::new(factory::TileDbTableFactory));
    ctx.register_table_options_extension(options::TileDbTableOptions::default());
    functions::register(ctx);
    rules::install(ctx);
    elements::install(ctx);
    url_table::install(ctx, |path, options, runtime| {
        async move {
            match open::open_columns(&path, &options, &runtime).await {
                Ok(table) => Ok(Some(Arc::new(table) as _)),
                // A place without an array may still be a file that others read.
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
                Err(e) if e.kind() == ErrorKind::NotAnArray && !is_group(&e) => Ok(None),
                Err(e) => {
                    let error = catalog::explain_group(e, &path, &options, &runtime).await;
                    Err(to_datafusion(error))
                }
            }
        }
        .boxed()
    });
    Ok(())
}

fn is_group(error: &Error) -> bool {
    error.message().contains("TileDB group")
}

/// The one place where our error becomes DataFusion's.
pub(crate) fn to_datafusion(error: Error) -> DataFusionError {
    match error.kind() {
        ErrorKind::OutOfMemory => DataFusionError::ResourcesExhausted(error.to_string()),
        _ => DataFusionError::External(Box::new(error)),
    }
}
