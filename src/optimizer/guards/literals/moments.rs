//! Points in time that constants denote, and comparisons of columns with them.
//!
//! A moment is a number of nanoseconds since 1970 with 128 bits. A timestamp of seconds can hold the year 1500, but a timestamp
//! of nanoseconds can't, although SQL gives this type to `TIMESTAMP '1500-01-01'`. The subtle thing is rounding: a column of
//! seconds never equals a value at half a second, and is less than it if it is less than or equal to the second before.

use std::sync::Arc;

use datafusion::arrow::array::temporal_conversions::as_datetime_with_timezone;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::compute::kernels::cast_utils::string_to_datetime;
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampSecondType};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;

/// The point in time that a constant denotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimePoint {
    Null,
    /// Nanoseconds since 1970.
    At(i128),
}

/// The nanoseconds in a unit of a timestamp or date type.
pub(super) fn unit_of(data_type: &DataType) -> Option<i128> {
    match data_type {
        DataType::Timestamp(unit, _) => Some(match unit {
            TimeUnit::Second => SECOND,
            TimeUnit::Millisecond => SECOND / 1_000,
            TimeUnit::Microsecond => SECOND / 1_000_000,
            TimeUnit::Nanosecond => 1,
        }),
        DataType::Date32 => Some(DAY),
        _ => None,
    }
}

/// The zone of a timestamp type.
pub(super) fn zone_of(data_type: &DataType) -> Option<&str> {
    match data_type {
        DataType::Timestamp(_, zone) => zone.as_deref(),
        _ => None,
    }
}

/// Evaluates expressions without columns.
pub(super) struct ConstantEvaluator {
    info: SimplifyContext,
}

impl ConstantEvaluator {
    /// Creates an evaluator; `info` has the session's options and the start time of the query.
    pub(super) fn new(info: SimplifyContext) -> Self {
        Self { info }
    }

    /// The moment that a constant of this type denotes, before any rounding to a unit that can't express it.
    pub(super) fn moment(&self, expr: &Expr, data_type: &DataType) -> Option<TimePoint> {
        let (moment, zoned) = self.with_zone(expr)?;
        (zoned == zone_of(data_type).is_some()).then_some(moment)
    }

    /// The moment of a constant, and whether the constant has a zone.
    fn with_zone(&self, expr: &Expr) -> Option<(TimePoint, bool)> {
        if let Expr::Cast(Cast { expr: inner, field }) = expr {
            let to = field.data_type();
            let (unit, zone) = (unit_of(to)?, zone_of(to));
            if let Some((at, zoned)) = self.with_zone(inner)
                && zoned == zone.is_some()
            {
                return Some((rounded_by_cast(at, unit), zoned));
            }
            if let Some(at) = self.value(inner)?.try_as_str().flatten() {
                let at = parsed(at, zone)?;
                return Some((TimePoint::At(at - at.rem_euclid(unit)), zone.is_some()));
            }
        }
        let value = self.value(expr)?;
        let data_type = value.data_type();
        let unit = unit_of(&data_type)?;
        let moment = match count(&value)? {
            Some(count) => TimePoint::At(count.checked_mul(unit)?),
            None => TimePoint::Null,
        };
        Some((moment, zone_of(&data_type).is_some()))
    }

    /// The value of an expression; `None` if the expression isn't constant or fails.
    fn value(&self, expr: &Expr) -> Option<ScalarValue> {
        if let Expr::Literal(value, _) = expr {
            return Some(value.clone());
        }
        if !is_constant(expr) {
            return None;
        }
        let simplifier = ExprSimplifier::new(self.info.clone());
        match simplifier.simplify(expr.clone()).ok()? {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }
}

/// Whether an expression has the same value in all rows.
pub(super) fn is_constant(expr: &Expr) -> bool {
    let depends = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::LambdaVariable(_)
        ))
    });
    !depends.unwrap_or(true) && !expr.is_volatile()
}

/// The result of Arrow's cast of a moment to another unit, which rounds towards zero.
fn rounded_by_cast(moment: TimePoint, unit: i128) -> TimePoint {
    match moment {
        TimePoint::At(at) => TimePoint::At(at - at % unit),
        TimePoint::Null => TimePoint::Null,
    }
}

/// The number that a timestamp or date holds.
fn count(value: &ScalarValue) -> Option<Option<i128>> {
    use ScalarValue as S;
    match value {
        S::TimestampSecond(count, _)
        | S::TimestampMillisecond(count, _)
        | S::TimestampMicrosecond(count, _)
        | S::TimestampNanosecond(count, _) => Some(count.map(i128::from)),
        S::Date32(days) => Some(days.map(i128::from)),
        _ => None,
    }
}

