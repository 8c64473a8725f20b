//! Scans in the order that the query needs.
//!
//! ORDER BY, and windows over all rows, need one sequence. Where the scan can give it ([`TileDbSource::in_one_sequence`]),
//! the [rule](crate::sql::optimizer) asks for it before DataFusion adds and parallelizes sorts: those that find their input in
//! order go. What remains of sorts within partitions asks later, by `try_pushdown_sort`.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, PhysicalSortRequirement};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use crate::sql::optimizer::below::{over_scan, with_child};
use crate::sql::source::TileDbSource;

/// One sequence of rows.
struct Sequence {
    order: Vec<PhysicalSortExpr>,
    /// So many rows of it.
    rows: Option<usize>,
}

impl Sequence {
    /// What a plan needs of its input.
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
    let Some(Sequence { order, rows }) = Sequence::under(plan.as_ref()) else {
        return Ok(None);
    };
    let [input] = plan.children()[..] else {
        return Ok(None);
    };
    if !only_picks(input) {
        return Ok(None);
    }
    let columns = order.iter().map_while(|sort| {
        let column = sort.expr.downcast_ref::<Column>()?;
        Some(column.index())
    });
    let columns = columns.collect::<Vec<_>>();
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

/// Whether nothing is computed between here and the scan: that is better done in several partitions.
fn only_picks(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        return true;
    };
    let picks = |expr: &Arc<dyn PhysicalExpr>| expr.is::<Column>() || expr.is::<Literal>();
    let mut expressions = projection.expr().iter();
    expressions.all(|expr| picks(&expr.expr)) && only_picks(projection.input())
}
