//! A DISTINCT with a limit whose rows get an order later.
//!
//! DataFusion gives an aggregate without functions the limit above it (`LimitedDistinctAggregation`), provided that its
//! rows have no order: with one it would run as a top-k, which needs a direction that the rule does not set. If the
//! input gets an order later, by one of this crate's rules or by DataFusion's own sorts, the query fails with "Ordering
//! direction required for DISTINCT with limit". The limit is only an optimization, because there is another one above,
//! so the [rule](crate::sql::optimizer) removes it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use crate::sql::optimizer::arrays::scans_array;

/// The aggregate without its limit, if it would fail with it.
pub(in crate::sql) fn without_limit(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let limited = aggregate.limit_options();
    let undirected = limited.is_some_and(|limit| limit.descending().is_none());
    let fails = undirected
        && aggregate.aggr_expr().is_empty()
        && !aggregate.is_unordered_unfiltered_group_by_distinct();
    if !fails || !scans_array(plan) {
        return Ok(None);
    }
    Ok(Some(Arc::new(aggregate.with_new_limit_options(None))))
}
