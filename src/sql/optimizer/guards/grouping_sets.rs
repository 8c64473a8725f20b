//! What rows had in common before ROLLUP, CUBE and GROUPING SETS.
//!
//! Their groups show NULL for the columns that a group leaves out: an order of the rows, a column with one value throughout
//! (`WHERE a = 1`), two equal columns are such no more. DataFusion goes on believing in them
//! (`AggregateExec::compute_properties`), drops sorts above, and closes groups when more of their rows are to come. It also
//! calls the columns unique by which it groups, which they are not: a NULL among the rows and a NULL for what is left out
//! look the same. Before DataFusion looks at orders, the [rule](crate::sql::optimizer) puts a
//! [node](HidingExec) above each such aggregate that hides all of this.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::hiding::{Hidden, HidingExec};
use crate::sql::optimizer::arrays::scans_array;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan in which no aggregate with grouping sets over an array shows what its input claims.
pub(in crate::sql) fn without_claims(plan: &Plan) -> Result<Plan> {
    let hide = |plan: Plan| {
        let aggregate = plan.downcast_ref::<AggregateExec>();
        let sets = aggregate.is_some_and(|aggregate| aggregate.group_expr().has_grouping_set());
        Ok(match sets && scans_array(&plan) {
            true => Transformed::yes(Arc::new(HidingExec::new(plan, Hidden::Equivalences)) as _),
            false => Transformed::no(plan),
        })
    };
    Arc::clone(plan).transform_up(hide).data()
}
