//! Why a store can't be made.

use std::fmt;

/// The kind of a [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The URL can't be used.
    InvalidUrl,
    /// No store has the scheme of the URL.
    UnknownScheme,
    /// An option is unknown, has a wrong value, or needs another one.
    InvalidOption,
    /// This build makes no stores of the service.
    MissingFeature,
}

/// A store can't be made of a URL and options. The message holds no value of an option that may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
}

impl StoreError {
    pub(crate) fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn option(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::InvalidOption, message)
    }

    /// The kind.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}
