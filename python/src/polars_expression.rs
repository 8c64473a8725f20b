//! Expressions of Polars, from the JSON that Polars serializes them to.
//!
//! The JSON isn't stable. Unknown forms become unknown parts, and Polars filters the rows again.

use std::io::Cursor;

use arrow::ipc::reader::StreamReader;
use datafusion::common::ScalarValue;
use serde_json::Value;

use crate::expression::{CallOptions, ExpressionStep, members};

/// The steps of an expression, whose functions get the names of pyarrow.
pub fn steps(json: &str) -> Option<Vec<ExpressionStep>> {
    let mut steps = Vec::new();
    add(&serde_json::from_str(json).ok()?, &mut steps);
    Some(steps)
}

fn add(expression: &Value, steps: &mut Vec<ExpressionStep>) {
    let added = steps.len();
    if add_known(expression, steps).is_none() {
        steps.truncate(added);
        steps.push(ExpressionStep::Unknown);
    }
}

fn add_known(expression: &Value, steps: &mut Vec<ExpressionStep>) -> Option<()> {
    let (kind, body) = only_entry(expression)?;
    match kind {
        "Column" => steps.push(ExpressionStep::Field(body.as_str()?.to_owned())),
        "Literal" => steps.push(literal(body)?),
        "BinaryExpr" => {
            let function = match body.get("op")?.as_str()? {
                "Eq" => "equal",
                "NotEq" => "not_equal",
                "Lt" => "less",
                "LtEq" => "less_equal",
                "Gt" => "greater",
                "GtEq" => "greater_equal",
                "And" | "LogicalAnd" => "and_kleene",
                "Or" | "LogicalOr" => "or_kleene",
                _ => return None,
            };
            call(function, &[body.get("left")?, body.get("right")?], steps);
        }
        "Function" => {
            let input = body.get("input")?.as_array()?;
            let input = input.iter().collect::<Vec<_>>();
            let (kind, function) = only_entry(body.get("function")?)?;
            match kind {
                "Boolean" => boolean_function(function, &input, steps)?,
                "StringExpr" if function.as_str() == Some("StartsWith") => {
                    let [text, beginning] = input.as_slice() else {
                        return None;
                    };
                    let ExpressionStep::Literal(beginning) = literal(beginning.get("Literal")?)?
                    else {
                        return None;
                    };
                    let options = CallOptions {
                        beginning: Some(beginning),
                        ..CallOptions::default()
                    };
                    call_with("starts_with", options, text, steps);
                }
                _ => return None,
            }
        }
        _ => return None,
    }
    Some(())
}

fn boolean_function(
    function: &Value,
    input: &[&Value],
    steps: &mut Vec<ExpressionStep>,
) -> Option<()> {
    if let Some(name) = function.as_str() {
        match (name, input) {
            ("IsNull", [value]) => {
                let options = CallOptions {
                    nan_is_null: Some(false),
                    ..CallOptions::default()
                };
                call_with("is_null", options, value, steps);
            }
            ("IsNotNull", [_]) => call("is_valid", input, steps),
            ("IsNan", [_]) => call("is_nan", input, steps),
            ("Not", [_]) => call("invert", input, steps),
            ("AllHorizontal", [_, ..]) => chain("and_kleene", input, steps),
            ("AnyHorizontal", [_, ..]) => chain("or_kleene", input, steps),
            _ => return None,
        }
        return Some(());
    }
    let (name, options) = only_entry(function)?;
    match (name, input) {
        ("IsBetween", [value, low, high]) => {
            let (above, below) = match options.get("closed")?.as_str()? {
                "Both" => ("greater_equal", "less_equal"),
                "Left" => ("greater_equal", "less"),
                "Right" => ("greater", "less_equal"),
                "None" => ("greater", "less"),
                _ => return None,
            };
            steps.push(ExpressionStep::Call("and_kleene".to_owned()));
            call(above, &[value, low], steps);
            call(below, &[value, high], steps);
            steps.push(ExpressionStep::End);
        }
        ("IsIn", [value, set]) => {
            let list = set.get("Literal")?.get("Scalar")?.get("List")?;
            let bytes = list.as_array()?.iter();
            let bytes = bytes.map(|byte| u8::try_from(byte.as_u64()?).ok());
            let bytes = bytes.collect::<Option<Vec<_>>>()?;
            // The list is an Arrow stream with one column.
            let mut batches = StreamReader::try_new(Cursor::new(bytes), None).ok()?;
            let batch = batches.next()?.ok()?;
            let set = batch.columns().first()?;
            let nulls_equal = options.get("nulls_equal")?.as_bool()?;
            let options = CallOptions {
                members: members(set),
                has_null: set.null_count() > 0 && nulls_equal,
                ..CallOptions::default()
            };
            call_with("is_in", options, value, steps);
        }
        _ => return None,
    }
    Some(())
}

