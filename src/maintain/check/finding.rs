//! A broken rule: which, where, what was found, what was expected, what to do.

use std::fmt;

use super::rule::{Rule, Severity};

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The broken object: the URI of a file or a folder, then the field and the tile.
    pub object: String,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl Finding {
    /// How bad it is.
    pub const fn severity(&self) -> Severity {
        self.rule.severity()
    }

    /// What to do about it.
    pub const fn advice(&self) -> &'static str {
        self.rule.advice()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}: {}; expected {}; {}",
            self.severity(),
            self.rule,
            self.object,
            self.found,
            self.expected,
            self.advice()
        )
    }
}