/// The moment that a text denotes. A text without an offset is in this zone.
fn parsed(text: &str, zone: Option<&str>) -> Option<i128> {
    let zone: Tz = zone.unwrap_or("+00:00").parse().ok()?;
    let at = string_to_datetime(&zone, text).ok()?;
    Some(i128::from(at.timestamp()) * SECOND + i128::from(at.timestamp_subsec_nanos()))
}

/// The local time in a zone at a moment, as nanoseconds since 1970.
pub(super) fn shown_in(zone: &str, at: i128) -> Option<i128> {
    let zone: Tz = zone.parse().ok()?;
    let second = i64::try_from(at.div_euclid(SECOND)).ok()?;
    let there = as_datetime_with_timezone::<TimestampSecondType>(second, zone)?;
    let shown = there.naive_local().and_utc().timestamp();
    Some(i128::from(shown) * SECOND + at.rem_euclid(SECOND))
}

/// Whether a zone always has the same offset from UTC, so that every local time occurs exactly once.
pub(super) fn is_fixed(zone: &str) -> bool {
    zone.starts_with(['+', '-']) || matches!(zone, "UTC" | "GMT" | "Etc/UTC" | "Z")
}

/// A timestamp or date expression that is compared with moments.
#[derive(Debug, Clone)]
pub(super) struct TimeOperand {
    pub(super) expr: Expr,
    pub(super) data_type: DataType,
    pub(super) nullable: bool,
}

impl TimeOperand {
    /// The condition that compares the exact value with a moment; `None` for other operators.
    pub(super) fn compared(&self, op: Operator, at: i128) -> Option<Expr> {
        use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
        let unit = unit_of(&self.data_type)?;
        let count = at.div_euclid(unit);
        let value = literal(&self.data_type, Some(count));
        let is_whole = at.rem_euclid(unit) == 0;
        Some(match (op, value) {
            (_, Some(value)) if is_whole => self.with(op, value),
            (Eq, _) => self.always(false),
            (NotEq, _) => self.always(true),
            (IsDistinctFrom, _) => lit(true),
            (IsNotDistinctFrom, _) => lit(false),
            (Lt | LtEq, Some(value)) => self.with(LtEq, value),
            (Gt | GtEq, Some(value)) => self.with(Gt, value),
            // The moment lies beyond all values of the type.
            (Lt | LtEq, None) => self.always(count > 0),
            (Gt | GtEq, None) => self.always(count < 0),
            _ => return None,
        })
    }

    /// The condition that the exact value is among some moments or, if `negated`, isn't.
    pub(super) fn among(&self, moments: &[TimePoint], negated: bool) -> Option<Expr> {
        let unit = unit_of(&self.data_type)?;
        let values = moments
            .iter()
            .filter_map(|moment| match moment {
                TimePoint::Null => literal(&self.data_type, None),
                TimePoint::At(at) if at.rem_euclid(unit) == 0 => {
                    literal(&self.data_type, Some(at.div_euclid(unit)))
                }
                TimePoint::At(_) => None,
            })
            .map(lit)
            .collect::<Vec<_>>();
        Some(if values.is_empty() {
            self.always(negated)
        } else {
            self.expr.clone().in_list(values, negated)
        })
    }

    fn with(&self, op: Operator, value: ScalarValue) -> Expr {
        let (left, right) = (self.expr.clone(), lit(value));
        Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
    }

    /// A condition with the same answer for all values, which is NULL for NULL.
    fn always(&self, holds: bool) -> Expr {
        let unknown = lit(ScalarValue::Boolean(None));
        match (self.nullable, holds) {
            (false, holds) => lit(holds),
            (true, true) => self.expr.clone().is_not_null().or(unknown),
            (true, false) => self.expr.clone().is_null().and(unknown),
        }
    }
}