fn call(function: &str, arguments: &[&Value], steps: &mut Vec<ExpressionStep>) {
    steps.push(ExpressionStep::Call(function.to_owned()));
    for argument in arguments {
        add(argument, steps);
    }
    steps.push(ExpressionStep::End);
}

fn call_with(
    function: &str,
    options: CallOptions,
    argument: &Value,
    steps: &mut Vec<ExpressionStep>,
) {
    steps.push(ExpressionStep::Call(function.to_owned()));
    steps.push(ExpressionStep::Options(options));
    add(argument, steps);
    steps.push(ExpressionStep::End);
}

/// A function of two arguments for any number of them.
fn chain(function: &str, arguments: &[&Value], steps: &mut Vec<ExpressionStep>) {
    let Some((first, others)) = arguments.split_first() else {
        return;
    };
    for _ in others {
        steps.push(ExpressionStep::Call(function.to_owned()));
    }
    add(first, steps);
    for other in others {
        add(other, steps);
        steps.push(ExpressionStep::End);
    }
}

fn literal(body: &Value) -> Option<ExpressionStep> {
    let (kind, value) = only_entry(body)?;
    let (kind, value) = match kind {
        "Scalar" => only_entry(value)?,
        "Dyn" => match only_entry(value)? {
            ("Int", number) => ("Int64", number),
            ("Float", number) => ("Float64", number),
            ("Str", text) => ("String", text),
            _ => return None,
        },
        _ => return None,
    };
    let integer = || value.as_i64();
    Some(ExpressionStep::Literal(match kind {
        "Boolean" => ScalarValue::Boolean(Some(value.as_bool()?)),
        "Int8" | "Int16" | "Int32" | "Int64" => ScalarValue::Int64(Some(integer()?)),
        "UInt8" | "UInt16" | "UInt32" | "UInt64" => ScalarValue::UInt64(Some(value.as_u64()?)),
        "Float32" | "Float64" => ScalarValue::Float64(Some(value.as_f64()?)),
        "String" => ScalarValue::Utf8(Some(value.as_str()?.to_owned())),
        "Date" => ScalarValue::Date32(Some(integer()?.try_into().ok()?)),
        "Time" => ScalarValue::Time64Nanosecond(Some(integer()?)),
        "Datetime" => datetime(value)?,
        "Duration" => duration(value)?,
        _ => return None,
    }))
}

/// A number, its unit, and its time zone, if there is one.
fn datetime(value: &Value) -> Option<ScalarValue> {
    let [count, unit, zone] = value.as_array()?.as_slice() else {
        return None;
    };
    let count = Some(count.as_i64()?);
    let zone = match zone {
        Value::Null => None,
        Value::String(zone) => Some(zone.as_str()),
        zone => Some(zone.get("inner")?.as_str()?),
    };
    let zone = zone.map(Into::into);
    Some(match unit.as_str()? {
        "Nanoseconds" => ScalarValue::TimestampNanosecond(count, zone),
        "Microseconds" => ScalarValue::TimestampMicrosecond(count, zone),
        "Milliseconds" => ScalarValue::TimestampMillisecond(count, zone),
        _ => return None,
    })
}

fn duration(value: &Value) -> Option<ScalarValue> {
    let [count, unit] = value.as_array()?.as_slice() else {
        return None;
    };
    let count = Some(count.as_i64()?);
    Some(match unit.as_str()? {
        "Nanoseconds" => ScalarValue::DurationNanosecond(count),
        "Microseconds" => ScalarValue::DurationMicrosecond(count),
        "Milliseconds" => ScalarValue::DurationMillisecond(count),
        _ => return None,
    })
}

/// The key and the value of an object with one entry.
fn only_entry(value: &Value) -> Option<(&str, &Value)> {
    let mut entries = value.as_object()?.iter();
    let (key, value) = entries.next()?;
    match entries.next() {
        None => Some((key, value)),
        Some(_) => None,
    }
}
