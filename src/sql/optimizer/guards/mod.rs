//! Guards against rules of DataFusion that give wrong answers over arrays.
//!
//! Each guard stands against one defect, which `docs/upstream/` reports with the smallest example that needs no array.
//! A guard changes nothing in a plan without an array, and each has a test that fails as soon as DataFusion is mended, so
//! that the guard can go:
//!
//! - [`run_time_filters`]: filters that arrive while a query runs, from where they may not.
//! - [`names`]: filters that go by the names of columns, where two have one.
//! - [`casts`]: the least and the greatest value of a column, taken for those of its cast to another type.
//! - [`coded_numbers`]: `length` of an enumeration, which gives a dictionary of numbers.
//! - [`grouping_sets`]: orders and constants of rows, which ROLLUP and CUBE do not keep.
//! - [`limited_distinct`]: a DISTINCT with a limit, which fails once its rows come in an order.
//! - [`offsets`]: a sort that moves below OFFSET, so that other rows are skipped.
//! - [`partition_limits`]: a limit over all partitions where each should have one.
//! - [`lost_orders`]: a sort that moves to where it seems needless, and is missed above.
//! - [`unions`]: what fields say of themselves above a UNION, where two parts of the planner disagree.
//! - [`uniqueness`]: a key that moves to another column, and a sort that is dropped for it.
//! - [`nullable_in`]: `IN (SELECT …)` inside a larger condition, which forgets about NULL.
//! - [`table_factors`]: `FROM t FOR SYSTEM_TIME AS OF …` and the like, which are dropped without a word.

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

/// Whether a node needs its rows in an order, or would be left out if they came in one.
fn asks_for_order(plan: &dyn ExecutionPlan) -> bool {
    let by_order = |aggregate: &AggregateExec| {
        let mut aggregates = aggregate.aggr_expr().iter();
        aggregates.any(|aggregate| !aggregate.order_bys().is_empty())
    };
    plan.is::<SortExec>()
        || plan.required_input_ordering().iter().any(Option::is_some)
        || plan.downcast_ref::<AggregateExec>().is_some_and(by_order)
}