/// The value with this number of units; `None` if the type has no such value.
pub(super) fn literal(data_type: &DataType, count: Option<i128>) -> Option<ScalarValue> {
    use ScalarValue as S;
    if let DataType::Date32 = data_type {
        let days = count.map(i32::try_from).transpose().ok()?;
        return Some(S::Date32(days));
    }
    let DataType::Timestamp(unit, zone) = data_type else {
        return None;
    };
    let count = count.map(i64::try_from).transpose().ok()?;
    let zone = zone.as_ref().map(Arc::clone);
    Some(match unit {
        TimeUnit::Second => S::TimestampSecond(count, zone),
        TimeUnit::Millisecond => S::TimestampMillisecond(count, zone),
        TimeUnit::Microsecond => S::TimestampMicrosecond(count, zone),
        TimeUnit::Nanosecond => S::TimestampNanosecond(count, zone),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{cast, col};

    use super::*;

    fn moment(expr: &Expr, data_type: &DataType) -> Option<TimePoint> {
        ConstantEvaluator::new(SimplifyContext::default()).moment(expr, data_type)
    }

    fn stamp(unit: TimeUnit, zone: Option<&str>) -> DataType {
        DataType::Timestamp(unit, zone.map(Arc::from))
    }

    #[test]
    fn moments_are_what_texts_and_casts_say() {
        let naive = stamp(TimeUnit::Nanosecond, None);
        let seconds = stamp(TimeUnit::Second, None);
        let oslo = stamp(TimeUnit::Nanosecond, Some("Europe/Oslo"));
        for (text, data_type, expected) in [
            ("1970-01-01T00:00:00.5", &naive, SECOND / 2),
            ("1500-01-01", &naive, -14_831_769_600 * SECOND),
            ("1969-12-31T23:59:59.5", &seconds, -SECOND),
            ("1970-01-01T00:00:00+01:00", &naive, -3600 * SECOND),
            ("2024-07-01T02:00:00", &oslo, 1_719_792_000 * SECOND),
        ] {
            let found = moment(&cast(lit(text), data_type.clone()), data_type);
            assert_eq!(found, Some(TimePoint::At(expected)), "{text}");
        }
        let rounded = cast(
            cast(lit("1969-12-31T23:59:59.5"), naive.clone()),
            seconds.clone(),
        );
        assert_eq!(moment(&rounded, &seconds), Some(TimePoint::At(0)));
        let ambiguous = cast(lit("2024-10-27T02:30:00"), oslo.clone());
        assert_eq!(moment(&ambiguous, &oslo), None);
        assert_eq!(moment(&cast(lit("soon"), naive.clone()), &naive), None);
        assert_eq!(moment(&cast(col("t"), naive.clone()), &naive), None);
        assert_eq!(moment(&cast(lit("2024-01-01"), oslo), &naive), None);
    }

    #[test]
    fn clocks_follow_their_zone() {
        let july = 1_719_792_000 * SECOND + 1;
        for (zone, offset) in [
            ("Europe/Oslo", 7200),
            ("+05:30", 19_800),
            ("UTC", 0),
            ("Asia/Singapore", 28_800),
        ] {
            assert_eq!(shown_in(zone, july), Some(july + offset * SECOND), "{zone}");
        }
        assert_eq!(shown_in("Middle/Earth", july), None);
        assert!(is_fixed("-03:00") && !is_fixed("Europe/Oslo"));
    }

    #[test]
    fn comparisons_round_by_their_operator() {
        use Operator::{Eq, Gt, GtEq, IsDistinctFrom, Lt, LtEq, NotEq};
        let subject = |nullable| TimeOperand {
            expr: col("t"),
            data_type: stamp(TimeUnit::Second, None),
            nullable,
        };
        let second = |count| lit(ScalarValue::TimestampSecond(Some(count), None));
        let half = -SECOND / 2;
        for (op, at, expected) in [
            (Eq, SECOND, col("t").eq(second(1))),
            (GtEq, SECOND, col("t").gt_eq(second(1))),
            (Eq, half, lit(false)),
            (NotEq, half, lit(true)),
            (Lt, half, col("t").lt_eq(second(-1))),
            (LtEq, half, col("t").lt_eq(second(-1))),
            (Gt, half, col("t").gt(second(-1))),
            (GtEq, half, col("t").gt(second(-1))),
            (IsDistinctFrom, half, lit(true)),
            (Lt, i128::MAX / 2, lit(true)),
            (Lt, i128::MIN / 2, lit(false)),
            (Gt, i128::MIN / 2, lit(true)),
        ] {
            let found = subject(false).compared(op, at);
            assert_eq!(found, Some(expected), "{op} {at}");
        }
        let unknown = lit(ScalarValue::Boolean(None));
        let never = col("t").is_null().and(unknown.clone());
        assert_eq!(subject(true).compared(Eq, half), Some(never));
        let always = col("t").is_not_null().or(unknown);
        assert_eq!(
            subject(true).among(&[TimePoint::At(half)], true),
            Some(always)
        );
        let kept = [TimePoint::At(half), TimePoint::At(SECOND), TimePoint::Null];
        let null = lit(ScalarValue::TimestampSecond(None, None));
        let list = col("t").in_list(vec![second(1), null], false);
        assert_eq!(subject(true).among(&kept, false), Some(list));
    }
}
