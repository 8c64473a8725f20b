//! A rule that forgets what plans say of themselves, so that DataFusion plans without it.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

type Plan = Arc<dyn ExecutionPlan>;

/// Puts a [`Forgetful`] around each node of a plan.
///
/// DataFusion leaves out sorts that it takes for needless, and is wrong about that now and then: it takes 0.0 and -0.0
/// for one value, a key for the key of other columns, what is one value in a table for one value in grouping sets and
/// outer joins. The session that tells what is expected must not be wrong with it: there a node around each other one
/// passes rows on and claims no order, no constant, no equal columns and no key of them, so that every sort is done.
#[derive(Debug)]
pub struct Forget;

impl PhysicalOptimizerRule for Forget {
    fn optimize(&self, plan: Plan, _config: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|node| {
            Ok(if node.is::<Forgetful>() {
                Transformed::no(node)
            } else {
                Transformed::yes(Arc::new(Forgetful::new(node)) as Plan)
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "forget"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Passes rows on, and says nothing of them.
#[derive(Debug)]
struct Forgetful {
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl Forgetful {
    fn new(input: Plan) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for Forgetful {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Forgetful")
    }
}

impl ExecutionPlan for Forgetful {
    fn name(&self) -> &'static str {
        "Forgetful"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Plan>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Plan> {
        match <[Plan; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self::new(input))),
            Err(children) => internal_err!("{} inputs for one", children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        match <[Plan; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self::new(input))),
            Err(children) => internal_err!("{} inputs for one", children.len()),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
