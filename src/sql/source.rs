//! The scan operator: a [`ScanPlan`] as a DataFusion data source.

mod batches;
pub(super) mod leading_ranges;
mod lines;
mod ordered;
mod published;
pub(super) mod rest;
mod runs;

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::SortOrderPushdownResult;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

use self::batches::{coalesce, with_labels};
use self::published::Published;
pub(super) use self::runs::Runs;
use self::runs::Siblings;
use super::budget::PoolBudget;
use super::claims::{Claims, checked};
use super::labels::LabelProjection;
use super::settings::TileDbSettings;
use super::statistics::{limited, statistics, without_bounds};
use crate::scan::ScanPlan;
use crate::scan::context::ScanContext;
use crate::scan::metrics::ScanMetrics;
use crate::scan::order::RowOrder;
use crate::scan::stream::read_units;
use crate::scan::unit_order::UnitOrder;
use crate::scan::units::{UnitPool, UnitQueue};
use crate::sql::expressions::runtime::PushedFilters;
use crate::sql::options::AggregateFrom;
use crate::sql::source::leading_ranges::LeadingRanges;
use crate::sql::source::rest::Rest;
use crate::tile::memory::MemoryBudget;

/// A scan of an array.
#[derive(Debug, Clone)]
pub struct TileDbSource {
    plan: Arc<ScanPlan>,
    schema: SchemaRef,
    /// The condition that is evaluated on rows, for display.
    predicate: Option<Arc<dyn PhysicalExpr>>,
    /// How dimension labels join the rows, where some are asked for.
    labels: Option<Arc<LabelProjection>>,
    /// The conditions on labels that became ranges, for display.
    label_filters: Vec<String>,
    partitions: Vec<Range<u64>>,
    /// How many of them were asked for.
    wanted_partitions: usize,
    /// The filters that came while the plan was optimized.
    filters: PushedFilters,
    /// Which rows are wanted first.
    best_first: Option<Arc<UnitOrder>>,
    /// At most so many rows per partition.
    fetch: Option<usize>,
    /// Partitions keep to their own units, in order.
    preserve_order: bool,
    /// The order of the rows of each partition, if there is one; the plan's units follow each other in it.
    row_order: Option<Arc<RowOrder>>,
    /// Where the partitions are ranges of the leading dimension instead.
    leading: Option<Arc<LeadingRanges>>,
    /// Made when somebody asks.
    statistics: Arc<OnceLock<Arc<Statistics>>>,
    /// Whether they tell the bounds of columns. Not before the guards stand that keep DataFusion from believing them of
    /// other columns; plans are not made anew for that.
    tells_bounds: Arc<AtomicBool>,
    /// What aggregates over the scan may be answered from.
    aggregate_from: AggregateFrom,
    /// Which special ways the session takes.
    settings: TileDbSettings,
    /// Where metadata answer part of an aggregate over the scan: what else there is to read.
    rest: Option<Arc<Rest>>,
    /// The runs of the plan so far.
    runs: Arc<Runs>,
    metrics: ExecutionPlanMetricsSet,
}

impl TileDbSource {
    /// A scan in at most `partitions` partitions of at most `fetch` rows each.
    pub fn new(
        plan: Arc<ScanPlan>,
        predicate: Option<Arc<dyn PhysicalExpr>>,
        partitions: usize,
        fetch: Option<usize>,
    ) -> Self {
        let schema = plan.spec.output_schema();
        Self {
            partitions: plan.partitions(partitions),
            wanted_partitions: partitions,
            metrics: ExecutionPlanMetricsSet::new(),
            runs: Arc::default(),
            statistics: Arc::default(),
            tells_bounds: Arc::default(),
            aggregate_from: AggregateFrom::default(),
            settings: TileDbSettings::default(),
            rest: None,
            schema,
            plan,
            predicate,
            labels: None,
            label_filters: Vec::new(),
            filters: PushedFilters::default(),
            best_first: None,
            fetch,
            preserve_order: false,
            row_order: None,
            leading: None,
        }
    }

    /// With dimension labels: as columns, and as conditions that the subarray already holds.
    pub(crate) fn with_labels(
        mut self,
        labels: Option<LabelProjection>,
        label_filters: Vec<String>,
    ) -> Self {
        if let Some(labels) = labels {
            self.schema = Arc::clone(labels.schema());
            self.statistics = Arc::default();
            self.labels = Some(Arc::new(labels));
        }
        self.label_filters = label_filters;
        self
    }

    /// With a say on what aggregates may be answered from.
    #[must_use]
    pub fn with_aggregate_from(self, aggregate_from: AggregateFrom) -> Self {
        Self {
            aggregate_from,
            ..self
        }
    }

