//! What the array shows now, for cells that a box needs and a statement does not give.

use std::fmt;

use arrow::array::ArrayRef;
use async_trait::async_trait;

use crate::arrow::{InvalidUtf8, TimeAs, TypeOptions};
use crate::error::Result;
use crate::geometry::domain::KeyBox;

/// The types of the columns of existing cells: those that lose nothing of what is stored.
pub const EXISTING_TYPES: TypeOptions = TypeOptions {
    invalid_utf8: InvalidUtf8::Binary,
    time_as: TimeAs::Duration,
};

/// Reads cells of the array as it was when the statement began.
#[async_trait]
pub trait ExistingCells: fmt::Debug + Send + Sync {
    /// The cells of a box that were ever written, in any order: batches of the columns of all dimensions and attributes, of
    /// the types that [`EXISTING_TYPES`] give.
    ///
    /// # Errors
    /// The array cannot be read.
    async fn read(&self, cells: &KeyBox) -> Result<Vec<Vec<ArrayRef>>>;
}
