//! The options of a store, such as `aws.region`.

use std::fmt;

use zeroize::Zeroize;

use crate::error::StoreError;
use crate::similar::most_similar;
use crate::store_url::StoreService;

/// The prefixes of options that configure object stores.
const PREFIXES: [&str; 5] = ["aws.", "gcp.", "azure.", "http.", "stdin."];

/// The keys and values of a store's options, in the order of their keys. Values may be secrets, so `Debug` leaves them out.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct StoreOptions(Vec<(String, String)>);

impl StoreOptions {
    /// Whether `key` configures an object store.
    pub fn is_store_option(key: &str) -> bool {
        PREFIXES.iter().any(|prefix| key.starts_with(prefix))
    }

    /// The keys, such as `aws.region`, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of an option.
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut all = self.iter();
        all.find_map(|(known, value)| (known == key).then_some(value))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for StoreOptions {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(options: I) -> Self {
        let options = options.into_iter();
        let mut options: Vec<_> = options.map(|(k, v)| (k.into(), v.into())).collect();
        options.sort_unstable();
        Self(options)
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(|(key, _)| key))
            .finish()
    }
}

impl Drop for StoreOptions {
    fn drop(&mut self) {
        for (_, value) in &mut self.0 {
            value.zeroize();
        }
    }
}

/// The names of a service's options.
pub(crate) struct KnownOptions<'a> {
    /// The service.
    pub service: StoreService,
    /// Those that errors list, without prefix.
    pub listed: &'a [&'a str],
    /// Those of them that are true or false.
    pub switches: &'a [&'a str],
}

impl KnownOptions<'_> {
    /// Checks each option, and returns its key without prefix with its value. `takes` is whether the service has an option that
    /// isn't listed.
    pub fn check<'a>(
        &self,
        options: &'a StoreOptions,
        takes: impl Fn(&str) -> bool,
    ) -> Result<Vec<(&'a str, &'a str)>, StoreError> {
        let prefix = self.service.prefix().unwrap_or_default();
        let mut checked = Vec::new();
        for (key, value) in options.iter() {
            let Some(name) = key.strip_prefix(prefix).filter(|_| !prefix.is_empty()) else {
                return Err(self.misplaced(key));
            };
            if !self.listed.contains(&name) && !takes(name) {
                return Err(self.unknown(name));
            }
            if self.switches.contains(&name) && switch(value).is_none() {
                return Err(StoreError::option(format!(
                    "the option {key} is true or false, found '{value}'"
                )));
            }
            checked.push((name, value));
        }
        Ok(checked)
    }

    fn misplaced(&self, key: &str) -> StoreError {
        StoreError::option(match self.service.prefix() {
            Some(prefix) => format!(
                "the option {key} is for other object stores, expected options that begin with {prefix}"
            ),
            None => {
                format!("the option {key} is for other object stores: web servers take no options")
            }
        })
    }

    fn unknown(&self, name: &str) -> StoreError {
        let prefix = self.service.prefix().unwrap_or_default();
        let similar = match most_similar(name, self.listed.iter().copied()) {
            Some(similar) => format!("; did you mean {prefix}{similar}?"),
            None => String::new(),
        };
        let listed: Vec<_> = self
            .listed
            .iter()
            .map(|known| format!("{prefix}{known}"))
            .collect();
        StoreError::option(format!(
            "unknown option \"{prefix}{name}\"{similar} (the options are {})",
            listed.join(", ")
        ))
    }
}

/// The value of an option that is true or false.
pub(crate) fn switch(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" | "y" => Some(true),
        "false" | "0" | "off" | "no" | "n" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_value() {
        let options =
            StoreOptions::from_iter([("aws.secret_access_key", "hush"), ("aws.region", "x")]);
        assert_eq!(
            format!("{options:?}"),
            r#"{"aws.region", "aws.secret_access_key"}"#
        );
        assert_eq!(options.get("aws.region"), Some("x"));
        assert_eq!(options.get("aws.endpoint"), None);
    }
}
