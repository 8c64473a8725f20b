//! Dates, times and spans in settings: `2024-05-01T12:00`, `06:30`, `30 days` → counts of a type's own unit.
//!
//! Dates are of the proleptic Gregorian calendar, times without a zone. The subtle thing: nothing is rounded, so half past
//! twelve isn't a DATETIME_HR.

use crate::format::datatype::Datatype;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND;
const ATTOS_PER_NANO: i128 = 1_000_000_000;
const EPOCH_YEAR: i64 = 1970;
/// Days before a month, in a year that isn't a leap year.
const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
const FORM: &str = "expected a form such as 2024, 2024-05, 2024-05-01 or 2024-05-01T12:30:00.250";

/// The measure of a unit: all units but months have a fixed length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CalendarUnit {
    Months(i128),
    /// The length in 10^-18 seconds.
    Attoseconds(i128),
}

/// The unit of a date or time type; `None` for other types.
fn unit(datatype: Datatype) -> Option<CalendarUnit> {
    use Datatype as D;
    let nanos = match datatype {
        D::DateTimeYear => return Some(CalendarUnit::Months(12)),
        D::DateTimeMonth => return Some(CalendarUnit::Months(1)),
        D::DateTimePs | D::TimePs => return Some(CalendarUnit::Attoseconds(1_000_000)),
        D::DateTimeFs | D::TimeFs => return Some(CalendarUnit::Attoseconds(1_000)),
        D::DateTimeAs | D::TimeAs => return Some(CalendarUnit::Attoseconds(1)),
        D::DateTimeWeek => 7 * NANOS_PER_DAY,
        D::DateTimeDay => NANOS_PER_DAY,
        D::DateTimeHr | D::TimeHr => 3_600 * NANOS_PER_SECOND,
        D::DateTimeMin | D::TimeMin => 60 * NANOS_PER_SECOND,
        D::DateTimeSec | D::TimeSec => NANOS_PER_SECOND,
        D::DateTimeMs | D::TimeMs => 1_000_000,
        D::DateTimeUs | D::TimeUs => 1_000,
        D::DateTimeNs | D::TimeNs => 1,
        _ => return None,
    };
    Some(CalendarUnit::Attoseconds(nanos * ATTOS_PER_NANO))
}

/// The unit of a word such as `days`.
fn unit_of_word(word: &str) -> Option<CalendarUnit> {
    let nanos = match word.to_ascii_lowercase().as_str() {
        "year" | "years" | "y" => return Some(CalendarUnit::Months(12)),
        "month" | "months" | "mon" => return Some(CalendarUnit::Months(1)),
        "week" | "weeks" | "w" => 7 * NANOS_PER_DAY,
        "day" | "days" | "d" => NANOS_PER_DAY,
        "hour" | "hours" | "h" | "hr" => 3_600 * NANOS_PER_SECOND,
        "minute" | "minutes" | "min" | "m" => 60 * NANOS_PER_SECOND,
        "second" | "seconds" | "sec" | "s" => NANOS_PER_SECOND,
        "millisecond" | "milliseconds" | "ms" => 1_000_000,
        "microsecond" | "microseconds" | "us" => 1_000,
        "nanosecond" | "nanoseconds" | "ns" => 1,
        _ => return None,
    };
    Some(CalendarUnit::Attoseconds(nanos * ATTOS_PER_NANO))
}

/// A point in time, or a time of day, in the unit of `datatype`.
pub(super) fn parse(datatype: Datatype, text: &str) -> Result<i64, String> {
    let unit = unit(datatype).ok_or_else(|| "expected a number".to_owned())?;
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    if datatype.is_time() {
        let nanos = clock(text).ok_or("expected a time of day such as 06:30:00")?;
        return count(nanos * ATTOS_PER_NANO, unit);
    }
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time.trim())),
        None => (text, None),
    };
    let (year, month, day) = date_parts(date).ok_or(FORM)?;
    let nanos = match time {
        Some(time) => clock(time).ok_or(FORM)?,
        None => 0,
    };
    let (month0, day0) = (month.unwrap_or(1) - 1, day.unwrap_or(1) - 1);
    let in_month = days_of_month(year, month0).ok_or("a year has 12 months")?;
    if !(0..in_month).contains(&day0) {
        return Err(format!("this month has {in_month} days"));
    }
    if let CalendarUnit::Months(months) = unit {
        let since = i128::from((year - EPOCH_YEAR) * 12 + month0);
        if day0 != 0 || nanos != 0 || since % months != 0 {
            return Err("expected a whole year or month".to_owned());
        }
        return in_range(since / months);
    }
    let days = i128::from(day_of_year_start(year) + day_in_year(year, month0) + day0);
    count((days * NANOS_PER_DAY + nanos) * ATTOS_PER_NANO, unit)
}

