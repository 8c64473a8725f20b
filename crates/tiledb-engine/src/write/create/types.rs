//! The TileDB type of a column: from its Arrow type, or by its own name.
//!
//! | Arrow | attribute | dimension |
//! |---|---|---|
//! | integers, floats | the same | the same |
//! | Boolean | BOOL | |
//! | text | STRING_UTF8, var | STRING_ASCII, var |
//! | bytes | BLOB, var or fixed | |
//! | Date32 | DATETIME_DAY | DATETIME_DAY |
//! | Timestamp without zone | DATETIME_SEC, _MS, _US, _NS | the same |
//! | Time32, Time64 | TIME_SEC, _MS, _US, _NS | the same |
//! | List, FixedSizeList of numbers, dates or times | the element, var or several values per cell | |
//!
//! The subtle thing: a name given by the user is checked against the declared type, because the table will have the column
//! that reading makes of the stored type, and a statement must not promise another.

use arrow::datatypes::{DataType, TimeUnit};

use crate::arrow::{ColumnType, TypeOptions};
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::schema::CellValNum;

/// The type of a field on storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageType {
    /// The type of an element.
    pub datatype: Datatype,
    /// Elements per cell.
    pub count: CellValNum,
}

impl StorageType {
    const fn one(datatype: Datatype) -> Self {
        let count = CellValNum::Fixed(1);
        Self { datatype, count }
    }

    const fn var(datatype: Datatype) -> Self {
        let count = CellValNum::Var;
        Self { datatype, count }
    }

    /// The type of an attribute for a column of `declared`.
    ///
    /// # Errors
    /// TileDB has none; the error names the type to cast to.
    pub fn of_attribute(declared: &DataType) -> Result<Self> {
        let element = |field: &arrow::datatypes::Field| {
            let item = Self::of_attribute(field.data_type())?;
            let flat = item.count == CellValNum::Fixed(1);
            if flat && !field.data_type().is_nested() {
                Ok(item.datatype)
            } else {
                Err(no_type(declared, "a list of numbers, dates or times"))
            }
        };
        Ok(match declared {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Self::var(Datatype::StringUtf8)
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                Self::var(Datatype::Blob)
            }
            DataType::FixedSizeBinary(bytes) => Self {
                datatype: Datatype::Blob,
                count: fixed(*bytes, declared)?,
            },
            DataType::Boolean => Self::one(Datatype::Bool),
            DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) => {
                Self::var(element(item)?)
            }
            DataType::FixedSizeList(item, values) => Self {
                datatype: element(item)?,
                count: match fixed(*values, declared)? {
                    CellValNum::Fixed(1) => {
                        return Err(no_type(declared, "the element itself, without a list"));
                    }
                    count => count,
                },
            },
            DataType::Dictionary(codes, _) => Self::one(plain(codes)?),
            _ => Self::one(plain(declared)?),
        })
    }

    /// The type of a dimension for a column of `declared`.
    ///
    /// # Errors
    /// No dimension has such a type.
    pub fn of_dimension(declared: &DataType) -> Result<Self> {
        if declared.is_string() {
            return Ok(Self::var(Datatype::StringAscii));
        }
        let found = Self::of_attribute(declared)?;
        if found.count == CellValNum::Fixed(1) && is_coordinate(found.datatype) {
            Ok(found)
        } else {
            Err(Error::invalid(format!(
                "a dimension is a number, text, a date or a time, and {} is not; make it an attribute, or cast it",
                sql_name(declared)
            )))
        }
    }

    /// Parses the name of a type, with the number of values per cell in brackets if it is not the usual one for a column
    /// of `declared`: `DATETIME_DAY`, `INT32[3]`, `CHAR[var]`.
    ///
    /// # Errors
    /// The type doesn't exist.
    pub fn parse(text: &str, declared: &DataType) -> Result<Self> {
        let text = text.trim();
        let (name, count) = match text.strip_suffix(']').and_then(|t| t.split_once('[')) {
            Some((name, count)) => (name.trim(), Some(count.trim())),
            None => (text, None),
        };
        let mut all = Datatype::ALL.iter().copied();
        let datatype = all
            .find(|datatype| datatype.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                let names: Vec<_> = Datatype::ALL.iter().map(|d| d.name()).collect();
                Error::invalid(format!(
                    "there is no type '{name}'; the types are {}",
                    names.join(", ")
                ))
            })?;
        let count = match count {
            None => usual_count(declared, datatype),
            Some(var) if var.eq_ignore_ascii_case("var") => CellValNum::Var,
            Some(count) => count
                .parse()
                .ok()
                .filter(|count: &u32| *count != u32::MAX)
                .and_then(CellValNum::of_count)
                .ok_or_else(|| {
                    Error::invalid(format!(
                        "type '{text}': expected the number of values per cell in the brackets, or var"
                    ))
                })?,
        };
        Ok(Self { datatype, count })
    }

    /// Fails unless a column of `declared` can show the stored values.
    pub fn check_shows(self, declared: &DataType) -> Result<()> {
        let Self { datatype, count } = self;
        let column = ColumnType::plain(datatype, count, true, &TypeOptions::default())?;
        if same_kind(declared, column.data_type()) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{} shows as {}, and the column is declared as {}: declare what is shown, or choose another type",
            show(datatype, count),
            sql_name(column.data_type()),
            sql_name(declared)
        )))
    }
}

