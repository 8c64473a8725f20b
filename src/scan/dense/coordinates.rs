//! The dimension columns of dense clips: computed, and shared by all clips over the same coordinates.
//!
//! Tiles in one row of the grid have the same values in all dimensions but one, so most of these columns can be reused.
//! The memory of kept columns is accounted for, and released before a query runs out of memory.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::ArrowNativeType;

use super::clip::Clip;
use super::dense_plan;
use crate::arrow::{CellData, Cells, TileBuffer};
use crate::error::{Error, Result};
use crate::geometry::box_runs::Coordinates;
use crate::geometry::key::{Native, with_native};
use crate::memory::budget::MemoryBudget;
use crate::scan::context::ScanContext;
use crate::scan::coordinate_columns::Kept;
use crate::tile::scratch::Scratch;

/// Shorter columns are faster to compute than to look up.
const SMALLEST_KEPT_ROWS: usize = 1024;
/// The values of a dimension over the cells of a clip.
pub(super) fn column(
    context: &ScanContext,
    clip: &Clip,
    dimension: usize,
    scratch: &Scratch,
) -> Result<ArrayRef> {
    let order = dense_plan(&context.plan)?.grid.cell_order();
    let coordinates = Coordinates::new(&clip.cells, order, dimension)?;
    if clip.rows < SMALLEST_KEPT_ROWS {
        return compute(context, dimension, &coordinates, scratch);
    }
    let columns = &context.coordinates;
    if let Some(column) = columns.get(dimension, &coordinates) {
        return Ok(column);
    }
    let column = compute(context, dimension, &coordinates, scratch)?;
    let bytes = column.get_array_memory_size();
    if let Ok(grant) = context.memory.reserve(bytes) {
        columns.keep(Kept {
            dimension,
            coordinates,
            column: Arc::clone(&column),
            bytes,
            grant,
        });
    }
    Ok(column)
}

fn compute(
    context: &ScanContext,
    dimension: usize,
    coordinates: &Coordinates,
    scratch: &Scratch,
) -> Result<ArrayRef> {
    let table = &context.plan.spec.table;
    let missing = || Error::internal(format!("there is no dimension {dimension}"));
    let ty = table.types.get(dimension).ok_or_else(missing)?;
    let schema = &table.snapshot.schema;
    let dimension = schema.dimensions.get(dimension).ok_or_else(missing)?;
    let values = with_native!(
        dimension.datatype,
        T => values::<T>(coordinates, scratch)?,
        _ => return Err(missing())
    );
    let cells = Cells {
        len: coordinates.cells(),
        data: CellData::Fixed(values),
        nulls: None,
    };
    ty.to_array(cells)
        .map_err(|e| e.with("dimension", &dimension.name))
}

fn values<T: Native + ArrowNativeType>(
    coordinates: &Coordinates,
    scratch: &Scratch,
) -> Result<TileBuffer> {
    let mut values = scratch.buffer(coordinates.cells().saturating_mul(size_of::<T>()))?;
    coordinates.fill(0, values.typed_data_mut::<T>(), T::from_key);
    if cfg!(target_endian = "big") {
        // Values are written as tiles store them.
        let stored = values.as_slice_mut().chunks_exact_mut(size_of::<T>());
        stored.for_each(<[u8]>::reverse);
    }
    Ok(values)
}
