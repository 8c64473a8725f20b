//! Dates and times: units that Arrow lacks are scaled, dates become days.
//!
//! Every value is an `i64` since 1970 (dates) or midnight (times). Values of NULL cells are not converted, so they
//! cannot cause errors. Weeks are seven days from 1970-01-01, as in numpy.

use arrow::array::ArrowNativeTypeOp;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;

use crate::error::Error;
use crate::format::datatype::Datatype;

/// "Not a time", numpy's and libtiledb's name for `i64::MIN`.
pub(super) const NAT: i64 = i64::MIN;
const NANOSECONDS_PER_DAY: i64 = 86_400_000_000_000;
const EPOCH_YEAR: i64 = 1970;
/// Dates beyond this many years do not fit Arrow's 32 bits; before it, no computation overflows 64 bits.
const MOST_YEARS: i64 = 6_000_000;

/// The conversion from the stored unit to Arrow's 64-bit unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TimeConversion {
    /// The same unit.
    AsIs,
    /// Multiplies by the number of Arrow's units in a stored unit.
    Scale(i64),
    /// The unit is that of the type, stored as `u64`.
    Unsigned,
    /// Multiplies by the nanoseconds in a stored unit, and checks the time of day.
    TimeOfDay { nanoseconds: i64 },
}

/// Units of dates, all coarser than Arrow's seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum DateUnit {
    Day,
    Week,
    Month,
    Year,
}

/// An element that Arrow's type cannot hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OutOfRange {
    pub(super) element: usize,
    pub(super) value: i64,
}

impl OutOfRange {
    /// The error, for the cell that contains the element.
    pub(super) fn error(self, cell: usize, datatype: Datatype, element_type: &DataType) -> Error {
        let value = match datatype {
            Datatype::UInt64 => self.value.cast_unsigned().to_string(),
            _ => self.value.to_string(),
        };
        match element_type {
            DataType::Time64(_) => Error::unsupported(format!(
                "{datatype} value {value} in cell {cell} is outside the day, so it isn't a time of day: \
                 set the option 'tiledb.time_as' to 'duration'"
            )),
            other => Error::unsupported(format!(
                "{datatype} value {value} in cell {cell} is outside the range of Arrow's {other}"
            )),
        }
    }
}

/// The NULLs, with NaT included.
pub(super) fn nat_to_null(values: &[i64], nulls: Option<NullBuffer>) -> Option<NullBuffer> {
    // This is not `any`: without an early exit the loop is vectorised, and NaT is rare.
    if !values.iter().fold(false, |found, v| found | (*v == NAT)) {
        return nulls;
    }
    let mut values = values.iter();
    let valid = BooleanBuffer::collect_bool(values.len(), |_| values.next() != Some(&NAT));
    NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(valid)))
}

/// Scales and checks values in place; elements that are NULL become 0.
pub(super) fn convert_times(
    values: &mut [i64],
    conversion: TimeConversion,
    nulls: Option<&NullBuffer>,
) -> Result<(), OutOfRange> {
    match conversion {
        TimeConversion::AsIs => Ok(()),
        TimeConversion::Unsigned => in_place(values, nulls, |v| (v >= 0).then_some(v)),
        TimeConversion::Scale(factor) => in_place(values, nulls, |v| v.checked_mul(factor)),
        TimeConversion::TimeOfDay { nanoseconds } => {
            let end = NANOSECONDS_PER_DAY / nanoseconds;
            in_place(values, nulls, |v| {
                (0..end).contains(&v).then(|| v.mul_wrapping(nanoseconds))
            })
        }
    }
}

fn in_place(
    values: &mut [i64],
    nulls: Option<&NullBuffer>,
    convert: impl Fn(i64) -> Option<i64>,
) -> Result<(), OutOfRange> {
    let set = |(element, value): (usize, &mut i64)| match convert(*value) {
        Some(converted) => {
            *value = converted;
            Ok(())
        }
        None => Err(OutOfRange {
            element,
            value: *value,
        }),
    };
    let Some(nulls) = nulls else {
        return values.iter_mut().enumerate().try_for_each(set);
    };
    for ((element, value), valid) in values.iter_mut().enumerate().zip(nulls) {
        if valid {
            set((element, value))?;
        } else {
            *value = 0;
        }
    }
    Ok(())
}

