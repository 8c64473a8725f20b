//! Cells that were never written: the attribute's fill value, or NULL.
//!
//! The subtle thing: the default fill value of `CHAR` is the byte 80, which is not valid text. As for all text that is
//! an error unless the options say otherwise; the error names the fill value.

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::take;

use crate::arrow::{CellData, Cells, ColumnType, TileBuffer, check_memory};
use crate::error::{Error, Result};
use crate::format::schema::Attribute;

/// Each cell takes a view, or an index and a value.
const CELL_BYTES: usize = 16;

/// `n` cells that were never written.
pub fn fill_array(attribute: &Attribute, ty: &ColumnType, n: usize) -> Result<ArrayRef> {
    let one = one_cell(attribute, ty).map_err(|e| {
        let message = "the fill value of cells that were never written cannot be read \
             (the option 'tiledb.empty_cells' shows such cells as 'null', or leaves them out by 'skip')";
        Error::new(e.kind(), message)
            .with("attribute", &attribute.name)
            .with_source(e)
    })?;
    if one.is_null(0) && !ty.is_dictionary() {
        check_memory(n.saturating_mul(CELL_BYTES))?;
        return Ok(new_null_array(ty.data_type(), n));
    }
    repeat(&one, n)
}

/// The first value of an array, `n` times.
pub fn repeat(value: &ArrayRef, n: usize) -> Result<ArrayRef> {
    check_memory(n.saturating_mul(CELL_BYTES))?;
    let repeated = UInt32Array::from_value(0, n);
    take(value, &repeated, None)
        .map_err(|e| Error::internal("a value cannot be repeated").with_source(e))
}

fn one_cell(attribute: &Attribute, ty: &ColumnType) -> Result<ArrayRef> {
    let fill = attribute.fill_value.as_slice();
    let data = match ty.cell_bytes() {
        Some(size) => {
            if fill.is_empty() || !size.is_multiple_of(fill.len()) {
                return Err(Error::corrupt(format!(
                    "the fill value has {} bytes, expected {size}",
                    fill.len()
                )));
            }
            let mut cell = TileBuffer::zeroed(size)?;
            let elements = cell.as_slice_mut().chunks_exact_mut(fill.len());
            elements.for_each(|element| element.copy_from_slice(fill));
            CellData::Fixed(cell)
        }
        None => {
            let mut data = TileBuffer::zeroed(fill.len())?;
            data.as_slice_mut().copy_from_slice(fill);
            // One start, 0, and the slot for the end.
            let offsets = TileBuffer::zeroed(16)?;
            CellData::Var { offsets, data }
        }
    };
    let is_null = attribute.nullable && !attribute.fill_valid;
    ty.to_array(Cells {
        len: 1,
        data,
        nulls: is_null.then(|| NullBuffer::new_null(1)),
    })
}
