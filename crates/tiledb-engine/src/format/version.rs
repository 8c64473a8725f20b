//! Format versions: which ones can be read, and which features each has.
//!
//! A schema, a fragment and a commit each have their own version, by which they are parsed.

use std::fmt;

use crate::error::{Error, Result};

/// A version of the storage format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatVersion(u32);

impl FormatVersion {
    /// The newest version this crate reads. Released libtiledb writes 22.
    pub const NEWEST: Self = Self(23);
    /// The version this crate writes, which every libtiledb since 2.25 reads.
    pub const WRITTEN: Self = Self(22);
    /// The oldest version this crate reads.
    pub const OLDEST: Self = Self(1);

    /// Checks a version read from storage; one that is too new or too old is an error that says so.
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

    /// Whether a feature introduced in `version` exists in this one.
    pub const fn since(self, version: u32) -> bool {
        self.0 >= version
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
