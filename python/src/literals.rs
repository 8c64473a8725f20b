//! Literals of other types in the types of columns, without loss.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;

/// A literal among the values of a type.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacedLiteral {
    Exact(ScalarValue),
    /// The literal is above this value, and below the next one.
    Above(ScalarValue),
}

use PlacedLiteral::{Above, Exact};

/// The type that comparisons see: that of the values of a dictionary.
pub fn value_type(ty: &DataType) -> &DataType {
    match ty {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

pub fn is_float(ty: &DataType) -> bool {
    matches!(ty, DataType::Float64 | DataType::Float32)
}

/// Places a literal. Returns nothing for NULL, for values outside of the type, and for types that can't be compared exactly.
pub fn place(value: &ScalarValue, ty: &DataType) -> Option<PlacedLiteral> {
    if value.is_null() {
        return None;
    }
    match ty {
        ty if ty.is_integer() => {
            if let Some(whole) = integer(value) {
                return whole_number(whole, ty).map(Exact);
            }
            let value = float(value)?;
            let below = value.floor();
            let whole = whole_number(exact_integer(below)?, ty)?;
            Some(match below == value {
                true => Exact(whole),
                false => Above(whole),
            })
        }
        DataType::Float64 => {
            if let Some(whole) = integer(value) {
                return exact_float(whole).map(|v| Exact(ScalarValue::Float64(Some(v))));
            }
            Some(Exact(ScalarValue::Float64(Some(float(value)?))))
        }
        DataType::Float32 => {
            let value = match integer(value) {
                Some(whole) => exact_float(whole)?,
                None => float(value)?,
            };
            single(value)
        }
        DataType::Boolean => match value {
            ScalarValue::Boolean(_) => Some(Exact(value.clone())),
            _ => None,
        },
        DataType::Utf8 => Some(Exact(ScalarValue::Utf8(Some(text(value)?)))),
        DataType::LargeUtf8 => Some(Exact(ScalarValue::LargeUtf8(Some(text(value)?)))),
        DataType::Utf8View => Some(Exact(ScalarValue::Utf8View(Some(text(value)?)))),
        DataType::Binary => Some(Exact(ScalarValue::Binary(Some(bytes(value)?)))),
        DataType::LargeBinary => Some(Exact(ScalarValue::LargeBinary(Some(bytes(value)?)))),
        DataType::BinaryView => Some(Exact(ScalarValue::BinaryView(Some(bytes(value)?)))),
        DataType::Date32 => match value {
            ScalarValue::Date32(_) => Some(Exact(value.clone())),
            _ => None,
        },
        DataType::Decimal128(precision, scale) => match value {
            ScalarValue::Decimal128(Some(number), _, s) if s == scale => Some(Exact(
                ScalarValue::Decimal128(Some(*number), *precision, *scale),
            )),
            _ => None,
        },
        _ => time(value, ty),
    }
}

fn integer(value: &ScalarValue) -> Option<i128> {
    Some(match value {
        ScalarValue::Int8(Some(v)) => i128::from(*v),
        ScalarValue::Int16(Some(v)) => i128::from(*v),
        ScalarValue::Int32(Some(v)) => i128::from(*v),
        ScalarValue::Int64(Some(v)) => i128::from(*v),
        ScalarValue::UInt8(Some(v)) => i128::from(*v),
        ScalarValue::UInt16(Some(v)) => i128::from(*v),
        ScalarValue::UInt32(Some(v)) => i128::from(*v),
        ScalarValue::UInt64(Some(v)) => i128::from(*v),
        _ => return None,
    })
}

fn float(value: &ScalarValue) -> Option<f64> {
    Some(match value {
        ScalarValue::Float64(Some(v)) => *v,
        ScalarValue::Float32(Some(v)) => f64::from(*v),
        _ => return None,
    })
}

fn whole_number(value: i128, ty: &DataType) -> Option<ScalarValue> {
    Some(match ty {
        DataType::Int8 => ScalarValue::Int8(Some(value.try_into().ok()?)),
        DataType::Int16 => ScalarValue::Int16(Some(value.try_into().ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(value.try_into().ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(value.try_into().ok()?)),
        DataType::UInt8 => ScalarValue::UInt8(Some(value.try_into().ok()?)),
        DataType::UInt16 => ScalarValue::UInt16(Some(value.try_into().ok()?)),
        DataType::UInt32 => ScalarValue::UInt32(Some(value.try_into().ok()?)),
        DataType::UInt64 => ScalarValue::UInt64(Some(value.try_into().ok()?)),
        _ => return None,
    })
}

/// A whole number below 2^53, where doubles and integers are the same.
const EXACT: i128 = 1 << 53;

fn exact_integer(value: f64) -> Option<i128> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the value is in the range of both"
    )]
    (value.abs() <= EXACT as f64).then_some(value as i128)
}

fn exact_float(value: i128) -> Option<f64> {
    (value.abs() <= EXACT).then_some(value as f64)
}

/// A double among the floats of 32 bits.
fn single(value: f64) -> Option<PlacedLiteral> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the next lines compare the rounded number"
    )]
    let nearest = value as f32;
    let placed = |v| ScalarValue::Float32(Some(v));
    if value.is_nan() || f64::from(nearest) == value {
        return Some(Exact(placed(nearest)));
    }
    let below = match f64::from(nearest) > value {
        true => nearest.next_down(),
        false => nearest,
    };
    Some(Above(placed(below)))
}

