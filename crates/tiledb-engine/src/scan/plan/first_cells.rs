//! The first cells of a dense array in an order by its dimensions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::dense::selected_rows;
use super::{PlanUnits, ScanPlan};
use crate::geometry::subarray::{DimRanges, KeyRange};

/// One term of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimensionOrder {
    /// The dimension whose coordinates are compared.
    pub dimension: usize,
    /// Whether the largest come first.
    pub descending: bool,
}

impl ScanPlan {
    /// The scan of the cells that hold the first `rows` rows in an order; `None` if that is no smaller than this scan, or
    /// if not every selected cell is a row.
    pub fn first_cells(&self, order: &[DimensionOrder], rows: u64) -> Option<Self> {
        let PlanUnits::Dense(dense) = &self.units else {
            return None;
        };
        let wanted_rows = u128::from(rows);
        let all = self
            .exact_rows
            .filter(|all| rows > 0 && wanted_rows < *all)?;
        let mut spec = self.spec.clone();
        let mut subarray = spec.subarray.as_ref().clone();
        // The number of rows in the cells that are left.
        let mut left = all;
        for by in order {
            let (lo, hi) = dense.bounds.range(by.dimension)?;
            let ranges = subarray.dim(by.dimension).clip_keys(lo, hi);
            let keys = ranges
                .clone()
                .map(|r| u128::from(r.hi - r.lo) + 1)
                .sum::<u128>()
                .max(1);
            let rows_of_key = (left / keys).max(1);
            let wanted = wanted_rows.div_ceil(rows_of_key);
            // The scan needs no more keys than rows.
            let wanted = u64::try_from(wanted).ok()?;
            let first = if by.descending {
                last_keys(ranges, wanted)
            } else {
                first_keys(ranges, wanted)
            };
            subarray.set_dim(by.dimension, DimRanges::from_keys(first));
            left = rows_of_key.saturating_mul(wanted.into());
            if wanted > 1 {
                break;
            }
        }
        let dense = dense.within(&subarray)?;
        spec.subarray = Arc::new(subarray);
        let left = selected_rows(&dense.bounds, &spec);
        if left >= all {
            return None;
        }
        let mut counts = self.counts;
        counts.tiles_pruned = counts.tiles.saturating_sub(dense.tile_count());
        Some(Self {
            counts,
            exact_rows: Some(left),
            max_rows: u64::try_from(left).unwrap_or(u64::MAX),
            spec,
            ..self.with_units(PlanUnits::Dense(Box::new(dense)))
        })
    }
}

fn first_keys(ranges: impl Iterator<Item = KeyRange>, mut wanted: u64) -> Vec<KeyRange> {
    let mut first = Vec::new();
    for range in ranges {
        let Some(more) = wanted.checked_sub(1) else {
            break;
        };
        let hi = range.lo.saturating_add(more).min(range.hi);
        wanted -= (hi - range.lo).saturating_add(1);
        first.push(KeyRange { lo: range.lo, hi });
    }
    first
}

fn last_keys(ranges: impl DoubleEndedIterator<Item = KeyRange>, mut wanted: u64) -> Vec<KeyRange> {
    let mut last = Vec::new();
    for range in ranges.rev() {
        let Some(more) = wanted.checked_sub(1) else {
            break;
        };
        let lo = range.hi.saturating_sub(more).max(range.lo);
        wanted -= (range.hi - lo).saturating_add(1);
        last.push(KeyRange { lo, hi: range.hi });
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(list: &[(u64, u64)]) -> Vec<KeyRange> {
        let range = |(lo, hi): &(u64, u64)| KeyRange { lo: *lo, hi: *hi };
        list.iter().map(range).collect()
    }

    #[test]
    fn keys_are_taken_from_either_end() {
        let all = ranges(&[(2, 4), (7, 7), (10, u64::MAX)]);
        let first = |n| first_keys(all.iter().copied(), n);
        assert_eq!(first(2), ranges(&[(2, 3)]));
        assert_eq!(first(4), ranges(&[(2, 4), (7, 7)]));
        assert_eq!(first(5), ranges(&[(2, 4), (7, 7), (10, 10)]));
        let few = ranges(&[(2, 4), (7, 7)]);
        let last = |n| last_keys(few.iter().copied(), n);
        assert_eq!(last(1), ranges(&[(7, 7)]));
        assert_eq!(last(3), ranges(&[(7, 7), (3, 4)]));
        assert_eq!(last(9), ranges(&[(7, 7), (2, 4)]));
    }
}
