//! Format versions, and the two questions asked of them: what may be read, and what a version has.
//!
//! A schema, a fragment and a commit each carry their own version; each is parsed by its own.

use std::fmt;

use crate::error::{Error, Result};

/// A version of the storage format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatVersion(u32);

impl FormatVersion {
    /// The newest version this crate reads. Released libtiledb writes 22.
    pub const NEWEST: Self = Self(23);
    /// The oldest version this crate reads.
    pub const OLDEST: Self = Self(1);

    /// A version read from storage; one from the future, or from too far in the past, is an error that says so.
    pub fn new(version: u32) -> Result<Self> {
        if version > Self::NEWEST.0 {
            return Err(Error::unsupported(format!(
                "format version {version} is newer than {}, the newest this release reads: use a newer release",
                Self::NEWEST
            )));
        }
        if version < Self::OLDEST.0 {
            return Err(Error::unsupported(format!(
                "format version {version} is older than {}, the oldest this release reads",
                Self::OLDEST
            )));
        }
        Ok(Self(version))
    }

    /// A version for tests and constants, unchecked.
    pub const fn known(version: u32) -> Self {
        Self(version)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether something introduced in `version` is present.
    pub const fn since(self, version: u32) -> bool {
        self.0 >= version
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
