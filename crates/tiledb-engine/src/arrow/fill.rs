//! Values that stand in no tile, as values of a column: those of cells that were never written, which are the attribute's fill value
//! or NULL, and those in metadata, such as the bounds of a tile.
//!
//! The subtle thing: the usual fill value of `CHAR` is the byte 0x80, which isn't text, so it is NULL. Any other fill value
//! that isn't text is an error, like other invalid text, unless the options allow it. The error names the fill value.

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType;

use crate::arrow::{CellData, ColumnType, TileBuffer, UnfilteredCells, check_memory};
use crate::error::{Error, Result};
use crate::format::schema::Attribute;

/// The index of a cell, by which its value is repeated.
const INDEX_BYTES: usize = size_of::<u32>();
/// A view, or the offset of a list.
const VIEW_BYTES: usize = 16;
/// A value whose type has no fixed width.
const VALUE_BYTES: usize = 8;

/// About how many bytes each of the cells of [`fill_array`] and [`repeat`] takes; `fill_bytes` is the size of a fill value.
pub fn repeated_bytes(ty: &DataType, fill_bytes: usize) -> usize {
    let width = |ty: &DataType| ty.primitive_width().unwrap_or(VALUE_BYTES);
    let cell = match ty {
        DataType::Dictionary(key, _) => width(key),
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).unwrap_or(0),
        DataType::FixedSizeList(item, n) => {
            let n = usize::try_from(*n).unwrap_or(0);
            width(item.data_type()).saturating_mul(n)
        }
        // The bytes of a string are shared, the elements of a list are not.
        DataType::List(_) => fill_bytes.saturating_add(VIEW_BYTES),
        DataType::Utf8View | DataType::BinaryView => VIEW_BYTES,
        other => width(other),
    };
    cell.saturating_add(INDEX_BYTES)
}

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
        check_memory(n.saturating_mul(repeated_bytes(ty.data_type(), 0)))?;
        return Ok(new_null_array(ty.data_type(), n));
    }
    repeat(&one, n)
}

/// The fill value of an attribute as an array of length 1, if somebody chose it: it is neither NULL nor the usual one of its
/// type.
pub fn chosen_fill(attribute: &Attribute, ty: &ColumnType) -> Option<ArrayRef> {
    let usual = attribute.datatype.default_fill();
    let mut elements = attribute.fill_value.chunks(usual.len().max(1));
    let is_chosen = if attribute.nullable {
        attribute.fill_valid
    } else {
        elements.any(|element| element != usual)
    };
    let shown = is_chosen.then(|| fill_array(attribute, ty, 1).ok())??;
    (shown.logical_null_count() == 0).then_some(shown)
}

/// The first value of an array, `n` times.
pub fn repeat(value: &ArrayRef, n: usize) -> Result<ArrayRef> {
    let one = value.to_data().get_slice_memory_size().unwrap_or(0);
    check_memory(n.saturating_mul(repeated_bytes(value.data_type(), one)))?;
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
    ty.to_array(UnfilteredCells {
        len: 1,
        data,
        nulls: is_null.then(|| NullBuffer::new_null(1)),
    })
}

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
    let shown = ty.to_array(UnfilteredCells { len, data, nulls });
    // A value that cannot be shown is an error of the scan, which knows the cell.
    Ok(shown.ok().filter(|shown| shown.null_count() == hidden))
}
