//! Values of Python as parameters of statements.

use datafusion::common::ScalarValue;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// The names and values of parameters: by position, `"1"` and so on, or by name.
pub fn parameters(given: &Bound<'_, PyAny>) -> PyResult<Vec<(String, ScalarValue)>> {
    if let Ok(named) = given.cast::<PyDict>() {
        let pairs = named.iter();
        return pairs
            .map(|(name, value)| Ok((name.extract::<String>()?, scalar(&value)?)))
            .collect();
    }
    if !given.is_instance_of::<PyList>() && !given.is_instance_of::<PyTuple>() {
        return Err(PyTypeError::new_err(
            "parameters are a list or a tuple for $1, $2, …, or a dict for $name",
        ));
    }
    let values = given.try_iter()?.enumerate();
    values
        .map(|(i, value)| Ok(((i + 1).to_string(), scalar(&value?)?)))
        .collect()
}

/// A value of Python, or a scalar of NumPy or pandas, as a value of SQL.
fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if value.is_none() {
        return Ok(ScalarValue::Null);
    }
    // `bool` is an `int`, so it comes first.
    if value.is_instance_of::<PyBool>() {
        return Ok(ScalarValue::Boolean(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyInt>() {
        return match value.extract::<i64>() {
            Ok(number) => Ok(ScalarValue::Int64(Some(number))),
            Err(_) => match value.extract::<u64>() {
                Ok(number) => Ok(ScalarValue::UInt64(Some(number))),
                Err(_) => Err(PyOverflowError::new_err(format!(
                    "the parameter {value} is not between -2^63 and 2^64 - 1"
                ))),
            },
        };
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(ScalarValue::Float64(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(ScalarValue::Utf8(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyBytes>() {
        return Ok(ScalarValue::Binary(Some(value.extract()?)));
    }
    if let Some(times) = time_of(value)? {
        return Ok(times);
    }
    // Scalars of NumPy.
    if let Ok(item) = value.call_method0("item")
        && !item.is(value)
        && item.get_type().as_ptr() != value.get_type().as_ptr()
    {
        return scalar(&item);
    }
    let class = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "a parameter of the type {class} has no type in SQL: pass None, bool, int, float, str, bytes, date, datetime, time, \
         timedelta, Decimal or a scalar of NumPy"
    )))
}

/// A value of `datetime`, `decimal` or NumPy's times, which the Python side takes apart.
fn time_of(value: &Bound<'_, PyAny>) -> PyResult<Option<ScalarValue>> {
    let parts = value
        .py()
        .import("tiledb_sql._values")?
        .call_method1("parts", (value,))?;
    if parts.is_none() {
        return Ok(None);
    }
    let (kind, number, zone) = parts.extract::<(String, i128, Option<String>)>()?;
    let zone = zone.map(Into::into);
    let short = || {
        i64::try_from(number)
            .map_err(|_| PyOverflowError::new_err(format!("the parameter {value} is out of range")))
    };
    Ok(Some(match kind.as_str() {
        "null" => ScalarValue::Null,
        "date" => ScalarValue::Date32(Some(i32::try_from(number).map_err(|_| {
            PyOverflowError::new_err(format!("the parameter {value} is out of range"))
        })?)),
        "timestamp" => ScalarValue::TimestampMicrosecond(Some(short()?), zone),
        "timestamp_ns" => ScalarValue::TimestampNanosecond(Some(short()?), zone),
        "time" => ScalarValue::Time64Microsecond(Some(short()?)),
        "duration" => ScalarValue::DurationMicrosecond(Some(short()?)),
        // The third part is the scale.
        _ => {
            let scale = zone.as_deref().and_then(|scale| scale.parse().ok());
            ScalarValue::Decimal128(Some(number), 38, scale.unwrap_or(0))
        }
    }))
}
