//! The plan of INSERT: rows are numbered by their place in global order, sorted by it, and written.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::order_columns::{OrderNumber, OrderNumbers, no_dimensions};
use super::target::Target;
use super::touched_exec::{SharedTouched, TileDbTouchedExec};
use super::write_exec::TileDbWriteExec;
use crate::array::table::ArrayTable;
use crate::geometry::order_key::KeyColumn;
use crate::geometry::tile_grid::TileGrid;
use crate::sql::options::TableOptions;
use crate::storage::Storage;
use crate::write::clock::Clock;

/// The name of a column that rows are sorted by.
const ORDER_COLUMN: &str = "__global_order";

/// A plan that writes the rows of `input`, which has the columns of the table, and puts out their number.
pub(in crate::sql) fn insert_plan(
    storage: &Storage,
    options: &TableOptions,
    table: &ArrayTable,
    columns: datafusion::arrow::datatypes::SchemaRef,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = &table.snapshot.schema;
    let numbers = OrderNumbers::new(schema, &table.options).map_err(DataFusionError::from)?;
    let numbers = Arc::new(numbers);
    let fields = input.schema();
    let column = |index: usize| -> Result<(Arc<dyn PhysicalExpr>, String)> {
        let field = fields.fields().get(index);
        let field = field.ok_or_else(|| DataFusionError::from(no_dimensions()))?;
        let name = field.name().clone();
        Ok((Arc::new(Column::new(&name, index)), name))
    };
    let dimensions = (0..schema.dimensions.len()).map(|d| Ok(column(d)?.0));
    let dimensions = dimensions.collect::<Result<Vec<_>>>()?;
    let mut projected = (0..fields.fields().len())
        .map(|index| column(index).map(|(expr, alias)| ProjectionExpr { expr, alias }))
        .collect::<Result<Vec<_>>>()?;
    let mut order = Vec::new();
    for (i, key) in numbers.keys().columns().iter().enumerate() {
        let sorted_by: Arc<dyn PhysicalExpr> = match key {
            KeyColumn::Strings(dim) => column(*dim)?.0,
            KeyColumn::Numbers(parts) => {
                let number = OrderNumber::new(dimensions.clone(), parts.clone(), &numbers);
                let alias = format!("{ORDER_COLUMN}_{i}");
                let sorted_by = Column::new(&alias, projected.len());
                projected.push(ProjectionExpr {
                    expr: Arc::new(number),
                    alias,
                });
                Arc::new(sorted_by)
            }
        };
        order.push(PhysicalSortExpr::new_default(sorted_by));
    }
    let target = Target {
        storage: storage.clone(),
        options: options.clone(),
        schema: Arc::clone(schema),
        columns,
        stored_columns: schema.dimensions.len() + schema.attributes.len(),
        clock: Clock::system(),
    };
    let mut rows: Arc<dyn ExecutionPlan> = Arc::new(ProjectionExec::try_new(projected, input)?);
    let touched = match schema.is_dense() {
        false => None,
        true => {
            let grid = TileGrid::new(schema).map_err(DataFusionError::from)?;
            let shared = Arc::new(SharedTouched::new(&numbers, grid));
            rows = Arc::new(TileDbTouchedExec::new(rows, &shared));
            Some(shared)
        }
    };
    let write = TileDbWriteExec::new(rows, target, LexOrdering::new(order), touched);
    Ok(Arc::new(write))
}
