//! Why a request failed.

use std::error::Error as StdError;
use std::fmt;

use crate::store_url::StoreUrl;

/// The kind of a [`StoreFailure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreFailureKind {
    /// The bucket, the container or the host doesn't exist.
    NoBucket,
    /// The store refused access: credentials are missing, wrong, expired or not sufficient.
    AccessDenied,
    /// No connection could be made, or the store stopped answering.
    Unreachable,
    /// The store refused the request for another reason.
    Refused,
}

/// Why a request to an object store failed. It is the source of the `object_store::Error` of the stores that this crate makes, and
/// its text is complete: the URL, the operation, the status, the store's code in words, where the credentials came from, and the
/// remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFailure {
    kind: StoreFailureKind,
    message: String,
    region: Option<String>,
}

impl StoreFailure {
    pub(crate) fn new(kind: StoreFailureKind, message: String) -> Self {
        Self {
            kind,
            message,
            region: None,
        }
    }

    /// Names the region of the bucket.
    pub(crate) fn in_region(mut self, region: String) -> Self {
        self.region = Some(region);
        self
    }

    /// The kind.
    pub fn kind(&self) -> StoreFailureKind {
        self.kind
    }

    /// The failure among an error's sources.
    pub fn in_error(error: &object_store::Error) -> Option<&Self> {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(error) = cause {
            if let Some(failure) = error.downcast_ref::<Self>() {
                return Some(failure);
            }
            cause = error.source();
        }
        None
    }

    /// The error for credentials that can't be found.
    pub(crate) fn of_credentials(url: &StoreUrl, why: impl fmt::Display) -> object_store::Error {
        let message = format!("cannot open {}: {why}", url.root());
        let failure = Self::new(StoreFailureKind::AccessDenied, message);
        object_store::Error::Unauthenticated {
            path: String::new(),
            source: Box::new(failure),
        }
    }

    /// The region that the bucket is in, if the store named another one than was asked.
    pub(crate) fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for StoreFailure {}
