//! The step that creates an array and writes the rows of a query to it.
//!
//! The schema is put last, so the array appears with all its rows; before, nobody sees an array. So the rows can decide how the
//! array is made. They are kept until all have been seen, and decide domains, order, capacity and enumerations; then they are
//! sorted, and filters are tried on the first of them.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::{
    SortColumn, concat_batches, lexsort_to_indices, take_record_batch,
};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::storage::Storage;
use tiledb_engine::write::commit::CommittedFiles;
use tiledb_engine::write::create::{ArrayBuilder, StagedArray};

use super::choice::{DomainChoice, OptionChoice, SampledRows, choose, key_ranges};
use super::spool::spool;
use crate::dml::again::streams;
use crate::dml::insert::{insert_plan, retargeted};
use crate::dml::node::{ChangeStep, StepExec, count_schema, puts_out_count};
use crate::dml::target::{PlannedTarget, UnpublishedArray};
use crate::error::to_datafusion_error;
use crate::options::TableOptions;
use crate::scan::planning::shown;
use crate::stores::budget::with_fair_pool;

/// Creates an array and writes the rows of its input.
#[derive(Debug, Clone)]
pub struct CopyExec {
    pub(super) builder: ArrayBuilder,
    pub(super) storage: Storage,
    pub(super) options: TableOptions,
    /// Whether the rows make the open choices, and then the source of the domains.
    pub(super) looks: Option<DomainChoice>,
    /// The choices that the rows made in the last execution of the plan.
    pub(super) chosen: Arc<Mutex<Vec<OptionChoice>>>,
    /// The plan that writes the rows, once it runs.
    pub(super) running: Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>,
}

/// The plan node.
pub type TileDbCopyExec = StepExec<CopyExec>;

/// The choices that the rows made in the last execution of a plan, if it is a COPY.
pub(crate) fn copy_choices(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let Some(copy) = plan.downcast_ref::<TileDbCopyExec>() else {
        return Vec::new();
    };
    let chosen = copy
        .step()
        .chosen
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    chosen.iter().map(OptionChoice::to_string).collect()
}

/// The rows that filters are tried on.
const SAMPLE_ROWS: usize = 65_536;

impl CopyExec {
    /// The plan that writes the rows, once it runs.
    pub(crate) fn running(&self) -> Option<Arc<dyn ExecutionPlan>> {
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
        let context = with_fair_pool(&context);
        let (staged, array, plan) = match self.looks {
            Some(domains) => self.look(input, domains, &context, &metrics).await?,
            None => {
                let staged = self.stage(&self.builder).await?;
                let (array, plan) = self.plan(&staged, input, Vec::new()).await?;
                (staged, array, in_one_partition(plan)?)
            }
        };
        let counts = plan.execute(0, context)?;
        // From now on, the metrics of the plan are shown as metrics of this step.
        for metric in plan.metrics().iter().flat_map(MetricsSet::iter) {
            metrics.register(Arc::clone(metric));
        }
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
        let counts = counts.try_collect::<Vec<_>>().await?;
        self.publish(&staged, &array.committed()).await?;
        let counts = stream::iter(counts.into_iter().map(Ok));
        let counts = RecordBatchStreamAdapter::new(count_schema(), counts);
        Ok(Box::pin(counts))
    }

    /// Makes the array visible, with everything that was committed to it.
    async fn publish(&self, staged: &StagedArray, committed: &CommittedFiles) -> Result<()> {
        let storage = &self.storage;
        let published = async {
            committed.check_in_time()?;
            staged.publish().await?;
            if let Err(late) = committed.check_kept(storage).await {
                staged.withdraw().await?;
                return Err(late);
            }
            Ok(())
        };
        let published: tiledb_engine::Result<()> = published.await;
        match published.map_err(|e| e.with("array", storage.uri())) {
            Ok(()) => {
                committed.settle(storage).await;
                Ok(())
            }
            Err(error) => {
                if let Err(left) = committed.withdraw(storage).await {
                    let uri = storage.uri();
                    log::warn!("{uri}: files of a failed COPY stay: {left}");
                }
                Err(to_datafusion_error(error))
            }
        }
    }

