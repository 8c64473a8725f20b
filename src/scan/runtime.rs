//! Conditions that come, and tighten, while a scan runs.
//!
//! Whoever consumes the rows learns which of them it still can use: the best so far of ORDER BY … LIMIT, the keys of a
//! join. The scan asks again before each unit, and never waits for an answer.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::geometry::subarray::{DimRanges, Subarray};
use crate::scan::spec::Predicate;
use crate::stats::pruner::TilePruner;

/// A condition that may tighten at any time. It never loosens.
pub trait RuntimeFilter: fmt::Debug + Send + Sync {
    /// What it asks now; `None`: no more than the plan.
    fn current(&self) -> Result<Option<Arc<RuntimeCondition>>>;
}

/// A condition on one dimension that no ranges express, such as a look-up in a join's hash table. Where a unit spans few
/// values of the dimension, they are all tried, and those that pass become ranges.
pub trait CoordinateTest: fmt::Debug + Send + Sync {
    /// The dimension.
    fn dimension(&self) -> usize;

    /// Which of the keys `lo..=hi` pass.
    fn passing(&self, lo: u64, hi: u64) -> Result<DimRanges>;
}

/// What is asked of the rows of a unit, in place of what the plan asks.
#[derive(Debug)]
pub struct RuntimeCondition {
    /// The ranges of coordinates, those of the plan taken into account.
    pub subarray: Arc<Subarray>,
    /// The condition on rows, that of the plan included.
    pub predicate: Option<Arc<dyn Predicate>>,
    /// Whether that condition asks more than the plan's.
    pub stricter: bool,
    /// Judges tiles by what came at run time alone.
    pub pruner: Option<Arc<dyn TilePruner>>,
    /// Tests of coordinates that the ranges leave out.
    pub tests: Vec<Arc<dyn CoordinateTest>>,
}

/// More values than this are not tried for a unit.
const MOST_TRIED: u64 = 16 * 1024;

impl RuntimeCondition {
    /// The ranges for the cells of a unit: `cells` of them, `span` says between which keys of a dimension.
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
            // Where nearly all pass, testing each cell is not worth it.
            if passed.sum::<u64>() / 3 < (hi - lo + 1) / 4 {
                Arc::make_mut(&mut subarray).intersect_dim(dimension, &passing);
            }
        }
        Ok(subarray)
    }
}
