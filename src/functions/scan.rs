//! `tiledb_scan('location', 'option', 'value', …)`: an array as a table, with options.
//!
//! It gives the same table as `CREATE EXTERNAL TABLE … OPTIONS (…)`, without a name. The subtle thing: planning is
//! synchronous but needs the columns, so another thread opens the array while the planner waits.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use tiledb_engine::Result;

use super::arguments::{FunctionCall, NameResolver};
use crate::error::to_datafusion_error;
use crate::table::open::wait_for;
use crate::table::provider::TileDbTable;

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
        let table = FunctionCall::parse(NAME, args.exprs())
            .and_then(|call| open(call, NameResolver::of(args.session())));
        Ok(Arc::new(table.map_err(to_datafusion_error)?))
    }
}

/// Opens the table outside the caller's runtime.
fn open(call: FunctionCall, surroundings: NameResolver) -> Result<TileDbTable> {
    wait_for(NAME, async move || {
        let target = surroundings.resolve(&call).await?;
        TileDbTable::open_columns(target.storage, target.options).await
    })
}
