//! The step that creates an array and writes the rows of a query to it.
//!
//! The schema is put last, so the array appears with all its rows; before, there is no array for anybody.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{TryStreamExt, stream};

use super::insert::{Destination, insert_plan};
use super::node::{Step, StepExec, count_schema, puts_out_count};
use super::target::Unpublished;
use crate::array::snapshot::Snapshot;
use crate::sql::options::TableOptions;
use crate::sql::planning::shown;
use crate::storage::Storage;
use crate::write::create::ArrayBuilder;

/// Creates an array and writes the rows of its input.
#[derive(Debug, Clone)]
pub struct Copy {
    pub(super) builder: ArrayBuilder,
    pub(super) storage: Storage,
    pub(super) options: TableOptions,
    /// The plan that writes the rows, once it runs.
    pub(super) running: Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>,
}

/// The plan node.
pub type TileDbCopyExec = StepExec<Copy>;

impl Copy {
    /// The plan that writes the rows, once it runs; it has the input below it.
    pub(in crate::sql) fn running(&self) -> Option<Arc<dyn ExecutionPlan>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.clone()
    }

    /// Writes the rows to a new array and makes both visible at once; the stream puts out the number of rows.
    async fn fill(
        self: Arc<Self>,
        input: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        metrics: ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        let staged = self.builder.stage_in(&self.storage).await;
        let staged = staged.map_err(DataFusionError::from)?;
        let snapshot = staged.snapshot().await.map_err(DataFusionError::from)?;
        let array = Arc::new(Unpublished::new(snapshot.clone()));
        let plan = self.plan(snapshot, &array, input)?;
        let counts = plan.execute(0, context)?;
        // What it counts is shown as counted by this step, from now on.
        for metric in plan.metrics().iter().flat_map(MetricsSet::iter) {
            metrics.register(Arc::clone(metric));
        }
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
        let counts = counts.try_collect::<Vec<_>>().await?;
        if let Err(error) = staged.publish().await {
            let uri = self.storage.uri();
            if let Err(left) = array.committed().withdraw(&self.storage).await {
                log::warn!("{uri}: files of a failed COPY stay: {left}");
            }
            return Err(DataFusionError::from(error));
        }
        let counts = stream::iter(counts.into_iter().map(Ok));
        let counts = RecordBatchStreamAdapter::new(count_schema(), counts);
        Ok(Box::pin(counts))
    }

    fn plan(
        &self,
        snapshot: Snapshot,
        array: &Arc<Unpublished>,
        input: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = shown(snapshot, &self.options).map_err(DataFusionError::from)?;
        let columns = Arc::clone(&table.schema);
        let rows = with_columns(input, &columns)?;
        let destination = Destination {
            storage: self.storage.clone(),
            options: self.options.clone(),
            table: Arc::new(table),
            columns,
            unpublished: Some(Arc::clone(array)),
        };
        sorted(insert_plan(&destination, rows)?)
    }
}

/// The input with the columns of the table, in their order and of their types.
fn with_columns(
    input: Arc<dyn ExecutionPlan>,
    columns: &SchemaRef,
) -> Result<Arc<dyn ExecutionPlan>> {
    let given = input.schema();
    let projected = columns.fields().iter().map(|field| {
        let index = given.index_of(field.name())?;
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
        let expr = match given.field(index).data_type() == field.data_type() {
            true => column,
            false => Arc::new(CastExpr::new(column, field.data_type().clone(), None)),
        };
        let alias = field.name().clone();
        Ok(ProjectionExpr { expr, alias })
    });
    let projected = projected.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(projected, input)?))
}

/// Gives a plan its rows in one partition and in the order that it needs, as the optimizer would.
fn sorted(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let order = plan.required_input_ordering().into_iter().next().flatten();
    let input = plan.children().first().map(|input| Arc::clone(input));
    let Some(input) = input else {
        return internal_err!("a plan that writes has rows to write");
    };
    let several = input.output_partitioning().partition_count() > 1;
    let input: Arc<dyn ExecutionPlan> = match order {
        None if several => Arc::new(CoalescePartitionsExec::new(input)),
        None => input,
        Some(order) => {
            let order = order.into_single();
            let order = datafusion::physical_expr::LexOrdering::from(order);
            let sort = SortExec::new(order.clone(), input).with_preserve_partitioning(several);
            match several {
                true => Arc::new(SortPreservingMergeExec::new(order, Arc::new(sort))),
                false => Arc::new(sort),
            }
        }
    };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.replace_children(vec![input], options)
}

impl Step for Copy {
    const NAME: &'static str = "TileDbCopyExec";

    fn properties(&self, _input: &Arc<dyn ExecutionPlan>) -> PlanProperties {
        puts_out_count()
    }

    fn describe(&self) -> String {
        format!("array={}", self.storage.uri())
    }

    fn wants_one_partition(&self) -> bool {
        false
    }

    fn execute(
        self: &Arc<Self>,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("{} has one partition, not {partition}", Self::NAME);
        }
        let filled = Arc::clone(self).fill(Arc::clone(input), context, metrics.clone());
        let counts = stream::once(filled).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            count_schema(),
            counts,
        )))
    }
}
