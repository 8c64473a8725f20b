//! One coordinate of a cell, and the comparison of coordinates of a dimension.

use std::cmp::Ordering;

/// One coordinate of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coordinate<'a> {
    /// The key of a fixed-size dimension.
    Key(u64),
    /// The value of a string dimension.
    Bytes(&'a [u8]),
}

impl Coordinate<'_> {
    /// Compares coordinates of one dimension: keys by number, strings by unsigned bytes.
    #[inline]
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Key(a), Self::Key(b)) => a.cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Key(_), Self::Bytes(_)) => Ordering::Less,
            (Self::Bytes(_), Self::Key(_)) => Ordering::Greater,
        }
    }
}