/// Converts dates to days; elements that are NULL become 0.
pub(super) fn convert_dates(
    values: &[i64],
    unit: DateUnit,
    nulls: Option<&NullBuffer>,
) -> Result<Vec<i32>, OutOfRange> {
    let day = |(element, &value): (usize, &i64)| {
        let days = first_day(value, unit).and_then(|days| i32::try_from(days).ok());
        days.ok_or(OutOfRange { element, value })
    };
    match nulls {
        None => values.iter().enumerate().map(day).collect(),
        Some(nulls) => values
            .iter()
            .enumerate()
            .zip(nulls)
            .map(|(item, valid)| if valid { day(item) } else { Ok(0) })
            .collect(),
    }
}

/// Days from 1970-01-01 to the first day of the unit.
fn first_day(value: i64, unit: DateUnit) -> Option<i64> {
    let in_reach = |years: i64| (-MOST_YEARS..=MOST_YEARS).contains(&years);
    match unit {
        DateUnit::Day => Some(value),
        DateUnit::Week => value.checked_mul(7),
        DateUnit::Month => {
            let (years, month) = (value.div_euclid(12), value.rem_euclid(12));
            in_reach(years).then(|| first_day_of_month(EPOCH_YEAR + years, month))
        }
        DateUnit::Year => in_reach(value).then(|| first_day_of_month(EPOCH_YEAR + value, 0)),
    }
}

/// Days from 1970-01-01 to the first of a month (0 to 11) in the proleptic Gregorian calendar.
fn first_day_of_month(year: i64, month: i64) -> i64 {
    const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    let leap_day = i64::from(leap && month > 1);
    // The leap days of all years before this one, counted from year 1; 719_162 days lie before 1970.
    let past = year - 1;
    let leap_days = past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    let before = usize::try_from(month).ok().and_then(|m| DAYS_BEFORE.get(m));
    past * 365 + leap_days - 719_162 + before.copied().unwrap_or(0) + leap_day
}

/// The stored number of an Arrow time, the opposite of [`convert_times`]; `None` if it is not a whole number of units.
pub(super) fn stored_time(value: i64, conversion: TimeConversion) -> Option<i64> {
    let unit = match conversion {
        TimeConversion::AsIs | TimeConversion::Unsigned => 1,
        TimeConversion::Scale(factor) => factor,
        TimeConversion::TimeOfDay { nanoseconds } => nanoseconds,
    };
    (value.checked_rem(unit)? == 0).then(|| value / unit)
}

