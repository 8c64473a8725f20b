//! Aggregates answered from metadata.
//!
//! This serves `SELECT count(*), min(t), max(t), avg(t) FROM climate WHERE lat BETWEEN 50 AND 300`: COUNT, SUM, MIN,
//! MAX and AVG of columns over a box of dimensions. A tile inside the box whose cells are all rows, and not hidden by
//! other tiles, need not be decoded if its statistics prove its share of the result; without this, all tiles are
//! decoded. It does not apply to groups, to other aggregates and those with FILTER or DISTINCT, if a limit or a
//! run-time filter removes rows, and if the table's option `aggregate_from` requires cells.
//! `tiledb.enable_metadata_aggregates` switches it off. Benchmark: `benches/special_ways.rs`,
//! `enable_metadata_aggregates`: 33 × for all of a dense array, 24 × for all of a sparse one, 1.4 × for a box most of
//! whose tiles lie across its border, on two cores.
//!
//! The [rule](crate::optimizer) inserts a [node](TileDbAggregateExec) between both halves of such an aggregate: it
//! adds one row of partial state for the tiles that metadata answer, and the scan below reads the others. DataFusion's
//! own accumulators compute that row and merge it, so NULL, overflow and the order of NaN are the same.
//!
//! Which tiles metadata answer is known only once their statistics are loaded, when the query runs: planning reads
//! nothing for it. See [`tiledb_engine::scan::summary`] for the statistics that are trusted.

mod answers;

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use tiledb_engine::stats::trust::SumRounding;

use self::answers::AnsweredAggregates;
use crate::error::to_datafusion_error;
use crate::optimizer::below::{PassedNodes, ScanPath, scan as scan_below, with_child};
use crate::options::AggregateFrom;
use crate::scan::claims::{ScanClaims, checked};
use crate::scan::source::TileDbSource;
use crate::scan::source::mode::ANSWERING_PARTITION;

/// The node that replaces a partial aggregate directly over a scan, if metadata may answer part of it.
pub(super) fn from_metadata(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(partial) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let plain = *partial.mode() == AggregateMode::Partial
        && partial.group_expr().is_true_no_grouping()
        && partial.limit_options().is_none()
        && partial.filter_expr().iter().all(Option::is_none);
    let path = ScanPath::new(partial.input(), PassedNodes::Projections);
    let Some(path) = path.filter(|_| plain) else {
        return Ok(None);
    };
    let source = path.source();
    let rounding = match source.aggregate_from() {
        AggregateFrom::Metadata => SumRounding::ByTile,
        AggregateFrom::ExactMetadata => SumRounding::Exact,
        AggregateFrom::Cells => return Ok(None),
    };
    if !source.rows_are_cells() {
        return Ok(None);
    }
    let projections = path.projections().map(expressions).collect::<Vec<_>>();
    let Some(answers) = AnsweredAggregates::new(partial.aggr_expr(), &projections, source.plan())?
    else {
        return Ok(None);
    };
    let reading = source.reading_remaining(answers.asked(), rounding);
    let Some(source) = reading.map_err(to_datafusion_error)? else {
        return Ok(None);
    };
    let partial = with_child(plan, path.over(source)?)?;
    Ok(TileDbAggregateExec::new(partial, Some(answers)).map(|node| Arc::new(node) as _))
}

/// Adds one partial state, of the tiles that metadata answer, to the states of the tiles that are read.
#[derive(Debug, Clone)]
pub struct TileDbAggregateExec {
    /// The partial aggregate over the rest of the scan.
    input: Arc<dyn ExecutionPlan>,
    /// The scan below the input, which reads the tiles that metadata do not answer.
    scan: AnsweringScan,
    /// The aggregates; `None` on a worker, which finds them when the scan is open.
    answers: Option<AnsweredAggregates>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The scan below.
#[derive(Debug, Clone)]
enum AnsweringScan {
    Planned(Box<TileDbSource>),
    /// That of a task, which is planned when it is opened.
    #[cfg(feature = "cluster")]
    OfTask(crate::scan::task_scan::OpeningScan),
}

impl TileDbAggregateExec {
    /// The node over a partial aggregate of a task's scan; `None` if there is no such scan below.
    #[cfg(feature = "cluster")]
    pub(crate) fn of_task(input: Arc<dyn ExecutionPlan>) -> Option<Self> {
        Self::new(input, None)
    }

