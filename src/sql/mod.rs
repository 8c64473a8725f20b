//! The DataFusion seam: arrays as tables of a session.
//!
//! [`register`] teaches a session `STORED AS TILEDB`, the `tiledb.*` options, paths of arrays as table names, and the
//! table [`functions`]. [`TileDbTable`] is the provider; [`source`] the scan operator; [`expressions`] turns conditions into
//! ranges of coordinates, verdicts on tiles and conditions on rows; [`optimizer`] rewrites plans over scans; `labels` adds dimension labels.

mod budget;
pub mod catalog;
pub mod claims;
mod encryption;
mod error;
pub mod expressions;
mod factory;
pub mod functions;
mod labels;
mod location;
mod open;
pub mod optimizer;
pub mod options;
pub mod provider;
pub mod query;
mod session;
pub mod settings;
pub mod source;
mod statistics;
mod url_table;

use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use futures::FutureExt;

pub use self::catalog::{TileDbGroup, TileDbGroupBuilder, detach_group, register_group};
pub use self::encryption::SESSION_KEY;
pub use self::open::TileDbTableBuilder;
pub use self::provider::TileDbTable;
pub use self::session::TileDbSessionExt;
use crate::error::{Error, ErrorKind, Result};

/// Teaches a session arrays: `CREATE EXTERNAL TABLE … STORED AS TILEDB`, options under `tiledb.`, and paths or URLs
/// of arrays as table names (`SELECT * FROM '/data/array'`), and the table [`functions`] that describe arrays
/// (`SELECT * FROM tiledb_schema('/data/array')`), and the [`optimizer`] rules that make the most of arrays.
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
    optimizer::install(ctx)
        .map_err(|e| Error::invalid("the session cannot be taught arrays").with_source(e))?;
    url_table::install(ctx, |path, options, runtime| {
        async move {
            match open::open_columns(&path, &options, &runtime).await {
                Ok(table) => Ok(Some(Arc::new(table) as _)),
                // A place without an array may still be a file that others read.
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
                Err(e) if e.kind() == ErrorKind::NotAnArray => Ok(None),
                Err(e) => {
                    let error = catalog::explain_group(e, &path, &options, &runtime).await;
                    Err(DataFusionError::from(error))
                }
            }
        }
        .boxed()
    });
    Ok(())
}
