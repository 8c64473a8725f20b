//! The variables of the environment that configure stores.

use std::collections::BTreeMap;

/// Variables of the environment, as they were when a store was made.
#[derive(Clone, Default)]
pub struct StoreEnvironment {
    /// In the order of their names, so that `AWS_REGION` comes after `AWS_DEFAULT_REGION`, and counts.
    variables: BTreeMap<String, String>,
    is_of_process: bool,
}

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
        Self {
            is_of_process: true,
            ..known.collect()
        }
    }

    /// Whether these are the variables of this process, so that its profiles and roles count, too.
    pub(crate) fn is_of_process(&self) -> bool {
        self.is_of_process
    }

    /// The variables that begin with `prefix`, and aren't empty.
    pub(crate) fn starting_with<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let named = self
            .variables
            .iter()
            .filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty());
        named.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for StoreEnvironment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        Self {
            variables: variables.map(|(k, v)| (k.into(), v.into())).collect(),
            is_of_process: false,
        }
    }
}

impl std::fmt::Debug for StoreEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}
