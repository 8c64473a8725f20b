//! Guards against rules of DataFusion that give wrong answers over arrays.
//!
//! Each guard works around one defect, which `docs/upstream/README.md` reports with the smallest example that needs no array. A
//! guard changes no plan without an array, and each has a test that fails as soon as DataFusion fixes the defect, so
//! that the guard can be removed:
//!
//! - [`run_time_filters`]: dynamic filters pushed down through nodes that they must not pass.
//! - [`fields::let_through`]: filters that are pushed down by the names of columns, if two columns have the same name.
//! - [`fields::UnionFields`]: field metadata above a UNION, on which two parts of the planner disagree.
//! - [`casts::with_bounds_below`]: the bounds of a column, used as those of its cast to another type.
//! - [`casts::PlainNumbers`]: `length` of an enumeration, which returns a dictionary of numbers.
//! - [`literals`]: literals that are rounded to the unit of a column, or lose their zone, before they are compared.
//! - [`limits::without_limit`]: a DISTINCT with a limit, which fails if its rows get an order.
//! - [`limits::of_each_partition`]: a limit over all partitions instead of one of each.
//! - [`orders::without_claims`]: orders and constants, which ROLLUP and CUBE do not keep.
//! - [`join_claims`]: orders and constants of one side of a join, which its rows don't have.
//! - [`orders::above_skipped`]: a sort that is pushed below OFFSET, so that other rows are skipped.
//! - [`orders::sorted_again`]: a sort that is removed where the order holds, but is needed above.
//! - [`orders::without_false_keys`]: a unique key that moves to another column, so that a sort is removed.
//! - [`one_nan`]: the NaN of `0.0 / 0.0`, which sorts below all numbers and doesn't equal any other NaN.
//! - [`empty_subqueries`]: a scalar subquery, which is NULL without a row even if its column is NOT NULL.
//! - [`values_subqueries`]: subqueries in VALUES, which aren't run before the rows are computed.
//! - [`misplaced`]: expressions that can't be planned, and whose errors print DataFusion's own structures.
//! - [`nullable_in`]: `IN (SELECT …)` inside a larger condition, which is never NULL.
//! - [`table_factors`]: `FROM t FOR SYSTEM_TIME AS OF …` and the like, which are ignored without an error.

pub(super) mod casts;
pub(super) mod empty_subqueries;
pub(super) mod fields;
pub(super) mod hiding;
pub(super) mod join_claims;
mod join_columns;
pub(super) mod limits;
pub(super) mod literals;
pub(super) mod misplaced;
pub(super) mod nullable_in;
pub(super) mod one_nan;
pub(super) mod orders;
pub(super) mod run_time_filters;
pub(super) mod table_factors;
pub(super) mod values_subqueries;

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
