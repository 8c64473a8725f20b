//! A sort that is pushed below OFFSET.
//!
//! A window or an aggregate above `LIMIT … OFFSET …` may require an order. DataFusion pushes the sort for it below the
//! limit (`EnsureRequirements`), where it replaces the sort that decides which rows are skipped, or adds its own limit.
//! Before that, the [rule](crate::sql::optimizer) inserts a [node](HidingExec) above each limit that skips rows, which
//! lets no sort pass.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::GlobalLimitExec;

use super::asks_for_order;
use super::hiding::{Hidden, HidingExec};
use crate::sql::optimizer::arrays::scans_array;
use crate::sql::optimizer::below::rewritten_below;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan in which no sort is pushed below a limit over an array that skips rows.
pub(in crate::sql) fn above_skipped(plan: &Plan) -> Result<Plan> {
    let hide = |plan: &Plan, ordered: bool| {
        let limit = plan.downcast_ref::<GlobalLimitExec>();
        let skips = limit.is_some_and(|limit| limit.skip() > 0);
        let guarded = ordered && skips && scans_array(plan);
        let hiding = || HidingExec::new(Arc::clone(plan), Hidden::AskedOrders);
        Ok(guarded.then(|| Arc::new(hiding()) as _))
    };
    let guarded = rewritten_below(plan, false, &asks_for_order, &hide)?;
    Ok(guarded.unwrap_or_else(|| Arc::clone(plan)))
}