/// The stored number of a date, the opposite of [`convert_dates`]; `None` if it is not the first day of a unit.
pub(super) fn stored_date(days: i64, unit: DateUnit) -> Option<i64> {
    // 400 years are a whole number of days.
    let first = |periods: i64| {
        let near = days.checked_mul(periods)?.div_euclid(146_097);
        (near - 1..=near + 1).find(|period| first_day(*period, unit) == Some(days))
    };
    match unit {
        DateUnit::Day => Some(days),
        DateUnit::Week => (days.rem_euclid(7) == 0).then(|| days.div_euclid(7)),
        DateUnit::Month => first(4800),
        DateUnit::Year => first(400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_stored_as_they_are_read() {
        for unit in [
            DateUnit::Day,
            DateUnit::Week,
            DateUnit::Month,
            DateUnit::Year,
        ] {
            for period in (-30_000..30_000).chain([-5_000_000, 5_000_000]) {
                let Some(days) = first_day(period, unit).filter(|d| i32::try_from(*d).is_ok())
                else {
                    continue;
                };
                assert_eq!(stored_date(days, unit), Some(period), "{unit:?} {period}");
                let next = stored_date(days + 1, unit);
                assert_eq!(next.is_some(), unit == DateUnit::Day, "{unit:?} {period}");
            }
        }
        assert_eq!(stored_time(120, TimeConversion::Scale(60)), Some(2));
        assert_eq!(stored_time(-120, TimeConversion::Scale(60)), Some(-2));
        assert_eq!(stored_time(121, TimeConversion::Scale(60)), None);
    }

    #[test]
    fn first_days_are_those_of_the_calendar() {
        // From `date -u -d <date> +%s` / 86400, and for the negative years from numpy's datetime64.
        let months = [
            (0, 0),
            (1, 31),
            (-1, -31),
            (12, 365),
            (2000 * 12 - 1970 * 12 + 2, 11017),
            (1900 * 12 - 1970 * 12 + 2, -25508),
            (-1970 * 12, -719_528),
        ];
        for (month, day) in months {
            assert_eq!(
                first_day(month, DateUnit::Month),
                Some(day),
                "month {month}"
            );
        }
        for (year, day) in [(0, 0), (30, 10957), (-370, -135_140), (-1971, -719_893)] {
            assert_eq!(first_day(year, DateUnit::Year), Some(day), "year {year}");
        }
        assert_eq!(first_day(-2, DateUnit::Week), Some(-14));
        assert_eq!(first_day(i64::MAX, DateUnit::Week), None);
        assert_eq!(first_day(i64::MAX, DateUnit::Month), None);
        assert_eq!(first_day(i64::MIN, DateUnit::Year), None);
    }

    #[test]
    fn months_follow_each_other_without_gap() {
        // An independent walk: every month starts where the one before ended.
        let mut day = first_day(-30_000, DateUnit::Month).unwrap();
        for month in -30_000..30_000i64 {
            assert_eq!(
                first_day(month, DateUnit::Month),
                Some(day),
                "month {month}"
            );
            let year = 1970 + month.div_euclid(12);
            let leap = year % 400 == 0 || (year % 4 == 0 && year % 100 != 0);
            day += match month.rem_euclid(12) + 1 {
                4 | 6 | 9 | 11 => 30,
                2 if leap => 29,
                2 => 28,
                _ => 31,
            };
        }
    }

    #[test]
    fn dates_fit_or_name_the_element() {
        let limits = [i64::from(i32::MIN), i64::from(i32::MAX)];
        let days = convert_dates(&limits, DateUnit::Day, None).unwrap();
        assert_eq!(days, [i32::MIN, i32::MAX]);
        let error = convert_dates(&[0, 1 << 31], DateUnit::Day, None).unwrap_err();
        assert_eq!(
            error,
            OutOfRange {
                element: 1,
                value: 1 << 31
            }
        );
        // The last year whose first day fits: 5881580 starts 192 days before the limit, 5881580-07-11.
        let last = 5_881_580 - 1970;
        assert_eq!(
            convert_dates(&[last], DateUnit::Year, None),
            Ok(vec![i32::MAX - 192])
        );
        assert!(convert_dates(&[last + 1], DateUnit::Year, None).is_err());
    }

    #[test]
    fn null_elements_are_neither_checked_nor_kept() {
        let nulls = NullBuffer::from(vec![false, true]);
        let mut values = [i64::MAX, 2];
        convert_times(&mut values, TimeConversion::Scale(60), Some(&nulls)).unwrap();
        assert_eq!(values, [0, 120]);
        let days = convert_dates(&[i64::MAX, 2], DateUnit::Week, Some(&nulls));
        assert_eq!(days, Ok(vec![0, 14]));
    }

    #[test]
    fn a_time_of_day_lies_within_the_day() {
        let seconds = TimeConversion::TimeOfDay {
            nanoseconds: 1_000_000_000,
        };
        let mut values = [0, 86_399];
        convert_times(&mut values, seconds, None).unwrap();
        assert_eq!(values, [0, 86_399_000_000_000]);
        for outside in [-1, 86_400, i64::MAX, i64::MIN] {
            let error = convert_times(&mut [outside], seconds, None).unwrap_err();
            assert_eq!(error.value, outside);
        }
    }

    #[test]
    fn nat_adds_to_the_nulls() {
        assert!(nat_to_null(&[1, 2], None).is_none());
        let nulls = nat_to_null(
            &[1, NAT, 3],
            Some(NullBuffer::from(vec![false, true, true])),
        );
        let valid: Vec<bool> = nulls.unwrap().iter().collect();
        assert_eq!(valid, [false, false, true]);
    }
}
