//! `tiledb_scan('location', 'option', 'value', …)`: an array as a table, with options.
//!
//! It gives the same table as `CREATE EXTERNAL TABLE … OPTIONS (…)`, without a name. The subtle thing: planning is
//! synchronous but needs the columns, so another thread opens the array while the planner waits.

use std::sync::Arc;
use std::thread;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::DataFusionError;

use super::arguments::Call;
use super::target::Surroundings;
use crate::error::{Error, Result};
use crate::sql::provider::TileDbTable;

/// The name in SQL.
pub(super) const NAME: &str = "tiledb_scan";

/// The function.
#[derive(Debug)]
pub(super) struct ScanFunction;

impl TableFunctionImpl for ScanFunction {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let table = Call::parse(NAME, args.exprs())
            .and_then(|call| open(call, Surroundings::of(args.session())));
        Ok(Arc::new(table.map_err(DataFusionError::from)?))
    }
}

/// Opens the table outside the caller's runtime, whose only thread may be the one that waits here.
fn open(call: Call, surroundings: Surroundings) -> Result<TileDbTable> {
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::internal("no runtime to open the array with").with_source(e))?;
        runtime.block_on(async {
            let target = surroundings.resolve(&call).await?;
            TileDbTable::open_columns(target.storage, target.options).await
        })
    };
    let thread = thread::Builder::new().name(NAME.to_owned()).spawn(work);
    let thread =
        thread.map_err(|e| Error::internal("no thread to open the array with").with_source(e))?;
    thread
        .join()
        .map_err(|_| Error::internal("opening the array ended in a panic"))?
}
