//! A dimension under casts, as a function of its key that never decreases.
//!
//! Every value that is not a string is a number here: an integer, a count of units, or the total-order bits of a float.
//! Because the function never decreases, a binary search over keys finds the first with `f(key) >= v`: no function
//! needs an inverse, not even for rounding and calendars. The subtle thing is zero: `-0.0` and `0.0` share a key and
//! may or may not be equal in comparisons, so nothing about a float zero is exact.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, TryCastExpr};
use datafusion::scalar::ScalarValue;
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::geometry::key::{self, NativeKey};
use tiledb_engine::geometry::subarray::{BytesRange, DimRanges, KeyRange, successor};

use super::column::DimensionColumn;
use crate::expressions::ranges::column::{ComparedAs, MonotonicStep, bits, nanoseconds};

const SECONDS_PER_DAY: i128 = 86_400;

/// A literal in the form it is compared in.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ComparedValue {
    Null,
    Number(i128),
    /// `0.0` or `-0.0`.
    Zero,
    Bytes(Vec<u8>),
}

/// A dimension under casts.
#[derive(Debug, Clone)]
pub(super) struct CastView {
    /// Index of the dimension.
    pub(super) dim: usize,
    kind: ComparedAs,
    data_type: DataType,
    /// Whether every cast succeeds on every value of the domain.
    pub(super) total: bool,
    datatype: Datatype,
    domain: KeyRange,
}

impl CastView {
    /// `expr` as a dimension under casts, if it is one.
    pub(super) fn new(
        expr: &Arc<dyn PhysicalExpr>,
        dimensions: &[DimensionColumn],
    ) -> Option<Self> {
        let mut casts = Vec::new();
        let mut inner = expr;
        loop {
            if let Some(cast) = inner.downcast_ref::<CastExpr>() {
                casts.push(cast.cast_type());
                inner = cast.expr();
            } else if let Some(cast) = inner.downcast_ref::<TryCastExpr>() {
                casts.push(cast.cast_type());
                inner = cast.expr();
            } else {
                break;
            }
        }
        let index = inner.downcast_ref::<Column>()?.index();
        let (dim, column) = dimensions
            .iter()
            .enumerate()
            .find(|(_, d)| d.column() == index)?;
        let mut view = Self {
            dim,
            kind: column.kind()?,
            data_type: column.data_type().clone(),
            total: true,
            datatype: column.datatype(),
            domain: column.domain(),
        };
        for target in casts.into_iter().rev() {
            view.cast(target)?;
        }
        Some(view)
    }

    pub(super) fn is_bytes(&self) -> bool {
        matches!(self.kind, ComparedAs::Bytes)
    }

