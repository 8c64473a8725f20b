//! GROUP BY without a hash lookup for every row: by dimensions whose coordinates come in runs, by enumerations, and by
//! integers in small ranges.
//!
//! This serves `SELECT lat, avg(t) FROM climate GROUP BY lat` and `SELECT gene, count(*), sum(value) FROM genes GROUP
//! BY gene`. Rows of an array are sorted: those of a dense array have the same `lat` for the width of a tile. Without
//! this, the group of every row is looked up in a hash table; the [node](TileDbGroupsExec) that the
//! [rule](crate::optimizer) uses instead looks it up once per run. Coordinates with known bounds, and the codes of
//! an enumeration, have slots in a table. It does not apply if runs are shorter than four rows and there are more slots
//! than a quarter of the rows, to other expressions than columns if there are no runs, to grouping sets, to ordered
//! aggregates and those without group accumulators, if the input is in the order of the groups anyway, and to groups
//! with a limit. `tiledb.enable_run_groups` switches it off. Benchmark: `benches/special_ways.rs`, `enable_run_groups`:
//! 2.1 × for runs, 1.4 × for numbers, 1.1 × for averages by codes and 1.1 × for counts by codes, on two cores.
//!
//! The node replaces the first half of an aggregate: it returns DataFusion's partial states, computed by DataFusion's
//! accumulators, and the other half merges them.

mod numbers;
mod table;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
#[cfg(feature = "cluster")]
use serde::{Deserialize, Serialize};

use self::numbers::KeySpan;
use self::table::GroupTable;
use crate::optimizer::below::{PassedNodes, ScanPath};
use crate::optimizer::enumerated::is_code;
use crate::scan::claims::{ScanClaims, checked};
use crate::scan::source::TileDbSource;

/// Shorter runs are not worth detecting.
const ROWS_PER_RUN: u64 = 4;
/// The table has at most one slot for this many rows.
const ROWS_PER_SLOT: usize = 4;

