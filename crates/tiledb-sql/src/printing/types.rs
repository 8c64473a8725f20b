//! The short names of types below the names of columns: `int64`, `text`, `timestamp(ns)`, `enum(text)`.
//!
//! They don't show how a value is encoded: each of Arrow's three encodings of strings is `text`. DESCRIBE and `arrow_typeof` show
//! the exact types.

use datafusion::arrow::datatypes::{DataType, Fields, IntervalUnit, TimeUnit};

/// The short name of a type.
pub fn type_name(data_type: &DataType) -> String {
    use DataType as T;
    match data_type {
        T::Utf8 | T::LargeUtf8 | T::Utf8View => "text".to_owned(),
        T::Binary | T::LargeBinary | T::BinaryView => "binary".to_owned(),
        T::FixedSizeBinary(bytes) => format!("binary({bytes})"),
        T::Date32 | T::Date64 => "date".to_owned(),
        T::Time32(unit) | T::Time64(unit) => format!("time({})", unit_name(*unit)),
        T::Timestamp(unit, None) => format!("timestamp({})", unit_name(*unit)),
        T::Timestamp(unit, Some(zone)) => format!("timestamp({}, {zone})", unit_name(*unit)),
        T::Duration(unit) => format!("duration({})", unit_name(*unit)),
        T::Interval(
            IntervalUnit::YearMonth | IntervalUnit::DayTime | IntervalUnit::MonthDayNano,
        ) => "interval".to_owned(),
        T::Decimal32(digits, scale)
        | T::Decimal64(digits, scale)
        | T::Decimal128(digits, scale)
        | T::Decimal256(digits, scale) => format!("decimal({digits}, {scale})"),
        T::Dictionary(_, values) => format!("enum({})", type_name(values)),
        T::RunEndEncoded(_, values) => type_name(values.data_type()),
        T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) => {
            format!("list({})", type_name(item.data_type()))
        }
        T::FixedSizeList(item, length) => {
            format!("list({}, {length})", type_name(item.data_type()))
        }
        T::Struct(fields) => format!("struct({})", field_names(fields)),
        T::Map(entries, _) => match entries.data_type() {
            T::Struct(fields) => {
                let types = fields.iter().map(|field| type_name(field.data_type()));
                format!("map({})", types.collect::<Vec<_>>().join(", "))
            }
            _ => "map".to_owned(),
        },
        T::Union(..) => "union".to_owned(),
        // Numbers, booleans and NULL have the names of Arrow.
        other => other.to_string().to_lowercase(),
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

fn field_names(fields: &Fields) -> String {
    let fields = fields.iter();
    let named = fields.map(|field| format!("{} {}", field.name(), type_name(field.data_type())));
    named.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::Field;

    use super::*;

    #[test]
    fn types_have_short_names() {
        let text = || DataType::Utf8View;
        let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
        for (data_type, expected) in [
            (DataType::Int8, "int8"),
            (DataType::UInt64, "uint64"),
            (DataType::Float32, "float32"),
            (DataType::Boolean, "boolean"),
            (DataType::Null, "null"),
            (text(), "text"),
            (DataType::LargeBinary, "binary"),
            (DataType::FixedSizeBinary(3), "binary(3)"),
            (DataType::Date32, "date"),
            (DataType::Time64(TimeUnit::Nanosecond), "time(ns)"),
            (
                DataType::Timestamp(TimeUnit::Millisecond, None),
                "timestamp(ms)",
            ),
            (
                DataType::Timestamp(TimeUnit::Second, Some("+01:00".into())),
                "timestamp(s, +01:00)",
            ),
            (DataType::Duration(TimeUnit::Microsecond), "duration(us)"),
            (DataType::Interval(IntervalUnit::MonthDayNano), "interval"),
            (DataType::Decimal128(10, 2), "decimal(10, 2)"),
            (
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(text())),
                "enum(text)",
            ),
            (
                DataType::List(field("item", DataType::Int16)),
                "list(int16)",
            ),
            (
                DataType::FixedSizeList(field("item", DataType::Float64), 2),
                "list(float64, 2)",
            ),
            (
                DataType::Struct(Fields::from(vec![
                    field("a", DataType::Int64),
                    field("b", text()),
                ])),
                "struct(a int64, b text)",
            ),
        ] {
            assert_eq!(type_name(&data_type), expected);
        }
    }
}
