//! Columns of given rows as columns of an array: a cast changes no value.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::arrow::with_one_zero;
use crate::error::{Error, Result};

/// Fails instead of making a value NULL.
const STRICT: CastOptions<'static> = CastOptions {
    safe: false,
    format_options: arrow::util::display::FormatOptions::new(),
};

/// Casts the values of a column to another type. A `Float64` may be rounded to a `Float32`; otherwise no value changes.
///
/// # Errors
/// A value doesn't fit the type.
pub(super) fn exact_cast(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let from = column.data_type();
    if from == to {
        return Ok(ArrayRef::clone(column));
    }
    if let Some(dictionary) = column.as_any_dictionary_opt() {
        let values = arrow::compute::take(dictionary.values(), dictionary.keys(), None);
        let values = values.map_err(|e| unfit(from, to, e))?;
        return exact_cast(&values, to);
    }
    let unfit = |e: ArrowError| unfit(from, to, e);
    let cast = cast_with_options(column, to, &STRICT).map_err(unfit)?;
    let rounds = from.is_floating() && to.is_floating();
    if from.is_primitive() && to.is_primitive() && !rounds {
        let back = cast_with_options(&cast, from, &STRICT).map_err(unfit)?;
        // Integers have one zero.
        let given = with_one_zero(column);
        let same = not_distinct(&back, &given).map_err(unfit)?;
        if let Some(row) = same.iter().position(|same| same == Some(false)) {
            let value = arrow::util::display::array_value_to_string(column, row);
            return Err(Error::invalid(format!(
                "{} of type {from} isn't a value of type {to}",
                value.unwrap_or_default()
            ))
            .with("row", row));
        }
    }
    Ok(cast)
}

fn unfit(from: &DataType, to: &DataType, why: ArrowError) -> Error {
    Error::invalid(format!(
        "values of type {from} can't be stored as {to}: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray,
    };
    use arrow::datatypes::{Int8Type, TimeUnit};

    use super::*;

    fn cast(column: impl Array + 'static, to: &DataType) -> Option<String> {
        let column: ArrayRef = Arc::new(column);
        let cast = exact_cast(&column, to).ok()?;
        assert_eq!(cast.data_type(), to);
        let shown = (0..cast.len())
            .map(|row| arrow::util::display::array_value_to_string(&cast, row).unwrap_or_default());
        Some(shown.collect::<Vec<_>>().join(","))
    }

    #[test]
    fn no_value_changes() {
        let integers = |values: &[i64]| Int64Array::from(values.to_vec());
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let found = |cast: Option<String>| cast.unwrap_or_else(|| "refused".to_owned());
        let words: DictionaryArray<Int8Type> = ["7", "-1"].into_iter().collect();
        let most = i64::MAX;
        for (cast, expected) in [
            (cast(integers(&[0, 255]), &DataType::UInt8), "0,255"),
            (cast(integers(&[0, 256]), &DataType::UInt8), "refused"),
            (cast(integers(&[-1]), &DataType::UInt64), "refused"),
            (cast(integers(&[most]), &DataType::Float64), "refused"),
            (
                cast(Float64Array::from(vec![2.0, -0.0]), &DataType::Int16),
                "2,0",
            ),
            (
                cast(Float64Array::from(vec![2.5]), &DataType::Int16),
                "refused",
            ),
            (
                cast(Float64Array::from(vec![f64::NAN]), &DataType::Int16),
                "refused",
            ),
            (
                cast(Float64Array::from(vec![0.1, f64::NAN]), &DataType::Float32),
                "0.1,NaN",
            ),
            (
                cast(
                    TimestampNanosecondArray::from(vec![-3_000_000_000]),
                    &seconds,
                ),
                "1969-12-31T23:59:57",
            ),
            (
                cast(
                    TimestampNanosecondArray::from(vec![-3_000_000_001]),
                    &seconds,
                ),
                "refused",
            ),
            (cast(words.clone(), &DataType::Int8), "7,-1"),
            (cast(words.clone(), &DataType::UInt8), "refused"),
            (cast(words, &DataType::Utf8View), "7,-1"),
            (
                cast(
                    StringArray::from(vec![None, Some("é")]),
                    &DataType::Utf8View,
                ),
                ",é",
            ),
        ] {
            assert_eq!(found(cast), expected);
        }
    }
}
