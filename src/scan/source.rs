//! The scan operator: a DataFusion data source over a [`ScanPlan`].
//!
//! A scan is made of values: the query on the table ([`ScanQuery`]), the fragments it sees, and the [`ScanMode`] that
//! the optimizer chose. The plan of its units and their shared state are derived from these, here or on another machine
//! ([`ScanValue`]).

pub mod counters;
mod lines;
pub mod mode;
mod ordered;
mod read;
mod renewal;
mod runs;
#[cfg(feature = "distributed")]
#[cfg_attr(
    not(feature = "cluster"),
    allow(dead_code, reason = "only machines of a cluster read tasks")
)]
pub(crate) mod task;

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};

use self::mode::{RemainingScan, ScanArrangement, UnitsState};
pub use self::mode::{ScanMode, ScanValue};
pub(crate) use self::renewal::ScanRenewal;
use self::runs::SiblingPartitions;
pub(crate) use self::runs::{MOST_RENEWALS, ScanRuns};
use tiledb_engine::geometry::subarray::Subarray;
use tiledb_engine::scan::ScanPlan;
use tiledb_engine::scan::metrics::ScanCount;
use tiledb_engine::scan::plan::first_cells::DimensionOrder;
use tiledb_engine::scan::plan::range_cuts::RangeCuts;
use tiledb_engine::stats::trust::{RequestedAggregates, SumRounding};

use crate::expressions::runtime::PushedFilters;
use crate::labels::LabelProjection;
use crate::options::AggregateFrom;
use crate::scan::claims::{ScanClaims, checked};
use crate::scan::query::{ScanQuery, ScanRequest};
use crate::scan::statistics::{limited, statistics, without_bounds};

/// A scan of an array.
#[derive(Debug, Clone)]
pub struct TileDbSource {
    /// The query on the table.
    query: Arc<ScanQuery>,
    /// The plan for the query.
    planned: PlannedScan,
    /// The units in the chosen mode.
    arrangement: ScanArrangement,
    /// The filters pushed down while the plan was optimized.
    filters: PushedFilters,
    /// The most rows of each partition.
    fetch: Option<usize>,
    /// Whether partitions read only their own units, in order.
    preserve_order: bool,
    /// The statistics, computed on first use.
    statistics: Arc<OnceLock<Arc<Statistics>>>,
    /// Whether statistics have the bounds of columns: only once the guards are in place against using them for other columns.
    tells_bounds: Arc<AtomicBool>,
    /// The runs of the plan so far.
    runs: Arc<ScanRuns>,
    metrics: ExecutionPlanMetricsSet,
    /// The units that were read so far.
    units_read: Arc<ScanCount>,
    /// How the scan is planned again if its files are gone. If other machines read parts of it, it stays as it is.
    renewal: Option<ScanRenewal>,
}

/// The plan for a [`ScanQuery`], before the optimizer chooses a mode.
#[derive(Debug, Clone)]
pub(crate) struct PlannedScan {
    /// The fragments, tiles and units.
    pub(crate) plan: Arc<ScanPlan>,
    /// The predicate that is evaluated on rows.
    pub(crate) predicate: Option<Arc<dyn PhysicalExpr>>,
    /// Adds dimension labels to the rows, if the query uses some.
    pub(crate) labels: Option<Arc<LabelProjection>>,
    /// The conditions on labels that became ranges, for EXPLAIN.
    pub(crate) label_filters: Arc<[String]>,
    /// The schema of the rows, with labels.
    pub(crate) schema: SchemaRef,
}

impl TileDbSource {
    /// A scan in plain mode.
    pub(crate) fn new(query: Arc<ScanQuery>, planned: PlannedScan) -> Self {
        Self {
            arrangement: ScanArrangement {
                mode: ScanMode::Plain,
                partitions: planned.plan.partitions(query.partitions),
                plan: Arc::clone(&planned.plan),
                shared: UnitsState::Nothing,
                current_scan: Arc::default(),
            },
            fetch: query.limit,
            query,
            planned,
            filters: PushedFilters::default(),
            preserve_order: false,
            statistics: Arc::default(),
            tells_bounds: Arc::default(),
            runs: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            units_read: Arc::default(),
            renewal: None,
        }
    }

