//! Helpers to build the fields and columns of descriptions.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, ListArray, NullArray, StringViewArray,
    StructArray, TimestampMillisecondArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields, SchemaRef, TimeUnit};
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::domain_range::DomainRange;
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::{Error, Result};

use super::value;

/// Rows of a description: one array per column of the function's schema. Arrays of columns that aren't selected are ignored.
#[derive(Debug, Clone)]
pub(crate) struct DescriptionRows {
    pub len: usize,
    pub columns: Vec<ArrayRef>,
}

/// A column that is never NULL.
pub(crate) fn required(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, false)
}

/// A column that may be NULL.
pub(crate) fn optional(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

/// A schema with these fields.
pub(crate) fn schema(fields: Vec<Field>) -> SchemaRef {
    Arc::new(datafusion::arrow::datatypes::Schema::new(fields))
}

/// The type of text.
pub(crate) const TEXT: DataType = DataType::Utf8View;
/// The type of a write's time.
pub(crate) const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

/// The type of a list of texts.
pub(crate) fn text_list() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(TEXT, false)))
}

/// The type of a box: for each dimension its name and both ends as text.
pub(crate) fn box_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(
        DataType::Struct(box_fields()),
        false,
    )))
}

fn box_fields() -> Fields {
    Fields::from(vec![
        required("dimension", TEXT),
        required("low", TEXT),
        required("high", TEXT),
    ])
}

/// Text.
pub(crate) fn text<T: AsRef<str>>(values: impl IntoIterator<Item = T>) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(values))
}

/// Text or NULL.
pub(crate) fn opt_text<T: AsRef<str>>(values: impl IntoIterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringViewArray>())
}

/// Bytes.
pub(crate) fn binary<T: AsRef<[u8]>>(values: impl IntoIterator<Item = T>) -> ArrayRef {
    Arc::new(BinaryViewArray::from_iter_values(values))
}

/// Truth values.
pub(crate) fn bools(values: impl IntoIterator<Item = bool>) -> ArrayRef {
    let values: Vec<bool> = values.into_iter().collect();
    Arc::new(BooleanArray::from(values))
}

/// Truth values or NULL.
pub(crate) fn opt_bools(values: impl IntoIterator<Item = Option<bool>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<BooleanArray>())
}

/// Numbers or NULL.
pub(crate) fn u64s(values: impl IntoIterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<UInt64Array>())
}

/// Numbers or NULL.
pub(crate) fn u32s(values: impl IntoIterator<Item = Option<u32>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<UInt32Array>())
}

/// Times in milliseconds since 1970; NULL beyond what the type holds.
pub(crate) fn times(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    let values = values.into_iter().map(|ms| i64::try_from(ms).ok());
    Arc::new(values.collect::<TimestampMillisecondArray>())
}

/// A replacement for a column that is not selected.
pub(crate) fn unwanted(rows: usize) -> ArrayRef {
    Arc::new(NullArray::new(rows))
}

/// Lists of text.
pub(crate) fn text_lists<T: AsRef<str>>(lists: &[Vec<T>]) -> Result<ArrayRef> {
    let texts = text(lists.iter().flatten());
    list(Field::new_list_field(TEXT, false), lists, texts, None)
}

/// Lists of text or NULL.
pub(crate) fn opt_text_lists<T: AsRef<str>>(lists: &[Option<Vec<T>>]) -> Result<ArrayRef> {
    let texts = text(lists.iter().flatten().flatten());
    let lengths: Vec<&[T]> = lists
        .iter()
        .map(|l| l.as_deref().unwrap_or_default())
        .collect();
    let valid: Vec<bool> = lists.iter().map(Option::is_some).collect();
    list(
        Field::new_list_field(TEXT, false),
        &lengths,
        texts,
        Some(valid),
    )
}

/// One range of a box: the dimension, and both ends as text.
pub(crate) type TextRange = (String, String, String);

/// Boxes, or NULL.
pub(crate) fn boxes(boxes: &[Option<Vec<TextRange>>]) -> Result<ArrayRef> {
    let sides = || boxes.iter().flatten().flatten();
    let columns = vec![
        text(sides().map(|s| &s.0)),
        text(sides().map(|s| &s.1)),
        text(sides().map(|s| &s.2)),
    ];
    let structs = StructArray::try_new(box_fields(), columns, None).map_err(arrow_error)?;
    let lengths: Vec<&[TextRange]> = boxes
        .iter()
        .map(|b| b.as_deref().unwrap_or_default())
        .collect();
    let valid = boxes.iter().map(Option::is_some).collect();
    let item = Field::new_list_field(DataType::Struct(box_fields()), false);
    list(item, &lengths, Arc::new(structs), Some(valid))
}

fn list<T>(
    item: Field,
    lists: &[impl AsRef<[T]>],
    values: ArrayRef,
    valid: Option<Vec<bool>>,
) -> Result<ArrayRef> {
    let lengths = lists.iter().map(|l| l.as_ref().len());
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = valid.map(Into::into);
    let array = ListArray::try_new(Arc::new(item), offsets, values, nulls).map_err(arrow_error)?;
    debug_assert_eq!(array.len(), lists.len());
    Ok(Arc::new(array))
}

fn arrow_error(error: datafusion::arrow::error::ArrowError) -> Error {
    Error::internal("the rows of a description do not fit together").with_source(error)
}

/// The sides of stored ranges.
pub(crate) fn sides(schema: &ArraySchema, ranges: &[DomainRange]) -> Vec<TextRange> {
    let dimensions = schema.dimensions.iter().zip(ranges);
    dimensions
        .map(|(dimension, range)| side(&dimension.name, dimension.datatype, &range.lo, &range.hi))
        .collect()
}

/// The side of a stored range.
pub(crate) fn side(name: &str, datatype: Datatype, low: &[u8], high: &[u8]) -> TextRange {
    (
        name.to_owned(),
        value::cell(datatype, low),
        value::cell(datatype, high),
    )
}
