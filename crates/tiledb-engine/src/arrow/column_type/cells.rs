//! Conversion of unfiltered cells to Arrow; every column uses it.
//!
//! The buffers become the array's own. Offsets are untrusted and are checked here once, before they are used. Errors
//! name the index of the cell.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, ArrowPrimitiveType, BooleanArray, BooleanBufferBuilder,
    DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, ListArray, PrimitiveArray,
    UInt32Array, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, DataType, FieldRef, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use crate::arrow::bits;
use crate::arrow::column_type::{ColumnType, ElementConversion, arrow_len};
use crate::arrow::floats;
use crate::arrow::text::{ByteCells, arrow_error};
use crate::arrow::tile_buffer::TileBuffer;
use crate::arrow::time::{self, OutOfRange};
use crate::error::{Error, Result};
use crate::filter::EncodedStrings;
use crate::format::datatype::Datatype;

/// The unfiltered cells of one field.
#[derive(Debug)]
pub struct UnfilteredCells {
    /// The number of cells.
    pub len: usize,
    /// Their bytes.
    pub data: CellData,
    /// Which of them are NULL; `None` if none is.
    pub nulls: Option<NullBuffer>,
}

/// The bytes of cells, little-endian as stored, except the offsets.
#[derive(Debug)]
pub enum CellData {
    /// Cells of one size.
    Fixed(TileBuffer),
    /// Cells of variable size.
    Var {
        /// The start of each cell as `u64` in native byte order, and one unused slot.
        offsets: TileBuffer,
        /// The concatenated cells.
        data: TileBuffer,
    },
    /// Cells of variable size, with equal ones stored once.
    Encoded(Arc<EncodedStrings>),
}

impl UnfilteredCells {
    /// Replaces every -0.0 among coordinates of a type by 0.0, because both are one cell. Other bits stay.
    pub fn merge_zeros(&mut self, datatype: Datatype) {
        if let CellData::Fixed(values) = &mut self.data {
            floats::merge_zeros(datatype, values);
        }
    }
}

impl ColumnType {
    /// Converts the cells to an array of [`Self::data_type`].
    pub fn to_array(&self, cells: UnfilteredCells) -> Result<ArrayRef> {
        self.check_readable()?;
        let UnfilteredCells { len, data, nulls } = cells;
        if nulls.as_ref().is_some_and(|nulls| nulls.len() != len) {
            return Err(Error::internal(
                "as many validity values as cells are needed",
            ));
        }
        match data {
            CellData::Fixed(values) => {
                let needed = self.cell_bytes().and_then(|size| size.checked_mul(len));
                if needed != Some(values.len()) {
                    return Err(Error::internal(format!(
                        "{len} cells have {} bytes, expected {needed:?}",
                        values.len()
                    )));
                }
                self.fixed(len, values, nulls)
            }
            CellData::Var { offsets, data } => {
                let offsets = closed_offsets(offsets, len, data.len())?;
                self.variable(offsets, data, nulls)
            }
            CellData::Encoded(strings) => {
                if strings.keys().len() != len {
                    return Err(Error::internal("as many strings as cells are needed"));
                }
                self.encoded(&strings, nulls)
            }
        }
    }

    /// Makes a view of each distinct string; those of the cells are copies of it.
    pub(in crate::arrow) fn encoded(
        &self,
        strings: &EncodedStrings,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let views = match self.data_type() {
            DataType::Utf8View | DataType::BinaryView => self.each_string(strings)?,
            _ => None,
        };
        let Some(views) = views else {
            // Which cell is faulty, and whether it is NULL, must be checked cell by cell.
            let (data, starts) = strings.cells()?;
            let len = starts.len();
            let mut offsets = TileBuffer::zeroed(len.saturating_add(1).saturating_mul(8))?;
            let slots = offsets.typed_data_mut::<u64>().iter_mut();
            slots.zip(starts).for_each(|(slot, start)| *slot = start);
            let offsets = closed_offsets(offsets, len, data.len())?;
            return self.variable(offsets, TileBuffer::copy_of(&data)?, nulls);
        };
        let keys = ScalarBuffer::from(strings.keys().to_vec());
        let keys = UInt32Array::try_new(keys, nulls).map_err(arrow_error)?;
        take(&views, &keys, None).map_err(arrow_error)
    }

