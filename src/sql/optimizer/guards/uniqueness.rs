//! Unique keys that move to another column.
//!
//! The groups of an aggregate are unique, and DataFusion records by which columns. A projection above should keep that,
//! but looks the columns up by their indexes in its output instead of its input
//! (`EquivalenceProperties::projected_constraints`). So another column may be treated as unique, and if rows are in the
//! order of that column, the other terms of ORDER BY are removed.
//!
//! Before DataFusion uses orders, the [rule](crate::sql::optimizer) inserts a [node](HidingExec) below each projection
//! that declares too much, if a node above requires an order. The node passes rows on unchanged and declares no columns
//! unique. It stays in the plan, because a sort checks the properties of its input again when it runs.

use std::sync::Arc;

use datafusion::common::{Constraint, Constraints, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::asks_for_order;
use super::hiding::{Hidden, HidingExec};
use crate::sql::optimizer::arrays::scans_array;
use crate::sql::optimizer::below::{rewritten_below, with_children};

type Plan = Arc<dyn ExecutionPlan>;

/// The plan in which no projection over an array declares wrong columns unique, if orders are required.
pub(in crate::sql) fn without_false_keys(plan: &Plan) -> Result<Plan> {
    let hide = |plan: &Plan, ordered: bool| {
        let ordered = ordered || asks_for_order(plan.as_ref());
        if !ordered || !claims_false_key(plan.as_ref()) || !scans_array(plan) {
            return Ok(None);
        }
        let inputs = plan.children().into_iter();
        let hide = |input: &Plan| HidingExec::new(Arc::clone(input), Hidden::UniqueKeys);
        let inputs = inputs.map(|input| Arc::new(hide(input)) as _);
        with_children(plan, inputs.collect()).map(Some)
    };
    let guarded = rewritten_below(plan, false, &asks_for_order, &hide)?;
    Ok(guarded.unwrap_or_else(|| Arc::clone(plan)))
}

/// Whether a node declares columns unique that its input does not prove to be.
fn claims_false_key(plan: &dyn ExecutionPlan) -> bool {
    let (sources, own_key): (Vec<_>, _) = if let Some(node) = plan.downcast_ref::<ProjectionExec>()
    {
        let exprs = node.expr().iter().map(|e| Arc::clone(&e.expr));
        (exprs.collect(), None)
    } else if let Some(node) = plan.downcast_ref::<AggregateExec>() {
        let groups = node.group_expr().expr().iter().map(|(e, _)| Arc::clone(e));
        let groups = groups.collect::<Vec<_>>();
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

/// Whether the columns `key` of an output are unique because some of the input's are, given the sources of each.
fn follows(key: &[usize], sources: &[Arc<dyn PhysicalExpr>], proven: &Constraints) -> bool {
    let shown = key.iter().filter_map(|column| {
        let source = sources.get(*column)?.downcast_ref::<Column>()?;
        Some(source.index())
    });
    let shown = shown.collect::<Vec<_>>();
    let among = |key: &Constraint| columns(key).iter().all(|column| shown.contains(column));
    proven.iter().any(among)
}

fn columns(key: &Constraint) -> &[usize] {
    match key {
        Constraint::PrimaryKey(columns) | Constraint::Unique(columns) => columns,
    }
}
