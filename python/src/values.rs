//! Cells as values of Python.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::downcast_dictionary_array;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

const DAY_MS: i64 = 86_400_000;

/// The rows of batches as tuples.
pub fn tuples<'py>(py: Python<'py>, batches: &[RecordBatch]) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    let makers = ValueMakers::new(py)?;
    for batch in batches {
        let columns = batch.columns().iter().map(|column| makers.column(column));
        let columns = columns.collect::<PyResult<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let cells = columns.iter().filter_map(|column| column.get(row));
            rows.append(PyTuple::new(py, cells.collect::<Vec<_>>())?)?;
        }
    }
    Ok(rows)
}

/// The functions of Python that make dates, times and decimals.
struct ValueMakers<'py> {
    py: Python<'py>,
    values: Bound<'py, PyModule>,
    decimal: Bound<'py, PyAny>,
}

impl<'py> ValueMakers<'py> {
    fn new(py: Python<'py>) -> PyResult<Self> {
        Ok(Self {
            py,
            values: py.import("tiledb_sql._values")?,
            decimal: py.import("decimal")?.getattr("Decimal")?,
        })
    }

    /// The values of a column.
    fn column(&self, column: &ArrayRef) -> PyResult<Vec<Bound<'py, PyAny>>> {
        (0..column.len())
            .map(|row| self.value(column, row))
            .collect()
    }

    fn value(&self, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        if column.is_null(row) {
            return Ok(py.None().into_bound(py));
        }
        macro_rules! number {
            ($ty:ty) => {
                column
                    .as_primitive::<$ty>()
                    .value(row)
                    .into_bound_py_any(py)
            };
        }
        match column.data_type() {
            DataType::Null => Ok(py.None().into_bound(py)),
            DataType::Boolean => column.as_boolean().value(row).into_bound_py_any(py),
            DataType::Int8 => number!(Int8Type),
            DataType::Int16 => number!(Int16Type),
            DataType::Int32 => number!(Int32Type),
            DataType::Int64 => number!(Int64Type),
            DataType::UInt8 => number!(UInt8Type),
            DataType::UInt16 => number!(UInt16Type),
            DataType::UInt32 => number!(UInt32Type),
            DataType::UInt64 => number!(UInt64Type),
            DataType::Float16 => {
                let value = column.as_primitive::<Float16Type>().value(row);
                value.to_f64().into_bound_py_any(py)
            }
            DataType::Float32 => number!(Float32Type),
            DataType::Float64 => number!(Float64Type),
            DataType::Utf8 => column.as_string::<i32>().value(row).into_bound_py_any(py),
            DataType::LargeUtf8 => column.as_string::<i64>().value(row).into_bound_py_any(py),
            DataType::Utf8View => column.as_string_view().value(row).into_bound_py_any(py),
            DataType::Binary => self.bytes(column.as_binary::<i32>().value(row)),
            DataType::LargeBinary => self.bytes(column.as_binary::<i64>().value(row)),
            DataType::BinaryView => self.bytes(column.as_binary_view().value(row)),
            DataType::FixedSizeBinary(_) => self.bytes(column.as_fixed_size_binary().value(row)),
            DataType::Decimal128(..) => self
                .decimal
                .call1((column.as_primitive::<Decimal128Type>().value_as_string(row),)),
            DataType::Decimal256(..) => self
                .decimal
                .call1((column.as_primitive::<Decimal256Type>().value_as_string(row),)),
            DataType::List(_) => self.list(&column.as_list::<i32>().value(row)),
            DataType::LargeList(_) => self.list(&column.as_list::<i64>().value(row)),
            DataType::FixedSizeList(..) => self.list(&column.as_fixed_size_list().value(row)),
            DataType::Struct(fields) => {
                let values = column.as_struct();
                let shown = PyDict::new(py);
                for (field, values) in fields.iter().zip(values.columns()) {
                    shown.set_item(field.name(), self.value(values, row)?)?;
                }
                Ok(shown.into_any())
            }
            DataType::Map(..) => {
                let entries = column.as_map().value(row);
                let [keys, values] = [entries.column(0), entries.column(1)];
                let pairs =
                    (0..entries.len()).map(|i| Ok((self.value(keys, i)?, self.value(values, i)?)));
                PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?).map(Bound::into_any)
            }
            DataType::Dictionary(..) => {
                let column = column.as_ref();
                downcast_dictionary_array!(
                    column => match column.key(row) {
                        Some(key) => self.value(column.values(), key),
                        None => Ok(py.None().into_bound(py)),
                    },
                    _ => Err(self.unknown(column)),
                )
            }
            _ => self.time(column, row),
        }
    }

    fn bytes(&self, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyBytes::new(self.py, bytes).into_any())
    }

    fn list(&self, values: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(self.py, self.column(values)?)?.into_any())
    }

    /// A date, a time, a timestamp or a duration.
    fn time(&self, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let call =
            |name: &str, count: i64, scale: i64| self.values.call_method1(name, (count, scale));
        macro_rules! count {
            ($ty:ty) => {
                i64::from(column.as_primitive::<$ty>().value(row))
            };
        }
        match column.data_type() {
            DataType::Date32 => call("date", count!(Date32Type), 1),
            DataType::Date64 => call("date", count!(Date64Type).div_euclid(DAY_MS), 1),
            DataType::Time32(TimeUnit::Second) => call("time", count!(Time32SecondType), 1),
            DataType::Time32(_) => call("time", count!(Time32MillisecondType), 1000),
            DataType::Time64(TimeUnit::Microsecond) => {
                call("time", count!(Time64MicrosecondType), 1_000_000)
            }
            DataType::Time64(_) => call("time", count!(Time64NanosecondType), 1_000_000_000),
            DataType::Duration(unit) => match unit {
                TimeUnit::Second => call("duration", count!(DurationSecondType), 1),
                TimeUnit::Millisecond => call("duration", count!(DurationMillisecondType), 1000),
                TimeUnit::Microsecond => {
                    call("duration", count!(DurationMicrosecondType), 1_000_000)
                }
                TimeUnit::Nanosecond => {
                    call("duration", count!(DurationNanosecondType), 1_000_000_000)
                }
            },
            DataType::Timestamp(unit, zone) => {
                let (count, scale) = match unit {
                    TimeUnit::Second => (count!(TimestampSecondType), 1),
                    TimeUnit::Millisecond => (count!(TimestampMillisecondType), 1000),
                    TimeUnit::Microsecond => (count!(TimestampMicrosecondType), 1_000_000),
                    TimeUnit::Nanosecond => (count!(TimestampNanosecondType), 1_000_000_000_i64),
                };
                let zone = zone.as_deref();
                self.values.call_method1("timestamp", (count, scale, zone))
            }
            _ => Err(self.unknown(column)),
        }
    }

    fn unknown(&self, column: &dyn Array) -> PyErr {
        PyTypeError::new_err(format!(
            "values of the type {} have no type in Python: cast the column, or read it with to_arrow()",
            column.data_type()
        ))
    }
}
