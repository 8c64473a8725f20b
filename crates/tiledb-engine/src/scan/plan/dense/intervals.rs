//! The tile indexes that a subarray touches in a dimension, as intervals.

use crate::geometry::subarray::DimRanges;
use crate::geometry::tile_grid::TileGrid;

/// Intervals of tile indexes of one dimension.
#[derive(Debug, Clone)]
pub(super) struct TileIntervals {
    /// The first index of each interval.
    starts: Vec<u64>,
    /// The number of tiles before each interval.
    before: Vec<u128>,
    pub(super) count: u128,
}

impl TileIntervals {
    pub(super) fn new(grid: &TileGrid, dim: usize, bounds: (u64, u64), ranges: &DimRanges) -> Self {
        let tile = |key| grid.tile_of(dim, key);
        // Both ends belong to an interval, because the grid's last tile may have the largest index.
        let mut intervals: Vec<(u64, u64)> = Vec::new();
        for range in ranges.clip_keys(bounds.0, bounds.1) {
            let (first, last) = (tile(range.lo), tile(range.hi));
            match intervals.last_mut() {
                Some((_, end)) if end.saturating_add(1) >= first => *end = last.max(*end),
                _ => intervals.push((first, last)),
            }
        }
        let mut count = 0_u128;
        let mut before = Vec::with_capacity(intervals.len());
        for (first, last) in &intervals {
            before.push(count);
            count += u128::from(last - first) + 1;
        }
        Self {
            starts: intervals.iter().map(|(first, _)| *first).collect(),
            before,
            count,
        }
    }

    /// The tile index at a position among all intervals.
    pub(super) fn at(&self, position: u128) -> Option<u64> {
        let i = self
            .before
            .partition_point(|before| *before <= position)
            .checked_sub(1)?;
        let within = u64::try_from(position - self.before.get(i)?).ok()?;
        self.starts.get(i)?.checked_add(within)
    }
}

/// The size of a cross product of intervals, capped at the largest `u128`.
pub(super) fn count_tiles(intervals: &[TileIntervals]) -> u128 {
    let counts = intervals.iter().map(|interval| interval.count);
    counts.fold(1, u128::saturating_mul)
}
