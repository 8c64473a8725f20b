//! The plan of INSERT: rows of sparse arrays are numbered by their place in global order, sorted by it, and written.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use tiledb_engine::array::table::ArrayTable;
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::geometry::order_key::KeyColumn;
use tiledb_engine::storage::Storage;
use tiledb_engine::write::clock::Clock;
use tiledb_engine::write::order_numbers::OrderNumbers;

use super::again::ReplannedStatement;
use super::change::RowChange;
use super::global_order::{GlobalOrderExec, TileDbOrderExec};
use super::order_columns::{OrderNumber, no_dimensions};
use super::target::{ArrayTarget, UnpublishedArray};
use super::write_exec::{TileDbWriteExec, WriteExec};
use crate::error::to_datafusion_error;
use crate::options::TableOptions;
use crate::scan::moment::StatementSnapshots;

/// The name of a column that rows are sorted by.
const ORDER_COLUMN: &str = "__global_order";

/// The array that a statement writes to, as it was planned for.
#[derive(Debug, Clone)]
pub(crate) struct InsertDestination {
    pub(super) storage: Storage,
    pub(super) options: TableOptions,
    pub(super) table: Arc<ArrayTable>,
    /// The columns of the table, which may be more than the array stores.
    pub(super) columns: SchemaRef,
    /// The array, if nobody sees it yet.
    pub(super) unpublished: Option<Arc<UnpublishedArray>>,
    /// The statement, if it can be planned again.
    pub(super) again: Option<Arc<ReplannedStatement>>,
    /// What the scans of the statement see, if it scans the array.
    pub(super) statement: Option<Arc<StatementSnapshots>>,
    /// Between which keys the coordinates of all rows lie in each dimension, where that is known.
    pub(super) ranges: Vec<Option<(u64, u64)>>,
}

impl InsertDestination {
    pub(crate) fn new(
        storage: &Storage,
        options: &TableOptions,
        table: &Arc<ArrayTable>,
        columns: &SchemaRef,
    ) -> Self {
        Self {
            storage: storage.clone(),
            options: options.clone(),
            table: Arc::clone(table),
            columns: Arc::clone(columns),
            unpublished: None,
            again: None,
            statement: None,
            ranges: Vec::new(),
        }
    }

    /// Returns the destination for a statement that is planned again if it conflicts with another one.
    pub(crate) fn again(self, again: Option<Arc<ReplannedStatement>>) -> Self {
        Self { again, ..self }
    }

    /// The change by a plan that reads the array, if it does.
    pub(super) fn change(&self, input: &Arc<dyn ExecutionPlan>) -> RowChange {
        RowChange::of(input, self.storage.uri(), self.statement.clone())
    }

    /// Returns this destination for a statement whose scans of the array are recorded, if it has any.
    pub(crate) fn read_by(self, statement: Option<Arc<StatementSnapshots>>) -> Self {
        Self { statement, ..self }
    }

    pub(super) fn array_schema(&self) -> &Arc<ArraySchema> {
        &self.table.snapshot.schema
    }

    /// The number of dimensions and attributes.
    pub(super) fn stored_columns(&self) -> usize {
        self.array_schema().dimensions.len() + self.array_schema().attributes.len()
    }

    pub(super) fn target(&self) -> ArrayTarget {
        ArrayTarget {
            storage: self.storage.clone(),
            options: self.options.clone(),
            schema: Arc::clone(self.array_schema()),
            columns: Arc::clone(&self.columns),
            stored_columns: self.stored_columns(),
            clock: Clock::of_engine(self.storage.engine()),
            unpublished: self.unpublished.clone(),
            again: self.again.clone(),
        }
    }
}

/// A plan that writes the rows of `input`, which has the columns of the table, and puts out their number.
pub(crate) fn insert_plan(
    destination: &InsertDestination,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let change = destination.change(&input);
    let change = RowChange {
        inserts: true,
        ..change
    };
    let reads = change.reads();
    write_plan(destination, input, reads.then_some(change))
}

/// A plan that writes the rows that `plan` would write, which are given in their order, to an array that differs only in how
/// it stores them.
pub(super) fn retargeted(
    plan: &Arc<dyn ExecutionPlan>,
    destination: &InsertDestination,
    rows: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(planned) = plan.downcast_ref::<TileDbWriteExec>() else {
        return internal_err!("{} does not write rows to an array", plan.name());
    };
    let planned = planned.step();
    let write = WriteExec {
        target: destination.target(),
        numbers: planned.numbers,
        is_early: Arc::clone(&planned.is_early),
        change: planned.change.clone(),
    };
    Ok(Arc::new(TileDbWriteExec::new(rows, write)))
}

/// A plan that writes the rows of `input`; if they belong to a `change` that removes cells, the column after those of the
/// array says what each row is.
pub(super) fn write_plan(
    destination: &InsertDestination,
    input: Arc<dyn ExecutionPlan>,
    change: Option<RowChange>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let is_early = Arc::new(AtomicBool::new(false));
    let (rows, numbers) = match destination.array_schema().is_dense() {
        // They are put into their tiles as they come, and written when all have come.
        true => (input, None),
        false => in_global_order(destination, input, change.as_ref(), &is_early)?,
    };
    let write = WriteExec {
        target: destination.target(),
        numbers,
        is_early,
        change: change.map(Arc::new),
    };
    Ok(Arc::new(TileDbWriteExec::new(rows, write)))
}

/// The rows in the order in which they are written, with what they are sorted by, and its column if that is one number.
fn in_global_order(
    destination: &InsertDestination,
    input: Arc<dyn ExecutionPlan>,
    change: Option<&RowChange>,
    is_early: &Arc<AtomicBool>,
) -> Result<(Arc<dyn ExecutionPlan>, Option<usize>)> {
    let (schema, table) = (destination.array_schema(), &destination.table);
    let numbers = OrderNumbers::new(schema, &table.options, &destination.ranges)
        .map_err(to_datafusion_error)?;
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
        let (kind, _) = column(destination.stored_columns())?;
        order.push(PhysicalSortExpr::new_default(kind));
    }
    let rows = Arc::new(ProjectionExec::try_new(projected, input)?);
    // Without an order there is only one cell.
    let Some(order) = LexOrdering::new(order) else {
        return Ok((rows, None));
    };
    let number = number.filter(|_| order.len() == 1);
    let tile_cells = usize::try_from(schema.capacity).unwrap_or(usize::MAX);
    let order = GlobalOrderExec::new(order, tile_cells, destination.again.is_some(), is_early);
    Ok((Arc::new(TileDbOrderExec::new(rows, order)), number))
}
