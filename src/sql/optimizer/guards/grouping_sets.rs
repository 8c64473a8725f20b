//! Properties of rows that ROLLUP, CUBE and GROUPING SETS do not keep.
//!
//! Their groups show NULL for the columns that a group leaves out, so an order of the rows, a constant column (`WHERE a
//! = 1`) or the equality of two columns no longer holds. DataFusion still assumes them
//! (`AggregateExec::compute_properties`), removes sorts above, and emits groups before all of their rows have come. It
//! also treats the grouping columns as unique, which they are not: a NULL among the rows and a NULL for a column that
//! is left out look the same. Before DataFusion uses orders, the [rule](crate::sql::optimizer) inserts a
//! [node](HidingExec) above each such aggregate that hides these properties.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::hiding::{Hidden, HidingExec};
use crate::sql::optimizer::arrays::scans_array;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan in which no aggregate with grouping sets over an array shows the properties of its input.
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