    /// With the settings of a session.
    #[must_use]
    pub fn with_settings(self, settings: TileDbSettings) -> Self {
        Self { settings, ..self }
    }

    pub(super) fn aggregate_from(&self) -> AggregateFrom {
        self.aggregate_from
    }

    /// What is read.
    pub fn plan(&self) -> &Arc<ScanPlan> {
        &self.plan
    }

    /// Whether the rows are those of the plan, all of them and no other columns.
    pub(super) fn rows_are_cells(&self) -> bool {
        let asked_more = self.fetch.is_some() || self.filters.removes_rows();
        self.labels.is_none() && self.rest.is_none() && !asked_more
    }

    /// The scan of what is left when part of it is answered.
    pub(super) fn reading_rest(self, rest: Arc<Rest>) -> Self {
        Self {
            rest: Some(rest),
            statistics: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            ..self
        }
    }

    /// The values of the enumeration whose codes are the keys of a column of the output.
    pub(super) fn enumeration(&self, column: usize) -> Option<&ArrayRef> {
        let of_array = self.plan.spec.projection.get(column)?;
        let ty = self.plan.spec.table.types.get(*of_array)?;
        let coded = self.labels.is_none() && ty.is_dictionary();
        ty.enumeration_values().filter(|_| coded)
    }

    /// Which column of the table each of the output is, if it is one.
    pub(super) fn columns_of_table(&self) -> Option<&[usize]> {
        let plain = self.labels.is_none();
        plain.then_some(self.plan.spec.projection.as_slice())
    }

    /// The column of the leading dimension in the output.
    pub(super) fn leading_column(&self) -> Option<Column> {
        let name = self.plan.spec.table.schema.fields().first()?.name();
        let shown = self
            .plan
            .spec
            .projection
            .iter()
            .position(|column| *column == 0)?;
        let index = self.schema.index_of(name).ok()?;
        (index == shown && self.labels.is_none()).then(|| Column::new(name, index))
    }

    /// Into how many ranges the scan could be cut, if it can be.
    pub(super) fn could_be_cut_into(&self) -> Option<usize> {
        let free = self.leading.is_none() && self.rest.is_none() && self.fetch.is_none();
        let several = self.wanted_partitions > 1;
        let unordered = self.row_order.is_none() && !self.preserve_order;
        (free && several && unordered).then_some(self.wanted_partitions)
    }

    /// The scan in ranges of the leading dimension.
    pub(super) fn in_ranges(self, leading: LeadingRanges) -> Self {
        Self {
            leading: Some(Arc::new(leading)),
            best_first: None,
            statistics: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            ..self
        }
    }

    fn partition_count(&self) -> usize {
        match &self.leading {
            Some(leading) => leading.count(),
            None => self.partitions.len(),
        }
    }

