//! The subarray of a query: sorted, disjoint ranges for each dimension, and their cross product.
//!
//! Fixed-size dimensions have inclusive ranges of keys, strings half-open ranges of bytes (the value just above `s` is
//! `s` and a zero byte). Lists have one canonical form (ascending, a gap between any two), so equal sets are equal
//! values and every question is a binary search: a list of 100 000 points stays cheap, and cross products are never
//! enumerated. The subtle thing: an empty list matches nothing, [`DimRanges::All`] matches everything.

mod describe;
mod dim_ranges;
mod lists;
mod ranges;
#[cfg(test)]
mod tests;

pub use dim_ranges::DimRanges;
pub use lists::Spans;
pub use ranges::{BytesRange, KeyRange, successor};

use crate::geometry::domain::{Bounds, KeyBox};

/// Ranges for every dimension; a cell matches when each of its coordinates does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subarray {
    dims: Vec<DimRanges>,
}

impl Subarray {
    /// Every cell of an array of `ndim` dimensions.
    pub fn all(ndim: usize) -> Self {
        Self {
            dims: vec![DimRanges::All; ndim],
        }
    }

    /// The cells of a box.
    pub fn from_box(cells: &KeyBox) -> Self {
        Self {
            dims: cells
                .ranges()
                .map(|(lo, hi)| DimRanges::key_range(lo, hi))
                .collect(),
        }
    }

    /// Number of dimensions.
    pub fn ndim(&self) -> usize {
        self.dims.len()
    }

    /// The ranges of a dimension; all values if it does not exist.
    pub fn dim(&self, dim: usize) -> &DimRanges {
        self.dims.get(dim).unwrap_or(&DimRanges::All)
    }

    /// The ranges of each dimension.
    pub fn dims(&self) -> &[DimRanges] {
        &self.dims
    }

    /// Replaces the ranges of a dimension.
    pub fn set_dim(&mut self, dim: usize, ranges: DimRanges) {
        if let Some(slot) = self.dims.get_mut(dim) {
            *slot = ranges;
        }
    }

    /// Intersects the ranges of a dimension with `ranges`.
    pub fn intersect_dim(&mut self, dim: usize, ranges: &DimRanges) {
        if let Some(slot) = self.dims.get_mut(dim) {
            *slot = slot.intersect(ranges);
        }
    }

    /// The cells in both.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (dim, ranges) in other.dims.iter().enumerate() {
            both.intersect_dim(dim, ranges);
        }
        both
    }

    /// The smallest subarray with all cells of both. It is exactly their union if one contains the other, or if they
    /// differ in only one dimension.
    #[must_use]
    pub fn hull(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        Self {
            dims: self
                .dims
                .iter()
                .zip(&other.dims)
                .map(|(a, b)| a.union(b))
                .collect(),
        }
    }

    /// Whether no cell matches.
    pub fn is_empty(&self) -> bool {
        self.dims.iter().any(DimRanges::is_empty)
    }

    /// Whether every cell matches.
    pub fn is_all(&self) -> bool {
        self.dims.iter().all(DimRanges::is_all)
    }

    /// Whether some cell within `bounds` may match (one range per dimension, as in an MBR).
    pub fn intersects(&self, bounds: &[Bounds]) -> bool {
        self.dims
            .iter()
            .zip(bounds)
            .all(|(ranges, bounds)| ranges.intersects(bounds))
    }

    /// Whether every cell within `bounds` matches.
    pub fn covers(&self, bounds: &[Bounds]) -> bool {
        self.dims.len() == bounds.len()
            && self
                .dims
                .iter()
                .zip(bounds)
                .all(|(ranges, bounds)| ranges.covers(bounds))
    }

    /// Whether some cell of the box matches.
    pub fn intersects_box(&self, cells: &KeyBox) -> bool {
        self.dims
            .iter()
            .zip(cells.ranges())
            .all(|(ranges, (lo, hi))| ranges.intersects_keys(lo, hi))
    }

    /// Whether every cell of the box matches.
    pub fn covers_box(&self, cells: &KeyBox) -> bool {
        self.dims.len() == cells.ndim()
            && self
                .dims
                .iter()
                .zip(cells.ranges())
                .all(|(ranges, (lo, hi))| ranges.covers_keys(lo, hi))
    }
}
