//! Conversion of a dimension's column back to the keys of its values.
//!
//! Labels are looked up by key, but a scan returns dimensions as Arrow shows them: scaled, or as days. Only the types
//! of a label array's dimension occur: integers, dates and times.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{self as arrow, DataType, TimeUnit};
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::geometry::key::NativeKey;
use tiledb_engine::{Error, Result};

/// The key of every value in a column that shows a dimension of type `datatype`.
pub(super) fn keys(column: &ArrayRef, datatype: Datatype) -> Result<Vec<u64>> {
    macro_rules! keys {
        ($type:ident) => {{
            let values = column
                .as_primitive_opt::<arrow::$type>()
                .ok_or_else(|| unexpected(column, datatype))?;
            values.values().iter().map(|v| v.to_key()).collect()
        }};
    }
    Ok(match datatype {
        Datatype::Int8 => keys!(Int8Type),
        Datatype::Int16 => keys!(Int16Type),
        Datatype::Int32 => keys!(Int32Type),
        Datatype::Int64 => keys!(Int64Type),
        Datatype::UInt8 => keys!(UInt8Type),
        Datatype::UInt16 => keys!(UInt16Type),
        Datatype::UInt32 => keys!(UInt32Type),
        Datatype::UInt64 => keys!(UInt64Type),
        other if other.is_datetime() || other.is_time() => time_keys(column, datatype)?,
        _ => return Err(unexpected(column, datatype)),
    })
}

fn unexpected(column: &ArrayRef, datatype: Datatype) -> Error {
    Error::internal(format!(
        "a dimension of type {datatype} is shown as {}, whose values have no labels",
        column.data_type()
    ))
}

fn time_keys(column: &ArrayRef, datatype: Datatype) -> Result<Vec<u64>> {
    let values = match column.data_type() {
        DataType::Date32 => {
            cast(column, &DataType::Int32).and_then(|days| cast(&days, &DataType::Int64))
        }
        _ => cast(column, &DataType::Int64),
    };
    let values = values.map_err(|e| unexpected(column, datatype).with_source(e))?;
    let values = values.as_primitive::<arrow::Int64Type>().values().iter();
    Ok(match (datatype, column.data_type()) {
        (Datatype::DateTimeMonth, DataType::Date32) => {
            values.map(|v| months(*v).to_key()).collect()
        }
        (Datatype::DateTimeYear, DataType::Date32) => {
            values.map(|v| months(*v).div_euclid(12).to_key()).collect()
        }
        (_, shown) => {
            let step = step(datatype, shown).ok_or_else(|| unexpected(column, datatype))?;
            values.map(|v| v.div_euclid(step).to_key()).collect()
        }
    })
}

/// The number of Arrow's units in one stored unit.
fn step(datatype: Datatype, shown: &DataType) -> Option<i64> {
    let unit = match shown {
        DataType::Int64 => return Some(1),
        DataType::Date32 if datatype == Datatype::DateTimeWeek => return Some(7),
        DataType::Date32 => return Some(1),
        DataType::Timestamp(unit, _) | DataType::Time64(unit) | DataType::Duration(unit) => unit,
        _ => return None,
    };
    let shown = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let stored: i64 = match datatype {
        Datatype::DateTimeHr | Datatype::TimeHr => 3_600_000_000_000,
        Datatype::DateTimeMin | Datatype::TimeMin => 60_000_000_000,
        Datatype::DateTimeSec | Datatype::TimeSec => 1_000_000_000,
        Datatype::DateTimeMs | Datatype::TimeMs => 1_000_000,
        Datatype::DateTimeUs | Datatype::TimeUs => 1_000,
        Datatype::DateTimeNs | Datatype::TimeNs => 1,
        _ => return None,
    };
    (stored % shown == 0).then_some(stored / shown)
}

/// Months from 1970-01 to the month of a day (proleptic Gregorian calendar, days since 1970-01-01).
fn months(days: i64) -> i64 {
    const DAYS_PER_ERA: i64 = 146_097;
    // Years start in March here, so that the leap day is the last day of its year; all eras of 400 years are alike.
    let since_march_0 = days + 719_468;
    let (era, day) = (
        since_march_0.div_euclid(DAYS_PER_ERA),
        since_march_0.rem_euclid(DAYS_PER_ERA),
    );
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    (era * 400 + year - 1970) * 12 + month + 2
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tiledb_engine::arrow::{
        CellData, ColumnType, TileBuffer, TimeAs, TypeOptions, UnfilteredCells,
    };
    use tiledb_engine::format::filter_list::FilterList;
    use tiledb_engine::format::schema::{CellValNum, Dimension};
    use tiledb_engine::geometry::key;

    use super::*;

    /// Converting a dimension's values to Arrow and back gives the stored values.
    #[test]
    fn keys_come_back_from_every_type() {
        let values: [i64; 7] = [-1000, -25, -1, 0, 1, 29, 1000];
        for code in 0..44 {
            let Ok(datatype) = Datatype::from_code(code) else {
                continue;
            };
            if !key::has_key(datatype) || datatype.is_float() {
                continue;
            }
            for time_as in [TimeAs::TimeOfDay, TimeAs::Duration] {
                let small = |v: &i64| datatype.size() > 1 || (-128..=127).contains(v);
                let unsigned = !datatype.is_signed();
                let of_day = datatype.is_time() && time_as == TimeAs::TimeOfDay;
                let fits = |v: &&i64| small(v) && (!(unsigned || of_day) || **v >= 0);
                let fits = |v: &&i64| fits(v) && !(of_day && **v >= 24);
                let stored: Vec<i64> = values.iter().filter(fits).copied().collect();
                let bytes: Vec<u8> = stored
                    .iter()
                    .flat_map(|v| v.to_le_bytes()[..datatype.size()].to_vec())
                    .collect();
                let mut data = TileBuffer::zeroed(bytes.len()).unwrap();
                data.as_slice_mut().copy_from_slice(&bytes);
                let dimension = Dimension {
                    name: "d".into(),
                    datatype,
                    cell_val_num: CellValNum::Fixed(1),
                    filters: FilterList::default(),
                    domain: None,
                    extent: None,
                };
                let options = TypeOptions {
                    time_as,
                    ..TypeOptions::default()
                };
                let ty = ColumnType::of_dimension(&dimension, &options).unwrap();
                let cells = UnfilteredCells {
                    len: stored.len(),
                    data: CellData::Fixed(data),
                    nulls: None,
                };
                let column = ty.to_array(cells).unwrap();
                let mut wanted = Vec::new();
                key::keys(datatype, &bytes, &mut wanted).unwrap();
                assert_eq!(
                    keys(&column, datatype).unwrap(),
                    wanted,
                    "{datatype} {time_as:?}"
                );
            }
        }
    }

    #[test]
    fn months_follow_the_calendar() {
        // Days from numpy's datetime64.
        for (day, month) in [
            (0, 0),
            (30, 0),
            (31, 1),
            (-1, -1),
            (11_016, 361),
            (11_017, 362),
            (-719_528, -23_640),
            (-719_529, -23_641),
        ] {
            assert_eq!(months(day), month, "day {day}");
        }
    }

    #[test]
    fn other_types_have_no_labels() {
        let column: ArrayRef = Arc::new(datafusion::arrow::array::Float64Array::from(vec![1.0]));
        assert!(keys(&column, Datatype::Float64).is_err());
        assert!(keys(&column, Datatype::Int32).is_err());
    }
}
