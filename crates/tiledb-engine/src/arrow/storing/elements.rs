//! Numbers, booleans, dates and times as stored elements; text and bytes as stored cells.

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, make_array};
use arrow::compute::kernels::cast::cast;
use arrow::datatypes::{DataType, Date32Type, Int64Type};

use super::{RefusedValue, null_refused};
use crate::arrow::column_type::{ColumnType, ElementConversion};
use crate::arrow::text::Encoding;
use crate::arrow::time::{self, NAT, TimeConversion};
use crate::error::{Error, Result};

/// What is stored for a NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NullElement {
    /// Zero bytes: the validity says that it is NULL.
    Zero,
    /// The number that means "not a time".
    NotATime,
    /// Nothing: it is an error.
    Refused,
}

/// Appends the elements of an array of [`ColumnType::element_type`](ColumnType).
pub(super) fn append(
    ty: &ColumnType,
    array: &dyn Array,
    null: NullElement,
    to: &mut Vec<u8>,
) -> Result<(), RefusedValue> {
    if null == NullElement::Refused && array.null_count() > 0 {
        let row = (0..array.len()).find(|row| array.is_null(*row));
        return Err(RefusedValue {
            row: row.unwrap_or(0),
            why: null_refused(),
        });
    }
    match ty.element {
        ElementConversion::Number => append_numbers(array, ty.datatype.size(), to),
        ElementConversion::Bool => {
            let values = array.as_boolean().iter();
            to.extend(values.map(|value| u8::from(value.unwrap_or(false))));
            Ok(())
        }
        ElementConversion::Time(conversion) => append_times(ty, conversion, array, null, to),
        ElementConversion::Date(unit) => {
            let days = array.as_primitive::<Date32Type>();
            append_integers(days.iter(), null, to, |days| {
                let stored = time::stored_date(i64::from(days), unit);
                stored.ok_or_else(|| {
                    let day = show(&make_array(array.to_data()), i64::from(days));
                    Error::invalid(format!(
                        "{day} is not the first day of a period that {} counts",
                        ty.datatype
                    ))
                })
            })
        }
        ElementConversion::Text(_) | ElementConversion::Bytes => Err(RefusedValue {
            row: 0,
            why: Error::internal("text has no elements"),
        }),
    }
}

/// Appends the bytes of numbers as they are, and zeros for NULLs.
fn append_numbers(array: &dyn Array, width: usize, to: &mut Vec<u8>) -> Result<(), RefusedValue> {
    let data = array.to_data();
    let bytes = number_bytes(&data, width).ok_or_else(|| RefusedValue {
        row: 0,
        why: Error::internal(format!("{} isn't a type of numbers", array.data_type())),
    })?;
    let begun = to.len();
    if cfg!(target_endian = "big") {
        let values = bytes.chunks_exact(width.max(1));
        to.extend(values.flat_map(|value| value.iter().rev()));
    } else {
        to.extend_from_slice(bytes);
    }
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        let cells = to.get_mut(begun..).unwrap_or_default();
        for (cell, valid) in cells.chunks_exact_mut(width.max(1)).zip(nulls) {
            if !valid {
                cell.fill(0);
            }
        }
    }
    Ok(())
}

/// The bytes of numbers, in the order of this machine.
pub(super) fn number_bytes(data: &ArrayData, width: usize) -> Option<&[u8]> {
    let start = data.offset().saturating_mul(width);
    let end = start.saturating_add(data.len().saturating_mul(width));
    data.buffers().first()?.get(start..end)
}

fn append_times(
    ty: &ColumnType,
    conversion: TimeConversion,
    array: &dyn Array,
    null: NullElement,
    to: &mut Vec<u8>,
) -> Result<(), RefusedValue> {
    let numbers = cast(array, &DataType::Int64).map_err(|error| RefusedValue {
        row: 0,
        why: Error::internal("times have a number each").with_source(error),
    })?;
    let numbers = numbers.as_primitive::<Int64Type>();
    append_integers(numbers.iter(), null, to, |value| {
        if ty.nat_is_null && value == NAT {
            return Err(Error::invalid(format!(
                "the number {value} of a {} means that there is no time: give NULL",
                ty.datatype
            )));
        }
        time::stored_time(value, conversion).ok_or_else(|| {
            let shown = show(&make_array(array.to_data()), value);
            Error::invalid(format!("{shown} isn't a whole number of {}", ty.datatype))
        })
    })
}

fn append_integers<T>(
    values: impl Iterator<Item = Option<T>>,
    null: NullElement,
    to: &mut Vec<u8>,
    stored: impl Fn(T) -> Result<i64, Error>,
) -> Result<(), RefusedValue> {
    let missing = match null {
        NullElement::NotATime => NAT,
        NullElement::Zero | NullElement::Refused => 0,
    };
    for (row, value) in values.enumerate() {
        let value = value
            .map_or(Ok(missing), &stored)
            .map_err(|why| RefusedValue { row, why })?;
        to.extend_from_slice(&value.to_le_bytes());
    }
    Ok(())
}

/// A value as its type shows it.
fn show(like: &ArrayRef, value: i64) -> String {
    let shown = cast(
        &arrow::array::Int64Array::from(vec![value]),
        &DataType::Int64,
    )
    .and_then(|number| match like.data_type() {
        DataType::Date32 => cast(&cast(&number, &DataType::Int32)?, &DataType::Date32),
        other => cast(&number, other),
    })
    .and_then(|typed| cast(&typed, &DataType::Utf8));
    match shown {
        Ok(text) if text.is_valid(0) => text.as_string::<i32>().value(0).to_owned(),
        _ => value.to_string(),
    }
}

/// Appends one value; `None` stores bytes as they are.
pub(super) fn append_text(
    encoding: Option<Encoding>,
    value: &[u8],
    to: &mut Vec<u8>,
) -> Result<()> {
    let text = || {
        str::from_utf8(value)
            .map_err(|error| Error::invalid("the text is not valid").with_source(error))
    };
    match encoding {
        None | Some(Encoding::Utf8) => to.extend_from_slice(value),
        Some(Encoding::Utf16) => {
            to.extend(text()?.encode_utf16().flat_map(u16::to_le_bytes));
        }
        Some(Encoding::Utf32) => {
            to.extend(text()?.chars().flat_map(|c| u32::from(c).to_le_bytes()));
        }
    }
    Ok(())
}
