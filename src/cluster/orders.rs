//! Orders that don't survive an exchange of rows between machines.
//!
//! In one process, a repartitioning can merge sorted partitions, or deal out the rows of one, so that its outputs are sorted, too, and
//! nodes above rely on that. Between machines, the outputs of several tasks come as they come. So where an order is needed behind an
//! exchange, the rows are sorted there.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlanProperties, InputOrderMode};

use crate::optimizer::{PlanRef, with_children};

/// The plan, with sorts behind each exchange through which it keeps an order that is needed.
pub(super) fn sorted_behind_exchanges(plan: &PlanRef) -> Result<PlanRef> {
    let needed = plan.output_ordering().is_some();
    sorted(plan, needed).map(|new| new.unwrap_or_else(|| Arc::clone(plan)))
}

/// `None` if nothing changes.
fn sorted(plan: &PlanRef, needed: bool) -> Result<Option<PlanRef>> {
    let required = plan.required_input_ordering();
    let kept = plan.maintains_input_order();
    let groups_by_order = plan
        .downcast_ref::<AggregateExec>()
        .is_some_and(|node| *node.input_order_mode() != InputOrderMode::Linear);
    let (mut children, mut changed) = (Vec::new(), false);
    for (number, child) in plan.children().into_iter().enumerate() {
        let requires = required.get(number).is_some_and(Option::is_some);
        let passes = needed && kept.get(number).copied().unwrap_or(false);
        let new = sorted(child, requires || passes || groups_by_order)?;
        changed |= new.is_some();
        children.push(new.unwrap_or_else(|| Arc::clone(child)));
    }
    let exchange = plan.downcast_ref::<RepartitionExec>();
    let order = plan.output_ordering().filter(|_| needed).cloned();
    if let (Some(exchange), Some(order), [input]) = (exchange, order, &children[..]) {
        return exchanged(exchange, input, order).map(Some);
    }
    changed.then(|| with_children(plan, children)).transpose()
}

/// An exchange that keeps no order, and a sort.
fn exchanged(exchange: &RepartitionExec, input: &PlanRef, order: LexOrdering) -> Result<PlanRef> {
    let partitioning = exchange.partitioning().clone();
    let exchange = Arc::new(RepartitionExec::try_new(Arc::clone(input), partitioning)?);
    let sort = SortExec::new(order, exchange).with_preserve_partitioning(true);
    Ok(Arc::new(sort))
}
