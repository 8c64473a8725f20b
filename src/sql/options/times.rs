//! Conversion of times in options to milliseconds, for the start and the end of a window.

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;

use crate::error::{Error, Result};

const NANOS_PER_MS: i64 = 1_000_000;

/// A time as the last millisecond of a window; the rest of that millisecond is outside.
pub(super) fn parse_end(key: &str, value: &str) -> Result<u64> {
    parse_time(key, value, |nanos| nanos.div_euclid(NANOS_PER_MS))
}

/// A time as the first millisecond of a window; a millisecond that has started already is outside.
pub(super) fn parse_start(key: &str, value: &str) -> Result<u64> {
    parse_time(key, value, |nanos| {
        nanos.div_euclid(NANOS_PER_MS) + i64::from(nanos.rem_euclid(NANOS_PER_MS) > 0)
    })
}

fn parse_time(key: &str, value: &str, to_ms: impl Fn(i64) -> i64) -> Result<u64> {
    let text = value.trim();
    let wrong = |why: &str| {
        Error::invalid(format!(
            "option \"tiledb.{key}\" is \"{value}\", {why}; expected milliseconds since 1970 or an ISO 8601 \
             time such as 2024-05-01, 2024-05-01T12:30:00Z or 2024-05-01T12:30:00.250+02:00 (UTC without an offset)"
        ))
    };
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map_err(|_| wrong("which is too large"));
    }
    let nanos = string_to_timestamp_nanos(text).map_err(|_| wrong("which is not a time"))?;
    u64::try_from(to_ms(nanos)).map_err(|_| wrong("which is before 1970"))
}