    fn fixed(&self, len: usize, values: TileBuffer, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        if let Some(values_by_code) = &self.enumeration {
            let codes = native_order(values, self.datatype.size());
            let codes = EnumerationIndexes { codes, len, nulls };
            return codes.into_array(&self.element_type, self.data_type(), values_by_code);
        }
        match (&self.data_type(), self.element) {
            (DataType::FixedSizeBinary(size), _) => {
                let array = FixedSizeBinaryArray::try_new(*size, values.into(), nulls);
                Ok(Arc::new(array.map_err(arrow_error)?))
            }
            (_, ElementConversion::Text(_) | ElementConversion::Bytes) => {
                let size = self.cell_bytes().unwrap_or(0);
                self.byte_cells(regular_offsets(len, size)?, values, nulls)
            }
            (DataType::FixedSizeList(item, size), _) => {
                self.fixed_lists(Arc::clone(item), *size, len, values, nulls)
            }
            _ => self
                .elements(len, values, nulls)
                .map_err(|e| self.locate(e, |element| element)),
        }
    }

    fn fixed_lists(
        &self,
        item: FieldRef,
        size: i32,
        len: usize,
        values: TileBuffer,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let per_cell = usize::try_from(size)?;
        let skipped = self
            .checks_elements()
            .then_some(nulls.as_ref())
            .flatten()
            .map(|nulls| nulls.expand(per_cell));
        let elements = self
            .elements(len.saturating_mul(per_cell), values, skipped)
            .map_err(|e| self.locate(e, |element| element / per_cell))?;
        let array = FixedSizeListArray::try_new(item, size, elements, nulls);
        Ok(Arc::new(array.map_err(arrow_error)?))
    }

    fn variable(
        &self,
        offsets: OffsetBuffer<i64>,
        data: TileBuffer,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let DataType::List(item) = self.data_type() else {
            return self.byte_cells(offsets, data, nulls);
        };
        let size = self.datatype.size();
        let offsets = element_offsets(&offsets, size)?;
        let skipped = self
            .checks_elements()
            .then_some(nulls.as_ref())
            .flatten()
            .map(|nulls| element_nulls(nulls, &offsets));
        let count = data.len() / size;
        let elements = self
            .elements(count, data, skipped)
            .map_err(|e| self.locate(e, |element| cell_of(&offsets, element)))?;
        let array = ListArray::try_new(Arc::clone(item), offsets, elements, nulls);
        Ok(Arc::new(array.map_err(arrow_error)?))
    }

    pub(in crate::arrow) fn byte_cells(
        &self,
        offsets: OffsetBuffer<i64>,
        data: TileBuffer,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let cells = ByteCells {
            offsets,
            data: data.into(),
            nulls,
        };
        Ok(match self.element {
            ElementConversion::Text(encoding) => {
                Arc::new(cells.into_text(&self.text_form(encoding))?)
            }
            _ => Arc::new(cells.into_binary()?),
        })
    }

