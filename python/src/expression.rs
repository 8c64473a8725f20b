//! Expressions of pyarrow, from the bytes that pyarrow pickles them to.
//!
//! The bytes are an Arrow file. The metadata of its schema is the expression in order, as pairs such as `call: greater`, `field_ref: id`,
//! `literal: 0`, `end: greater`. The numbers are columns of its only batch: literals, and the options of functions. The keys repeat, so
//! that no map can hold them: they are read from the flatbuffer.

use std::io::Cursor;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::UInt32Type;
use arrow::ipc::reader::FileReader;
use arrow::ipc::root_as_footer;
use datafusion::common::ScalarValue;

const MAGIC: &[u8] = b"ARROW1";

/// A step of an expression, whose functions have the names of pyarrow.
#[derive(Debug)]
pub enum ExpressionStep {
    /// A function begins. Its arguments follow.
    Call(String),
    /// The options of the function.
    Options(CallOptions),
    /// The function ends.
    End,
    Field(String),
    Literal(ScalarValue),
    /// A part that isn't of a known form.
    Unknown,
}

/// The known options of functions.
#[derive(Debug, Default)]
pub struct CallOptions {
    /// The values of `is_in`, without NULL.
    pub members: Option<Vec<ScalarValue>>,
    /// Whether NULL is a value of `is_in`.
    pub has_null: bool,
    /// Whether `is_null` is true for NaN.
    pub nan_is_null: Option<bool>,
    /// The beginning that `starts_with` looks for.
    pub beginning: Option<ScalarValue>,
}

/// Reads the bytes. Returns nothing if they aren't of the known form, which another release of pyarrow may change.
pub fn unpickled(bytes: &[u8]) -> Option<Vec<ExpressionStep>> {
    let rest = bytes.strip_suffix(MAGIC)?;
    let (rest, length) = rest.split_last_chunk::<4>()?;
    let length = usize::try_from(i32::from_le_bytes(*length)).ok()?;
    let footer = rest.get(rest.len().checked_sub(length)?..)?;
    let footer = root_as_footer(footer).ok()?;
    let pairs = footer.schema()?.custom_metadata()?;
    let mut batches = FileReader::try_new(Cursor::new(bytes), None).ok()?;
    let values = batches.next().transpose().ok()?;
    let steps = pairs
        .iter()
        .map(|pair| step(pair.key()?, pair.value()?, values.as_ref()));
    steps.collect()
}

/// One pair of the metadata. Literals and options are numbers of columns.
fn step(key: &str, value: &str, values: Option<&RecordBatch>) -> Option<ExpressionStep> {
    let column = || -> Option<&ArrayRef> {
        let column = values?.columns().get(value.parse::<usize>().ok()?)?;
        (column.len() == 1).then_some(column)
    };
    Some(match key {
        "call" => ExpressionStep::Call(value.to_owned()),
        "options" => ExpressionStep::Options(options(column()?)),
        "end" => ExpressionStep::End,
        "field_ref" => ExpressionStep::Field(value.to_owned()),
        "literal" => ScalarValue::try_from_array(column()?, 0)
            .map_or(ExpressionStep::Unknown, ExpressionStep::Literal),
        _ => return None,
    })
}

fn options(column: &ArrayRef) -> CallOptions {
    let option = |name: &str| column.as_struct_opt()?.column_by_name(name).cloned();
    let flag = |name: &str| Some(option(name)?.as_boolean_opt()?.value(0));
    let mut options = CallOptions {
        nan_is_null: flag("nan_is_null"),
        ..CallOptions::default()
    };
    if flag("ignore_case") == Some(false) {
        options.beginning = option("pattern").and_then(|o| ScalarValue::try_from_array(&o, 0).ok());
    }
    let nulls = option("null_matching_behavior")
        .and_then(|o| Some(o.as_primitive_opt::<UInt32Type>()?.value(0)));
    // NULL is a value as others are, or is in no set. Other ways aren't known here.
    if let (Some(set), Some(nulls @ (0 | 1))) = (option("value_set"), nulls)
        && let Some(set) = set.as_list_opt::<i32>().map(|set| set.value(0))
    {
        options.has_null = set.null_count() > 0 && nulls == 0;
        options.members = members(&set);
    }
    options
}

/// The values of an array that aren't NULL.
pub fn members(set: &ArrayRef) -> Option<Vec<ScalarValue>> {
    let rows = (0..set.len()).filter(|row| set.is_valid(*row));
    rows.map(|row| ScalarValue::try_from_array(set, row).ok())
        .collect()
}
