//! Joins that can be interrupted.
//!
//! A join may return batch after batch without a pause, and whoever reads them in a loop, such as an aggregate, then never notices
//! that the statement was cancelled. DataFusion makes the leaves of a plan pause now and then; this rule does the same for
//! operators that multiply rows.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

/// Whether an operator may return many times the rows that it reads.
pub fn multiplies_rows(plan: &dyn ExecutionPlan) -> bool {
    plan.name().ends_with("JoinExec") || plan.name() == "UnnestExec"
}

/// Whether a plan has such an operator.
pub fn has_multiplied_rows(plan: &dyn ExecutionPlan) -> bool {
    multiplies_rows(plan)
        || plan
            .children()
            .into_iter()
            .any(|child| has_multiplied_rows(child.as_ref()))
}

/// Adds a pause to each operator that multiplies rows.
#[derive(Debug)]
pub struct PausingJoins;

impl PhysicalOptimizerRule for PausingJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let paused = plan.transform_up(|node| {
            Ok(if multiplies_rows(node.as_ref()) {
                Transformed::yes(Arc::new(CooperativeExec::new(node)) as _)
            } else {
                Transformed::no(node)
            })
        });
        Ok(paused?.data)
    }

    fn name(&self) -> &'static str {
        "pausing_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
