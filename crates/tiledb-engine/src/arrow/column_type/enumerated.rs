//! Enumerated attributes. For text and bytes, the stored codes become the keys of an Arrow dictionary unchanged; for
//! numbers, booleans, dates and times the column is plain, and each code is replaced by its value.
//!
//! DataFusion cannot join dictionaries of numbers, and a number takes only a few bytes. Codes outside the enumeration
//! are legal on storage and NULL in SQL, and so are invalid times. Keys of NULL cells are set to 0, because not every
//! kernel checks for NULL before it uses a key.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;

use crate::arrow::TypeOptions;
use crate::arrow::column_type::ColumnType;
use crate::arrow::column_type::cells::{CellData, UnfilteredCells};
use crate::arrow::tile_buffer::TileBuffer;
use crate::error::{Error, Result};
use crate::format::enumeration::Enumeration;

/// The values of an enumeration as an Arrow array; text is `Utf8`, the type that DataFusion supports best in
/// dictionaries.
pub(in crate::arrow) fn values_of(
    enumeration: &Enumeration,
    options: &TypeOptions,
) -> Result<ArrayRef> {
    let ty = ColumnType::plain(
        enumeration.datatype,
        enumeration.cell_val_num,
        false,
        options,
    )?;
    let data = TileBuffer::copy_of(&enumeration.data)?;
    let (len, data) = match (&enumeration.offsets, ty.cell_bytes()) {
        (Some(starts), None) => {
            let mut offsets = TileBuffer::zeroed(starts.len().saturating_add(1).saturating_mul(8))?;
            let slots = offsets.typed_data_mut::<u64>().iter_mut();
            slots.zip(starts).for_each(|(slot, start)| *slot = *start);
            (starts.len(), CellData::Var { offsets, data })
        }
        (None, Some(size)) => (enumeration.data.len() / size, CellData::Fixed(data)),
        _ => return Err(Error::corrupt("offsets do not go with the values per cell")),
    };
    let values = ty.to_array(UnfilteredCells {
        len,
        data,
        nulls: None,
    })?;
    if values.data_type() != &DataType::Utf8View {
        return Ok(values);
    }
    let values = values.as_string_view();
    if i32::try_from(values.total_bytes_len()).is_err() {
        return Err(Error::unsupported("more than 2 GiB of text"));
    }
    Ok(Arc::new(values.iter().collect::<StringArray>()))
}