/// The default number of values per cell of a column that is stored as this type.
pub fn usual_count(declared: &DataType, datatype: Datatype) -> CellValNum {
    match declared {
        DataType::FixedSizeList(_, count) | DataType::FixedSizeBinary(count) => {
            let count = u32::try_from(*count).ok().and_then(CellValNum::of_count);
            count.unwrap_or(CellValNum::Fixed(1))
        }
        DataType::List(_) | DataType::LargeList(_) => CellValNum::Var,
        _ if datatype.is_string() || datatype.is_binary() => CellValNum::Var,
        _ => CellValNum::Fixed(1),
    }
}

/// The name of a type, with the number of values per cell unless it is one.
pub fn show(datatype: Datatype, count: CellValNum) -> String {
    match count {
        CellValNum::Fixed(1) => datatype.name().to_owned(),
        CellValNum::Fixed(count) => format!("{datatype}[{count}]"),
        CellValNum::Var => format!("{datatype}[var]"),
    }
}

/// Whether coordinates can have a type.
pub fn is_coordinate(datatype: Datatype) -> bool {
    is_integral(datatype) || datatype.is_float() || datatype == Datatype::StringAscii
}

/// Whether values are integers, or counted like them.
pub fn is_integral(datatype: Datatype) -> bool {
    datatype.is_integer() || datatype.is_datetime() || datatype.is_time()
}

/// Whether a type declared in SQL stands for a type that an array shows. SQL has one kind of text, of bytes and, apart from the
/// precision, of timestamps, and cannot declare enumerations or lists of fixed length.
pub fn same_kind(declared: &DataType, found: &DataType) -> bool {
    use DataType::{Dictionary, FixedSizeList, LargeList, List, Time32, Time64, Timestamp};
    match (declared, found) {
        (Dictionary(_, declared), found) => same_kind(declared, found),
        (declared, Dictionary(_, found)) => same_kind(declared, found),
        (Timestamp(_, declared), Timestamp(_, found)) => declared == found,
        (
            List(declared) | LargeList(declared) | FixedSizeList(declared, _),
            List(found) | LargeList(found),
        )
        | (List(declared) | LargeList(declared), FixedSizeList(found, _)) => {
            same_kind(declared.data_type(), found.data_type())
        }
        (FixedSizeList(declared, declared_len), FixedSizeList(found, found_len)) => {
            declared_len == found_len && same_kind(declared.data_type(), found.data_type())
        }
        _ if declared.is_string() => found.is_string(),
        _ if declared.is_binary() => found.is_binary(),
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => true,
        _ => declared == found,
    }
}