/// The same aggregate with another way to find the group of each row; `None` if a hash table is best.
pub(super) fn without_hashing(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) if only_needs_states(aggregate) => {
            if come_in_runs(aggregate) {
                return over_states(aggregate, Vec::new());
            }
            match spans_of_keys(aggregate)? {
                Some(spans) => over_states(aggregate, spans),
                None => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// The node for an aggregate over rows, if it supports the aggregate; the keys may be integers within spans.
fn over_states(
    aggregate: &AggregateExec,
    spans: Vec<KeySpan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let last = match aggregate.mode() {
        AggregateMode::Partial => None,
        AggregateMode::Single => Some(AggregateMode::Final),
        AggregateMode::SinglePartitioned => Some(AggregateMode::FinalPartitioned),
        _ => return Ok(None),
    };
    let aggregated = |mode, groups, filters, input| {
        let functions = aggregate.aggr_expr().to_vec();
        AggregateExec::try_new(
            mode,
            groups,
            functions,
            filters,
            input,
            aggregate.input_schema(),
        )
    };
    let groups = aggregate.group_expr().clone();
    let partial = aggregated(
        AggregateMode::Partial,
        groups.clone(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
    )?;
    let states =
        Arc::new(TileDbGroupsExec::new(Arc::new(partial), spans)) as Arc<dyn ExecutionPlan>;
    let Some(last) = last else {
        return Ok(Some(states));
    };
    let no_filters = vec![None; aggregate.aggr_expr().len()];
    let merged = aggregated(last, groups.as_final(), no_filters, states)?;
    Ok(Some(Arc::new(merged)))
}

/// Whether the aggregate returns only the state of each group, in any order.
fn only_needs_states(aggregate: &AggregateExec) -> bool {
    let groups = aggregate.group_expr();
    let plain = groups.is_single() && !groups.expr().is_empty();
    let unordered = *aggregate.input_order_mode() == InputOrderMode::Linear;
    let functions = aggregate
        .aggr_expr()
        .iter()
        .all(|function| function.groups_accumulator_supported() && function.order_bys().is_empty());
    let steady = !groups.expr().iter().any(|(expr, _)| is_volatile(expr));
    plain && unordered && functions && steady && aggregate.limit_options().is_none()
}

/// The ranges of the keys, if they are codes of enumerations or come from a scan that knows their bounds, and if there
/// are enough rows for a table of slots to pay.
fn spans_of_keys(aggregate: &AggregateExec) -> Result<Option<Vec<KeySpan>>> {
    let input = aggregate.input();
    let keys = aggregate.group_expr().expr().iter().map(|(key, _)| key);
    let (codes, others): (Vec<_>, Vec<_>) = keys.clone().partition(|key| is_code(key));
    let columns = others.iter().map(|key| key.downcast_ref::<Column>());
    let Some(columns) = columns.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let columns = columns.into_iter().map(Column::index);
    if !others.is_empty() && columns_of_scan(input, columns.collect()).is_none() {
        return Ok(None);
    }
    let statistics = if others.is_empty() {
        None
    } else {
        let (context, whole) = (StatisticsContext::new(), StatisticsArgs::new());
        Some(context.compute(input.as_ref(), &whole)?)
    };
    let span = |key: &Arc<dyn PhysicalExpr>| {
        if is_code(key) {
            return KeySpan::of_type(&key.data_type(&input.schema()).ok()?);
        }
        let column = key.downcast_ref::<Column>()?.index();
        let known = statistics.as_ref()?.column_statistics.get(column)?;
        KeySpan::between(known.min_value.get_value()?, known.max_value.get_value()?)
    };
    let spans = keys.map(span).collect::<Option<Vec<_>>>();
    let sized = spans.and_then(|spans| Some((KeySpan::slots(&spans)?, spans)));
    let Some((slots, spans)) = sized else {
        return Ok(None);
    };
    let rows = statistics.and_then(|known| known.num_rows.get_value().copied());
    let only_a_code = others.is_empty() && codes.len() == 1;
    let worth = only_a_code || rows.is_some_and(|rows| rows / ROWS_PER_SLOT >= slots);
    Ok(worth.then_some(spans))
}

fn come_in_runs(aggregate: &AggregateExec) -> bool {
    let mut columns = BTreeSet::new();
    for (expr, _) in aggregate.group_expr().expr() {
        columns.extend(collect_columns(expr).iter().map(Column::index));
    }
    let Some((source, columns)) = columns_of_scan(aggregate.input(), columns) else {
        return false;
    };
    let shown = source.columns_of_table();
    let plan = source.plan();
    let dimension = |column: usize| {
        let column = *shown?.get(column)?;
        (column < plan.spec.table.dimension_count()).then_some(column)
    };
    let dimensions = columns.into_iter().map(dimension);
    let Some(dimensions) = dimensions.collect::<Option<Vec<_>>>() else {
        return false;
    };
    !dimensions.is_empty() && plan.run_length(&dimensions) >= ROWS_PER_RUN
}

/// The scan below, and its columns from which some of the plan's are computed.
fn columns_of_scan(
    plan: &Arc<dyn ExecutionPlan>,
    columns: BTreeSet<usize>,
) -> Option<(&TileDbSource, BTreeSet<usize>)> {
    let path = ScanPath::new(plan, PassedNodes::Dealing)?;
    Some((path.source(), path.columns_of(columns)?))
}

/// With more groups than this, their states are passed on to be merged, because more would not fit in the caches.
const MOST_GROUPS: usize = 1 << 16;

/// The ranges of the keys of a [`TileDbGroupsExec`], as values.
#[cfg(feature = "cluster")]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GroupSpans(Vec<KeySpan>);

/// A partial aggregate over rows that come in runs, or whose keys are integers in small ranges.
#[derive(Debug, Clone)]
pub struct TileDbGroupsExec {
    /// The partial aggregate that it replaces, over the same input.
    partial: Arc<AggregateExec>,
    /// The ranges of the keys, if they are integers.
    spans: Vec<KeySpan>,
    metrics: ExecutionPlanMetricsSet,
}

impl TileDbGroupsExec {
    /// Replaces `partial`; `spans` are the ranges of the keys, or empty.
    fn new(partial: Arc<AggregateExec>, spans: Vec<KeySpan>) -> Self {
        Self {
            partial,
            spans,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

#[cfg(feature = "cluster")]
impl TileDbGroupsExec {
    /// The aggregate that it replaces.
    pub(crate) fn partial(&self) -> &Arc<AggregateExec> {
        &self.partial
    }

    /// The ranges of the keys.
    pub(crate) fn spans(&self) -> GroupSpans {
        GroupSpans(self.spans.clone())
    }

    /// The node that replaces an aggregate; `None` if it isn't one, or if the spans aren't those of its keys.
    pub(crate) fn of_parts(partial: Arc<dyn ExecutionPlan>, spans: &GroupSpans) -> Option<Self> {
        let partial = Arc::downcast::<AggregateExec>(partial).ok()?;
        let keys = partial.group_expr().expr().len();
        let fit =
            spans.0.is_empty() || (spans.0.len() == keys && KeySpan::slots(&spans.0).is_some());
        let replaces = *partial.mode() == AggregateMode::Partial && only_needs_states(&partial);
        (fit && replaces).then(|| Self::new(partial, spans.0.clone()))
    }
}

impl DisplayAs for TileDbGroupsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => self.partial.fmt_as(format, f),
            _ => {
                let by = self.partial.group_expr().expr().iter().map(|(expr, name)| {
                    match expr.to_string() {
                        expr if expr == *name => expr,
                        expr => format!("{expr} as {name}"),
                    }
                });
                let functions = self
                    .partial
                    .aggr_expr()
                    .iter()
                    .map(|function| function.name().to_owned());
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
        let partial = Arc::clone(&self.partial).replace_children(children, options)?;
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
        let grouping = RunGrouping {
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
            ScanClaims::of_plan(self, partition)
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The state of grouping the rows of a partition.
struct RunGrouping {
    input: SendableRecordBatchStream,
    table: GroupTable,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    runs: Count,
}

impl RunGrouping {
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
