//! Orders and constants that DataFusion passes on through joins, although the rows of the join don't have them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::joins::SortMergeJoinExec;

use super::asks_for_order;
use super::hiding::{HiddenClaims, HidingExec};
use super::join_columns::JoinColumns;
use crate::optimizer::PlanRef;
use crate::optimizer::below::scans_array;

/// The plan in which no join over an array declares an order or a constant that its rows don't have.
///
/// A join reads one side in order, and for each of its rows the matching rows of the other side. DataFusion appends the order
/// of the other side to that of the first (`join_equivalence_properties`). But if several rows are equal in the first order,
/// the other side begins again for each. DataFusion also keeps the constants of a side that an outer join pads with NULL. So it
/// removes sorts that are needed, and emits groups before all of their rows have come.
///
/// Before DataFusion uses orders, the [rule](crate::optimizer) inserts a [node](HidingExec) above each such join, which
/// declares only true properties. A side may get its order later, when DataFusion adds the sorts that windows and merge joins
/// require, so the node stands above every join that could declare too much after that.
pub(crate) fn without_false_claims(plan: &PlanRef) -> Result<PlanRef> {
    let hide = |plan: PlanRef| {
        let columns = JoinColumns::of(plan.as_ref()).filter(|_| scans_array(&plan));
        let false_claims = columns.filter(|columns| {
            let claims = plan.equivalence_properties();
            columns.contradict(claims) || may_append_order(&plan) || loses_filter(&plan)
        });
        Ok(match false_claims {
            Some(columns) => {
                let hidden = HiddenClaims::JoinClaims(Arc::new(columns));
                Transformed::yes(Arc::new(HidingExec::new(plan, hidden)) as _)
            }
            None => Transformed::no(plan),
        })
    };
    Arc::clone(plan).transform_up(hide).data()
}

/// Whether a join keeps the order of one side, and the other side may have an order when the plan runs.
fn may_append_order(join: &PlanRef) -> bool {
    let kept = join.maintains_input_order();
    let required = join.required_input_ordering();
    let mut others = join.children().into_iter().zip(&kept).zip(&required);
    kept.contains(&true)
        && others
            .any(|((side, kept), required)| !kept && (required.is_some() || may_be_ordered(side)))
}

/// Whether DataFusion would push a projection below a join without the columns that the join's filter reads. The node above stops
/// the projection.
fn loses_filter(join: &PlanRef) -> bool {
    let join = join.downcast_ref::<SortMergeJoinExec>();
    join.is_some_and(|join| join.filter().is_some())
}

/// Whether rows are in order, or a node below requires an order, for which DataFusion may still add a sort.
fn may_be_ordered(plan: &PlanRef) -> bool {
    plan.output_ordering().is_some()
        || asks_for_order(plan.as_ref())
        || plan.children().into_iter().any(may_be_ordered)
}
