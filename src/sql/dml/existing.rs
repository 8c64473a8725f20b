//! Existing cells of a dense array, read by a scan of their box.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_plan::{ExecutionPlan, collect};

use crate::array::snapshot::Snapshot;
use crate::arrow::stored_values;
use crate::error::{Error, Result};
use crate::geometry::domain::KeyBox;
use crate::geometry::key;
use crate::scan::EmptyCells;
use crate::sql::labels::Labels;
use crate::sql::options::TableOptions;
use crate::sql::planning::shown;
use crate::sql::query::{ScanFilters, ScanQuery};
use crate::sql::settings::TileDbSettings;
use crate::write::dense::existing::{EXISTING_TYPES, ExistingCells};

/// Reads cells of a snapshot.
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
            empty_cells: EmptyCells::Skip,
            encryption_key: self.snapshot.storage.encryption_key().cloned(),
            ..TableOptions::default()
        };
        let table = Arc::new(shown(self.snapshot.clone(), &options)?);
        let labels = Labels::of_table(&table, options.empty_cells)?;
        let dimensions = table
            .snapshot
            .schema
            .dimensions
            .iter()
            .zip(table.types.iter());
        let mut filter: Option<Arc<dyn PhysicalExpr>> = None;
        for (index, ((dimension, ty), (lo, hi))) in dimensions.zip(cells.ranges()).enumerate() {
            let ends = [lo, hi].map(|end| key::from_key(dimension.datatype, end));
            let ends = stored_values(ty, ends.iter().map(|end| Some(end.as_slice())), None)?;
            let ends = ends.ok_or_else(|| Error::internal("a coordinate has a value"))?;
            let name = table.schema.field(index).name();
            for (end, op) in [(0, Operator::GtEq), (1, Operator::LtEq)] {
                let end = ScalarValue::try_from_array(&ends, end);
                let end =
                    end.map_err(|e| Error::internal("a coordinate is a value").with_source(e))?;
                let column = Arc::new(Column::new(name, index));
                let bound = Arc::new(BinaryExpr::new(column, op, Arc::new(Literal::new(end))));
                filter = Some(match filter {
                    None => bound,
                    Some(others) => Arc::new(BinaryExpr::new(others, Operator::And, bound)),
                });
            }
        }
        let config = self.context.session_config();
        let query = Arc::new(ScanQuery {
            projection: (0..table.schema.fields().len()).collect(),
            schema: Arc::clone(labels.schema()),
            filters: ScanFilters {
                of_array: filter,
                of_labels: Vec::new(),
            },
            limit: None,
            first_cells: None,
            partitions: 1,
            settings: TileDbSettings::of(config.options()),
            options,
        });
        let failed = |e| {
            Error::storage("the cells around those of the statement cannot be read").with_source(e)
        };
        let source = query
            .plan(table, &labels, self.context.runtime_env().as_ref())
            .await;
        let plan: Arc<dyn ExecutionPlan> =
            DataSourceExec::from_data_source(source.map_err(failed)?);
        let batches = collect(plan, Arc::clone(&self.context))
            .await
            .map_err(failed)?;
        Ok(batches
            .iter()
            .map(|batch| batch.columns().to_vec())
            .collect())
    }
}
