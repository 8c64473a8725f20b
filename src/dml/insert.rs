//! The plan of INSERT: rows of sparse arrays are numbered by their place in global order, sorted by it, and written.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use tiledb_engine::geometry::order_key::KeyColumn;
use tiledb_engine::write::order_numbers::OrderNumbers;

use super::change::RowChange;
use super::global_order::{GlobalOrderExec, TileDbOrderExec};
use super::order_columns::{OrderNumber, no_dimensions};
use super::target::PlannedTarget;
use super::write_exec::{TileDbWriteExec, WriteExec};
use crate::error::to_datafusion_error;

/// The name of a column that rows are sorted by.
const ORDER_COLUMN: &str = "__global_order";

/// A plan that writes the rows of `input`, which has the columns of the table, and puts out their number.
pub(crate) fn insert_plan(
    target: &PlannedTarget,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let change = target.change(&input);
    let change = RowChange {
        inserts: true,
        ..change
    };
    let reads = change.reads();
    write_plan(target, input, reads.then_some(change))
}

/// A plan that writes the rows that `plan` would write, which come in their order, to an array that differs only in how it
/// stores them.
pub(super) fn retargeted(
    plan: &Arc<dyn ExecutionPlan>,
    target: &PlannedTarget,
    rows: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(planned) = plan.downcast_ref::<TileDbWriteExec>() else {
        return internal_err!("{} does not write rows to an array", plan.name());
    };
    let planned = planned.step();
    let write = WriteExec {
        target: target.clone(),
        numbers: planned.numbers,
        is_early: Arc::clone(&planned.is_early),
        change: planned.change.clone(),
    };
    Ok(Arc::new(TileDbWriteExec::new(rows, write)))
}

/// A plan that writes the rows of `input`. If they belong to a `change` that removes cells, the column after those of the array
/// holds the kind of each row.
pub(super) fn write_plan(
    target: &PlannedTarget,
    input: Arc<dyn ExecutionPlan>,
    change: Option<RowChange>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let is_early = Arc::new(AtomicBool::new(false));
    let (rows, numbers) = match target.array_schema().is_dense() {
        // Rows are put into their tiles as they come, and written when all have come.
        true => (input, None),
        false => in_global_order(target, input, change.as_ref(), &is_early)?,
    };
    let write = WriteExec {
        target: target.clone(),
        numbers,
        is_early,
        change: change.map(Arc::new),
    };
    Ok(Arc::new(TileDbWriteExec::new(rows, write)))
}

/// The rows in the order in which they are written, with their sort columns; and the column of numbers, if they have one.
fn in_global_order(
    target: &PlannedTarget,
    input: Arc<dyn ExecutionPlan>,
    change: Option<&RowChange>,
    is_early: &Arc<AtomicBool>,
) -> Result<(Arc<dyn ExecutionPlan>, Option<usize>)> {
    let (schema, table) = (target.array_schema(), &target.table);
    let numbers =
        OrderNumbers::new(schema, &table.options, &target.ranges).map_err(to_datafusion_error)?;
    let numbers = Arc::new(numbers);
    let fields = input.schema();
    let column = |index: usize| -> Result<(Arc<dyn PhysicalExpr>, String)> {
        let field = fields
            .fields()
            .get(index)
            .ok_or_else(|| to_datafusion_error(no_dimensions()))?;
        let name = field.name().clone();
        Ok((Arc::new(Column::new(&name, index)), name))
    };
    let dimensions = (0..schema.dimensions.len())
        .map(|d| Ok(column(d)?.0))
        .collect::<Result<Vec<_>>>()?;
    let mut projected = (0..fields.fields().len())
        .map(|index| column(index).map(|(expr, alias)| ProjectionExpr { expr, alias }))
        .collect::<Result<Vec<_>>>()?;
    let mut order = Vec::new();
    let mut number = None;
    for (i, key) in numbers.keys().columns().iter().enumerate() {
        let sorted_by: Arc<dyn PhysicalExpr> = match key {
            KeyColumn::Strings(dim) => column(*dim)?.0,
            KeyColumn::Numbers(parts) => {
                let by = OrderNumber::new(dimensions.clone(), parts.clone(), &numbers);
                let alias = format!("{ORDER_COLUMN}_{i}");
                number = Some(projected.len());
                let sorted_by = Column::new(&alias, projected.len());
                projected.push(ProjectionExpr {
                    expr: Arc::new(by),
                    alias,
                });
                Arc::new(sorted_by)
            }
        };
        order.push(PhysicalSortExpr::new_default(sorted_by));
    }
    if change.is_some_and(|change| change.removes) {
        let (kind, _) = column(target.stored_columns())?;
        order.push(PhysicalSortExpr::new_default(kind));
    }
    let rows = Arc::new(ProjectionExec::try_new(projected, input)?);
    // Without a sort column there is only one cell.
    let Some(order) = LexOrdering::new(order) else {
        return Ok((rows, None));
    };
    let number = number.filter(|_| order.len() == 1);
    let tile_cells = usize::try_from(schema.capacity).unwrap_or(usize::MAX);
    let order = GlobalOrderExec::new(order, tile_cells, target.again.is_some(), is_early);
    Ok((Arc::new(TileDbOrderExec::new(rows, order)), number))
}
