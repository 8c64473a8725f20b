//! An order that is proved below a node and cannot be proved above it.
//!
//! DataFusion moves a sort down through a semi join, an anti join and the like to where the rows come in the order already, and drops it
//! there. If they do so because a column is unique (the groups of an aggregate), the node above, which forgets what is
//! unique, no longer shows the order, and the query ends with the error "does not satisfy order requirements". The
//! [rule](crate::sql::optimizer) sorts where the order is asked for.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::sql::optimizer::arrays::scans_array;
use crate::sql::optimizer::below::with_children;

type Plan = Arc<dyn ExecutionPlan>;

/// The node over inputs that are sorted as it asks, if one of them is not.
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