/// A span such as `30 days`, in the unit of `datatype`; `None` for text of another form.
pub(super) fn span(datatype: Datatype, text: &str) -> Option<Result<i64, String>> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, word) = text.split_at(digits);
    let of_word = unit_of_word(word.trim());
    let number: i128 = number.parse().ok()?;
    Some(match (unit(datatype), of_word) {
        (Some(CalendarUnit::Months(own)), Some(CalendarUnit::Months(given))) => whole(number * given, own),
        (Some(CalendarUnit::Attoseconds(own)), Some(CalendarUnit::Attoseconds(given))) => {
            number.checked_mul(given).map_or_else(
                || Err("it is too long".to_owned()),
                |attoseconds| whole(attoseconds, own),
            )
        }
        (Some(_), Some(_)) => Err("months differ in length".to_owned()),
        (Some(_), None) => Err(
            "expected a number and a unit: years, months, weeks, days, hours, minutes, seconds, ms, us or ns"
                .to_owned(),
        ),
        (None, _) => return None,
    })
}

/// An extent as a span of whole days, hours, …, if that is shorter than the number of steps.
pub(super) fn show_span(datatype: Datatype, steps: u64) -> String {
    let steps = i128::from(steps);
    let found = match unit(datatype) {
        Some(CalendarUnit::Months(1)) if steps % 12 == 0 => Some((steps / 12, "years")),
        Some(CalendarUnit::Attoseconds(own)) => {
            SPANS.iter().find_map(|word| match unit_of_word(word) {
                Some(CalendarUnit::Attoseconds(span)) if span > own && steps * own % span == 0 => {
                    Some((steps * own / span, *word))
                }
                _ => None,
            })
        }
        _ => None,
    };
    match found {
        Some((number, word)) if number > 0 => format!("{number} {word}"),
        _ => steps.to_string(),
    }
}

/// The words of spans, longest first.
const SPANS: [&str; 6] = ["days", "hours", "minutes", "seconds", "ms", "us"];

fn whole(length: i128, unit: i128) -> Result<i64, String> {
    match length.checked_rem(unit) {
        Some(0) => in_range(length / unit),
        _ => Err("it isn't a whole number of the type's own unit".to_owned()),
    }
}

fn count(attoseconds: i128, unit: CalendarUnit) -> Result<i64, String> {
    match unit {
        CalendarUnit::Attoseconds(own) if attoseconds % own == 0 => in_range(attoseconds / own),
        CalendarUnit::Attoseconds(_) | CalendarUnit::Months(_) => {
            Err("it isn't a whole number of the type's own unit".to_owned())
        }
    }
}

fn in_range(value: i128) -> Result<i64, String> {
    i64::try_from(value).map_err(|_| "it is beyond the range of the type".to_owned())
}

/// Year, month and day of `2024`, `2024-05` or `2024-05-01`.
fn date_parts(date: &str) -> Option<(i64, Option<i64>, Option<i64>)> {
    let mut parts = date.split('-');
    let year = number(parts.next()?, 4)?;
    let mut part = || parts.next().map(|part| number(part, 2));
    let (month, day) = (part(), part());
    let known = |part: Option<Option<i64>>| match part {
        None => Some(None),
        Some(part) => part.map(Some),
    };
    let date = (year, known(month)?, known(day)?);
    parts.next().is_none().then_some(date)
}

/// Nanoseconds since midnight of `12:30`, `12:30:00` or `12:30:00.250`.
fn clock(text: &str) -> Option<i128> {
    let (text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = text.split(':');
    let (hours, minutes) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let seconds = match parts.next() {
        Some(seconds) => number(seconds, 2)?,
        None if fraction.is_empty() => 0,
        None => return None,
    };
    let valid = hours < 24 && minutes < 60 && seconds < 60 && parts.next().is_none();
    let digits = fraction.bytes().all(|b| b.is_ascii_digit());
    if !valid || !digits || fraction.len() > 9 {
        return None;
    }
    let fraction: i128 = format!("{fraction:0<9}").parse().ok()?;
    let seconds = i128::from(hours * 3_600 + minutes * 60 + seconds);
    Some(seconds * NANOS_PER_SECOND + fraction)
}

/// A number with exactly this number of digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let valid = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    valid.then(|| text.parse().ok()).flatten()
}

fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

/// Days from 1970-01-01 to the first day of a year.
fn day_of_year_start(year: i64) -> i64 {
    // Days before 1970, counted from year 1.
    const BEFORE_EPOCH: i64 = 719_162;
    let past = year - 1;
    let leap_days = past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    past * 365 + leap_days - BEFORE_EPOCH
}

/// Days from the first day of the year to that of a month, counted from 0.
fn day_in_year(year: i64, month: i64) -> i64 {
    let before = usize::try_from(month).ok().and_then(|m| DAYS_BEFORE.get(m));
    before.copied().unwrap_or(0) + i64::from(is_leap(year) && month > 1)
}

