//! Floats bit by bit as stored, for statements that write values back that they read.
//!
//! SQL sees one NaN, and one zero among coordinates. Still, UPDATE of another column, MERGE, INSERT … SELECT and COPY from
//! array to array must keep the stored bits. So in these statements a scan returns floats twice: as SQL sees them, for
//! conditions, joins and orders, and as stored, for columns that nothing computes ([`rule`]).

mod rule;

pub(crate) use self::rule::StoredBits;

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::labels::LabelColumns;
use crate::options::{FloatColumns, TableOptions};
use crate::scan::planning::shown;
use crate::table::provider::TileDbTable;
use crate::upstream::boxed_methods::forward_to_boxed;
use futures::FutureExt;
use futures::future::BoxFuture;

/// The table of an array with more columns, which show its floats bit by bit as stored.
#[derive(Debug)]
struct WithStoredFloats {
    table: Arc<dyn TableProvider>,
    schema: SchemaRef,
    /// For each column of the table, its index here, and the column that shows it bit by bit.
    columns: Vec<(usize, Option<usize>)>,
}

impl WithStoredFloats {
    /// The table; `None` if it isn't an array.
    fn of(table: &Arc<dyn TableProvider>) -> tiledb_engine::Result<Option<Self>> {
        let Some(array) = table.downcast_ref::<TileDbTable>() else {
            return Ok(None);
        };
        let options = TableOptions {
            floats: FloatColumns::Both,
            ..array.options().clone()
        };
        let both = shown(array.last_seen(), &options)?;
        let labels = LabelColumns::of_table(&both, options.empty_cells)?;
        let count = table.schema().fields().len();
        let stored = (0..count)
            .filter_map(|column| both.stored_column_of(column))
            .collect::<Vec<_>>();
        // Labels are the last columns.
        let first = stored.first().copied().unwrap_or(count);
        let columns = (0..count).map(|column| {
            if column < first {
                (column, both.stored_column_of(column))
            } else {
                (column + stored.len(), None)
            }
        });
        Ok(Some(Self {
            table: Arc::clone(table),
            schema: Arc::clone(labels.schema()),
            columns: columns.collect(),
        }))
    }

    fn array(&self) -> Result<&TileDbTable> {
        match self.table.downcast_ref::<TileDbTable>() {
            Some(array) => Ok(array),
            None => internal_err!("only arrays have stored floats"),
        }
    }
}

impl WithStoredFloats {
    fn scan_boxed<'a>(
        &'a self,
        state: &'a dyn Session,
        projection: Option<&'a Vec<usize>>,
        filters: &'a [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        async move {
            let args = ScanArgs::default()
                .with_projection(projection.map(Vec::as_slice))
                .with_filters(Some(filters))
                .with_limit(limit);
            Ok(Arc::clone(self.scan_with_args(state, args).await?.plan()))
        }
        .boxed()
    }

    fn scan_with_args_boxed<'a>(
        &'a self,
        state: &'a dyn Session,
        args: ScanArgs<'a>,
    ) -> BoxFuture<'a, Result<ScanResult>> {
        async move {
            let source = self.array()?.plan(state, &args, FloatColumns::Both).await?;
            let plan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(source);
            Ok(plan.into())
        }
        .boxed()
    }
}

impl TableProvider for WithStoredFloats {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        self.table.supports_filters_pushdown(filters)
    }

    forward_to_boxed!(TableProvider: scan, scan_with_args);
}