fn plain(declared: &DataType) -> Result<Datatype> {
    Ok(match declared {
        DataType::Int8 => Datatype::Int8,
        DataType::Int16 => Datatype::Int16,
        DataType::Int32 => Datatype::Int32,
        DataType::Int64 => Datatype::Int64,
        DataType::UInt8 => Datatype::UInt8,
        DataType::UInt16 => Datatype::UInt16,
        DataType::UInt32 => Datatype::UInt32,
        DataType::UInt64 => Datatype::UInt64,
        DataType::Float32 => Datatype::Float32,
        DataType::Float64 => Datatype::Float64,
        DataType::Date32 => Datatype::DateTimeDay,
        DataType::Timestamp(unit, None) => match unit {
            TimeUnit::Second => Datatype::DateTimeSec,
            TimeUnit::Millisecond => Datatype::DateTimeMs,
            TimeUnit::Microsecond => Datatype::DateTimeUs,
            TimeUnit::Nanosecond => Datatype::DateTimeNs,
        },
        DataType::Time32(unit) | DataType::Time64(unit) => match unit {
            TimeUnit::Second => Datatype::TimeSec,
            TimeUnit::Millisecond => Datatype::TimeMs,
            TimeUnit::Microsecond => Datatype::TimeUs,
            TimeUnit::Nanosecond => Datatype::TimeNs,
        },
        other => {
            return Err(no_type(
                other,
                match other {
                    DataType::Timestamp(..) => {
                        "TIMESTAMP: what is stored has no zone, so cast to UTC before inserting"
                    }
                    DataType::Decimal32(..)
                    | DataType::Decimal64(..)
                    | DataType::Decimal128(..)
                    | DataType::Decimal256(..) => {
                        "DOUBLE, or BIGINT counting the smallest unit if no digit may be lost"
                    }
                    DataType::Float16 => "REAL",
                    DataType::Date64 => "DATE or TIMESTAMP(3)",
                    DataType::Interval(_) | DataType::Duration(_) => {
                        "BIGINT counting a unit, or TIME"
                    }
                    DataType::Struct(_) => "one column for each field",
                    DataType::Map(..) | DataType::Union(..) => {
                        "VARCHAR, as JSON, or one column for each part"
                    }
                    _ => "a number, VARCHAR, BYTEA, DATE, TIME or TIMESTAMP",
                },
            ));
        }
    })
}

fn fixed(count: i32, declared: &DataType) -> Result<CellValNum> {
    let count = u32::try_from(count).ok().and_then(CellValNum::of_count);
    count.ok_or_else(|| no_type(declared, "at least one value per cell"))
}

fn no_type(declared: &DataType, instead: &str) -> Error {
    Error::unsupported(format!(
        "TileDB has no type for {}; cast to {instead}",
        sql_name(declared)
    ))
}

