//! What the generator knows of a column: its kind, and values to compare it with.

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::ScalarValue;

use super::ast::Kind;
use crate::support::rng::Rng;

/// Values of a column that are remembered.
const SAMPLES: usize = 24;
/// What numbers of this size and less can be computed with.
const TAME_INTEGER: i128 = 1 << 31;
const TAME_FLOAT: f64 = 1e6;

/// A column of a table, or of what a query gives.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    pub tame: bool,
    /// Values that occur, as literals.
    pub values: Vec<String>,
    /// About how many values there are.
    pub distinct: usize,
    /// Of a list of numbers: an element may be taken and is a number.
    pub numbers: bool,
}

impl Column {
    /// What a column of a table holds.
    pub fn of(rows: &RecordBatch, index: usize, rng: &mut Rng) -> Self {
        let (schema, values) = (rows.schema(), rows.column(index));
        let mut column = Self {
            name: schema.field(index).name().clone(),
            kind: kind(values.data_type()),
            tame: false,
            values: Vec::new(),
            distinct: 1,
            numbers: false,
        };
        if let DataType::List(item) | DataType::FixedSizeList(item, _) = values.data_type() {
            column.numbers = item.data_type().is_integer();
        }
        column.tame = tame(column.kind, values);
        let mut seen = Vec::new();
        for _ in 0..SAMPLES.min(values.len()) {
            let row = rng.below(values.len());
            if let Some(text) = literal(values, row)
                && !seen.contains(&text)
            {
                seen.push(text);
            }
        }
        // A few values that came up again and again are all there are.
        column.distinct = match seen.len() {
            n if n * 2 < SAMPLES => n.max(1),
            _ => values.len() / 4,
        };
        column.values = seen;
        column
    }
}

/// The kind of a type.
pub fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Boolean => Kind::Bool,
        t if t.is_integer() => Kind::Int,
        DataType::Float32 | DataType::Float64 => Kind::Float,
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => Kind::Text,
        DataType::Date32 => Kind::Date,
        DataType::Timestamp(_, None) => Kind::Stamp,
        DataType::Dictionary(_, values) => kind(values),
        t if t.is_nested() => Kind::List,
        _ => Kind::Other,
    }
}

fn tame(kind: Kind, values: &ArrayRef) -> bool {
    let all = |is: &dyn Fn(&str) -> bool| {
        let format = ArrayFormatter::try_new(values, &FormatOptions::default());
        let Ok(format) = format else { return false };
        (0..values.len()).all(|row| values.is_null(row) || is(&format.value(row).to_string()))
    };
    let year = |text: &str| {
        let parts = text.get(..4).and_then(|y| y.parse::<i64>().ok());
        parts.is_some_and(|y| (1900..2200).contains(&y)) && text.get(4..5) == Some("-")
    };
    match kind {
        Kind::Bool | Kind::Text => true,
        Kind::Int => all(&|text| text.parse::<i128>().is_ok_and(|v| v.abs() < TAME_INTEGER)),
        // Which zero is the least of both DataFusion leaves open, and what it is among NaNs.
        Kind::Float => all(&|text| {
            let number = text.parse::<f64>();
            number.is_ok_and(|v| v.abs() < TAME_FLOAT && !(v == 0.0 && v.is_sign_negative()))
        }),
        Kind::Date | Kind::Stamp => all(&year),
        Kind::Other | Kind::List | Kind::Approximate => false,
    }
}

/// A value as a literal, if there is a way to write it.
fn literal(values: &ArrayRef, row: usize) -> Option<String> {
    if values.is_null(row) {
        return None;
    }
    let value = ScalarValue::try_from_array(values, row).ok()?;
    let value = match value {
        ScalarValue::Dictionary(_, value) => *value,
        value => value,
    };
    let dated = |word: &str| {
        let array = value.to_array().ok()?;
        let format = ArrayFormatter::try_new(&array, &FormatOptions::default()).ok()?;
        let text = format.value(0).try_to_string().ok()?;
        (text.get(4..5) == Some("-") && text.as_bytes()[0].is_ascii_digit())
            .then(|| format!("{word} '{text}'"))
    };
    match &value {
        ScalarValue::Boolean(Some(v)) => Some(v.to_string()),
        ScalarValue::Float32(Some(v)) => Some(float(f64::from(*v))),
        ScalarValue::Float64(Some(v)) => Some(float(*v)),
        ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)) => Some(text(v)),
        ScalarValue::Date32(_) => dated("DATE"),
        ScalarValue::TimestampNanosecond(..)
        | ScalarValue::TimestampMicrosecond(..)
        | ScalarValue::TimestampMillisecond(..)
        | ScalarValue::TimestampSecond(..) => dated("TIMESTAMP"),
        value if value.data_type().is_integer() => Some(value.to_string()),
        _ => None,
    }
}

/// A text in quotes.
pub fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// A float, of which some cannot be written as a number.
fn float(value: f64) -> String {
    match value {
        v if v.is_nan() => "CAST('NaN' AS DOUBLE)".to_owned(),
        v if v.is_infinite() && v > 0.0 => "CAST('inf' AS DOUBLE)".to_owned(),
        v if v.is_infinite() => "CAST('-inf' AS DOUBLE)".to_owned(),
        v if v == 0.0 && v.is_sign_negative() => "CAST('-0.0' AS DOUBLE)".to_owned(),
        v => format!("CAST({v:e} AS DOUBLE)"),
    }
}
