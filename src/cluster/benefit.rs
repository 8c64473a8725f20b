//! Whether workers help.
//!
//! A worker that neither filters nor groups the rows of a scan sends more bytes than it reads, because what is stored is compressed. The
//! session would wait for the network longer than it takes to decode the tiles itself. `tiledb.send_stored_rows` sends such rows
//! all the same: it pays if filters are very slow, or if each machine gets only so much from the store.

use std::sync::Arc;

use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion_distributed::{DistributedLeafExec, NetworkBoundaryExt};

use crate::optimizer::{HidingExec, scan_of};

/// Whether all that workers would do for a plan is to send rows as they are stored.
pub(super) fn only_sends_stored_rows(cut: &Arc<dyn ExecutionPlan>) -> bool {
    let mut stages = Vec::new();
    collect_stages(cut, &mut stages);
    !stages.is_empty() && stages.iter().all(sends_stored_rows)
}

/// The stages whose rows come to the session.
fn collect_stages(plan: &Arc<dyn ExecutionPlan>, stages: &mut Vec<Arc<dyn ExecutionPlan>>) {
    match plan.as_network_boundary() {
        Some(boundary) => stages.extend(boundary.input_stage().local_plan().cloned()),
        None => {
            for child in plan.children() {
                collect_stages(child, stages);
            }
        }
    }
}

/// Whether a plan returns all rows of its scans, with nothing done to them.
fn sends_stored_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() {
        return scan_of(leaf.original()).is_some_and(|source| source.keeps_rows());
    }
    let passes = match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => projection
            .expr()
            .iter()
            .all(|shown| shown.expr.is::<Column>()),
        None => {
            plan.is::<CooperativeExec>()
                || plan.is::<CoalescePartitionsExec>()
                || plan.is::<RepartitionExec>()
                || plan.is::<UnionExec>()
                || plan.is::<HidingExec>()
        }
    };
    passes && plan.children().into_iter().all(sends_stored_rows)
}
