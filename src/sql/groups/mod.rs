//! GROUP BY without a hash table for every row: of dimensions whose coordinates come in runs, and of enumerations.
//!
//! Rows of an array come sorted: in `SELECT lat, avg(t) FROM weather GROUP BY lat`, a dense array's rows agree in `lat` for
//! as long as a tile is wide. A hash table would be asked for the group of every row; the [node](TileDbGroupsExec) that the
//! [rule](super::rules) puts in its place asks once per run. And the codes of an enumeration are small numbers, which have
//! places in a table. The node stands for the first half of an aggregate: what it gives are DataFusion's partial states,
//! made by DataFusion's accumulators, and its other half merges them.

mod codes;
mod exec;
mod states;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

pub use self::exec::TileDbGroupsExec;
use super::enumerated::is_code;
use super::source::TileDbSource;

/// Runs shorter than this are not worth looking for.
const ROWS_PER_RUN: u64 = 4;

/// The same aggregate with the groups of its rows found otherwise; `None` if there is nothing better than a hash table.
pub(super) fn without_hashing(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) if only_needs_states(aggregate) => {
            match is_by_code(aggregate) || come_in_runs(aggregate) {
                true => over_states(aggregate),
                false => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// The same aggregate, if it is one of rows.
fn over_states(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let last = match aggregate.mode() {
        AggregateMode::Partial => None,
        AggregateMode::Single => Some(AggregateMode::Final),
        AggregateMode::SinglePartitioned => Some(AggregateMode::FinalPartitioned),
        _ => return Ok(None),
    };
    let aggregated = |mode, groups, filters, input| {
        let functions = aggregate.aggr_expr().to_vec();
        AggregateExec::try_new(
            mode,
            groups,
            functions,
            filters,
            input,
            aggregate.input_schema(),
        )
    };
    let groups = aggregate.group_expr().clone();
    let partial = aggregated(
        AggregateMode::Partial,
        groups.clone(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
    )?;
    let states = Arc::new(TileDbGroupsExec::new(Arc::new(partial))) as Arc<dyn ExecutionPlan>;
    let Some(last) = last else {
        return Ok(Some(states));
    };
    let no_filters = vec![None; aggregate.aggr_expr().len()];
    let merged = aggregated(last, groups.as_final(), no_filters, states)?;
    Ok(Some(Arc::new(merged)))
}

/// Whether nothing is asked but the state of each group, in any order.
fn only_needs_states(aggregate: &AggregateExec) -> bool {
    let groups = aggregate.group_expr();
    let plain = groups.is_single() && !groups.expr().is_empty();
    let unordered = *aggregate.input_order_mode() == InputOrderMode::Linear;
    let functions = aggregate
        .aggr_expr()
        .iter()
        .all(|function| function.groups_accumulator_supported() && function.order_bys().is_empty());
    let steady = !groups.expr().iter().any(|(expr, _)| is_volatile(expr));
    plain && unordered && functions && steady && aggregate.limit_options().is_none()
}

/// Whether the only key is the code of an enumeration, out of not too many.
fn is_by_code(aggregate: &AggregateExec) -> bool {
    match aggregate.group_expr().expr() {
        [(key, _)] => {
            let code = is_code(key).then(|| key.data_type(&aggregate.input().schema()));
            code.is_some_and(|code| code.is_ok_and(|code| codes::is_small(&code)))
        }
        _ => false,
    }
}

fn come_in_runs(aggregate: &AggregateExec) -> bool {
    let mut columns = BTreeSet::new();
    for (expr, _) in aggregate.group_expr().expr() {
        columns.extend(collect_columns(expr).iter().map(Column::index));
    }
    let Some((source, columns)) = columns_of_scan(aggregate.input(), columns) else {
        return false;
    };
    let shown = source.columns_of_table();
    let plan = source.plan();
    let dimension = |column: usize| {
        let column = *shown?.get(column)?;
        (column < plan.spec.table.dimension_count()).then_some(column)
    };
    let dimensions = columns.into_iter().map(dimension);
    let Some(dimensions) = dimensions.collect::<Option<Vec<_>>>() else {
        return false;
    };
    !dimensions.is_empty() && plan.run_length(&dimensions) >= ROWS_PER_RUN
}

/// The scan below nothing but projections, and of which of its columns some of the plan's are made.
fn columns_of_scan(
    plan: &Arc<dyn ExecutionPlan>,
    columns: BTreeSet<usize>,
) -> Option<(&TileDbSource, BTreeSet<usize>)> {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        let source = scan.data_source().downcast_ref::<TileDbSource>()?;
        return Some((source, columns));
    }
    if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
        return columns_of_scan(cooperative.input(), columns);
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let mut below = BTreeSet::new();
    for column in columns {
        let expr: &Arc<dyn PhysicalExpr> = &projection.expr().get(column)?.expr;
        if is_volatile(expr) {
            return None;
        }
        below.extend(collect_columns(expr).iter().map(Column::index));
    }
    columns_of_scan(projection.input(), below)
}
