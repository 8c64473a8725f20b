//! The error for a share of a scan that another machine made, and that doesn't fit the array.

use crate::error::Error;

/// The error for a share that doesn't fit the array.
pub(super) fn unfit(what: &str) -> Error {
    Error::corrupt(format!("a share of a scan doesn't fit its array: {what}"))
}
