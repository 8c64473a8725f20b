//! The settings of a session that limit requests to object stores: `SET tiledb.retries = 10`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datafusion::common::config::ConfigEntry;
use tiledb_stores::NetworkLimits;

const REQUEST_TIMEOUT: &str = "request_timeout";
const RETRIES: &str = "retries";
const RETRY_TIME: &str = "retry_time";

/// Longer times are mistakes.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// More retries are mistakes.
const MOST_RETRIES: usize = 1000;

/// The limits of a session. Clones share them, so that tables which were opened before a `SET` see its value.
#[derive(Clone, Default)]
pub(crate) struct SharedLimits(Arc<Mutex<NetworkLimits>>);

impl SharedLimits {
    /// The names of the settings, without `tiledb.`.
    pub const NAMES: [&str; 3] = [REQUEST_TIMEOUT, RETRIES, RETRY_TIME];

    /// The limits now.
    pub fn get(&self) -> NetworkLimits {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the limits that is shared with nobody.
    pub fn unshared(&self) -> Self {
        Self(Arc::new(Mutex::new(self.get())))
    }

    /// Sets a limit; `None` if there is none of this name.
    pub fn set(&self, name: &str, value: &str) -> Option<Result<(), String>> {
        let limits = self.get();
        let changed = match name {
            REQUEST_TIMEOUT => duration(value).map(|time| limits.with_request_timeout(time)),
            RETRY_TIME => duration(value).map(|time| limits.with_retry_time(time)),
            RETRIES => retries(value).map(|retries| limits.with_retries(retries)),
            _ => return None,
        };
        Some(changed.map(|changed| {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = changed;
        }))
    }

    /// The settings with their values.
    pub fn entries(&self, prefix: &str) -> [ConfigEntry; 3] {
        let limits = self.get();
        let shown = |time| humantime::format_duration(time).to_string();
        [
            (
                REQUEST_TIMEOUT,
                shown(limits.request_timeout),
                "A request to an object store fails if no byte arrives for this time.",
            ),
            (
                RETRIES,
                limits.retries.to_string(),
                "The most retries of a request to an object store.",
            ),
            (
                RETRY_TIME,
                shown(limits.retry_time),
                "No request is retried after this time since its first attempt.",
            ),
        ]
        .map(|(name, value, description)| ConfigEntry {
            key: format!("{prefix}.{name}"),
            value: Some(value),
            description,
        })
    }
}

fn duration(value: &str) -> Result<Duration, String> {
    let wrong = || format!("is a time, such as 10s, 500ms or 2m, found '{value}'");
    let text = value.trim();
    let time = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => humantime::parse_duration(text).map_err(|_| wrong())?,
    };
    if time.is_zero() || time > LONGEST {
        return Err(format!(
            "is longer than 0 and at most a day, found '{value}'"
        ));
    }
    Ok(time)
}

fn retries(value: &str) -> Result<usize, String> {
    let retries = value.trim().parse().ok();
    let retries = retries.filter(|retries| *retries <= MOST_RETRIES);
    retries.ok_or_else(|| format!("is a number up to {MOST_RETRIES}, found '{value}'"))
}

impl fmt::Debug for SharedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl PartialEq for SharedLimits {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for SharedLimits {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_times_and_numbers() {
        let limits = SharedLimits::default();
        for (name, value, expected) in [
            (REQUEST_TIMEOUT, "1500ms", Ok("1s 500ms")),
            (REQUEST_TIMEOUT, "20", Ok("20s")),
            (RETRY_TIME, "2 m", Ok("2m")),
            (RETRIES, "0", Ok("0")),
            (REQUEST_TIMEOUT, "much", Err("such as 10s")),
            (RETRY_TIME, "0", Err("longer than 0")),
            (RETRY_TIME, "2 days", Err("at most a day")),
            (RETRIES, "-1", Err("found '-1'")),
        ] {
            let set = limits.set(name, value).unwrap();
            match expected {
                Ok(shown) => {
                    set.unwrap();
                    let entries = limits.clone().entries("tiledb");
                    let entry = entries.iter().find(|entry| entry.key.ends_with(name));
                    assert_eq!(entry.unwrap().value.as_deref(), Some(shown));
                }
                Err(why) => assert!(set.unwrap_err().contains(why), "{name} {value}"),
            }
        }
        assert!(limits.set("retry", "1").is_none());
        let other = limits.unshared();
        other.set(RETRIES, "7").unwrap().unwrap();
        assert_ne!(limits, other);
    }
}
