//! The names of modes in options.

use crate::error::{Error, Result};

/// The mode with a name. The mode `array_metadata` is also called `group_metadata`.
pub fn mode_of_name<M: Copy>(
    modes: &[M],
    name_of: impl Fn(M) -> &'static str,
    name: &str,
) -> Result<M> {
    let known = match name {
        "group_metadata" => "array_metadata",
        name => name,
    };
    let mut found = modes.iter().copied();
    found.find(|mode| name_of(*mode) == known).ok_or_else(|| {
        let names = modes
            .iter()
            .map(|mode| name_of(*mode))
            .collect::<Vec<_>>()
            .join("', '");
        Error::invalid(format!(
            "the mode '{name}' is unknown: expected one of '{names}'"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_names() {
        let name_of = |mode: usize| ["fragments", "array_metadata"][mode];
        let of_name = |name| mode_of_name(&[0, 1], name_of, name);
        assert_eq!(of_name("fragments").unwrap(), 0);
        assert_eq!(of_name("array_metadata").unwrap(), 1);
        assert_eq!(of_name("group_metadata").unwrap(), 1);
        let error = of_name("cells").unwrap_err().to_string();
        let expected = "the mode 'cells' is unknown: expected one of 'fragments', 'array_metadata'";
        assert!(error.contains(expected), "{error}");
    }
}