    /// Converts elements: all of a column, or the items of its lists.
    fn elements(
        &self,
        count: usize,
        values: TileBuffer,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ElementError> {
        let mut values = native_order(values, self.datatype.size());
        let (buffer, nulls): (Buffer, _) = match self.element {
            ElementConversion::Number => {
                self.floats.apply(self.datatype, &mut values);
                (values.into(), nulls)
            }
            ElementConversion::Bool => {
                let array = BooleanArray::new(bits::pack(values.as_slice()), nulls);
                return Ok(Arc::new(array));
            }
            ElementConversion::Time(conversion) => {
                let typed = values.typed_data_mut::<i64>();
                let nulls = self.with_nat(typed, nulls);
                time::convert_times(typed, conversion, nulls.as_ref())?;
                (values.into(), nulls)
            }
            ElementConversion::Date(unit) => {
                let typed = values.typed_data::<i64>();
                let nulls = self.with_nat(typed, nulls);
                let days = time::convert_dates(typed, unit, nulls.as_ref())?;
                (Buffer::from_vec(days), nulls)
            }
            ElementConversion::Text(_) | ElementConversion::Bytes => {
                return Err(Error::internal("bytes aren't elements").into());
            }
        };
        let data = ArrayData::builder(self.element_type.clone())
            .len(count)
            .add_buffer(buffer)
            .nulls(nulls)
            .build()
            .map_err(arrow_error)?;
        Ok(make_array(data))
    }

    fn with_nat(&self, values: &[i64], nulls: Option<NullBuffer>) -> Option<NullBuffer> {
        if self.nat_is_null {
            time::nat_to_null(values, nulls)
        } else {
            nulls
        }
    }

    /// Whether an element can be invalid, so that those of NULL cells must be skipped.
    fn checks_elements(&self) -> bool {
        matches!(
            self.element,
            ElementConversion::Time(_) | ElementConversion::Date(_)
        )
    }

    fn locate(&self, error: ElementError, cell: impl Fn(usize) -> usize) -> Error {
        match error {
            ElementError::OutOfRange(e) => {
                e.error(cell(e.element), self.datatype, &self.element_type)
            }
            ElementError::Other(e) => e,
        }
    }
}

/// An invalid element, before its cell is known.
enum ElementError {
    OutOfRange(OutOfRange),
    Other(Error),
}

impl From<OutOfRange> for ElementError {
    fn from(error: OutOfRange) -> Self {
        Self::OutOfRange(error)
    }
}

impl From<Error> for ElementError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Converts little-endian elements to native byte order.
fn native_order(mut values: TileBuffer, element_bytes: usize) -> TileBuffer {
    if cfg!(target_endian = "big") {
        let elements = values.as_slice_mut().chunks_exact_mut(element_bytes.max(1));
        elements.for_each(<[u8]>::reverse);
    }
    values
}

/// Checks the starts of `len` cells, and appends the end of the last.
pub(in crate::arrow) fn closed_offsets(
    mut offsets: TileBuffer,
    len: usize,
    data_bytes: usize,
) -> Result<OffsetBuffer<i64>> {
    let (starts, end) = match offsets.typed_data_mut::<u64>().split_last_mut() {
        Some((end, starts)) if starts.len() == len => (starts, end),
        _ => {
            return Err(Error::internal(
                "as many offsets as cells and one are needed",
            ));
        }
    };
    let first = starts.first().copied().unwrap_or(0);
    if first != 0 {
        // Offsets of very old writers count from the start of the file.
        starts
            .iter_mut()
            .for_each(|start| *start = start.wrapping_sub(first));
    }
    *end = if len == 0 {
        0
    } else {
        u64::try_from(data_bytes)?
    };
    check_order(starts, *end)?;
    let offsets = ScalarBuffer::new(offsets.into(), 0, len + 1);
    Ok(OffsetBuffer::new(offsets))
}

fn check_order(starts: &[u64], end: u64) -> Result<()> {
    let nexts = || starts.iter().skip(1).chain(std::iter::once(&end));
    let rising = |start: u64, next: u64| start <= next;
    // Without an early exit the loop is vectorised.
    let inner = starts.iter().zip(starts.iter().skip(1));
    let ordered = inner.fold(true, |all, (start, next)| all & rising(*start, *next))
        & starts.last().is_none_or(|last| rising(*last, end));
    if ordered {
        return Ok(());
    }
    let mut wrong = starts
        .iter()
        .zip(nexts())
        .enumerate()
        .filter(|(_, (start, next))| !rising(**start, **next));
    let (cell, start, next) = wrong.next().map_or((0, 0, 0), |(i, (s, n))| (i, *s, *n));
    Err(Error::corrupt(format!(
        "cell {cell} starts at byte {start} of the variable-sized data but ends at {next}: \
         offsets must not decrease nor exceed the {end} bytes there are"
    )))
}

/// Converts byte offsets to element offsets.
fn element_offsets(offsets: &OffsetBuffer<i64>, element_bytes: usize) -> Result<OffsetBuffer<i32>> {
    let size = i64::try_from(element_bytes)?;
    let total = offsets.last().copied().unwrap_or(0) / size;
    arrow_len(usize::try_from(total)?)?;
    let counts: Vec<i32> = offsets.iter().enumerate().map(|(cell, offset)| {
        if offset % size == 0 {
            Ok(i32::try_from(offset / size)?)
        } else {
            Err(Error::corrupt(format!(
                "cell {} ends at byte {offset} of the variable-sized data, which isn't a multiple of the {size} bytes of a value",
                cell.saturating_sub(1)
            )))
        }
    }).collect::<Result<_>>()?;
    Ok(OffsetBuffer::new(counts.into()))
}

/// Expands the NULLs of cells to their elements.
fn element_nulls(nulls: &NullBuffer, offsets: &OffsetBuffer<i32>) -> NullBuffer {
    let mut bits = BooleanBufferBuilder::new(0);
    for (len, valid) in offsets.lengths().zip(nulls) {
        bits.append_n(len, valid);
    }
    NullBuffer::new(bits.finish())
}

fn cell_of(offsets: &OffsetBuffer<i32>, element: usize) -> usize {
    let started =
        offsets.partition_point(|offset| usize::try_from(*offset).is_ok_and(|o| o <= element));
    started.saturating_sub(1)
}

/// The offsets of `len` cells of `size` bytes each.
fn regular_offsets(len: usize, size: usize) -> Result<OffsetBuffer<i64>> {
    let size = i64::try_from(size)?;
    let len = i64::try_from(len)?;
    if len.checked_mul(size).is_none() {
        return Err(Error::internal("cells beyond the address space"));
    }
    let offsets: Vec<i64> = (0..=len).map(|cell| cell * size).collect();
    Ok(OffsetBuffer::new(offsets.into()))
}

/// The type of a column of codes of type `key` over values of type `value`.
///
/// Lists stay in a dictionary: otherwise few stored bytes would become as many lists as there are cells.
pub(in crate::arrow) fn column_type(key: &DataType, value: &DataType) -> DataType {
    if value.is_primitive() || value == &DataType::Boolean {
        return value.clone();
    }
    DataType::Dictionary(Box::new(key.clone()), Box::new(value.clone()))
}

/// Stored codes, in native byte order.
pub(super) struct EnumerationIndexes {
    pub(super) codes: TileBuffer,
    pub(super) len: usize,
    pub(super) nulls: Option<NullBuffer>,
}

impl EnumerationIndexes {
    /// The codes, of type `key`, as a column of type `column` over `values`.
    pub(in crate::arrow) fn into_array(
        self,
        key: &DataType,
        column: &DataType,
        values: &ArrayRef,
    ) -> Result<ArrayRef> {
        match key {
            DataType::Int8 => self.keyed::<Int8Type>(column, values),
            DataType::Int16 => self.keyed::<Int16Type>(column, values),
            DataType::Int32 => self.keyed::<Int32Type>(column, values),
            DataType::Int64 => self.keyed::<Int64Type>(column, values),
            DataType::UInt8 => self.keyed::<UInt8Type>(column, values),
            DataType::UInt16 => self.keyed::<UInt16Type>(column, values),
            DataType::UInt32 => self.keyed::<UInt32Type>(column, values),
            DataType::UInt64 => self.keyed::<UInt64Type>(column, values),
            other => Err(Error::internal(format!("{other} cannot be codes"))),
        }
    }

