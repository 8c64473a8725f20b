//! An order that holds below a node and cannot be derived above it.
//!
//! DataFusion pushes a sort through a semi join, an anti join and the like to where the rows are in order already, and
//! removes it there. If they are in order because a column is unique (the groups of an aggregate), the node above,
//! which drops uniqueness, no longer has the order, and the query fails with "does not satisfy order requirements". The
//! [rule](crate::sql::optimizer) adds a sort where the order is required.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::sql::optimizer::arrays::scans_array;
use crate::sql::optimizer::below::with_children;

type Plan = Arc<dyn ExecutionPlan>;

/// The node over sorted inputs, if one of them is not in the required order.
pub(in crate::sql) fn sorted_again(plan: &Plan) -> Result<Option<Plan>> {
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
    match sorted {
        true => with_children(plan, inputs).map(Some),
        false => Ok(None),
    }
}
