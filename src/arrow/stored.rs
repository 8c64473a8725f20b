//! Values in metadata, such as the bounds of a tile, converted to values of a column.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;

use super::{CellData, Cells, ColumnType, TileBuffer};
use crate::error::{Error, Result};

/// Converts stored values to values of a column; `None` if it shows some of them as NULL or not at all.
pub fn stored_values<'a>(
    ty: &ColumnType,
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    nulls: Option<NullBuffer>,
) -> Result<Option<ArrayRef>> {
    let len = values.len();
    let data = match ty.cell_bytes() {
        Some(size) => {
            let mut cells = TileBuffer::zeroed(size.saturating_mul(len))?;
            for (cell, value) in cells.as_slice_mut().chunks_exact_mut(size).zip(values) {
                match value {
                    Some(value) if value.len() == size => cell.copy_from_slice(value),
                    Some(_) => return Err(Error::internal("a bound is not as long as a cell")),
                    None => {}
                }
            }
            CellData::Fixed(cells)
        }
        None => {
            // There is one more slot than starts.
            let mut offsets = TileBuffer::zeroed(len.saturating_add(1).saturating_mul(8))?;
            let mut data = Vec::new();
            let slots = offsets.typed_data_mut::<u64>().iter_mut();
            for (slot, value) in slots.zip(values) {
                *slot = u64::try_from(data.len())?;
                data.extend_from_slice(value.unwrap_or_default());
            }
            CellData::Var {
                offsets,
                data: TileBuffer::copy_of(&data)?,
            }
        }
    };
    let hidden = nulls.as_ref().map_or(0, NullBuffer::null_count);
    let shown = ty.to_array(Cells { len, data, nulls });
    // A value that cannot be shown is an error of the scan, which knows the cell.
    Ok(shown.ok().filter(|shown| shown.null_count() == hidden))
}
