//! A scan of an array's snapshot while a statement runs.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_plan::{ExecutionPlan, collect};
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::array::table::ArrayTable;
use tiledb_engine::arrow::stored_values;
use tiledb_engine::geometry::domain::KeyBox;
use tiledb_engine::geometry::key;
use tiledb_engine::scan::EmptyCells;
use tiledb_engine::write::dense::insert::{EXISTING_TYPES, ExistingCells};
use tiledb_engine::{Error, Result};

use crate::labels::LabelColumns;
use crate::options::settings::TileDbSettings;
use crate::options::{FloatColumns, TableOptions};
use crate::scan::planning::shown;
use crate::scan::query::{ScanFilters, ScanQuery};

/// A condition on the columns of an array.
pub(super) type CellScanCondition = Arc<dyn PhysicalExpr>;

/// What is scanned, and how its cells are shown.
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
        let runtime = self.context.runtime_env();
        let table = Arc::clone(&self.table);
        let source = query.plan(table, &self.labels, runtime.as_ref()).await;
        let plan: Arc<dyn ExecutionPlan> =
            DataSourceExec::from_data_source(source.map_err(failed)?);
        collect(plan, Arc::clone(&self.context))
            .await
            .map_err(failed)
    }
}

/// Both conditions, or the one that there is.
pub(super) fn joined(
    a: Option<CellScanCondition>,
    op: Operator,
    b: CellScanCondition,
) -> CellScanCondition {
    match a {
        None => b,
        Some(a) => Arc::new(BinaryExpr::new(a, op, b)),
    }
}

/// Reads existing cells of a dense array by a scan of their box.
pub(super) struct SnapshotCells {
    pub(super) snapshot: Snapshot,
    pub(super) context: Arc<TaskContext>,
}

impl fmt::Debug for SnapshotCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotCells").finish_non_exhaustive()
    }
}

#[async_trait]
impl ExistingCells for SnapshotCells {
    async fn read(&self, cells: &KeyBox) -> Result<Vec<Vec<ArrayRef>>> {
        let options = TableOptions {
            invalid_utf8: EXISTING_TYPES.invalid_utf8,
            time_as: EXISTING_TYPES.time_as,
            floats: FloatColumns::Stored,
            as_stored: EXISTING_TYPES.as_stored,
            fixed_text: EXISTING_TYPES.fixed_text,
            empty_cells: EmptyCells::Skip,
            ..TableOptions::default()
        };
        let scan = CellScan::new(&self.snapshot, options, &self.context)?;
        let table = &scan.table;
        let dimensions = table
            .snapshot
            .schema
            .dimensions
            .iter()
            .zip(table.types.iter());
        let mut condition = None;
        for (index, ((dimension, ty), (lo, hi))) in dimensions.zip(cells.ranges()).enumerate() {
            let ends = [lo, hi].map(|end| key::from_key(dimension.datatype, end));
            let ends = stored_values(ty, ends.iter().map(|end| Some(end.as_slice())), None)?
                .ok_or_else(|| Error::internal("a coordinate has a value"))?;
            for (end, op) in [(0, Operator::GtEq), (1, Operator::LtEq)] {
                let end = ScalarValue::try_from_array(&ends, end);
                let end =
                    end.map_err(|e| Error::internal("a coordinate is a value").with_source(e))?;
                let bound = scan.compare(index, op, end);
                condition = Some(joined(condition, Operator::And, bound));
            }
        }
        let columns = (0..table.schema.fields().len()).collect();
        let batches = scan.read(columns, condition, None).await?;
        Ok(batches
            .iter()
            .map(|batch| batch.columns().to_vec())
            .collect())
    }
}
