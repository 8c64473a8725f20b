//! What the functions that care for arrays share: the columns of their reports, and the values of their options.

use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, SchemaRef};

use super::columns::{self, TEXT, optional, required};
use super::description::Rows;
use crate::error::{Error, Result};
use crate::maintain::report::ReportRow;

/// The columns of a report.
pub(super) fn schema() -> SchemaRef {
    columns::schema(vec![
        required("mode", TEXT),
        required("action", TEXT),
        required("object", TEXT),
        required("inputs", DataType::UInt64),
        required("bytes_read", DataType::UInt64),
        optional("bytes_written", DataType::UInt64),
        required("bytes_freed", DataType::UInt64),
        required("gain", TEXT),
        required("outcome", TEXT),
    ])
}

/// The rows of a report.
pub(super) fn rows(report: &[ReportRow]) -> Rows {
    let each = || report.iter();
    Rows {
        len: report.len(),
        columns: vec![
            columns::text(each().map(|row| row.mode)),
            columns::text(each().map(|row| row.action)),
            columns::text(each().map(|row| &row.object)),
            columns::u64s(each().map(|row| Some(row.inputs))),
            columns::u64s(each().map(|row| Some(row.bytes_read))),
            columns::u64s(each().map(|row| row.bytes_written)),
            columns::u64s(each().map(|row| Some(row.bytes_freed))),
            columns::text(each().map(|row| &row.gain)),
            columns::text(each().map(|row| row.outcome.to_string())),
        ],
    }
}

/// A switch that is on or off.
pub(super) fn switch(option: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(expected(option, value, "'true' or 'false'")),
    }
}

/// A number.
pub(super) fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T> {
    let number = value.trim().parse();
    number.map_err(|_| expected(option, value, "a number"))
}

/// A number of bytes: `100000`, `64 MiB`.
pub(super) fn bytes(option: &str, value: &str) -> Result<u64> {
    const UNITS: [(&str, u64); 9] = [
        ("", 1),
        ("B", 1),
        ("kB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ];
    let scaled = scaled(value, |unit| {
        let mut units = UNITS.iter();
        let found = units.find(|(name, _)| name.eq_ignore_ascii_case(unit));
        found.map(|(_, bytes)| *bytes)
    });
    scaled.ok_or_else(|| expected(option, value, "a number of bytes, as '64 MiB'"))
}

/// A length of time: `90` seconds, `2 hours`, `7 days`.
pub(super) fn duration(option: &str, value: &str) -> Result<Duration> {
    let seconds = scaled(value, |unit| {
        Some(match unit.trim_end_matches('s') {
            "" | "second" => 1,
            "minute" => 60,
            "hour" => 3600,
            "day" => 24 * 3600,
            "week" => 7 * 24 * 3600,
            _ => return None,
        })
    });
    let seconds = seconds.ok_or_else(|| expected(option, value, "a length of time, as '7 days'"));
    seconds.map(Duration::from_secs)
}

fn scaled(value: &str, unit: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let value = value.trim();
    let digits = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (number, name) = value.split_at_checked(digits)?;
    number.parse::<u64>().ok()?.checked_mul(unit(name.trim())?)
}

fn expected(option: &str, value: &str, what: &str) -> Error {
    Error::invalid(format!(
        "the option '{option}' is '{value}', expected {what}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        assert_eq!(bytes("max_bytes", "64 MiB").unwrap(), 64 << 20);
        assert_eq!(bytes("max_bytes", "5kb").unwrap(), 5000);
        assert_eq!(bytes("max_bytes", "17").unwrap(), 17);
        assert_eq!(duration("min_age", "2 hours").unwrap().as_secs(), 7200);
        assert_eq!(duration("min_age", "1 day").unwrap().as_secs(), 86400);
        assert_eq!(duration("min_age", "0").unwrap().as_secs(), 0);
        for bad in ["", "x", "-1", "3 parsecs", "99999999999999999999"] {
            assert!(bytes("max_bytes", bad).is_err() && duration("min_age", bad).is_err());
        }
        assert!(switch("verify", "TRUE").unwrap() && switch("verify", "yes").is_err());
        assert!(number::<usize>("steps", "two").is_err());
    }
}
