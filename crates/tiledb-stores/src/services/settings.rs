//! The settings of a store, from the environment and from options.

use std::fmt;

use crate::environment::StoreEnvironment;
use crate::options::switch;

/// The settings of a store by the keys of `object_store`, so that each counts under all of its names.
pub(super) struct StoreSettings<K> {
    variables: Vec<(K, String)>,
    options: Vec<(K, String)>,
}

impl<K: Copy + PartialEq> StoreSettings<K> {
    /// The variables that begin with `prefix`, and the options. `key_of` is the key of a name in lower case.
    pub fn new(
        environment: &StoreEnvironment,
        prefix: &str,
        options: &[(&str, &str)],
        key_of: impl Fn(&str) -> Option<K>,
    ) -> Self {
        let variables = environment.starting_with(prefix);
        let variables = variables.filter_map(|(name, value)| {
            Some((key_of(&name.to_ascii_lowercase())?, value.to_owned()))
        });
        let options = options.iter();
        let options =
            options.filter_map(|(name, value)| Some((key_of(name)?, (*value).to_owned())));
        Self {
            variables: variables.collect(),
            options: options.collect(),
        }
    }

    /// Adds a setting, as an option would.
    #[cfg(any(feature = "azure", feature = "gcp"))]
    pub fn add(&mut self, key: K, value: &str) {
        self.options.push((key, value.to_owned()));
    }

    /// Drops the variables that options replace.
    pub fn keep_variables(&mut self, keeps: impl Fn(K) -> bool) {
        self.variables.retain(|(key, _)| keeps(*key));
    }

    /// The value that an option gives one of these keys.
    pub fn option(&self, keys: &[K]) -> Option<&str> {
        last(&self.options, keys)
    }

    /// The value that a variable gives one of these keys.
    pub fn variable(&self, keys: &[K]) -> Option<&str> {
        last(&self.variables, keys)
    }

    /// The value of one of these keys.
    pub fn value(&self, keys: &[K]) -> Option<&str> {
        self.option(keys).or_else(|| self.variable(keys))
    }

    /// Whether a switch is on.
    pub fn is_on(&self, key: K) -> bool {
        self.value(&[key]).and_then(switch) == Some(true)
    }

    /// All settings. The last setting of a key counts.
    pub fn iter(&self) -> impl Iterator<Item = (K, &str)> {
        let settings = self.variables.iter().chain(&self.options);
        settings.map(|(key, value)| (*key, value.as_str()))
    }
}

fn last<'a, K: PartialEq>(settings: &'a [(K, String)], keys: &[K]) -> Option<&'a str> {
    let mut found = settings.iter().rev().filter(|(key, _)| keys.contains(key));
    found.next().map(|(_, value)| value.as_str())
}

/// Values may be secrets.
impl<K> fmt::Debug for StoreSettings<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSettings").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_specific_variable_counts_and_options_come_first() {
        let variables = [
            ("X_REGION", "one"),
            ("X_DEFAULT_REGION", "other"),
            ("X_EMPTY", ""),
            ("Y_REGION", "none"),
        ];
        let environment = StoreEnvironment::from_iter(variables);
        let key_of = |name: &str| match name {
            "x_region" | "x_default_region" | "region" => Some('r'),
            "x_empty" => Some('e'),
            _ => None,
        };
        let settings = |options| StoreSettings::new(&environment, "X_", options, key_of);
        let given = settings(&[]);
        assert_eq!(given.value(&['r']), Some("one"));
        assert_eq!((given.value(&['e']), given.option(&['r'])), (None, None));
        let mut given = settings(&[("region", "given")]);
        assert_eq!(given.value(&['r']), Some("given"));
        given.keep_variables(|_| false);
        assert_eq!(given.variable(&['r']), None);
        assert_eq!(format!("{given:?}"), "StoreSettings { .. }");
    }
}
