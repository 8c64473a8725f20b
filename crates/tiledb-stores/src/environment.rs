//! The variables of the environment that configure stores.

use std::collections::HashMap;

/// Variables of the environment, as they were when a store was made.
#[derive(Clone, Default)]
pub struct StoreEnvironment(HashMap<String, String>);

impl StoreEnvironment {
    /// The variables of this process that begin with `AWS_`, `AZURE_` or `GOOGLE_`.
    pub fn of_process() -> Self {
        let known = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let is_known = ["AWS_", "AZURE_", "GOOGLE_"]
                .iter()
                .any(|prefix| name.starts_with(prefix));
            is_known.then_some(())?;
            Some((name, value.into_string().ok()?))
        });
        known.collect()
    }

    /// The value of a variable, unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// The variables that begin with `prefix`, and aren't empty.
    pub(crate) fn starting_with<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let named = self
            .0
            .iter()
            .filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty());
        named.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for StoreEnvironment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        Self(variables.map(|(k, v)| (k.into(), v.into())).collect())
    }
}

impl std::fmt::Debug for StoreEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