    /// Reads and sorts all rows before the array is staged, so that they decide how it is made.
    async fn look(
        &self,
        input: Arc<dyn ExecutionPlan>,
        domains: DomainChoice,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<(StagedArray, Arc<UnpublishedArray>, Arc<dyn ExecutionPlan>)> {
        let mut builder = self.builder.clone();
        let vacant = builder.check_vacant(&self.storage).await;
        vacant.map_err(to_datafusion_error)?;
        let (rows, mut profile) = spool(input, &builder, context, metrics).await?;
        let types = self.options.types();
        let mut made = choose(&mut builder, &mut profile, domains, &types)?;
        let usual = self.stage(&builder).await?;
        let ranges = key_ranges(&builder, &mut profile, &types)?;
        let (array, plan) = self.plan(&usual, rows, ranges).await?;
        let plan = in_one_partition(plan)?;
        let in_order = rows_of(&plan)?.execute(0, Arc::clone(context))?;
        let memory = MemoryConsumer::new("TileDbCopy").register(context.memory_pool());
        let (mut sample, in_order) = first_rows(in_order, memory).await?;
        let schema = &array.snapshot().schema;
        if schema.is_dense() {
            sample = ordered(&sample, schema.dimensions.len())?;
        }
        let tried = SampledRows {
            snapshot: array.snapshot().clone(),
            types,
            builder: builder.clone(),
            rows: sample,
        };
        let tried = SpawnedTask::spawn_blocking(move || tried.filters())
            .join_unwind()
            .await
            .map_err(|e| DataFusionError::External(Box::new(e)))?;
        for (name, best) in tried? {
            made.push(OptionChoice::of_filters(&builder, &name, &best));
            builder.suggest_filters(&name, best.filters);
        }
        let staged = self.stage(&builder).await?;
        let snapshot = staged.snapshot().await.map_err(to_datafusion_error)?;
        let (array, target) = self.target(snapshot)?;
        let plan = retargeted(&plan, &target, streams(in_order.schema(), vec![in_order])?)?;
        self.say(made);
        Ok((staged, array, plan))
    }

    async fn stage(&self, builder: &ArrayBuilder) -> Result<StagedArray> {
        let staged = builder.stage_in(&self.storage).await;
        staged.map_err(to_datafusion_error)
    }

    /// The plan that writes rows to the unpublished array.
    async fn plan(
        &self,
        staged: &StagedArray,
        input: Arc<dyn ExecutionPlan>,
        ranges: Vec<Option<(u64, u64)>>,
    ) -> Result<(Arc<UnpublishedArray>, Arc<dyn ExecutionPlan>)> {
        let snapshot = staged.snapshot().await.map_err(to_datafusion_error)?;
        let (array, target) = self.target(snapshot)?;
        let target = PlannedTarget { ranges, ..target };
        let rows = with_columns(input, &target.columns)?;
        Ok((array, insert_plan(&target, rows)?))
    }

    fn target(&self, snapshot: Snapshot) -> Result<(Arc<UnpublishedArray>, PlannedTarget)> {
        let array = Arc::new(UnpublishedArray::new(snapshot.clone()));
        let table = shown(snapshot, &self.options).map_err(to_datafusion_error)?;
        let target = PlannedTarget {
            storage: self.storage.clone(),
            options: self.options.clone(),
            columns: Arc::clone(&table.schema),
            table: Arc::new(table),
            statement: None,
            again: None,
            unpublished: Some(Arc::clone(&array)),
            ranges: Vec::new(),
        };
        Ok((array, target))
    }

    /// Logs the choices, and keeps them for `copy_choices`.
    fn say(&self, made: Vec<OptionChoice>) {
        for choice in &made {
            log::info!("{}: {choice}", self.storage.uri());
        }
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = made;
    }
}

/// The first rows of a stream, and a stream of all its rows.
async fn first_rows(
    mut rows: SendableRecordBatchStream,
    memory: MemoryReservation,
) -> Result<(Vec<RecordBatch>, SendableRecordBatchStream)> {
    let schema = rows.schema();
    let (mut first, mut count) = (Vec::new(), 0);
    while count < SAMPLE_ROWS {
        let Some(batch) = rows.try_next().await? else {
            break;
        };
        count += batch.num_rows();
        let room = memory.try_grow(batch.get_array_memory_size());
        first.push(batch);
        if room.is_err() {
            break;
        }
    }
    let again = stream::iter(first.clone()).map(move |batch| {
        // The sample is no longer needed, and each of its batches leaves.
        memory.free();
        Ok(batch)
    });
    let rows = RecordBatchStreamAdapter::new(schema, again.chain(rows));
    Ok((first, Box::pin(rows)))
}

/// Rows sorted by their first columns: dense arrays are stored in this order, but their rows come in any.
fn ordered(rows: &[RecordBatch], columns: usize) -> Result<Vec<RecordBatch>> {
    let Some(first) = rows.first() else {
        return Ok(Vec::new());
    };
    let rows = concat_batches(first.schema_ref(), rows)?;
    let columns = rows
        .columns()
        .iter()
        .take(columns)
        .map(|column| SortColumn {
            values: Arc::clone(column),
            options: None,
        });
    let order = lexsort_to_indices(&columns.collect::<Vec<_>>(), None)?;
    Ok(vec![take_record_batch(&rows, &order)?])
}

/// The input with the columns of the table, in their order and of their types.
fn with_columns(
    input: Arc<dyn ExecutionPlan>,
    columns: &SchemaRef,
) -> Result<Arc<dyn ExecutionPlan>> {
    let given = input.schema();
    let projected = columns
        .fields()
        .iter()
        .map(|field| {
            let index = given.index_of(field.name())?;
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
            let expr = if given.field(index).data_type() == field.data_type() {
                column
            } else {
                Arc::new(CastExpr::new(column, field.data_type().clone(), None))
            };
            let alias = field.name().clone();
            Ok(ProjectionExpr { expr, alias })
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(projected, input)?))
}

/// Gives a plan its rows in one partition, as the optimizer would.
fn in_one_partition(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let input = rows_of(&plan)?;
    match input.output_partitioning().partition_count() {
        1 => Ok(plan),
        _ => with_rows(&plan, Arc::new(CoalescePartitionsExec::new(input))),
    }
}

/// The rows that a plan writes.
fn rows_of(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match plan.children().first() {
        Some(rows) => Ok(Arc::clone(rows)),
        None => internal_err!("a plan that writes has rows to write"),
    }
}

/// The plan with other rows to write.
fn with_rows(
    plan: &Arc<dyn ExecutionPlan>,
    rows: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(vec![rows], options)
}

impl ChangeStep for CopyExec {
    const NAME: &'static str = "TileDbCopyExec";

    fn properties(&self, _input: &Arc<dyn ExecutionPlan>) -> PlanProperties {
        puts_out_count()
    }

    fn describe(&self) -> String {
        let mut text = format!("array={}", self.storage.uri());
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        for (i, choice) in chosen.iter().enumerate() {
            let before = if i == 0 { ", chosen=[" } else { ", " };
            let _ = write!(text, "{before}{choice}");
        }
        if !chosen.is_empty() {
            text.push(']');
        }
        text
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
