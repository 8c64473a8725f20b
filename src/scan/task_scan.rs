//! A scan as one task of a stage reads it.
//!
//! Decoding a plan does no I/O: the node has its schema, its partitions and its order from its bytes. The array is opened by the
//! first partition that is polled, once for all partitions of the task.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{TryStreamExt, stream};
use tokio::sync::OnceCell;

use crate::error::to_datafusion_error;
use crate::scan::source::TileDbSource;
use crate::scan::source::task::{ScanTask, TaskUnits};
use crate::sent_errors::leaving;
use crate::stores::runtime::ArrayRuntime;

/// A column of an order: its index, and the direction.
pub(crate) type OrderColumn = (usize, SortOptions);

/// Reads the units of a task.
#[derive(Debug)]
pub(crate) struct TaskScanExec {
    task: Arc<ScanTask>,
    order: Vec<OrderColumn>,
    properties: Arc<PlanProperties>,
    /// The scan, once the array is open.
    opened: Arc<OnceCell<Arc<DataSourceExec>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl TaskScanExec {
    /// The scan of a task, whose rows have this schema, and this order in each partition.
    pub(crate) fn new(task: ScanTask, schema: SchemaRef, order: Vec<OrderColumn>) -> Result<Self> {
        let mut terms = Vec::with_capacity(order.len());
        for (column, options) in &order {
            let Some(field) = schema.fields().get(*column) else {
                return internal_err!("the order of a task's rows names column {column}");
            };
            terms.push(PhysicalSortExpr {
                expr: Arc::new(Column::new(field.name(), *column)),
                options: *options,
            });
        }
        let orders = EquivalenceProperties::new_with_orderings(schema, LexOrdering::new(terms));
        let partitions = Partitioning::UnknownPartitioning(task.part.partitions.max(1));
        let properties = PlanProperties::new(
            orders,
            partitions,
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::NonCooperative);
        Ok(Self {
            task: Arc::new(task),
            order,
            properties: Arc::new(properties),
            opened: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The scans of the tasks that a scan is cut into.
    pub(crate) fn of_source(source: &TileDbSource, tasks: usize) -> Result<Vec<Self>> {
        let cut = source.cut(tasks).map_err(|reason| {
            datafusion::common::internal_datafusion_err!("a scan isn't cut: {reason}")
        })?;
        let schema = source.eq_properties().schema().clone();
        let order = source.order_columns();
        cut.into_iter()
            .map(|task| Self::new(task, Arc::clone(&schema), order.clone()))
            .collect()
    }

    /// The task.
    pub(crate) fn task(&self) -> &ScanTask {
        &self.task
    }

    pub(crate) fn order(&self) -> &[OrderColumn] {
        &self.order
    }

    /// Opens the scan, once for all that share it.
    pub(crate) fn opening(&self) -> OpeningScan {
        OpeningScan {
            task: Arc::clone(&self.task),
            opened: Arc::clone(&self.opened),
        }
    }
}

/// The scan of a task, which the first caller opens.
#[derive(Debug, Clone)]
pub(crate) struct OpeningScan {
    task: Arc<ScanTask>,
    opened: Arc<OnceCell<Arc<DataSourceExec>>>,
}

impl OpeningScan {
    /// The scan.
    pub(crate) async fn source(&self, context: &Arc<TaskContext>) -> Result<Arc<DataSourceExec>> {
        let open = async || {
            let runtime = ArrayRuntime::of_config(context.session_config(), context.runtime_env());
            let opened = Box::pin(self.task.open(&runtime)).await;
            let source = opened.map_err(to_datafusion_error)?;
            Ok(Arc::new(DataSourceExec::new(Arc::new(source))))
        };
        self.opened.get_or_try_init(open).await.map(Arc::clone)
    }
}

impl DisplayAs for TaskScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "TileDbTask: ")?;
        match &self.task.part.units {
            TaskUnits::Share(share) => {
                write!(
                    f,
                    "units={}, decoded_bytes={}",
                    share.unit_count(),
                    share.bytes()
                )?;
            }
            TaskUnits::Ranges { first, count } => write!(f, "ranges={first}..{}", first + count)?,
        }
        write!(
            f,
            ", fragments={}, partitions={}",
            self.task.part.files.fragment_names().count(),
            self.task.part.partitions
        )
    }
}

impl ExecutionPlan for TaskScanExec {
    fn name(&self) -> &'static str {
        "TaskScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in self.task.scan.filters.iter().chain(&self.task.dynamic) {
            match f(filter)? {
                TreeNodeRecursion::Stop => return Ok(TreeNodeRecursion::Stop),
                TreeNodeRecursion::Continue | TreeNodeRecursion::Jump => {}
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("the scan of a task has no inputs");
        }
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("the scan of a task has no inputs");
        }
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        // The future can't borrow the node, so it gets one that shares the opened scan.
        let opening = self.opening();
        let rows = async move {
            let source = opening.source(&context).await?;
            source.execute(partition, context)
        };
        let rows = stream::once(rows).try_flatten().map_err(leaving);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        match self.opened.get() {
            Some(source) => source.metrics(),
            None => Some(self.metrics.clone_inner()),
        }
    }
}
