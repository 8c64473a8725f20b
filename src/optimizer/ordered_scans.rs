//! Scans in the order that a query needs.
//!
//! This serves `SELECT * FROM calls ORDER BY pos, sample`, with or without LIMIT, and windows over all rows like
//! `lag(pos) OVER (ORDER BY pos)`: queries that need one sequence of rows, ordered by the leading dimension first. If
//! the scan can give it ([`TileDbSource::in_one_sequence`]), the [rule](crate::optimizer) requests it before
//! DataFusion adds and parallelizes sorts: sorts whose input is in order are removed, and a LIMIT stops reading.
//! Without it, all rows are sorted in each partition, and merged. It does not apply if the order does not begin with
//! the leading dimension, if more than 524,288 cells of overlapping tiles would have to be sorted at once (131,072 with
//! a LIMIT), and if something is computed between the scan and the sort. Remaining sorts within partitions request an
//! order later, by `try_pushdown_sort`. `tiledb.enable_ordered_scans` switches it off. Benchmark:
//! `benches/special_ways.rs`, `enable_ordered_scans`: 5.3 × for all rows in the order in which they are stored, 4.1 ×
//! for the first of them, 1.5 × for a window, on two cores. Where the tiles of a dense array have to be sorted together
//! it is 1.0 ×, because two cores sort as fast as one sequence; but only those tiles are in memory then, and the
//! process takes a quarter of the memory of sorting all rows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, PhysicalSortRequirement};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use crate::optimizer::below::{over_scan, with_child};
use crate::scan::source::TileDbSource;

/// One sequence of rows that a plan needs.
struct RowSequence {
    order: Vec<PhysicalSortExpr>,
    /// The most rows that the plan reads of it.
    rows: Option<usize>,
}

impl RowSequence {
    /// The sequence that a node needs as its input.
    fn under(plan: &dyn ExecutionPlan) -> Option<Self> {
        if let Some(sort) = plan.downcast_ref::<SortExec>() {
            return (!sort.preserve_partitioning()).then(|| Self {
                order: sort.expr().iter().cloned().collect(),
                rows: sort.fetch(),
            });
        }
        let over_all = |keys: &[Arc<dyn PhysicalExpr>]| keys.is_empty();
        let window = match plan.downcast_ref::<BoundedWindowAggExec>() {
            Some(window) => over_all(&window.partition_keys()),
            None => over_all(&plan.downcast_ref::<WindowAggExec>()?.partition_keys()),
        };
        let needed = plan.required_input_ordering().into_iter().next()??;
        let order = needed.into_single().into_iter();
        window.then(|| Self {
            order: order.map(PhysicalSortRequirement::into).collect(),
            rows: None,
        })
    }
}

/// The plan over a scan in one sequence, if it needs one that the scan can give.
pub(super) fn in_sequence(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(RowSequence { order, rows }) = RowSequence::under(plan.as_ref()) else {
        return Ok(None);
    };
    let [input] = plan.children()[..] else {
        return Ok(None);
    };
    if !only_picks(input) {
        return Ok(None);
    }
    let columns = order
        .iter()
        .map_while(|sort| {
            let column = sort.expr.downcast_ref::<Column>()?;
            Some(column.index())
        })
        .collect::<Vec<_>>();
    let change = |source: &TileDbSource, columns: &[usize]| {
        if columns.len() < order.len() {
            return None;
        }
        let terms = order
            .iter()
            .zip(columns)
            .map(|(sort, column)| PhysicalSortExpr {
                expr: Arc::new(Column::new("", *column)),
                options: sort.options,
            });
        source.in_one_sequence(&terms.collect::<Vec<_>>(), rows)
    };
    match over_scan(input, &columns, &change)? {
        Some(input) => with_child(plan, input).map(Some),
        None => Ok(None),
    }
}

/// Whether nothing is computed between here and the scan, because computing is faster in several partitions.
fn only_picks(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        return true;
    };
    let picks = |expr: &Arc<dyn PhysicalExpr>| expr.is::<Column>() || expr.is::<Literal>();
    let mut expressions = projection.expr().iter();
    expressions.all(|expr| picks(&expr.expr)) && only_picks(projection.input())
}
