//! Guards against rules of DataFusion that give wrong answers over arrays.
//!
//! Each guard works around one defect, which `docs/upstream/README.md` reports with the smallest example that needs no array. A
//! guard changes no plan without an array, and each has a test that fails as soon as DataFusion fixes the defect, so
//! that the guard can be removed:
//!
//! - [`run_time_filters`]: dynamic filters pushed down through nodes that they must not pass.
//! - [`names`]: filters that are pushed down by the names of columns, if two columns have the same name.
//! - [`casts`]: the bounds of a column, used as those of its cast to another type.
//! - [`coded_numbers`]: `length` of an enumeration, which returns a dictionary of numbers.
//! - [`grouping_sets`]: orders and constants, which ROLLUP and CUBE do not keep.
//! - [`limited_distinct`]: a DISTINCT with a limit, which fails if its rows get an order.
//! - [`offsets`]: a sort that is pushed below OFFSET, so that other rows are skipped.
//! - [`partition_limits`]: a limit over all partitions instead of one of each.
//! - [`lost_orders`]: a sort that is removed where the order holds, but is needed above.
//! - [`unions`]: field metadata above a UNION, on which two parts of the planner disagree.
//! - [`uniqueness`]: a unique key that moves to another column, so that a sort is removed.
//! - [`nullable_in`]: `IN (SELECT …)` inside a larger condition, which is never NULL.
//! - [`table_factors`]: `FROM t FOR SYSTEM_TIME AS OF …` and the like, which are ignored without an error.

pub(super) mod casts;
pub(super) mod coded_numbers;
pub(super) mod grouping_sets;
mod hiding;
pub(super) mod limited_distinct;
pub(super) mod lost_orders;
pub(super) mod names;
pub(super) mod nullable_in;
pub(super) mod offsets;
pub(super) mod partition_limits;
pub(super) mod run_time_filters;
pub(super) mod table_factors;
pub(super) mod unions;
pub(super) mod uniqueness;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::sorts::sort::SortExec;

/// Whether a node requires an order of its rows, or would be removed if they had one.
fn asks_for_order(plan: &dyn ExecutionPlan) -> bool {
    let by_order = |aggregate: &AggregateExec| {
        let mut aggregates = aggregate.aggr_expr().iter();
        aggregates.any(|aggregate| !aggregate.order_bys().is_empty())
    };
    plan.is::<SortExec>()
        || plan.required_input_ordering().iter().any(Option::is_some)
        || plan.downcast_ref::<AggregateExec>().is_some_and(by_order)
}