    /// `None` if the scan below the input is not in the mode that leaves out such tiles.
    fn new(input: Arc<dyn ExecutionPlan>, answers: Option<AnsweredAggregates>) -> Option<Self> {
        let scan = scan_of_remaining(&input)?;
        // The properties of the input's rows are dropped, because the added row may differ from them.
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.output_partitioning().clone(),
            EmissionType::Incremental,
            input.boundedness(),
        );
        Some(Self {
            input,
            scan,
            answers,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The state of the tiles that metadata answer; empty if there are none.
    fn answered(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = self.input.schema();
        let own = Arc::clone(&schema);
        let (scan, answers) = (self.scan.clone(), self.answers.clone());
        let partial = Arc::clone(&self.input);
        let counter = |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, 0);
        let (tiles, rows) = (
            counter("tiles_from_metadata"),
            counter("rows_from_metadata"),
        );
        let time = MetricBuilder::new(&self.metrics).subset_time("metadata_time", 0);
        let state = async move {
            let timer = time.timer();
            let scan = scan.planned(&context).await?;
            let answers = match answers {
                Some(answers) => Some(answers),
                None => answers_of(&partial, &scan)?,
            };
            let (Some(remaining), Some(answers)) = (scan.settled_remaining().await, answers) else {
                return internal_err!("the scan below is not of what metadata leave");
            };
            let split = remaining.split().await.map_err(to_datafusion_error)?;
            for summary in &split.answered {
                let sum = summary
                    .rows
                    .iter()
                    .fold(0, |sum: u64, rows| sum.saturating_add(*rows));
                tiles.add(summary.ordinals.len());
                rows.add(usize::try_from(sum).unwrap_or(usize::MAX));
            }
            let some = !split.answered.is_empty();
            let state = some
                .then(|| answers.state(&split.answered, own))
                .transpose();
            drop(timer);
            state
        };
        let state = stream::once(state).try_filter_map(|state| async move { Ok(state) });
        Box::pin(RecordBatchStreamAdapter::new(schema, state))
    }
}

impl AnsweringScan {
    /// The scan; that of a task is opened first.
    async fn planned(&self, context: &Arc<TaskContext>) -> Result<TileDbSource> {
        match self {
            Self::Planned(source) => {
                let _ = context;
                Ok(TileDbSource::clone(source))
            }
            #[cfg(feature = "cluster")]
            Self::OfTask(scan) => {
                let opened: Arc<dyn ExecutionPlan> = scan.source(context).await?;
                match scan_below(&opened) {
                    Some(source) => Ok(source.clone()),
                    None => internal_err!("the scan of a task is that of an array"),
                }
            }
        }
    }

    /// The number of tiles that metadata may answer, if that is known.
    fn candidates(&self) -> usize {
        match self {
            Self::Planned(source) => source.remaining().map_or(0, |tiles| tiles.candidates()),
            #[cfg(feature = "cluster")]
            Self::OfTask(_) => 0,
        }
    }
}

/// The aggregates of a partial aggregate over the scan of a task, which lies below projections only.
fn answers_of(
    partial: &Arc<dyn ExecutionPlan>,
    scan: &TileDbSource,
) -> Result<Option<AnsweredAggregates>> {
    let Some(aggregate) = partial.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let (mut projections, mut below) = (Vec::new(), aggregate.input());
    while let Some(projection) = below.downcast_ref::<ProjectionExec>() {
        projections.push(expressions(projection));
        below = projection.input();
    }
    AnsweredAggregates::new(aggregate.aggr_expr(), &projections, scan.plan())
}

fn expressions(projection: &ProjectionExec) -> Vec<Arc<dyn PhysicalExpr>> {
    let exprs = projection.expr().iter();
    exprs.map(|e| Arc::clone(&e.expr)).collect()
}

/// The scan below of the tiles that metadata do not answer.
fn scan_of_remaining(plan: &Arc<dyn ExecutionPlan>) -> Option<AnsweringScan> {
    if let Some(source) = scan_below(plan) {
        let remains = source.remaining().is_some();
        return remains.then(|| AnsweringScan::Planned(Box::new(source.clone())));
    }
    #[cfg(feature = "cluster")]
    if let Some(task) = plan.downcast_ref::<crate::scan::task_scan::TaskScanExec>() {
        return Some(AnsweringScan::OfTask(task.opening()));
    }
    #[cfg(feature = "cluster")]
    if let Some(leaf) = plan.downcast_ref::<datafusion_distributed::DistributedLeafExec>() {
        return scan_of_remaining(leaf.original());
    }
    plan.children().into_iter().find_map(scan_of_remaining)
}

impl DisplayAs for TileDbAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let answers = self.answers.iter();
        let names = answers.flat_map(|answers| answers.names());
        let names = names.collect::<Vec<_>>().join(", ");
        let tiles = self.scan.candidates();
        match format {
            DisplayFormatType::TreeRender => {
                let names = names.replace(|c: char| !c.is_ascii(), "?");
                writeln!(f, "aggr={names}")?;
                writeln!(f, "tiles_from_metadata=up to {tiles}")
            }
            _ => write!(
                f,
                "TileDbAggregateExec: aggr=[{names}], tiles_from_metadata=up to {tiles}"
            ),
        }
    }
}

impl ExecutionPlan for TileDbAggregateExec {
    fn name(&self) -> &'static str {
        "TileDbAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// A few rows of state are not worth repartitioning.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = children.as_slice() else {
            return internal_err!("TileDbAggregateExec has one child, not {}", children.len());
        };
        match Self::new(Arc::clone(input), self.answers.clone()) {
            Some(node) => Ok(Arc::new(node)),
            None => internal_err!("TileDbAggregateExec has no scan of an array below"),
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
        let read = self.input.execute(partition, Arc::clone(&context))?;
        let states = match partition {
            ANSWERING_PARTITION => Box::pin(RecordBatchStreamAdapter::new(
                self.input.schema(),
                // The scan may be planned again until it has given rows or ended, so what metadata answer comes last.
                read.chain(self.answered(context)),
            )),
            _ => read,
        };
        Ok(checked(states, || ScanClaims::of_plan(self, partition)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
