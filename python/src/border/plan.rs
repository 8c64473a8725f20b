//! A plan of this package's session, run by another one.

use std::fmt;
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, plan_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::Boundedness;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties, displayable,
};

/// A plan that runs with the settings, the stores and the memory of this package's session. The host sees its columns, its partitions
/// and, where it is certain, its number of rows.
pub(super) struct BorderExec {
    inner: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    properties: Arc<PlanProperties>,
}

impl BorderExec {
    pub(super) fn new(inner: Arc<dyn ExecutionPlan>, task: Arc<TaskContext>) -> Self {
        let partitions = inner.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(inner.schema()),
            Partitioning::UnknownPartitioning(partitions),
            inner.pipeline_behavior(),
            Boundedness::Bounded,
        );
        Self {
            inner,
            task,
            properties: Arc::new(properties),
        }
    }
}

impl fmt::Debug for BorderExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BorderExec").field(&self.inner).finish()
    }
}

impl DisplayAs for BorderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = displayable(self.inner.as_ref()).indent(false).to_string();
        let steps = inner.lines().map(str::trim).collect::<Vec<_>>();
        write!(f, "TileDbBorderExec: {}", steps.join(" <- "))
    }
}

impl ExecutionPlan for BorderExec {
    fn name(&self) -> &'static str {
        "TileDbBorderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() {
            return Ok(self);
        }
        plan_err!("a plan over the border has no inputs")
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.inner.execute(partition, Arc::clone(&self.task))
    }

    /// The counters of the scans: the host shows nothing of what is below.
    fn metrics(&self) -> Option<MetricsSet> {
        let mut counters = MetricsSet::new();
        add_counters_of_scans(&self.inner, &mut counters);
        Some(counters)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let known = StatisticsContext::new().compute(self.inner.as_ref(), args)?;
        let mut promised = Statistics::new_unknown(&self.inner.schema());
        if let Precision::Exact(rows) = known.num_rows {
            promised.num_rows = Precision::Exact(rows);
        }
        Ok(Arc::new(promised))
    }
}

fn add_counters_of_scans(plan: &Arc<dyn ExecutionPlan>, counters: &mut MetricsSet) {
    let inputs = plan.children();
    if inputs.is_empty() {
        let own = plan.metrics().unwrap_or_default();
        own.iter()
            .for_each(|counter| counters.push(Arc::clone(counter)));
    }
    for input in inputs {
        add_counters_of_scans(input, counters);
    }
}