fn text(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.clone()
        }
        _ => None,
    }
}

fn bytes(value: &ScalarValue) -> Option<Vec<u8>> {
    match value {
        ScalarValue::Binary(bytes)
        | ScalarValue::LargeBinary(bytes)
        | ScalarValue::BinaryView(bytes) => bytes.clone(),
        _ => None,
    }
}

/// A moment, a time of day or a duration in another unit.
fn time(value: &ScalarValue, ty: &DataType) -> Option<PlacedLiteral> {
    let (count, unit) = match (value, ty) {
        (ScalarValue::TimestampSecond(v, zone), DataType::Timestamp(_, wanted)) => {
            (same_kind(zone, wanted, *v)?, TimeUnit::Second)
        }
        (ScalarValue::TimestampMillisecond(v, zone), DataType::Timestamp(_, wanted)) => {
            (same_kind(zone, wanted, *v)?, TimeUnit::Millisecond)
        }
        (ScalarValue::TimestampMicrosecond(v, zone), DataType::Timestamp(_, wanted)) => {
            (same_kind(zone, wanted, *v)?, TimeUnit::Microsecond)
        }
        (ScalarValue::TimestampNanosecond(v, zone), DataType::Timestamp(_, wanted)) => {
            (same_kind(zone, wanted, *v)?, TimeUnit::Nanosecond)
        }
        (ScalarValue::Time64Microsecond(v), DataType::Time64(_)) => ((*v)?, TimeUnit::Microsecond),
        (ScalarValue::Time64Nanosecond(v), DataType::Time64(_)) => ((*v)?, TimeUnit::Nanosecond),
        (ScalarValue::DurationSecond(v), DataType::Duration(_)) => ((*v)?, TimeUnit::Second),
        (ScalarValue::DurationMillisecond(v), DataType::Duration(_)) => {
            ((*v)?, TimeUnit::Millisecond)
        }
        (ScalarValue::DurationMicrosecond(v), DataType::Duration(_)) => {
            ((*v)?, TimeUnit::Microsecond)
        }
        (ScalarValue::DurationNanosecond(v), DataType::Duration(_)) => {
            ((*v)?, TimeUnit::Nanosecond)
        }
        _ => return None,
    };
    let wanted = match ty {
        DataType::Timestamp(unit, _) | DataType::Time64(unit) | DataType::Duration(unit) => *unit,
        _ => return None,
    };
    let (from, to) = (parts_of_second(unit), parts_of_second(wanted));
    let (count, is_exact) = match to >= from {
        true => (count.checked_mul(to / from)?, true),
        false => {
            let parts = from / to;
            (count.div_euclid(parts), count.rem_euclid(parts) == 0)
        }
    };
    let placed = ScalarValue::try_from_array(
        &arrow::compute::cast(&arrow::array::Int64Array::from(vec![count]), ty).ok()?,
        0,
    )
    .ok()?;
    Some(match is_exact {
        true => Exact(placed),
        false => Above(placed),
    })
}

/// A moment in a time zone and one without have no order.
fn same_kind<Z>(zone: &Option<Z>, wanted: &Option<Z>, value: Option<i64>) -> Option<i64> {
    match zone.is_some() == wanted.is_some() {
        true => value,
        false => None,
    }
}

/// How many of a unit make a second.
pub fn parts_of_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