    fn keyed<K: ArrowDictionaryKeyType>(
        mut self,
        column: &DataType,
        values: &ArrayRef,
    ) -> Result<ArrayRef> {
        let count = values.len();
        let keys = self.codes.typed_data_mut::<K::Native>();
        let nulls = outside_to_null::<K>(keys, count, self.nulls);
        if let Some(nulls) = &nulls {
            for (key, valid) in keys.iter_mut().zip(nulls) {
                if !valid {
                    *key = K::Native::default();
                }
            }
        }
        let keys = ScalarBuffer::new(self.codes.into(), 0, self.len);
        let keys = PrimitiveArray::<K>::try_new(keys, nulls).map_err(arrow_error)?;
        if !matches!(column, DataType::Dictionary(..)) {
            return take(values, &keys, None).map_err(arrow_error);
        }
        let array = DictionaryArray::try_new(keys, Arc::clone(values)).map_err(arrow_error)?;
        Ok(Arc::new(array))
    }
}

fn outside_to_null<K: ArrowPrimitiveType>(
    keys: &[K::Native],
    count: usize,
    nulls: Option<NullBuffer>,
) -> Option<NullBuffer> {
    let inside = |key: &K::Native| key.to_usize().is_some_and(|key| key < count);
    // This is not `all`: without an early exit the loop is vectorised, and codes outside the enumeration are rare.
    if keys.iter().fold(true, |all, key| all & inside(key)) {
        return nulls;
    }
    let mut keys = keys.iter();
    let valid = BooleanBuffer::collect_bool(keys.len(), |_| keys.next().is_some_and(inside));
    NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(valid)))
}
