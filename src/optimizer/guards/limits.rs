//! Limits that DataFusion gives to nodes that cannot have them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::hiding::HidingExec;
use crate::optimizer::PlanRef;
use crate::optimizer::below::{scans_array, with_child};

/// The aggregate without its limit, if the limit would make it fail.
///
/// DataFusion gives an aggregate without functions the limit above it (`LimitedDistinctAggregation`), provided that
/// its rows have no order: with one it would run as a top-k, which needs a direction that the rule does not set. If
/// the input gets an order later, by one of this crate's rules or by DataFusion's own sorts, the query fails with
/// "Ordering direction required for DISTINCT with limit". The limit is only an optimization, because there is another
/// one above, so the [rule](crate::optimizer) removes it.
pub(crate) fn without_limit(
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

/// Replaces a merge over a limit of several partitions by one over a limit of each partition.
///
/// If a scan can give the order of a top-k of each partition (`PushdownSort`), DataFusion replaces the sort by a
/// limit, but always by one that requires a single partition, even if the sort did not: the query fails with "does not
/// satisfy distribution requirements". The [rule](crate::optimizer) makes it a limit of each partition, like the
/// sort, if a merge above has the limit of the whole. Without such a merge the error stays, because there would be too
/// many rows.
pub(crate) fn of_each_partition(plan: &PlanRef) -> Result<Option<PlanRef>> {
    let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() else {
        return Ok(None);
    };
    let Some(rows) = merge.fetch().filter(|_| scans_array(plan)) else {
        return Ok(None);
    };
    match limited(merge.input(), rows)? {
        Some(input) => with_child(plan, input).map(Some),
        None => Ok(None),
    }
}

/// The plan with its limit, below nodes that keep all rows, as a limit of each partition; all partitions together must have
/// `rows`.
fn limited(plan: &PlanRef, rows: usize) -> Result<Option<PlanRef>> {
    let keeps_rows = plan.is::<ProjectionExec>() || plan.is::<HidingExec>();
    if let ([input], true) = (&plan.children()[..], keeps_rows) {
        return match limited(input, rows)? {
            Some(input) => with_child(plan, input).map(Some),
            None => Ok(None),
        };
    }
    let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() else {
        return Ok(None);
    };
    let input = limit.input();
    let several = input.output_partitioning().partition_count() > 1;
    let enough = limit.fetch().filter(|fetch| *fetch >= rows);
    Ok(enough
        .filter(|_| several && limit.skip() == 0)
        .map(|fetch| Arc::new(LocalLimitExec::new(Arc::clone(input), fetch)) as _))
}
