//! How bad it is to break a rule.

use std::fmt;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something is wrong: queries fail or may answer wrongly, here or with another reader.
    Error,
    /// Something is odd, and no answer is wrong because of it.
    Warning,
    /// Something is of no use any longer: it only takes space.
    Leftover,
}

impl Severity {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Leftover => "leftover",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
