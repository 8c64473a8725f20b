//! A scan of an array's snapshot while a statement runs.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_plan::{ExecutionPlan, collect};
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::array::table::ArrayTable;
use tiledb_engine::{Error, Result};

use crate::labels::LabelColumns;
use crate::options::TableOptions;
use crate::options::settings::TileDbSettings;
use crate::scan::planning::shown;
use crate::scan::query::{ScanFilters, ScanQuery};
use crate::stores::runtime::ArrayRuntime;

/// A condition on the columns of an array.
pub(super) type CellScanCondition = Arc<dyn PhysicalExpr>;

/// A scan: the cells, and how they are shown.
pub(super) struct CellScan {
    pub(super) table: Arc<ArrayTable>,
    labels: LabelColumns,
    options: TableOptions,
    context: Arc<TaskContext>,
}

impl CellScan {
    /// A scan with options and the encryption key of the snapshot.
    pub(super) fn new(
        snapshot: &Snapshot,
        options: TableOptions,
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
        let options = TableOptions {
            encryption_key: snapshot.storage.encryption_key().cloned(),
            ..options
        };
        let table = Arc::new(shown(snapshot.clone(), &options)?);
        let labels = LabelColumns::of_table(&table, options.empty_cells)?;
        Ok(Self {
            table,
            labels,
            options,
            context: Arc::clone(context),
        })
    }

    /// The comparison of the column `index` with a constant.
    pub(super) fn compare(
        &self,
        index: usize,
        op: Operator,
        value: ScalarValue,
    ) -> CellScanCondition {
        let column = Column::new(self.table.schema.field(index).name(), index);
        let value = Arc::new(Literal::new(value));
        Arc::new(BinaryExpr::new(Arc::new(column), op, value))
    }

    /// Reads these columns of the cells that satisfy the condition, at most `limit` of them if there is one.
    pub(super) async fn read(
        &self,
        columns: Vec<usize>,
        condition: Option<CellScanCondition>,
        limit: Option<usize>,
    ) -> Result<Vec<RecordBatch>> {
        let config = self.context.session_config();
        let query = Arc::new(ScanQuery {
            projection: columns,
            schema: Arc::clone(self.labels.schema()),
            filters: ScanFilters {
                of_array: condition,
                of_labels: Vec::new(),
            },
            limit,
            first_cells: None,
            partitions: 1,
            settings: TileDbSettings::of(config.options()),
            options: self.options.clone(),
        });
        let failed =
            |e| Error::storage("cells that the statement depends on cannot be read").with_source(e);
        let runtime = ArrayRuntime::of_config(config, self.context.runtime_env());
        let table = Arc::clone(&self.table);
        let source = query.plan(table, &self.labels, &runtime).await;
        let plan: Arc<dyn ExecutionPlan> =
            DataSourceExec::from_data_source(source.map_err(failed)?);
        collect(plan, Arc::clone(&self.context))
            .await
            .map_err(failed)
    }
}