/// The length of a month, counted from 0; `None` if the month doesn't exist.
fn days_of_month(year: i64, month: i64) -> Option<i64> {
    let next = match month {
        0..=10 => day_in_year(year, month + 1),
        11 => 365 + i64::from(is_leap(year)),
        _ => return None,
    };
    Some(next - day_in_year(year, month))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        use Datatype as D;
        // From `date -u -d <date> +%s`.
        let cases = [
            (D::DateTimeDay, "1970-01-01", 0),
            (D::DateTimeDay, "2024-02-29", 19_782),
            (D::DateTimeDay, "1900-03-01", -25_508),
            (D::DateTimeDay, "0000-01-01", -719_528),
            (D::DateTimeDay, "2024", 19_723),
            (D::DateTimeDay, "9999-12-31", 2_932_896),
            (D::DateTimeWeek, "1970-01-08", 1),
            (D::DateTimeMonth, "2000-03", 362),
            (D::DateTimeMonth, "2000-03-01T00:00", 362),
            (D::DateTimeYear, "1600", -370),
            (D::DateTimeHr, "1970-01-02T01:00", 25),
            (D::DateTimeSec, "2024-05-01 12:30:05Z", 1_714_566_605),
            (D::DateTimeMs, "1969-12-31T23:59:59.999", -1),
            (D::DateTimeNs, "1970-01-01T00:00:00.000000001", 1),
            (D::DateTimePs, "1970-01-01T00:00:01", 1_000_000_000_000),
            (D::TimeMin, "01:01", 61),
            (D::TimeUs, "00:00:00.000250", 250),
        ];
        for (datatype, text, expected) in cases {
            assert_eq!(parse(datatype, text), Ok(expected), "{datatype} {text}");
        }
    }

    #[test]
    fn what_is_no_date_or_not_whole_is_refused() {
        use Datatype as D;
        for (datatype, text) in [
            (D::DateTimeDay, "2023-02-29"),
            (D::DateTimeDay, "2023-13-01"),
            (D::DateTimeDay, "2023-00-01"),
            (D::DateTimeDay, "2023-01-00"),
            (D::DateTimeDay, "23-01-01"),
            (D::DateTimeDay, "2023-01-01-01"),
            (D::DateTimeDay, "2023-01-01T12:00"),
            (D::DateTimeSec, "2023-01-01T24:00"),
            (D::DateTimeSec, "2023-01-01T1:00"),
            (D::DateTimeSec, "2023-01-01T01:00.5"),
            (D::DateTimeSec, "2023-01-01T01:00:00.5"),
            (D::DateTimeNs, "2023-01-01T01:00:00.0000000001"),
            (D::DateTimeNs, "2300-01-01"),
            (D::DateTimeWeek, "1970-01-02"),
            (D::DateTimeYear, "2000-02"),
            (D::DateTimeMonth, "2000-02-02"),
            (D::TimeSec, "2000-01-01"),
            (D::Int32, "2000-01-01"),
        ] {
            assert!(parse(datatype, text).is_err(), "{datatype} {text}");
        }
    }

    #[test]
    fn spans_are_whole_units() {
        use Datatype as D;
        let span = |datatype, text| span(datatype, text).unwrap();
        assert_eq!(span(D::DateTimeNs, "30 days"), Ok(2_592_000_000_000_000));
        assert_eq!(span(D::DateTimeMonth, "2 years"), Ok(24));
        assert_eq!(span(D::DateTimeWeek, "14days"), Ok(2));
        assert_eq!(span(D::TimeMs, "1 hour"), Ok(3_600_000));
        assert!(span(D::DateTimeWeek, "13 days").is_err());
        assert!(
            span(D::DateTimeDay, "1 month")
                .unwrap_err()
                .contains("months")
        );
        assert!(
            span(D::DateTimeDay, "3 fortnights")
                .unwrap_err()
                .contains("unit")
        );
        assert!(span(D::DateTimeNs, "300 years 1").is_err());
        assert!(
            span(D::DateTimeNs, "110000 days")
                .unwrap_err()
                .contains("range")
        );
        for (datatype, steps, shown) in [
            (D::DateTimeNs, 2_592_000_000_000_000, "30 days"),
            (D::DateTimeMs, 5_400_000, "90 minutes"),
            (D::DateTimeDay, 30, "30"),
            (D::DateTimeWeek, 2, "2"),
            (D::DateTimeMonth, 24, "2 years"),
            (D::DateTimeAs, u64::MAX, "18446744073709551615"),
            (D::TimeUs, 7_001, "7001"),
            (D::Int32, 60, "60"),
        ] {
            assert_eq!(show_span(datatype, steps), shown);
        }
        assert_eq!(super::span(D::Int32, "3 days"), None);
        assert_eq!(super::span(D::DateTimeDay, "30"), None);
    }
}