    /// The request of the scan, as a value.
    pub fn request(&self) -> ScanRequest {
        ScanRequest::new(
            ScanQuery::clone(&self.query),
            &self.plan().spec.table.snapshot,
        )
    }

    /// The mode of the scan.
    pub fn mode(&self) -> &ScanMode {
        &self.arrangement.mode
    }

    /// Whether the scan shows the present array.
    pub(crate) fn shows_present(&self) -> bool {
        self.renewal.is_some_and(|renewal| renewal.shows_present)
    }

    pub(crate) fn aggregate_from(&self) -> AggregateFrom {
        self.query.options.aggregate_from
    }

    /// The plan of the scan.
    pub fn plan(&self) -> &Arc<ScanPlan> {
        &self.arrangement.plan
    }

    /// The region and the condition whose cells are the rows, if there is nothing else that they depend on.
    pub(crate) fn selection(&self) -> Option<(&Subarray, Option<&Arc<dyn PhysicalExpr>>)> {
        let plain = matches!(self.mode(), ScanMode::Plain) && self.query.first_cells.is_none();
        let by_labels = !self.query.filters.of_labels.is_empty();
        let alone = plain && !by_labels && self.rows_are_cells();
        let region = &self.plan().spec.subarray;
        alone.then(|| (region.as_ref(), self.planned.predicate.as_ref()))
    }

    /// What the query asks of the array.
    #[cfg(feature = "distributed")]
    pub(crate) fn query(&self) -> &ScanQuery {
        &self.query
    }

    /// Whether rows have dimension labels, or are chosen by them.
    #[cfg(feature = "distributed")]
    pub(crate) fn uses_labels(&self) -> bool {
        self.planned.labels.is_some() || !self.query.filters.of_labels.is_empty()
    }

