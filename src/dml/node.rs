//! A plan node with one input. The steps of each statement implement only their differences.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr,
};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use super::RowsPlan;

use crate::options::ReadOnly;

/// One step of a statement that changes an array. Everything happens when it is executed, so explaining a statement changes
/// nothing.
pub trait ChangeStep: fmt::Debug + Send + Sync + 'static {
    /// The name of the node.
    const NAME: &'static str;

    /// The properties of the node above `input`.
    fn properties(&self, input: &RowsPlan) -> PlanProperties;

    /// The text that EXPLAIN shows behind the name.
    fn describe(&self) -> String;

    /// Whether the rows must come in one partition.
    fn wants_one_partition(&self) -> bool {
        true
    }

    /// The order in which the rows leave, if the step sorts them.
    fn order(&self) -> Option<&LexOrdering> {
        None
    }

    /// Whether the rows leave in the order in which they came.
    fn keeps_order(&self) -> bool {
        false
    }

    /// Executes one partition.
    ///
    /// # Errors
    /// The partition does not exist, or the input cannot be executed.
    fn execute(
        self: &Arc<Self>,
        input: &RowsPlan,
        partition: usize,
        context: Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream>;
}

/// The plan node of a step.
#[derive(Debug)]
pub struct StepExec<S> {
    input: RowsPlan,
    step: Arc<S>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The names of the nodes of steps.
#[cfg(feature = "cluster")]
const STEP_NODES: [&str; 5] = [
    "TileDbChangesExec",
    "TileDbCopyExec",
    "TileDbOrderExec",
    "TileDbRemoveExec",
    "TileDbWriteExec",
];

/// Whether a node is that of a step of a statement that changes arrays.
#[cfg(feature = "cluster")]
pub(crate) fn changes_arrays(plan: &dyn ExecutionPlan) -> bool {
    STEP_NODES.contains(&plan.name())
}

impl<S> StepExec<S> {
    /// The step of the node.
    pub(crate) fn step(&self) -> &S {
        &self.step
    }
}

impl<S: ChangeStep> StepExec<S> {
    pub(super) fn new(input: RowsPlan, step: S) -> Self {
        Self::of(input, Arc::new(step))
    }

    fn of(input: RowsPlan, step: Arc<S>) -> Self {
        Self {
            properties: Arc::new(step.properties(&input)),
            metrics: ExecutionPlanMetricsSet::new(),
            input,
            step,
        }
    }
}

/// The number of rows that a statement changed.
pub(super) fn count_schema() -> SchemaRef {
    let count = Field::new("count", DataType::UInt64, false);
    Arc::new(Schema::new(vec![count]))
}

/// The properties of a node that returns the number of changed rows.
pub(super) fn puts_out_count() -> PlanProperties {
    PlanProperties::new(
        EquivalenceProperties::new(count_schema()),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Final,
        Boundedness::Bounded,
    )
}

impl<S: ChangeStep> DisplayAs for StepExec<S> {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let details = self.step.describe();
        match format {
            DisplayFormatType::TreeRender if details.is_empty() => Ok(()),
            DisplayFormatType::TreeRender => writeln!(f, "{details}"),
            _ if details.is_empty() => write!(f, "{}", S::NAME),
            _ => write!(f, "{}: {details}", S::NAME),
        }
    }
}

impl<S: ChangeStep> ExecutionPlan for StepExec<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&RowsPlan> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![if self.step.wants_one_partition() {
            Distribution::SinglePartition
        } else {
            Distribution::UnspecifiedDistribution
        }]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.step.keeps_order()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![self.step.wants_one_partition()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for sorted_by in self.step.order().into_iter().flatten() {
            if f(&sorted_by.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<RowsPlan>,
        _options: ReplaceChildrenOptions,
    ) -> Result<RowsPlan> {
        let [input] = children.as_slice() else {
            return internal_err!("{} has one child, not {}", S::NAME, children.len());
        };
        Ok(Arc::new(Self::of(
            Arc::clone(input),
            Arc::clone(&self.step),
        )))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<RowsPlan>) -> Result<RowsPlan> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        // Programs that don't use `execute` rely on this check.
        ReadOnly::check(
            context.session_config(),
            "a statement that changes an array",
        )?;
        if self.step.wants_one_partition() && partition != 0 {
            return internal_err!("{} has one partition, not {partition}", S::NAME);
        }
        self.step
            .execute(&self.input, partition, context, &self.metrics)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
