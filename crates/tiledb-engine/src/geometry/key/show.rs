//! Keys as text for EXPLAIN: numbers as numbers, dates and times in ISO 8601.
//!
//! Units finer than a nanosecond, and dates beyond the year 9999, are shown as the stored integer.

use super::{NativeKey, with_native};
use crate::format::datatype::Datatype;

/// The value of `key` as text.
pub fn show(datatype: Datatype, key: u64) -> String {
    if datatype.is_datetime() || datatype.is_time() {
        let value = i64::from_key(key);
        let text = if datatype.is_time() {
            time(datatype, value)
        } else {
            date_time(datatype, value)
        };
        return text.unwrap_or_else(|| value.to_string());
    }
    with_native!(datatype, T => T::from_key(key).to_string(), _ => key.to_string())
}

fn date_time(datatype: Datatype, value: i64) -> Option<String> {
    let days = match datatype {
        Datatype::DateTimeYear => {
            return year(1970_i64.checked_add(value)?).map(|y| format!("{y:04}"));
        }
        Datatype::DateTimeMonth => {
            let y = year(1970_i64.checked_add(value.div_euclid(12))?)?;
            return Some(format!("{y:04}-{:02}", value.rem_euclid(12) + 1));
        }
        Datatype::DateTimeWeek => value.checked_mul(7)?,
        Datatype::DateTimeDay => value,
        other => {
            let (per_day, digits) = unit(other)?;
            let day = date(value.div_euclid(per_day))?;
            return Some(format!(
                "{day}T{}",
                clock(value.rem_euclid(per_day), per_day, digits)
            ));
        }
    };
    date(days)
}

fn time(datatype: Datatype, value: i64) -> Option<String> {
    let (per_day, digits) = unit(datatype)?;
    (0..per_day)
        .contains(&value)
        .then(|| clock(value, per_day, digits))
}

/// Units per day, and digits of the second's fraction.
fn unit(datatype: Datatype) -> Option<(i64, usize)> {
    use Datatype as D;
    Some(match datatype {
        D::DateTimeHr | D::TimeHr => (24, 0),
        D::DateTimeMin | D::TimeMin => (1_440, 0),
        D::DateTimeSec | D::TimeSec => (86_400, 0),
        D::DateTimeMs | D::TimeMs => (86_400_000, 3),
        D::DateTimeUs | D::TimeUs => (86_400_000_000, 6),
        D::DateTimeNs | D::TimeNs => (86_400_000_000_000, 9),
        _ => return None,
    })
}

fn clock(value: i64, per_day: i64, digits: usize) -> String {
    let nanos = value * (86_400_000_000_000 / per_day);
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let mut text = format!(
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    );
    if digits > 0 {
        text.extend(format!(".{fraction:09}").chars().take(digits + 1));
    }
    text
}

fn year(year: i64) -> Option<i64> {
    (0..=9999).contains(&year).then_some(year)
}

/// A count of days since 1970-01-01 as a date of the proleptic Gregorian calendar.
fn date(days: i64) -> Option<String> {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    // Years are counted from March of year 0, so that the leap day is the last of its year.
    let shifted = days.checked_add(719_468)?;
    let (era, day) = (
        shifted.div_euclid(DAYS_OF_400_YEARS),
        shifted.rem_euclid(DAYS_OF_400_YEARS),
    );
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let y = year(year_of_era + era * 400 + i64::from(month <= 2))?;
    Some(format!("{y:04}-{month:02}-{day_of_month:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_iso_8601() {
        let cases = [
            (Datatype::DateTimeDay, 0, "1970-01-01"),
            (Datatype::DateTimeDay, 19_782, "2024-02-29"),
            (Datatype::DateTimeDay, -1, "1969-12-31"),
            (Datatype::DateTimeDay, i64::MAX, "9223372036854775807"),
            (Datatype::DateTimeWeek, 1, "1970-01-08"),
            (Datatype::DateTimeMonth, -1, "1969-12"),
            (Datatype::DateTimeYear, 54, "2024"),
            (Datatype::DateTimeHr, 25, "1970-01-02T01:00:00"),
            (Datatype::DateTimeMs, -1, "1969-12-31T23:59:59.999"),
            (Datatype::DateTimeNs, 1, "1970-01-01T00:00:00.000000001"),
            (Datatype::DateTimePs, 7, "7"),
            (Datatype::TimeMin, 61, "01:01:00"),
            (Datatype::TimeMin, -1, "-1"),
            (Datatype::Int8, -5, "-5"),
        ];
        for (datatype, value, expected) in cases {
            assert_eq!(
                show(datatype, value.to_key()),
                expected,
                "{datatype} {value}"
            );
        }
        assert_eq!(show(Datatype::Float32, 1.5f32.to_key()), "1.5");
        assert_eq!(show(Datatype::UInt64, u64::MAX), "18446744073709551615");
    }
}
