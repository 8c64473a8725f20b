//! Orders of rows that DataFusion loses, pushes to the wrong place, or assumes where they do not hold.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Constraint, Constraints, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::asks_for_order;
use super::hiding::{HiddenClaims, HidingExec};
use crate::optimizer::PlanRef;
use crate::optimizer::below::{rewritten_below, scans_array, with_children};

/// The node over sorted inputs, if one of the inputs is not in the required order.
///
/// DataFusion pushes a sort through a semi join, an anti join and the like to where the rows are in order already, and
/// removes it there. If they are in order because a column is unique (the groups of an aggregate), the node above,
/// which drops uniqueness, no longer has the order, and the query fails with "does not satisfy order requirements".
/// The [rule](crate::optimizer) adds a sort where the order is required.
pub(crate) fn sorted_again(plan: &PlanRef) -> Result<Option<PlanRef>> {
    let required = plan.required_input_ordering();
    let mut sorted = false;
    let mut inputs = Vec::new();
    for (input, order) in plan.children().into_iter().zip(required) {
        let mut input = Arc::clone(input);
        if let Some(order) = order.map(|order| order.into_single()) {
            let known = input.equivalence_properties();
            if !known.ordering_satisfy_requirement(order.clone())? && scans_array(&input) {
                let sort = SortExec::new(LexOrdering::from(order), input);
                input = Arc::new(sort.with_preserve_partitioning(true));
                sorted = true;
            }
        }
        inputs.push(input);
    }
    if sorted {
        with_children(plan, inputs).map(Some)
    } else {
        Ok(None)
    }
}

/// The plan in which no sort is pushed below a limit over an array that skips rows.
///
/// A window or an aggregate above `LIMIT … OFFSET …` may require an order. DataFusion pushes the sort for it below the
/// limit (`EnsureRequirements`), where it replaces the sort that decides which rows are skipped, or adds its own
/// limit. Before that, the [rule](crate::optimizer) inserts a [node](HidingExec) above each limit that skips
/// rows, which lets no sort pass.
pub(crate) fn above_skipped(plan: &PlanRef) -> Result<PlanRef> {
    let hide = |plan: &PlanRef, ordered: bool| {
        let limit = plan.downcast_ref::<GlobalLimitExec>();
        let skips = limit.is_some_and(|limit| limit.skip() > 0);
        let guarded = ordered && skips && scans_array(plan);
        let hiding = || HidingExec::new(Arc::clone(plan), HiddenClaims::AskedOrders);
        Ok(guarded.then(|| Arc::new(hiding()) as _))
    };
    let guarded = rewritten_below(plan, false, &asks_for_order, &hide)?;
    Ok(guarded.unwrap_or_else(|| Arc::clone(plan)))
}

/// The plan in which no projection over an array declares wrong columns unique, if orders are required.
///
/// The groups of an aggregate are unique, and DataFusion records the columns that make them unique. A projection above should
/// keep this record, but looks the columns up by their indexes in its output instead of its input
/// (`EquivalenceProperties::projected_constraints`). So another column may be treated as unique, and if rows are in the order
/// of that column, the other terms of ORDER BY are removed.
///
/// Before DataFusion uses orders, the [rule](crate::optimizer) inserts a [node](HidingExec) below each projection
/// that declares too much, if a node above requires an order. The node passes rows on unchanged and declares no
/// columns unique. It stays in the plan, because a sort checks the properties of its input again when it runs.
pub(crate) fn without_false_keys(plan: &PlanRef) -> Result<PlanRef> {
    let hide = |plan: &PlanRef, ordered: bool| {
        let ordered = ordered || asks_for_order(plan.as_ref());
        if !ordered || !claims_false_key(plan.as_ref()) || !scans_array(plan) {
            return Ok(None);
        }
        let inputs = plan.children().into_iter();
        let hide = |input: &PlanRef| HidingExec::new(Arc::clone(input), HiddenClaims::UniqueKeys);
        let inputs = inputs.map(|input| Arc::new(hide(input)) as _);
        with_children(plan, inputs.collect()).map(Some)
    };
    let guarded = rewritten_below(plan, false, &asks_for_order, &hide)?;
    Ok(guarded.unwrap_or_else(|| Arc::clone(plan)))
}

/// Whether a node declares columns unique although its input does not prove it.
fn claims_false_key(plan: &dyn ExecutionPlan) -> bool {
    let (sources, own_key): (Vec<_>, _) = if let Some(node) = plan.downcast_ref::<ProjectionExec>()
    {
        let exprs = node.expr().iter().map(|e| Arc::clone(&e.expr));
        (exprs.collect(), None)
    } else if let Some(node) = plan.downcast_ref::<AggregateExec>() {
        let groups = node
            .group_expr()
            .expr()
            .iter()
            .map(|(e, _)| Arc::clone(e))
            .collect::<Vec<_>>();
        let count = groups.len();
        (groups, Some(count))
    } else {
        return false;
    };
    let [input] = plan.children()[..] else {
        return false;
    };
    let proven = input.equivalence_properties().constraints();
    let claimed = plan.equivalence_properties().constraints();
    let false_key = |claim: &Constraint| {
        let key = columns(claim);
        let groups = own_key.is_some_and(|count| (0..count).all(|group| key.contains(&group)));
        !groups && !follows(key, &sources, proven)
    };
    claimed.iter().any(false_key)
}

/// Whether the columns `key` of an output are unique because some columns of the input are, given the source of each.
fn follows(key: &[usize], sources: &[Arc<dyn PhysicalExpr>], proven: &Constraints) -> bool {
    let shown = key
        .iter()
        .filter_map(|column| {
            let source = sources.get(*column)?.downcast_ref::<Column>()?;
            Some(source.index())
        })
        .collect::<Vec<_>>();
    let among = |key: &Constraint| columns(key).iter().all(|column| shown.contains(column));
    proven.iter().any(among)
}

fn columns(key: &Constraint) -> &[usize] {
    match key {
        Constraint::PrimaryKey(columns) | Constraint::Unique(columns) => columns,
    }
}

/// The plan in which no aggregate with grouping sets over an array shows the properties of its input.
///
/// The rows of its groups have NULL in the columns that a group leaves out, so an order of the rows, a constant column (`WHERE
/// a = 1`) or the equality of two columns no longer holds. DataFusion still assumes them (`AggregateExec::compute_properties`),
/// removes sorts above, and emits groups before all of their rows have come. It also treats the grouping columns as unique.
/// They are not, because a NULL among the rows looks the same as a NULL for a column that is left out. Before DataFusion uses
/// orders, the [rule](crate::optimizer) inserts a [node](HidingExec) above each such aggregate, which hides these properties.
pub(crate) fn without_claims(plan: &PlanRef) -> Result<PlanRef> {
    let hide = |plan: PlanRef| {
        let aggregate = plan.downcast_ref::<AggregateExec>();
        let sets = aggregate.is_some_and(|aggregate| aggregate.group_expr().has_grouping_set());
        Ok(if sets && scans_array(&plan) {
            Transformed::yes(Arc::new(HidingExec::new(plan, HiddenClaims::Equivalences)) as _)
        } else {
            Transformed::no(plan)
        })
    };
    Arc::clone(plan).transform_up(hide).data()
}
