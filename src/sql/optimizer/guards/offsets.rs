//! A sort that moves below OFFSET.
//!
//! A window or an aggregate above `LIMIT … OFFSET …` may need an order. DataFusion moves the sort for it below the limit
//! (`EnsureRequirements`), where it takes the place of the sort that decides which rows are skipped, or brings its own
//! number of rows along. Before that, the [rule](crate::sql::optimizer) puts a [node](HidingExec) above each limit
//! that skips rows, and lets no sort pass.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::GlobalLimitExec;

use super::asks_for_order;
use super::hiding::{Hidden, HidingExec};
use crate::sql::optimizer::arrays::scans_array;
use crate::sql::optimizer::below::with_children;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan in which no sort moves below a limit over an array that skips rows.
pub(in crate::sql) fn above_skipped(plan: &Plan) -> Result<Plan> {
    Ok(below_orders(plan, false)?.unwrap_or_else(|| Arc::clone(plan)))
}

/// A node over guarded limits; `None` if it stays as it is. `ordered` tells whether anything above asks for an order.
fn below_orders(plan: &Plan, ordered: bool) -> Result<Option<Plan>> {
    let ordered = ordered || asks_for_order(plan.as_ref());
    let mut changed = false;
    let mut children = Vec::new();
    for child in plan.children() {
        let new = below_orders(child, ordered)?;
        changed |= new.is_some();
        let child = new.unwrap_or_else(|| Arc::clone(child));
        let limit = child.downcast_ref::<GlobalLimitExec>();
        let skips = limit.is_some_and(|limit| limit.skip() > 0);
        let guarded = ordered && skips && scans_array(&child);
        changed |= guarded;
        children.push(match guarded {
            true => Arc::new(HidingExec::new(child, Hidden::AskedOrders)),
            false => child,
        });
    }
    changed.then(|| with_children(plan, children)).transpose()
}
