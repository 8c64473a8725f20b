//! EXPLAIN in a session with workers.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::display::{PlanType, StringifiedPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion_distributed::display_plan_ascii;

use super::cluster_exec::ClusterExec;

/// EXPLAIN of a query that was `planned` for workers, from that of the query in one process.
pub(super) fn explained(
    plain: Arc<dyn ExecutionPlan>,
    planned: Result<(Arc<dyn ExecutionPlan>, Option<String>)>,
) -> Arc<dyn ExecutionPlan> {
    let Some(explain) = plain.downcast_ref::<ExplainExec>() else {
        return plain;
    };
    let mut shown = explain.stringified_plans().to_vec();
    match planned {
        Ok((plan, None)) => {
            let Some(cluster) = plan.downcast_ref::<ClusterExec>() else {
                return plain;
            };
            let text = display_plan_ascii(cluster.plan().as_ref(), false);
            for plan in &mut shown {
                if plan.plan_type == PlanType::FinalPhysicalPlan {
                    plan.plan = Arc::new(text.clone());
                }
            }
        }
        Ok((_, Some(reason))) => note(&mut shown, &format!("runs in this process: {reason}")),
        Err(error) => note(&mut shown, &format!("fails: {}", error.strip_backtrace())),
    }
    Arc::new(ExplainExec::new(explain.schema(), shown, explain.verbose()))
}

/// Adds a line to the final plan.
fn note(shown: &mut [StringifiedPlan], line: &str) {
    let plans = shown.iter_mut();
    for shown in plans.filter(|shown| shown.plan_type == PlanType::FinalPhysicalPlan) {
        let plan = shown.plan.trim_end();
        shown.plan = Arc::new(format!("{plan}\n{line}\n"));
    }
}
