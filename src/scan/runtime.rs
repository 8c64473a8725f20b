//! Conditions that arrive, and tighten, while a scan runs.
//!
//! The consumer of the rows learns which of them it can still use: the best rows so far of ORDER BY … LIMIT, the keys
//! of a join. The scan asks for the condition again before each unit, and never waits for it.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::geometry::subarray::{DimRanges, Subarray};
use crate::scan::spec::Predicate;
use crate::stats::pruner::TilePruner;

/// A condition that may tighten at any time. It never loosens.
pub trait RuntimeFilter: fmt::Debug + Send + Sync {
    /// The condition at this moment; `None` if it is no stricter than the plan's.
    fn current(&self) -> Result<Option<Arc<RuntimeCondition>>>;
}

/// A condition on one dimension that no ranges express, such as a look-up in a join's hash table. Where a unit spans
/// few values of the dimension, each of them is tested, and those that pass become ranges.
pub trait CoordinateTest: fmt::Debug + Send + Sync {
    /// The dimension.
    fn dimension(&self) -> usize;

    /// Which of the keys `lo..=hi` pass.
    fn passing(&self, lo: u64, hi: u64) -> Result<DimRanges>;
}

/// The condition on the rows of a unit, which replaces the plan's.
#[derive(Debug)]
pub struct RuntimeCondition {
    /// The ranges of coordinates, within those of the plan.
    pub subarray: Arc<Subarray>,
    /// The predicate, that of the plan included.
    pub predicate: Option<Arc<dyn Predicate>>,
    /// Whether the predicate is stricter than the plan's.
    pub stricter: bool,
    /// Prunes tiles by the run-time part of the condition alone.
    pub pruner: Option<Arc<dyn TilePruner>>,
    /// Tests of coordinates that the ranges do not express.
    pub tests: Vec<Arc<dyn CoordinateTest>>,
}

/// The most values of a dimension that are tested for a unit.
const MOST_TRIED: u64 = 16 * 1024;

impl RuntimeCondition {
    /// The ranges for the `cells` cells of a unit, whose keys in a dimension lie within `span`.
    pub fn subarray_of(
        &self,
        cells: u64,
        span: impl Fn(usize) -> Option<(u64, u64)>,
    ) -> Result<Arc<Subarray>> {
        let mut subarray = Arc::clone(&self.subarray);
        for test in &self.tests {
            let dimension = test.dimension();
            let Some((lo, hi)) = span(dimension) else {
                continue;
            };
            let asked = subarray.dim(dimension).overlapping_keys(lo, hi);
            let (Some(first), Some(last)) = (asked.first(), asked.last()) else {
                continue;
            };
            let (lo, hi) = (lo.max(first.lo), hi.min(last.hi));
            if hi - lo >= MOST_TRIED.min(cells) {
                continue;
            }
            let passing = test.passing(lo, hi)?;
            let passed = passing.key_ranges().iter().map(|r| r.hi - r.lo + 1);
            // Where nearly all values pass, testing each cell against the ranges is not worth it.
            if passed.sum::<u64>() / 3 < (hi - lo + 1) / 4 {
                Arc::make_mut(&mut subarray).intersect_dim(dimension, &passing);
            }
        }
        Ok(subarray)
    }
}
