//! Functions of a stored value that never decrease, as sequences of steps.

use datafusion::arrow::datatypes::TimeUnit;

use crate::geometry::key::Native;

/// How values are compared.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// By number, computed from the stored value by these steps.
    Ordered(Vec<Step>),
    /// By bytes.
    Bytes,
}

/// One step of a function that never decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Multiply by a positive number.
    Scale(i128),
    /// Divide by a positive number, rounding towards zero.
    Truncate(i128),
    /// Divide by a positive number, rounding down.
    Floor(i128),
    /// Convert months since 1970 to days.
    FirstDayOfMonth,
    /// Convert years since 1970 to days.
    FirstDayOfYear,
    /// Convert an integer to the bits of a float.
    IntegerToF32,
    IntegerToF64,
    F32ToF64,
    F64ToF32,
}

impl Step {
    pub(super) fn apply(self, value: i128) -> i128 {
        match self {
            Self::Scale(factor) => value.saturating_mul(factor),
            Self::Truncate(divisor) => value / divisor,
            Self::Floor(divisor) => value.div_euclid(divisor),
            Self::FirstDayOfMonth => first_day(value),
            Self::FirstDayOfYear => first_day(value.saturating_mul(12)),
            #[expect(clippy::cast_precision_loss, reason = "Arrow's cast rounds likewise")]
            Self::IntegerToF32 => bits(value as f32),
            #[expect(clippy::cast_precision_loss, reason = "Arrow's cast rounds likewise")]
            Self::IntegerToF64 => bits(value as f64),
            Self::F32ToF64 => bits(f64::from(float::<f32>(value))),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "Arrow's cast rounds likewise"
            )]
            Self::F64ToF32 => bits(float::<f64>(value) as f32),
        }
    }
}

pub(super) fn bits<T: Native>(value: T) -> i128 {
    i128::from(value.to_key())
}

fn float<T: Native>(bits: i128) -> T {
    T::from_key(u64::try_from(bits).unwrap_or(0))
}

/// Days from 1970-01-01 to the first of the month that is `months` after 1970-01.
fn first_day(months: i128) -> i128 {
    // Years start in March here, so that the leap day is the last day of its year.
    let since_march = months.saturating_sub(2);
    let (year, month) = (
        since_march.div_euclid(12) + 1970,
        since_march.rem_euclid(12),
    );
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year.saturating_mul(365) + leap_days + (153 * month + 2) / 5 - 719_468
}

/// The number of nanoseconds in a unit.
pub(super) fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_days_are_those_of_the_calendar() {
        // From numpy's datetime64.
        for (month, day) in [
            (0, 0),
            (1, 31),
            (-1, -31),
            (12, 365),
            (362, 11_017),
            (-838, -25_508),
            (-1970 * 12, -719_528),
        ] {
            assert_eq!(first_day(month), day, "month {month}");
        }
        assert_eq!(Step::FirstDayOfYear.apply(30), 10_957);
    }
}
