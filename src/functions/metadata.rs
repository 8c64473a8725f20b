//! `tiledb_metadata('location')`: the key-value metadata of an array or a group.
//!
//! | Column | |
//! |---|---|
//! | `key` | the key; bytes that are not UTF-8 are shown as `\x80` |
//! | `type` | the TileDB type of an element |
//! | `count` | the number of elements; for text and binary, bytes (two or four bytes each for UTF-16 and UTF-32) |
//! | `value` | the value as text: `42`, `[1, 2, 3]`, `2024-05-01`, text unchanged, binary in hexadecimal |
//! | `int_value` | a single integer of any type that fits `BIGINT`, or a date, time or boolean as its integer |
//! | `uint_value` | a single integer that is not negative, up to 2⁶⁴ − 1 |
//! | `float_value` | a single float |
//! | `elements` | numbers, dates, times and booleans, each as text; `CAST(elements[2] AS DOUBLE)` |
//! | `bytes` | the value as stored, little-endian |
//! | `timestamp_start`, `timestamp_end` | when it was written; a range if its file is consolidated |
//! | `file` | the file that holds it |
//!
//! With `'tiledb.timestamp'`, the metadata are those of that time, including keys that were deleted later.

use std::sync::Arc;

use datafusion::arrow::array::{Float64Array, Int64Array};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use futures::stream::BoxStream;
use tiledb_engine::Result;
use tiledb_engine::array::metadata::{self, METADATA_FOLDER, MetadataItem};
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::metadata::MetadataValue;

use super::arguments::FunctionTarget;
use super::columns::{self, TEXT, TIME, optional, required};
use super::description::{DescribeArray, DescriptionRequest, DescriptionRows, once};
use super::value;

/// The function.
pub(super) struct MetadataFunction;

impl DescribeArray for MetadataFunction {
    const NAME: &'static str = "tiledb_metadata";

    fn schema() -> SchemaRef {
        columns::schema(vec![
            required("key", TEXT),
            required("type", TEXT),
            required("count", DataType::UInt32),
            required("value", TEXT),
            optional("int_value", DataType::Int64),
            optional("uint_value", DataType::UInt64),
            optional("float_value", DataType::Float64),
            optional("elements", columns::text_list()),
            required("bytes", DataType::BinaryView),
            optional("timestamp_start", TIME),
            optional("timestamp_end", TIME),
            required("file", TEXT),
        ])
    }

    fn rows(
        target: FunctionTarget,
        _request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, Result<DescriptionRows>> {
        once(async move { rows(&metadata::load(&target.storage, &target.window()?).await?) })
    }
}

fn rows(items: &[MetadataItem]) -> Result<DescriptionRows> {
    let values = || items.iter().map(|item| &item.value);
    let elements: Vec<_> = values().map(elements).collect();
    let integers: Vec<_> = values().map(integer).collect();
    let signed = integers.iter().map(|i| i64::try_from((*i)?).ok());
    let unsigned = integers.iter().map(|i| u64::try_from((*i)?).ok());
    Ok(DescriptionRows {
        len: items.len(),
        columns: vec![
            columns::text(items.iter().map(|item| value::utf8(&item.key))),
            columns::text(values().map(|v| v.datatype.name())),
            columns::u32s(values().map(|v| Some(v.count))),
            columns::text(values().map(|v| value::cell(v.datatype, &v.bytes))),
            Arc::new(signed.collect::<Int64Array>()),
            columns::u64s(unsigned),
            Arc::new(values().map(float).collect::<Float64Array>()),
            columns::opt_text_lists(&elements)?,
            columns::binary(values().map(|v| &v.bytes)),
            columns::times(items.iter().map(|item| item.file.t1)),
            columns::times(items.iter().map(|item| item.file.t2)),
            columns::text(
                items
                    .iter()
                    .map(|i| format!("{METADATA_FOLDER}/{}", i.file.name)),
            ),
        ],
    })
}

fn elements(value: &MetadataValue) -> Option<Vec<String>> {
    let datatype = value.datatype;
    let single = !datatype.is_string() && !datatype.is_binary();
    single.then(|| value::elements(datatype, &value.bytes))
}

/// A single integer, wide enough for all types.
fn integer(value: &MetadataValue) -> Option<i128> {
    let datatype = value.datatype;
    let integral = datatype.is_integer()
        || datatype.is_datetime()
        || datatype.is_time()
        || datatype == Datatype::Bool;
    if value.count != 1 || !integral {
        return None;
    }
    let negative = datatype.is_signed() && value.bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 16];
    wide.get_mut(..value.bytes.len())?
        .copy_from_slice(&value.bytes);
    Some(i128::from_le_bytes(wide))
}

/// A single float.
fn float(value: &MetadataValue) -> Option<f64> {
    let bytes = value.bytes.as_slice();
    match (value.count, value.datatype) {
        (1, Datatype::Float32) => Some(f32::from_le_bytes(bytes.try_into().ok()?).into()),
        (1, Datatype::Float64) => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(datatype: Datatype, bytes: &[u8]) -> MetadataValue {
        let count = (bytes.len() / datatype.size()) as u32;
        let bytes = bytes.to_vec();
        MetadataValue {
            datatype,
            count,
            bytes,
        }
    }

    #[test]
    fn single_integers_of_any_width() {
        let cases: [(Datatype, &[u8], Option<i128>); 6] = [
            (Datatype::Int8, &[0x80], Some(-128)),
            (Datatype::UInt8, &[0x80], Some(128)),
            (Datatype::UInt64, &[0xff; 8], Some(u64::MAX.into())),
            (Datatype::DateTimeMs, &[0xff; 8], Some(-1)),
            (Datatype::Int16, &[1, 0, 2, 0], None),
            (Datatype::Float32, &[0; 4], None),
        ];
        for (datatype, bytes, expected) in cases {
            assert_eq!(integer(&of(datatype, bytes)), expected, "{datatype}");
        }
        assert_eq!(
            float(&of(Datatype::Float32, &1.5_f32.to_le_bytes())),
            Some(1.5)
        );
        assert_eq!(float(&of(Datatype::Float64, &[])), None);
    }
}