    /// The scan of one range.
    fn open_range(&self, leading: Arc<LeadingRanges>, args: OpenArgs) -> SendableRecordBatchStream {
        let source = self.clone();
        let batches = async move {
            let plan = leading.part(&source.plan, args.partition).await;
            let mut plan = plan.map_err(DataFusionError::from)?;
            if let Some(order) = &source.row_order {
                let ordered = plan.in_order(order, None).ok_or_else(|| {
                    DataFusionError::from(crate::Error::internal(
                        "a range of a scan cannot be put in its order",
                    ))
                })?;
                plan = Arc::new(ordered);
            }
            let row_order = source.row_order.clone();
            let mut source = source.with_plan(plan);
            source.row_order = row_order;
            // This partition reads all of it.
            source.partitions = vec![0..0; args.partition];
            source.partitions.push(0..source.plan.unit_count());
            source.open_with_args(OpenArgs::new(args.partition, args.context))
        };
        let batches = futures::stream::once(batches).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        ))
    }

    /// The same scan of another plan, which has the same fragments and columns.
    pub(super) fn with_plan(&self, plan: Arc<ScanPlan>) -> Self {
        Self {
            partitions: plan.partitions(self.partitions.len()),
            plan,
            rest: None,
            leading: None,
            row_order: None,
            best_first: None,
            statistics: Arc::default(),
            runs: Arc::default(),
            ..self.clone()
        }
    }

    /// Bounds of columns are among its statistics from now on.
    pub(super) fn tell_bounds(&self) {
        self.tells_bounds.store(true, Ordering::Relaxed);
    }

    /// The scan without the dynamic filters that `trusted` has not got; `None` if it has no others.
    pub(super) fn trusting(&self, trusted: &HashSet<u64>) -> Option<Self> {
        let mut filters = self.filters.clone();
        filters.keep_trusted(trusted).then(|| Self {
            filters,
            statistics: Arc::default(),
            ..self.clone()
        })
    }

    /// The scan of what is left, when it is known what that is.
    fn open_rest(&self, rest: Arc<Rest>, args: OpenArgs) -> SendableRecordBatchStream {
        let source = self.clone();
        let batches = async move {
            let parted = rest.parted().await.map_err(DataFusionError::from)?;
            source
                .with_plan(Arc::clone(&parted.left))
                .open_with_args(args)
        };
        let batches = futures::stream::once(batches).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        ))
    }

    /// The rows of one partition.
    fn open_partition(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let siblings = args.sibling_state.as_ref();
        let siblings = siblings.and_then(|state| state.downcast_ref::<Siblings>());
        if self.filters.tighten() && !self.runs.is_first(siblings, &args) {
            let again = self.trusting(&HashSet::new());
            return again.map_or_else(
                || internal_err!("a scan that runs again keeps no dynamic filter"),
                |again| again.open_partition(args),
            );
        }
        if let Some(rest) = &self.rest {
            return Ok(self.open_rest(Arc::clone(rest), args));
        }
        if let Some(leading) = &self.leading {
            return Ok(self.open_range(Arc::clone(leading), args));
        }
        let (partition, context) = (args.partition, Arc::clone(&args.context));
        self.record_plan(partition);
        let units = self.partitions.get(partition).cloned().unwrap_or(0..0);
        let units = match siblings.and_then(|siblings| siblings.units.as_ref()) {
            Some(pool) => pool.join(Arc::clone(&context) as _, partition, units),
            None => UnitQueue::alone(units),
        };
        let budget: Arc<dyn MemoryBudget> = Arc::new(PoolBudget::new(&context, partition));
        let counters = Arc::new(ScanMetrics::default());
        let scan = ScanContext::new(
            Arc::clone(&self.plan),
            Arc::clone(&budget),
            Arc::clone(&counters),
        )
        .with_runtime_filter(
            self.filters
                .at_run_time(&self.plan, self.predicate.as_ref())?,
        )
        .with_order(self.worthwhile_order())
        .with_row_order(self.row_order.clone(), self.pace());
        let published = Published::new(&self.metrics, partition, counters);
        let batches = with_labels(read_units(scan, units), self.labels.clone(), budget);
        let batch_size = context.session_config().batch_size();
        let batches = coalesce(batches, Arc::clone(&self.schema), batch_size, self.fetch);
        let batches = batches.inspect(move |_| published.update());
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        )))
    }

    fn known(&self) -> Arc<Statistics> {
        let made = self.statistics.get_or_init(|| {
            let statistics = statistics(&self.plan, &self.schema);
            let statistics = match self.fetch {
                Some(fetch) => limited(statistics, fetch, self.partition_count()),
                None => statistics,
            };
            Arc::new(match self.rest.is_some() || self.filters.removes_rows() {
                true => statistics.to_inexact(),
                false => statistics,
            })
        });
        match self.tells_bounds.load(Ordering::Relaxed) {
            true => Arc::clone(made),
            false => Arc::new(without_bounds(made)),
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

    /// What lets a partition that is done take over units of others.
    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        let shared = config.execution.enable_file_stream_work_stealing
            && self.partitions.len() > 1
            && self.leading.is_none()
            && self.row_order.is_none()
            && !self.preserve_order;
        let units = shared.then(|| Arc::new(UnitPool::default()));
        Some(Arc::new(self.runs.begin(units)))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let (partition, siblings) = (args.partition, args.sibling_state.clone());
        let stream = self.open_partition(args)?;
        Ok(checked(stream, || {
            let siblings = siblings.and_then(|state| state.downcast::<Siblings>().ok());
            let totals = siblings.map(|s| (self.known(), Arc::clone(&s.totals)));
            let properties = self.eq_properties();
            Claims {
                fetch: self.fetch,
                totals,
                ..Claims::new(
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
        let ranges = self.leading.as_ref();
        let ranges = ranges.and_then(|leading| leading.partitioning(self.leading_column()?));
        ranges.unwrap_or_else(|| Partitioning::UnknownPartitioning(self.partition_count()))
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.orderings()
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::NonCooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(match partition {
            // The totals are not those of a part.
            Some(_) if self.partition_count() > 1 => {
                Arc::new(Statistics::new_unknown(&self.schema))
            }
            _ => self.known(),
        })
    }

    /// A filter that came first may remove rows that count for the limit; then the limit stays with its node.
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
        for expr in self.predicate.iter().chain(self.filters.all()) {
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
        // What comes later belongs above a limit that is here already.
        let refused = self.labels.is_some() || self.fetch.is_some();
        for filter in filters {
            answers.push(match refused {
                true => PushedDown::No,
                false => pushed.accept(filter, &self.plan, self.predicate.as_ref())?,
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
