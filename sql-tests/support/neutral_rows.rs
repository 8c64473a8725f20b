//! Arrow batches in the neutral form of the golden answers; `data/arrays/make_arrays/README.md` defines it.
//!
//! One line of columns, then one JSON array a row, sorted as text. Floats are their bits, so that nothing is lost.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Schema, UInt64Type};
use serde_json::{Value, json};

/// The line that names the columns.
pub fn header(schema: &Schema) -> String {
    let columns = schema.fields().iter().map(|field| {
        let name = field.data_type().to_string().replace("non-null ", "");
        json!({"name": field.name(), "type": name})
    });
    json!({"columns": columns.collect::<Vec<_>>()}).to_string()
}

/// The rows, sorted.
pub fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| cell(column, row));
            rows.push(ascii(&Value::Array(cells.collect()).to_string()));
        }
    }
    rows.sort();
    rows
}

/// Escapes everything beyond ASCII as Python's `ensure_ascii` does.
pub fn ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() && c != '\u{7f}' {
            escaped.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

fn hex(bytes: &[u8]) -> Value {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    json!({ "x": digits })
}

fn cell(array: &ArrayRef, row: usize) -> Value {
    use datafusion::arrow::datatypes::{Float32Type, Float64Type, Int64Type};
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Float32 => {
            json!(format!(
                "{:08x}",
                array.as_primitive::<Float32Type>().value(row).to_bits()
            ))
        }
        DataType::Float64 => {
            json!(format!(
                "{:016x}",
                array.as_primitive::<Float64Type>().value(row).to_bits()
            ))
        }
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            let wide = cast(&array.slice(row, 1), &DataType::UInt64).expect("widening");
            json!(wide.as_primitive::<UInt64Type>().value(0))
        }
        DataType::Utf8View => json!(array.as_string_view().value(row)),
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::BinaryView => hex(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => hex(array.as_fixed_size_binary().value(row)),
        DataType::List(_) => list(&array.as_list::<i32>().value(row)),
        DataType::FixedSizeList(_, _) => list(&array.as_fixed_size_list().value(row)),
        DataType::Dictionary(_, values) => {
            let plain = cast(&array.slice(row, 1), values).expect("a dictionary unfolds");
            cell(&plain, 0)
        }
        DataType::Date32 => {
            let days = cast(&array.slice(row, 1), &DataType::Int32).expect("days are numbers");
            cell(&days, 0)
        }
        _ => {
            let wide = cast(&array.slice(row, 1), &DataType::Int64).expect("a number of 64 bits");
            json!(wide.as_primitive::<Int64Type>().value(0))
        }
    }
}

fn list(values: &ArrayRef) -> Value {
    Value::Array((0..values.len()).map(|i| cell(values, i)).collect())
}
