//! Orders and constants that DataFusion passes on through joins, although the rows of the join don't have them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlanProperties;

use super::hiding::{Hidden, HidingExec};
use super::join_columns::JoinColumns;
use crate::optimizer::Plan;
use crate::optimizer::below::scans_array;

/// The plan in which no join over an array declares an order or a constant that its rows don't have.
///
/// A join reads one side in order, and for each of its rows the matching rows of the other side. DataFusion appends the order
/// of the other side to that of the first (`join_equivalence_properties`), but where several rows are equal in the first order,
/// the other side begins again for each. It also keeps the constants of a side that an outer join pads with NULL. So it
/// removes sorts that are needed, and emits groups before all of their rows have come.
///
/// Before DataFusion uses orders, the [rule](crate::optimizer) inserts a [node](HidingExec) above each such join that declares
/// only what holds.
pub(crate) fn without_false_claims(plan: &Plan) -> Result<Plan> {
    let hide = |plan: Plan| {
        let columns = JoinColumns::of(plan.as_ref()).filter(|_| scans_array(&plan));
        let false_claims =
            columns.filter(|columns| columns.contradict(plan.equivalence_properties()));
        Ok(match false_claims {
            Some(columns) => {
                let hidden = Hidden::JoinClaims(Arc::new(columns));
                Transformed::yes(Arc::new(HidingExec::new(plan, hidden)) as _)
            }
            None => Transformed::no(plan),
        })
    };
    Arc::clone(plan).transform_up(hide).data()
}
