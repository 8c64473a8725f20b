//! Ranges of coordinates as conditions on dimensions.
//!
//! A bound must be the same value for the dimension as for the caller: it is cast to the type of the dimension's
//! column, and rejected if that changes it. Only floats are compared without a cast, because few decimal numbers are
//! the same in 32 and in 64 bits.

use std::ops::{Bound, RangeBounds};

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::{Expr, in_list, lit};
use datafusion::scalar::ScalarValue;
use tiledb_engine::{Error, Result};

/// A requested range of a dimension.
#[derive(Debug, Clone)]
pub(super) struct CoordinateRange {
    pub(super) dimension: String,
    start: Bound<ScalarValue>,
    end: Bound<ScalarValue>,
}

impl CoordinateRange {
    pub(super) fn new<T: Clone + Into<ScalarValue>>(
        dimension: String,
        range: &impl RangeBounds<T>,
    ) -> Self {
        let scalar = |value: &T| value.clone().into();
        Self {
            dimension,
            start: range.start_bound().map(scalar),
            end: range.end_bound().map(scalar),
        }
    }

    /// Casts both ends of the range to the type of the dimension's column.
    fn fit(&self, ty: &DataType) -> Result<(Bound<ScalarValue>, Bound<ScalarValue>)> {
        let fitted = |bound: &Bound<ScalarValue>| match bound {
            Bound::Included(value) => fitted(value, ty).map(Bound::Included),
            Bound::Excluded(value) => fitted(value, ty).map(Bound::Excluded),
            Bound::Unbounded => Ok(Bound::Unbounded),
        };
        Ok((fitted(&self.start)?, fitted(&self.end)?))
    }
}

/// The condition that a coordinate lies in one of several ranges.
pub(super) fn condition<'a>(
    coordinate: &Expr,
    ty: &DataType,
    ranges: impl Iterator<Item = &'a CoordinateRange>,
) -> Result<Expr> {
    let (mut points, mut conditions) = (Vec::new(), Vec::new());
    for range in ranges {
        match range
            .fit(ty)
            .map_err(|e| e.with("dimension", &range.dimension))?
        {
            (Bound::Included(low), Bound::Included(high)) if low == high => points.push(lit(low)),
            (start, end) => conditions.push(between(coordinate, start, end)),
        }
    }
    if !points.is_empty() {
        conditions.push(in_list(coordinate.clone(), points, false));
    }
    Ok(any_of(conditions))
}

fn between(coordinate: &Expr, start: Bound<ScalarValue>, end: Bound<ScalarValue>) -> Expr {
    let coordinate = || coordinate.clone();
    let low = match start {
        Bound::Included(low) => Some(coordinate().gt_eq(lit(low))),
        Bound::Excluded(low) => Some(coordinate().gt(lit(low))),
        Bound::Unbounded => None,
    };
    let high = match end {
        Bound::Included(high) => Some(coordinate().lt_eq(lit(high))),
        Bound::Excluded(high) => Some(coordinate().lt(lit(high))),
        Bound::Unbounded => None,
    };
    match (low, high) {
        (Some(low), Some(high)) => low.and(high),
        (one, other) => one.or(other).unwrap_or_else(|| lit(true)),
    }
}

/// A disjunction as a balanced tree, so that its depth stays small.
fn any_of(mut conditions: Vec<Expr>) -> Expr {
    while conditions.len() > 1 {
        let mut rest = conditions.into_iter();
        let mut pairs = Vec::new();
        while let Some(one) = rest.next() {
            pairs.push(match rest.next() {
                Some(other) => one.or(other),
                None => one,
            });
        }
        conditions = pairs;
    }
    conditions.pop().unwrap_or_else(|| lit(false))
}

/// A bound as a value that can be compared with a dimension's without changing it.
fn fitted(bound: &ScalarValue, ty: &DataType) -> Result<ScalarValue> {
    let from = bound.data_type();
    let unfit = || {
        Error::invalid(format!(
            "{bound:?} cannot be the end of a range, expected a value that {ty} can hold"
        ))
    };
    if bound.is_null() || (from.is_string() && ty.is_numeric()) {
        return Err(unfit());
    }
    if from.is_floating() && ty.is_floating() {
        return Ok(bound.clone());
    }
    let value = bound.cast_to(ty).map_err(|e| unfit().with_source(e))?;
    // Text is parsed as the finest unit of time.
    let compared_as = match ty {
        DataType::Timestamp(_, _) | DataType::Date32 if from.is_string() => {
            DataType::Timestamp(TimeUnit::Nanosecond, None)
        }
        _ if from.is_string() => return Ok(value),
        _ => from,
    };
    match (bound.cast_to(&compared_as), value.cast_to(&compared_as)) {
        (Ok(bound), Ok(value)) if bound != value => Err(unfit()),
        // The time is too far from 1970 for nanoseconds.
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(bound: impl Into<ScalarValue>, ty: &DataType) -> Option<ScalarValue> {
        fitted(&bound.into(), ty).ok()
    }

    #[test]
    fn bounds_become_coordinates_or_are_refused() {
        let second = DataType::Timestamp(TimeUnit::Second, None);
        let ms = |ms| ScalarValue::TimestampMillisecond(Some(ms), None);
        assert_eq!(fit(99, &DataType::UInt8), Some(99_u8.into()));
        assert_eq!(fit(7_u64, &DataType::Int32), Some(7.into()));
        assert_eq!(fit(2.0, &DataType::Int32), Some(2.into()));
        assert_eq!(fit(0.1, &DataType::Float32), Some(0.1.into()));
        assert_eq!(fit(3, &DataType::Float64), Some(3.0.into()));
        assert_eq!(
            fit("é", &DataType::Utf8View),
            Some(ScalarValue::Utf8View(Some("é".to_owned())))
        );
        assert_eq!(
            fit("2024-02-29", &DataType::Date32),
            Some(ScalarValue::Date32(Some(19_782)))
        );
        assert_eq!(fit("1970-01-01T00:01:00", &second), fit(60, &second));
        assert_eq!(fit(ms(60_000), &second), fit(60_i64, &second));
        for (bound, ty) in [
            (300.into(), DataType::UInt8),
            ((-1).into(), DataType::UInt64),
            (0.5.into(), DataType::Int32),
            (ScalarValue::Int32(None), DataType::Int32),
            ("5".into(), DataType::Int32),
            ("soon".into(), second.clone()),
            ("1970-01-01T00:00:00.5".into(), second.clone()),
            ("1970-01-01T12:00:00".into(), DataType::Date32),
            (ms(500), second),
            (((1_i64 << 53) + 1).into(), DataType::Float64),
        ] {
            assert!(fitted(&bound, &ty).is_err(), "{bound:?} {ty}");
        }
    }

    #[test]
    fn many_ranges_stay_shallow() {
        let ranges: Vec<_> = (0..1000)
            .map(|i| CoordinateRange::new("x".to_owned(), &(2 * i..2 * i + 1)))
            .collect();
        let x = datafusion::prelude::ident("x");
        let expr = condition(&x, &DataType::Int32, ranges.iter()).unwrap();
        let mut depth = 0;
        let mut expr = &expr;
        while let Expr::BinaryExpr(binary) = expr {
            (expr, depth) = (&binary.left, depth + 1);
        }
        assert!(depth < 15, "{depth}");
    }
}
