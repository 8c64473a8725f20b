//! Restriction of the dynamic filters that a scan may use.
//!
//! DataFusion pushes the filter of a top-k, a join or an aggregate down to every scan that accepts it, and does not
//! always check the nodes between. The scan uses such a filter on rows, so a filter that is too strict loses rows. The
//! [rule](crate::optimizer) runs after all filters are pushed down and removes those that must not be used:
//!
//! - A filter from above a node that keeps only some rows (a limit inside a filter, a join or an exchange). Rows that
//!   the filter would remove count for the limit. A scan with its own limit accepts no filter to begin with.
//! - A filter that passed a node with two columns of the same name: DataFusion looks its columns up by name, and may
//!   find the wrong one (see [`fields`](super::fields)).
//! - The filter of a join on floats: a join treats 0.0 and -0.0 as equal, and its filter does not.
//! - The filter of a join on keys of two types, which a UNION below it may cause: creating it makes the join fail.
//! - The filter of an aggregate that covers only some of its minima and maxima: those of expressions, and those that
//!   have seen no value yet, need rows that the filter removes.
//!
//! A filter is also not valid for another run of the plan; see [`ScanRuns`](crate::scan::source::ScanRuns).

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};

use super::fields::confuses;
use crate::optimizer::below::{scan, scans_array, with_children};

/// The identities of filters.
type TrustedFilters = HashSet<u64>;

/// The plan whose scans have only filters that they may use.
pub(crate) fn only_trusted(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = without_untrusted(plan, &TrustedFilters::new())?;
    Ok(changed.unwrap_or_else(|| Arc::clone(plan)))
}

/// The node without filters that are not trusted; `None` if it has no such filters. `above` are the filters that it gets from
/// above.
fn without_untrusted(
    plan: &Arc<dyn ExecutionPlan>,
    above: &TrustedFilters,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(source) = scan(plan) {
        let source = source.trusting(above);
        return Ok(source.map(|source| DataSourceExec::from_data_source(source) as _));
    }
    if let Some(input) = below_dynamic(plan) {
        let changed = without_untrusted(input, above)?;
        return Ok(Some(changed.unwrap_or_else(|| Arc::clone(input))));
    }
    let mut trusted = if keeps_some_rows(plan.as_ref()) {
        TrustedFilters::new()
    } else {
        above.clone()
    };
    let passed = trusted.clone();
    let produced = plan.dynamic_expressions_produced();
    if !produced.is_empty() && follows_every_bound(plan.as_ref()) && !joins_unlike(plan.as_ref()) {
        let produced = produced.into_iter();
        trusted.extend(produced.filter_map(|filter| filter.expression_id()));
    }
    let mut changed = false;
    let mut children = Vec::new();
    for (number, child) in plan.children().into_iter().enumerate() {
        let new = if confuses(plan.as_ref(), number, child) {
            without_untrusted(child, &(&trusted - &passed))?
        } else {
            without_untrusted(child, &trusted)?
        };
        changed |= new.is_some();
        children.push(new.unwrap_or_else(|| Arc::clone(child)));
    }
    changed.then(|| with_children(plan, children)).transpose()
}

/// The input of a node that only evaluates a dynamic filter. DataFusion inserts such a node below a sort whose input does not
/// accept the filter. The node isn't needed: the sort checks every row itself, and the scan has the filter where it may be
/// used. It would also keep the filter of the first run when the plan is reset and runs again. Plans without an array keep such
/// nodes.
fn below_dynamic(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let filter = plan.downcast_ref::<FilterExec>()?;
    let dynamic = filter.predicate().is::<DynamicFilterPhysicalExpr>();
    let plain = filter.projection().is_none() && filter.fetch().is_none();
    (dynamic && plain && scans_array(plan)).then(|| filter.input())
}

/// Whether the rows that a node returns depend on its other rows.
fn keeps_some_rows(plan: &dyn ExecutionPlan) -> bool {
    let limited_groups = |aggregate: &AggregateExec| aggregate.limit_options().is_some();
    plan.fetch().is_some()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan
            .downcast_ref::<AggregateExec>()
            .is_some_and(limited_groups)
}

/// Whether a node joins on floats, on types that contain floats, or on keys of two types.
fn joins_unlike(plan: &dyn ExecutionPlan) -> bool {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
        return false;
    };
    let (left_schema, right_schema) = (join.left().schema(), join.right().schema());
    let mut keys = join.on().iter();
    keys.any(
        |(left, right)| match (left.data_type(&left_schema), right.data_type(&right_schema)) {
            (Ok(left), Ok(right)) => left != right || may_hold_floats(&left),
            _ => true,
        },
    )
}

fn may_hold_floats(datatype: &DataType) -> bool {
    match datatype {
        DataType::Dictionary(_, values) => may_hold_floats(values),
        datatype => datatype.is_floating() || datatype.is_nested(),
    }
}

/// Whether the filter of a node keeps the rows that each of its aggregates needs: every aggregate must be the minimum
/// or maximum of a column, and all must have a value as soon as one has.
fn follows_every_bound(plan: &dyn ExecutionPlan) -> bool {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return true;
    };
    let arguments = aggregate.aggr_expr().iter().map(|bound| {
        let [argument] = bound.expressions().try_into().ok()?;
        argument.downcast_ref::<Column>().cloned()
    });
    let Some(columns) = arguments.collect::<Option<Vec<_>>>() else {
        return false;
    };
    let Some((first, others)) = columns.split_first() else {
        return false;
    };
    if others.is_empty() {
        return true;
    }
    let input = aggregate.input_schema();
    let never_null = |column: &Column| {
        let field = input.fields().get(column.index());
        field.is_some_and(|field| !field.is_nullable())
    };
    let known_together = others.iter().all(|c| c == first) || columns.iter().all(never_null);
    known_together && aggregate.filter_expr().iter().all(Option::is_none)
}
