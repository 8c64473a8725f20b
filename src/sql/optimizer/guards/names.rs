//! Filters that are pushed down to the wrong one of several columns with the same name.
//!
//! A join of two tables has two columns with the same name if both tables have it. DataFusion pushes a filter down by
//! the names of its columns (`FilterRemapper`, `ProjectionExec::collect_reverse_alias`), and takes the first or the
//! last of several: `WHERE a.f IS NOT NULL` above an outer join became a filter on `b.f`. A semi join also pushes
//! filters on its keys to the side that it does not show, and looks there for a column with the name of the other
//! side's key. While DataFusion pushes down the filters of WHERE, a [node](HidingExec) is inserted where they could
//! reach the wrong column, and lets none pass; one [rule](crate::sql::optimizer) inserts it, another removes it.
//! Dynamic filters are removed from scans instead, see [`run_time_filters`](super::run_time_filters). Filters that the
//! logical optimizer pushes into a table are qualified by the table and not affected.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;

use super::hiding::{Hidden, HidingExec};
use crate::sql::optimizer::arrays::scans_array;
use crate::sql::optimizer::below::with_children;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan with nodes that stop filters where their columns are ambiguous.
pub(in crate::sql) fn told_apart(plan: &Plan) -> Result<Plan> {
    match scans_array(plan) {
        true => Ok(below_filters(plan, false)?.unwrap_or_else(|| Arc::clone(plan))),
        false => Ok(Arc::clone(plan)),
    }
}

/// The plan without the nodes that [`told_apart`] added.
pub(in crate::sql) fn let_through(plan: &Plan) -> Result<Plan> {
    let without = |plan: Plan| {
        Ok(match plan.downcast_ref::<HidingExec>() {
            Some(node) if *node.hidden() == Hidden::Filters => {
                Transformed::yes(Arc::clone(node.input()))
            }
            _ => Transformed::no(plan),
        })
    };
    Arc::clone(plan).transform_up(without).data()
}

/// Whether a filter that is pushed from above a node to its input `number` may end up on another column.
pub(super) fn confuses(plan: &dyn ExecutionPlan, number: usize, input: &Plan) -> bool {
    let by_index = match plan.downcast_ref::<HashJoinExec>() {
        Some(join) if looks_up_keys(join, number) => return true,
        // Otherwise a hash join uses the indexes of columns in its output.
        join => join.is_some(),
    };
    repeats_name(&input.schema()) || (!by_index && repeats_name(&plan.schema()))
}

/// Whether a join pushes filters on its keys to an input whose columns it does not show, and finds another column there
/// with the name of a key. A semi join does so, unless its keys have the same names and types in both inputs.
fn looks_up_keys(join: &HashJoinExec, number: usize) -> bool {
    let unshown = match join.join_type() {
        JoinType::LeftSemi => 1,
        JoinType::RightSemi => 0,
        _ => return false,
    };
    let alike = |(left, right): &(PhysicalExprRef, PhysicalExprRef)| {
        let columns = left
            .downcast_ref::<Column>()
            .zip(right.downcast_ref::<Column>());
        let types = (
            left.data_type(&join.left().schema()),
            right.data_type(&join.right().schema()),
        );
        columns.is_some_and(|(left, right)| left.name() == right.name())
            && matches!(types, (Ok(left), Ok(right)) if left == right)
    };
    number == unshown && !join.on().iter().all(alike)
}

fn repeats_name(schema: &Schema) -> bool {
    let mut seen = HashSet::with_capacity(schema.fields().len());
    !schema
        .fields()
        .iter()
        .all(|field| seen.insert(field.name()))
}

/// The node with inputs that stop ambiguous filters; `None` if it is unchanged. `filtered` says whether there is a
/// filter above.
fn below_filters(plan: &Plan, filtered: bool) -> Result<Option<Plan>> {
    let filtered = filtered || plan.is::<FilterExec>();
    let mut changed = false;
    let mut children = Vec::new();
    for (number, child) in plan.children().into_iter().enumerate() {
        let new = below_filters(child, filtered)?;
        changed |= new.is_some();
        let child = new.unwrap_or_else(|| Arc::clone(child));
        let barred = filtered && confuses(plan.as_ref(), number, &child) && scans_array(&child);
        changed |= barred;
        children.push(match barred {
            true => Arc::new(HidingExec::new(child, Hidden::Filters)),
            false => child,
        });
    }
    changed.then(|| with_children(plan, children)).transpose()
}