    fn cast(&mut self, target: &DataType) -> Option<()> {
        let target = match target {
            DataType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        if let ComparedAs::Ordered(steps) = &mut self.kind {
            steps.extend(cast_steps(&self.data_type, target)?);
            let narrowed = matches!(
                (&self.data_type, target),
                (DataType::Float64, DataType::Float32)
            );
            let (least, most) = limits(target);
            let ends = [self.domain.lo, self.domain.hi].map(|key| self.apply(key));
            self.total &= !narrowed && ends.iter().all(|end| (least..=most).contains(end));
        } else if !same_bytes(&self.data_type, target) {
            return None;
        }
        self.data_type = target.clone();
        Some(())
    }

    /// The value of a key.
    fn apply(&self, key: u64) -> i128 {
        let stored = if self.datatype.is_signed() {
            i128::from(i64::from_key(key))
        } else {
            i128::from(key)
        };
        match &self.kind {
            ComparedAs::Ordered(steps) => {
                steps.iter().fold(stored, |value, step| step.apply(value))
            }
            ComparedAs::Bytes => stored,
        }
    }

    /// The literal in this view's type; `None` if it has another type or is not supported.
    pub(super) fn value(&self, scalar: &ScalarValue) -> Option<ComparedValue> {
        if let ScalarValue::Dictionary(_, inner) = scalar {
            return self.value(inner);
        }
        if scalar.is_null() {
            return Some(ComparedValue::Null);
        }
        if self.is_bytes() {
            if !same_bytes(&scalar.data_type(), &self.data_type) {
                return None;
            }
            let bytes = scalar.try_as_str().flatten().map(str::as_bytes);
            return bytes
                .or_else(|| binary(scalar))
                .map(|b| ComparedValue::Bytes(b.to_vec()));
        }
        if scalar.data_type() != self.data_type {
            return None;
        }
        number(scalar)
    }

    /// The keys for which `value(key) op literal` holds, and whether they are exact.
    pub(super) fn select(&self, op: Operator, value: &ComparedValue) -> Option<(DimRanges, bool)> {
        match value {
            ComparedValue::Null => None,
            ComparedValue::Bytes(bytes) => Some((select_bytes(op, bytes)?, true)),
            ComparedValue::Number(number) => Some((self.select_number(op, *number)?, self.total)),
            ComparedValue::Zero => {
                // Keys have one zero, like the casts here.
                let zero = if self.data_type == DataType::Float32 {
                    bits(0.0f32)
                } else {
                    bits(0.0f64)
                };
                let zeros = self.select_number(Operator::Eq, zero)?;
                Some((self.select_number(op, zero)?.union(&zeros), false))
            }
        }
    }

    /// The keys equal to one of the literals, and whether they are exact.
    pub(super) fn select_any(&self, values: &[ComparedValue]) -> Option<(DimRanges, bool)> {
        // Lists may be long, so all ranges are sorted once.
        let (mut keys, mut strings, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut exact = true;
        for value in values {
            match value {
                ComparedValue::Number(number) => {
                    exact &= self.total;
                    keys.extend(self.equal_keys(*number)?);
                }
                ComparedValue::Bytes(bytes) => strings.push(BytesRange::point(bytes)),
                other => {
                    let (set, set_exact) = self.select(Operator::Eq, other)?;
                    exact &= set_exact;
                    others.push(set);
                }
            }
        }
        others.push(DimRanges::from_keys(keys));
        others.push(DimRanges::from_bytes(strings));
        Some((DimRanges::union_all(&others), exact))
    }

    /// The keys with `value(key) = number`, if there are any; the outer `None` means unknown.
    fn equal_keys(&self, number: i128) -> Option<Option<KeyRange>> {
        let above = self.first_key(number.checked_add(1)?);
        let range = self.first_key(number).map(|lo| KeyRange {
            lo,
            hi: above.map_or(u64::MAX, |above| above.saturating_sub(1)),
        });
        Some(range.filter(|range| range.lo <= range.hi && above != Some(0)))
    }

    /// The keys with `value(key) op number`.
    fn select_number(&self, op: Operator, number: i128) -> Option<DimRanges> {
        let from =
            |key: Option<u64>| key.map_or(DimRanges::none(), |k| DimRanges::key_range(k, u64::MAX));
        let at_least = from(self.first_key(number));
        let above = from(self.first_key(number.checked_add(1)?));
        Some(match op {
            Operator::Gt => above,
            Operator::GtEq => at_least,
            Operator::Lt => at_least.complement(),
            Operator::LtEq => above.complement(),
            Operator::Eq => at_least.intersect(&above.complement()),
            Operator::NotEq => at_least.complement().union(&above),
            _ => return None,
        })
    }

    /// The smallest key whose value is at least `value`; 0 if every key's value is.
    fn first_key(&self, value: i128) -> Option<u64> {
        // The last key of floats is the key of NaN, beyond infinity.
        let (min, max) = (key::min_key(self.datatype), key::max_key(self.datatype));
        let lowest = self.apply(min);
        if lowest >= value {
            return Some(0);
        }
        if self.apply(max) < value {
            return None;
        }
        if matches!(&self.kind, ComparedAs::Ordered(steps) if steps.is_empty()) {
            return u64::try_from(value - lowest).ok()?.checked_add(min);
        }
        // Invariant: apply(below) < value <= apply(at).
        let (mut below, mut at) = (min, max);
        while at - below > 1 {
            let middle = below + (at - below) / 2;
            if self.apply(middle) < value {
                below = middle;
            } else {
                at = middle;
            }
        }
        Some(at)
    }
}

fn select_bytes(op: Operator, bytes: &[u8]) -> Option<DimRanges> {
    let below = |end: Vec<u8>| {
        DimRanges::from_bytes(vec![BytesRange {
            start: Vec::new(),
            end: Some(end),
        }])
    };
    Some(match op {
        Operator::Eq => DimRanges::from_bytes(vec![BytesRange::point(bytes)]),
        Operator::NotEq => DimRanges::from_bytes(vec![BytesRange::point(bytes)]).complement(),
        Operator::Lt => below(bytes.to_vec()),
        Operator::LtEq => below(successor(bytes)),
        Operator::Gt => below(successor(bytes)).complement(),
        Operator::GtEq => below(bytes.to_vec()).complement(),
        _ => return None,
    })
}

/// The steps of a cast that never decreases; `None` for every other cast.
fn cast_steps(from: &DataType, to: &DataType) -> Option<Vec<MonotonicStep>> {
    use DataType as A;
    Some(match (from, to) {
        (from, to) if from == to => vec![],
        (from, to) if from.is_integer() && to.is_integer() => vec![],
        (from, A::Float32) if from.is_integer() => vec![MonotonicStep::IntegerToF32],
        (from, A::Float64) if from.is_integer() => vec![MonotonicStep::IntegerToF64],
        (from, A::Decimal128(_, scale)) if from.is_integer() => {
            vec![MonotonicStep::Scale(
                10i128.checked_pow(u32::try_from(*scale).ok()?)?,
            )]
        }
        (A::Float32, A::Float64) => vec![MonotonicStep::F32ToF64],
        (A::Float64, A::Float32) => vec![MonotonicStep::F64ToF32],
        (A::Timestamp(from, None), A::Timestamp(to, zone)) if is_utc(zone.as_deref()) => {
            match (nanoseconds(*from), nanoseconds(*to)) {
                (from, to) if from >= to => vec![MonotonicStep::Scale(from / to)],
                (from, to) => vec![MonotonicStep::Truncate(to / from)],
            }
        }
        (A::Timestamp(from, None), A::Date32) => vec![MonotonicStep::Floor(units_per_day(*from))],
        (A::Date32, A::Timestamp(to, zone)) if is_utc(zone.as_deref()) => {
            vec![MonotonicStep::Scale(units_per_day(*to))]
        }
        (A::Date32, A::Date64) => vec![MonotonicStep::Scale(units_per_day(TimeUnit::Millisecond))],
        _ => return None,
    })
}

fn units_per_day(unit: TimeUnit) -> i128 {
    SECONDS_PER_DAY * (nanoseconds(TimeUnit::Second) / nanoseconds(unit))
}

fn is_utc(zone: Option<&str>) -> bool {
    matches!(zone, None | Some("UTC" | "+00:00"))
}

/// The values a type can hold; a cast to it fails on all others.
fn limits(data_type: &DataType) -> (i128, i128) {
    use DataType as A;
    match data_type {
        A::Int8 => (i8::MIN.into(), i8::MAX.into()),
        A::Int16 => (i16::MIN.into(), i16::MAX.into()),
        A::Int32 => (i32::MIN.into(), i32::MAX.into()),
        A::UInt8 => (0, u8::MAX.into()),
        A::UInt16 => (0, u16::MAX.into()),
        A::UInt32 => (0, u32::MAX.into()),
        A::UInt64 => (0, u64::MAX.into()),
        // Arrow computes dates with a calendar that ends near the year 262 143.
        A::Date32 => (-95_000_000, 95_000_000),
        A::Decimal128(precision, _) => {
            let limit = 10i128
                .checked_pow(u32::from(*precision))
                .map_or(i128::MAX, |p| p - 1);
            (-limit, limit)
        }
        A::Float32 | A::Float64 => (i128::MIN, i128::MAX),
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}

/// Whether both types hold the same bytes in the same order.
fn same_bytes(from: &DataType, to: &DataType) -> bool {
    use DataType as A;
    let text = |t: &DataType| matches!(t, A::Utf8 | A::LargeUtf8 | A::Utf8View);
    let bytes = |t: &DataType| matches!(t, A::Binary | A::LargeBinary | A::BinaryView);
    (text(from) && text(to)) || (bytes(from) && bytes(to)) || (text(from) && bytes(to))
}

fn binary(scalar: &ScalarValue) -> Option<&[u8]> {
    match scalar {
        ScalarValue::Binary(v) | ScalarValue::LargeBinary(v) | ScalarValue::BinaryView(v) => {
            v.as_deref()
        }
        _ => None,
    }
}

fn number(scalar: &ScalarValue) -> Option<ComparedValue> {
    use ScalarValue as S;
    let integer: i128 = match scalar {
        S::Int8(v) => (*v)?.into(),
        S::Int16(v) => (*v)?.into(),
        S::Int32(v) | S::Date32(v) => (*v)?.into(),
        S::UInt8(v) => (*v)?.into(),
        S::UInt16(v) => (*v)?.into(),
        S::UInt32(v) => (*v)?.into(),
        S::UInt64(v) => (*v)?.into(),
        S::Int64(v) | S::Date64(v) | S::Time64Nanosecond(v) => (*v)?.into(),
        S::DurationSecond(v)
        | S::DurationMillisecond(v)
        | S::DurationMicrosecond(v)
        | S::DurationNanosecond(v) => (*v)?.into(),
        S::TimestampSecond(v, _)
        | S::TimestampMillisecond(v, _)
        | S::TimestampMicrosecond(v, _)
        | S::TimestampNanosecond(v, _) => (*v)?.into(),
        S::Decimal128(v, _, _) => (*v)?,
        S::Float32(v) => return float_value((*v)?),
        S::Float64(v) => return float_value((*v)?),
        _ => return None,
    };
    Some(ComparedValue::Number(integer))
}

/// Comparisons with NaN are left to DataFusion.
fn float_value<T: NativeKey>(value: T) -> Option<ComparedValue> {
    let number = value.to_f64();
    if number.is_nan() {
        return None;
    }
    Some(if number == 0.0 {
        ComparedValue::Zero
    } else {
        ComparedValue::Number(bits(value))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, AsArray, Date32Array, Int64Array};
    use datafusion::arrow::compute::cast;
    use datafusion::arrow::datatypes::{Float32Type, Float64Type, Int64Type};
    use proptest::prelude::*;

    use super::*;

    fn run(value: i128, from: &DataType, to: &DataType) -> i128 {
        cast_steps(from, to)
            .unwrap()
            .into_iter()
            .fold(value, |v, s| s.apply(v))
    }

    fn arrow(value: i64, from: &DataType, to: &DataType) -> Option<i128> {
        let stored: ArrayRef = match from {
            DataType::Date32 => Arc::new(Date32Array::from(vec![value as i32])),
            _ => cast(&Int64Array::from(vec![value]), from).unwrap(),
        };
        let shown = cast(&stored, to).unwrap();
        match to {
            DataType::Float64 => return Some(bits(shown.as_primitive::<Float64Type>().value(0))),
            DataType::Float32 => return Some(bits(shown.as_primitive::<Float32Type>().value(0))),
            DataType::Date32 => {
                return Some(i128::from(
                    shown
                        .as_primitive::<datafusion::arrow::datatypes::Date32Type>()
                        .value(0),
                ));
            }
            _ => {}
        }
        let shown = cast(&shown, &DataType::Int64).unwrap();
        (!shown.is_null(0)).then(|| i128::from(shown.as_primitive::<Int64Type>().value(0)))
    }

    proptest! {
        #[test]
        fn steps_do_what_arrow_does(value in prop_oneof![-200_000i64..200_000, -4_000_000_000_000i64..4_000_000_000_000, any::<i64>()], a in 0usize..4, b in 0usize..4) {
            let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
            let (from, to) = (DataType::Timestamp(units[a], None), DataType::Timestamp(units[b], None));
            if let Some(shown) = arrow(value, &from, &to) {
                prop_assert_eq!(run(value.into(), &from, &to), shown);
            }
            let zoned = DataType::Timestamp(units[b], Some("+00:00".into()));
            if let Some(shown) = arrow(value, &from, &zoned) {
                prop_assert_eq!(run(value.into(), &from, &zoned), shown);
            }
            for float in [DataType::Float64, DataType::Float32] {
                prop_assert_eq!(Some(run(value.into(), &DataType::Int64, &float)), arrow(value, &DataType::Int64, &float));
            }
            let seconds = value.clamp(-1_000_000_000_000, 1_000_000_000_000);
            let second = DataType::Timestamp(TimeUnit::Second, None);
            prop_assert_eq!(Some(run(seconds.into(), &second, &DataType::Date32)), arrow(seconds, &second, &DataType::Date32));
            let nano = DataType::Timestamp(TimeUnit::Nanosecond, None);
            prop_assert_eq!(Some(run(value.into(), &nano, &DataType::Date32)), arrow(value, &nano, &DataType::Date32));
            let days = value.clamp(-100_000, 100_000);
            prop_assert_eq!(Some(run(days.into(), &DataType::Date32, &to)), arrow(days, &DataType::Date32, &to));
        }
    }
}