    /// The filters of operators that learn while the query runs.
    #[cfg(feature = "distributed")]
    pub(crate) fn dynamic_filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        self.filters.dynamic()
    }

    /// The columns of the declared order of rows: index and direction.
    #[cfg(feature = "cluster")]
    pub(crate) fn order_columns(&self) -> Vec<(usize, arrow::compute::SortOptions)> {
        let order = self.arrangement.row_order().into_iter();
        let terms = order.flat_map(|order| order.terms());
        terms.map(|term| (term.shown, term.options)).collect()
    }

    /// About how many bytes of what is left to read are decoded. Where metadata answer a part, their statistics are loaded first.
    #[cfg(feature = "cluster")]
    pub(crate) async fn bytes_left(&self) -> tiledb_engine::Result<u64> {
        Ok(match self.remaining() {
            Some(remaining) => remaining.split().await?.left.all_bytes(),
            None => self.plan().all_bytes(),
        })
    }

    /// The number of units, or of ranges where partitions are ranges.
    #[cfg(feature = "cluster")]
    pub(crate) fn unit_count(&self) -> u64 {
        match self.mode() {
            ScanMode::Ranges { .. } => self.arrangement.partition_count() as u64,
            _ => self.plan().unit_count(),
        }
    }

    /// The number of partitions.
    #[cfg(feature = "distributed")]
    pub(crate) fn partition_count(&self) -> usize {
        self.arrangement.partition_count()
    }

    /// Whether the rows are exactly the cells of the plan, and have no other columns.
    pub(crate) fn rows_are_cells(&self) -> bool {
        let asked_more = self.fetch.is_some() || self.filters.removes_rows();
        self.planned.labels.is_none() && self.remaining().is_none() && !asked_more
    }

    /// The values of the enumeration whose codes are the keys of a column of the output.
    pub(crate) fn enumeration(&self, column: usize) -> Option<&ArrayRef> {
        let spec = &self.plan().spec;
        let ty = spec.table.types.get(*spec.projection.get(column)?)?;
        let coded = self.planned.labels.is_none() && ty.is_dictionary();
        ty.enumeration_values().filter(|_| coded)
    }

    /// The column of the table that each column of the output shows; `None` if some are labels.
    pub(crate) fn columns_of_table(&self) -> Option<&[usize]> {
        let plain = self.planned.labels.is_none();
        plain.then_some(self.plan().spec.projection.as_slice())
    }

    /// The column of the leading dimension in the output.
    pub(crate) fn leading_column(&self) -> Option<Column> {
        let spec = &self.plan().spec;
        let name = spec.table.schema.fields().first()?.name();
        let shown = spec.projection.iter().position(|column| *column == 0)?;
        let index = self.planned.schema.index_of(name).ok()?;
        let plain = index == shown && self.planned.labels.is_none();
        plain.then(|| Column::new(name, index))
    }

    /// The most ranges that the scan could be cut into, if it can be cut.
    pub(crate) fn could_be_cut_into(&self) -> Option<usize> {
        let mode = matches!(self.mode(), ScanMode::Plain | ScanMode::BestFirst(_));
        let free = mode && self.fetch.is_none() && !self.preserve_order;
        let several = self.query.partitions > 1;
        (free && several).then_some(self.query.partitions)
    }

    /// The scan cut into ranges of the leading dimension.
    pub(crate) fn in_ranges(&self, cuts: RangeCuts) -> Option<Self> {
        let mode = ScanMode::Ranges { cuts, order: None };
        let mut cut = self.in_mode(mode).ok()??;
        cut.statistics = Arc::default();
        Some(cut)
    }

    /// The scan of the tiles that metadata do not answer, for the aggregates `asked`; `None` if metadata answer
    /// nothing.
    pub(crate) fn reading_remaining(
        &self,
        asked: Arc<Vec<RequestedAggregates>>,
        rounding: SumRounding,
    ) -> tiledb_engine::Result<Option<Self>> {
        let reading = self.in_mode(ScanMode::Remaining { asked, rounding })?;
        Ok(reading.map(|reading| Self {
            statistics: Arc::default(),
            ..reading
        }))
    }

    /// The scan of the cells that hold the first `rows` rows in an order; `None` if it isn't smaller.
    pub(crate) fn of_first_cells(&self, order: &[DimensionOrder], rows: u64) -> Option<Self> {
        let plan = Arc::new(self.plan().first_cells(order, rows)?);
        let query = ScanQuery {
            first_cells: Some((order.to_vec(), rows)),
            ..ScanQuery::clone(&self.query)
        };
        let planned = PlannedScan {
            plan,
            ..self.planned.clone()
        };
        Some(Self {
            filters: self.filters.clone(),
            fetch: self.fetch,
            preserve_order: self.preserve_order,
            tells_bounds: Arc::clone(&self.tells_bounds),
            metrics: self.metrics.clone(),
            renewal: self.renewal,
            ..Self::new(Arc::new(query), planned)
        })
    }

    /// The scan in a mode, whatever its mode was; `None` if the mode does not apply or does not pay.
    fn in_mode(&self, mode: ScanMode) -> tiledb_engine::Result<Option<Self>> {
        let arranged = mode.arrange(&self.planned.plan, self.query.partitions)?;
        Ok(arranged.map(|arrangement| Self {
            arrangement,
            metrics: ExecutionPlanMetricsSet::new(),
            units_read: Arc::default(),
            ..self.clone()
        }))
    }

    /// The part of an aggregate that metadata answer and the tiles left to read, in that mode.
    pub(crate) fn remaining(&self) -> Option<&Arc<RemainingScan>> {
        self.arrangement.remaining()
    }

    /// Adds the bounds of columns to its statistics.
    pub(crate) fn tell_bounds(&self) {
        self.tells_bounds.store(true, Ordering::Relaxed);
    }

    /// The scan without the dynamic filters that are not in `trusted`; `None` if it has no such filters.
    pub(crate) fn trusting(&self, trusted: &HashSet<u64>) -> Option<Self> {
        let mut filters = self.filters.clone();
        filters.keep_trusted(trusted).then(|| Self {
            filters,
            statistics: Arc::default(),
            ..self.clone()
        })
    }

    fn known(&self) -> Arc<Statistics> {
        let made = self.statistics.get_or_init(|| {
            let statistics = statistics(self.plan(), &self.planned.schema);
            let partitions = self.arrangement.partition_count();
            let statistics = match self.fetch {
                Some(fetch) => limited(statistics, fetch, partitions),
                None => statistics,
            };
            Arc::new(
                if self.remaining().is_some() || self.filters.removes_rows() {
                    statistics.to_inexact()
                } else {
                    statistics
                },
            )
        });
        if self.tells_bounds.load(Ordering::Relaxed) {
            Arc::clone(made)
        } else {
            Arc::new(without_bounds(made))
        }
    }
}

