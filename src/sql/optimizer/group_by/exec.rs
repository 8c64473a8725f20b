//! The plan node that groups rows by runs, or by small numbers.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use super::numbers::Span;
use super::table::GroupTable;
use crate::sql::claims::{Claims, checked};

/// With more groups than this, their states are passed on to be merged, because more would not fit in the caches.
const MOST_GROUPS: usize = 1 << 16;

/// A partial aggregate over rows that come in runs, or whose keys are integers in small ranges.
#[derive(Debug, Clone)]
pub struct TileDbGroupsExec {
    /// The partial aggregate that it replaces, over the same input.
    partial: Arc<AggregateExec>,
    /// The ranges of the keys, if they are integers.
    spans: Vec<Span>,
    metrics: ExecutionPlanMetricsSet,
}

impl TileDbGroupsExec {
    /// Replaces `partial`; `spans` are the ranges of the keys, or empty.
    pub(super) fn new(partial: Arc<AggregateExec>, spans: Vec<Span>) -> Self {
        Self {
            partial,
            spans,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for TileDbGroupsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => self.partial.fmt_as(format, f),
            _ => {
                let by = self.partial.group_expr().expr().iter();
                let by = by.map(|(expr, name)| match expr.to_string() {
                    expr if expr == *name => expr,
                    expr => format!("{expr} as {name}"),
                });
                let functions = self.partial.aggr_expr().iter();
                let functions = functions.map(|function| function.name().to_owned());
                write!(
                    f,
                    "TileDbGroupsExec: gby=[{}], aggr=[{}]",
                    by.collect::<Vec<_>>().join(", "),
                    functions.collect::<Vec<_>>().join(", ")
                )
            }
        }
    }
}

impl ExecutionPlan for TileDbGroupsExec {
    fn name(&self) -> &'static str {
        "TileDbGroupsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.partial.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.partial.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.partial.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let partial = Arc::clone(&self.partial);
        let partial = partial.replace_children(children, options)?;
        match Arc::downcast::<AggregateExec>(partial) {
            Ok(partial) => Ok(Arc::new(Self::new(partial, self.spans.clone()))),
            Err(_) => internal_err!("a partial aggregate became something else"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let consumer = MemoryConsumer::new(format!("{}[{partition}]", self.name()));
        let schema = self.schema();
        let grouping = Grouping {
            input: self
                .partial
                .input()
                .execute(partition, Arc::clone(&context))?,
            table: GroupTable::new(&self.partial, &self.spans, Arc::clone(&schema))?,
            reservation: consumer.register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            runs: MetricBuilder::new(&self.metrics).counter("runs", partition),
        };
        let batch_size = context.session_config().batch_size().max(1);
        let states = stream::try_unfold(grouping, |mut grouping| async move {
            let states = grouping.next_states().await;
            states.map(|states| states.map(|states| (states, grouping)))
        });
        let batches = states.map_ok(move |states| {
            let rows = states.num_rows();
            let starts = (0..rows).step_by(batch_size);
            let slices =
                starts.map(move |from| Ok(states.slice(from, batch_size.min(rows - from))));
            stream::iter(slices)
        });
        let states = RecordBatchStreamAdapter::new(schema, batches.try_flatten());
        Ok(checked(Box::pin(states), || {
            Claims::of_plan(self, partition)
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The state of grouping the rows of a partition.
struct Grouping {
    input: SendableRecordBatchStream,
    table: GroupTable,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    runs: Count,
}

impl Grouping {
    /// The next states. Their groups are distinct, but may have occurred in earlier states.
    async fn next_states(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(batch) = self.input.next().await {
            let batch = batch?;
            let timer = self.metrics.elapsed_compute().timer();
            if batch.num_rows() == 0 {
                continue;
            }
            self.runs.add(self.table.add(&batch)?);
            let fits = self.reservation.try_resize(self.table.size()).is_ok();
            timer.done();
            let many = self.table.len() >= MOST_GROUPS && !self.table.is_by_number();
            if !fits || many {
                return self.take_states().map(Some);
            }
        }
        match self.table.len() {
            0 => Ok(None),
            _ => self.take_states().map(Some),
        }
    }

    fn take_states(&mut self) -> Result<RecordBatch> {
        let timer = self.metrics.elapsed_compute().timer();
        let states = self.table.take_states()?;
        self.reservation.free();
        timer.done();
        Ok(states.record_output(&self.metrics))
    }
}