/// The name of an Arrow type in SQL, where it has one.
pub fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::UInt8 => "TINYINT UNSIGNED".to_owned(),
        DataType::UInt16 => "SMALLINT UNSIGNED".to_owned(),
        DataType::UInt32 => "INT UNSIGNED".to_owned(),
        DataType::UInt64 => "BIGINT UNSIGNED".to_owned(),
        DataType::Float32 => "REAL".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_owned(),
        DataType::Timestamp(unit, None) => match unit {
            TimeUnit::Second => "TIMESTAMP(0)".to_owned(),
            TimeUnit::Millisecond => "TIMESTAMP(3)".to_owned(),
            TimeUnit::Microsecond => "TIMESTAMP(6)".to_owned(),
            TimeUnit::Nanosecond => "TIMESTAMP".to_owned(),
        },
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::List(item) => format!("{}[]", sql_name(item.data_type())),
        DataType::FixedSizeList(item, count) => format!("{}[{count}]", sql_name(item.data_type())),
        other if other.is_string() => "VARCHAR".to_owned(),
        other if other.is_binary() => "BYTEA".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Field, Fields, IntervalUnit};

    use super::*;

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(Field::new_list_field(item, true)))
    }

    #[test]
    fn a_column_has_a_type_on_storage() {
        let attribute = |declared: DataType| {
            let found = StorageType::of_attribute(&declared).unwrap();
            show(found.datatype, found.count)
        };
        assert_eq!(attribute(DataType::Utf8View), "STRING_UTF8[var]");
        assert_eq!(attribute(DataType::FixedSizeBinary(16)), "BLOB[16]");
        assert_eq!(attribute(list(DataType::Date32)), "DATETIME_DAY[var]");
        let pair = Arc::new(Field::new_list_field(DataType::Float32, true));
        assert_eq!(attribute(DataType::FixedSizeList(pair, 2)), "FLOAT32[2]");
        let codes = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
        assert_eq!(attribute(codes), "UINT8");
        let text = StorageType::of_dimension(&DataType::Utf8).unwrap();
        assert_eq!(show(text.datatype, text.count), "STRING_ASCII[var]");
        for declared in [DataType::Boolean, DataType::Binary, list(DataType::Int8)] {
            let error = StorageType::of_dimension(&declared).unwrap_err();
            assert!(error.message().contains("make it an attribute"), "{error}");
        }
    }

    #[test]
    fn what_tiledb_lacks_names_a_cast() {
        let utc = DataType::Timestamp(TimeUnit::Second, Some("UTC".into()));
        for (declared, instead) in [
            (
                DataType::Decimal128(10, 2),
                "DECIMAL(10, 2); cast to DOUBLE, or BIGINT",
            ),
            (DataType::Interval(IntervalUnit::DayTime), "BIGINT"),
            (DataType::Duration(TimeUnit::Second), "BIGINT"),
            (
                DataType::Struct(Fields::empty()),
                "one column for each field",
            ),
            (utc, "cast to TIMESTAMP"),
            (list(DataType::Utf8), "a list of numbers"),
            (list(list(DataType::Int8)), "a list of numbers"),
            (DataType::Float16, "REAL"),
            (DataType::Null, "a number"),
        ] {
            let error = StorageType::of_attribute(&declared).unwrap_err();
            assert!(error.message().contains(instead), "{declared}: {error}");
        }
    }

    #[test]
    fn types_have_names() {
        let parse = |text| StorageType::parse(text, &DataType::Int8);
        let shown = |text| parse(text).map(|t| show(t.datatype, t.count)).unwrap();
        assert_eq!(shown("datetime_day"), "DATETIME_DAY");
        assert_eq!(shown(" CHAR [ 3 ]"), "CHAR[3]");
        assert_eq!(shown("BLOB[VAR]"), "BLOB[var]");
        assert!(
            parse("TEXT")
                .unwrap_err()
                .message()
                .contains("STRING_ASCII")
        );
        for count in ["INT8[0]", "INT8[-1]", "INT8[]", "INT8[4294967295]"] {
            let error = parse(count).unwrap_err();
            assert!(error.message().contains("number of values"), "{count}");
        }
        let day = parse("DATETIME_DAY").unwrap();
        assert!(day.check_shows(&DataType::Date32).is_ok());
        let error = day.check_shows(&DataType::Int32).unwrap_err();
        assert!(
            error
                .message()
                .contains("shows as DATE, and the column is declared as INT")
        );
    }

    #[test]
    fn declared_types_stand_for_a_kind() {
        let codes = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
        let item = |t: DataType| Arc::new(Field::new_list_field(t, false));
        let pair = DataType::FixedSizeList(item(DataType::Int16), 2);
        let triple = DataType::FixedSizeList(item(DataType::Int16), 3);
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
        for (declared, found) in [
            (&DataType::Utf8View, &codes),
            (&DataType::Utf8, &DataType::Utf8View),
            (&DataType::Binary, &DataType::FixedSizeBinary(3)),
            (&nanoseconds, &seconds),
            (&list(DataType::Int16), &pair),
            (&pair, &pair),
        ] {
            assert!(same_kind(declared, found), "{declared} {found}");
        }
        for (declared, found) in [
            (&DataType::Utf8View, &DataType::Int32),
            (&DataType::Int32, &DataType::Int64),
            (&DataType::UInt32, &DataType::Int32),
            (&DataType::Date32, &seconds),
            (&DataType::Int16, &pair),
            (&triple, &pair),
            (&DataType::Utf8, &DataType::BinaryView),
        ] {
            assert!(!same_kind(declared, found), "{declared} {found}");
        }
    }
}
