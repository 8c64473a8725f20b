//! Joins that can be stopped.
//!
//! A join may return batch after batch without a pause, and what reads them in a loop then never notices that nobody wants its rows any
//! longer. In one process that costs time; on a worker, the task would go on after its query has failed.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

/// The plan, with a pause above each operator that may return many times the rows that it reads.
pub(super) fn with_pauses(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let multiplies = node.name().ends_with("JoinExec") || node.name() == "UnnestExec";
        Ok(if multiplies {
            Transformed::yes(Arc::new(CooperativeExec::new(node)) as _)
        } else {
            Transformed::no(node)
        })
    })
    .data()
}
