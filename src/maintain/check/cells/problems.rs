//! What is wrong with a tile, before it is told.

use crate::maintain::check::rule::Rule;

/// A broken rule of a tile.
#[derive(Debug)]
pub struct Problem {
    pub rule: Rule,
    /// The index of the field among those that are checked; `None` if it is about cells.
    pub field: Option<usize>,
    pub tile: u64,
    pub found: String,
    pub expected: String,
}