impl DataSource for TileDbSource {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    /// The shared state from which a finished partition can take units of others.
    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        let shared = config.execution.enable_file_stream_work_stealing
            && self.arrangement.partitions.len() > 1
            && self.arrangement.ranges().is_none()
            && self.arrangement.row_order().is_none()
            && !self.preserve_order;
        Some(Arc::new(self.runs.begin(shared)))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let (partition, siblings) = (args.partition, args.sibling_state.clone());
        let stream = self.open_partition(args)?;
        Ok(checked(stream, || {
            let siblings = siblings.and_then(|state| state.downcast::<SiblingPartitions>().ok());
            let totals = siblings.map(|s| (self.known(), Arc::clone(&s.totals)));
            let properties = self.eq_properties();
            ScanClaims {
                fetch: self.fetch,
                totals,
                ..ScanClaims::new(
                    "TileDbScan",
                    partition,
                    &properties,
                    self.output_partitioning(),
                )
            }
        }))
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.show(format, f)
    }

    fn output_partitioning(&self) -> Partitioning {
        let ranges = self.arrangement.ranges();
        let ranges = ranges.and_then(|ranges| ranges.partitioning(self.leading_column()?));
        let count = self.arrangement.partition_count();
        ranges.unwrap_or(Partitioning::UnknownPartitioning(count))
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.orderings()
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::NonCooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(match partition {
            // The totals do not apply to a single partition.
            Some(_) if self.arrangement.partition_count() > 1 => {
                Arc::new(Statistics::new_unknown(&self.planned.schema))
            }
            _ => self.known(),
        })
    }

    /// A filter pushed down earlier may remove rows that count for the limit; then the limit stays in its node.
    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        if limit.is_some() && self.filters.tighten() {
            return None;
        }
        Some(Arc::new(Self {
            fetch: limit,
            statistics: Arc::default(),
            ..self.clone()
        }))
    }

    fn with_preserve_order(&self, preserve_order: bool) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(Self {
            preserve_order,
            ..self.clone()
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        _projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.planned.predicate.iter().chain(self.filters.all()) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        Ok(self.sorted(order))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let mut pushed = self.filters.clone();
        let mut answers = Vec::with_capacity(filters.len());
        // A filter that arrives after a limit must be evaluated above it.
        let refused = self.planned.labels.is_some() || self.fetch.is_some();
        for filter in filters {
            answers.push(if refused {
                PushedDown::No
            } else {
                pushed.accept(filter, self.plan(), self.planned.predicate.as_ref())?
            });
        }
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        if pushed.len() == self.filters.len() {
            return Ok(propagation);
        }
        let mut source = self.clone();
        source.filters = pushed;
        source.statistics = Arc::default();
        Ok(propagation.with_updated_node(Arc::new(source) as Arc<dyn DataSource>))
    }
}
