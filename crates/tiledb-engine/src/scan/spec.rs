//! The request that a scan answers, and the conditions that arrive while it runs.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::array::table::ArrayTable;
use crate::error::Result;
use crate::geometry::subarray::{DimRanges, Subarray};
use crate::stats::pruner::TilePruner;
use crate::tile::needles::NeedleSet;

/// What a dense array shows for cells that were never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EmptyCells {
    /// The fill value of each attribute, as libtiledb does.
    #[default]
    Fill,
    /// NULL in every attribute.
    Null,
    /// No row.
    Skip,
    /// The fill value, and not only in the box around the written cells, but in the whole current domain.
    Domain,
}

impl EmptyCells {
    /// The word that chooses it in the option `tiledb.empty_cells`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Null => "null",
            Self::Skip => "skip",
            Self::Domain => "domain",
        }
    }
}

/// A condition on rows, evaluated by the scan.
pub trait Predicate: fmt::Debug + Send + Sync {
    /// The table columns that it reads, in the order in which [`Self::evaluate`] expects them.
    fn columns(&self) -> &[usize];

    /// Which of `rows` rows satisfy it; NULL counts as no.
    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanArray>;

    /// What prunes whole tiles by the predicate, if their statistics can decide it.
    fn pruner(&self) -> Option<Arc<dyn TilePruner>> {
        None
    }

    /// The same predicate as a conjunction, if some of its conjuncts are conditions on text.
    fn conjunction(&self) -> Option<&Conjunction> {
        None
    }
}

/// A condition on one column of text. It never fails, whatever the string, and NULL does not satisfy it.
#[derive(Debug, Clone)]
pub struct TextCondition {
    /// The condition.
    pub predicate: Arc<dyn Predicate>,
    /// Every string that satisfies it contains one of these, none of which is empty; `None` if no such strings are
    /// known.
    pub needles: Option<NeedleSet>,
}

/// A predicate as a conjunction of conditions.
#[derive(Debug)]
pub struct Conjunction {
    /// Conditions on text.
    pub texts: Vec<TextCondition>,
    /// The other conjuncts.
    pub rest: Option<Arc<dyn Predicate>>,
}

/// Which special ways of reading a scan may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanWays {
    /// Conditions on text are asked of stored bytes.
    pub text_search: bool,
    /// Sparse tiles are searched by the order of their cells.
    pub cell_search: bool,
}

impl Default for ScanWays {
    fn default() -> Self {
        Self {
            text_search: true,
            cell_search: true,
        }
    }
}

/// A read of an array: which columns of which cells.
#[derive(Debug, Clone)]
pub struct ScanSpec {
    /// The array as a table.
    pub table: Arc<ArrayTable>,
    /// The table columns to return, in order; empty returns row counts only.
    pub projection: Vec<usize>,
    /// The ranges of coordinates to return.
    pub subarray: Arc<Subarray>,
    /// The predicate that rows must also satisfy.
    pub predicate: Option<Arc<dyn Predicate>>,
    /// The values of cells that were never written.
    pub empty_cells: EmptyCells,
    /// Whether every version of a cell of a sparse array is a row, instead of the newest one.
    pub all_versions: bool,
    /// Which special ways may be used.
    pub ways: ScanWays,
}

impl ScanSpec {
    /// The schema of the returned batches.
    pub fn output_schema(&self) -> SchemaRef {
        let fields = self
            .projection
            .iter()
            .filter_map(|i| self.table.schema.fields().get(*i).cloned())
            .collect::<Vec<_>>();
        Arc::new(Schema::new_with_metadata(
            fields,
            self.table.schema.metadata().clone(),
        ))
    }

    /// Whether only the newest of several cells with the same coordinates is a row.
    pub fn hides_older_versions(&self) -> bool {
        !self.table.snapshot.schema.allows_duplicates && !self.all_versions
    }

    /// The table columns that the predicate reads.
    pub fn predicate_columns(&self) -> &[usize] {
        self.predicate.as_ref().map_or(&[], |p| p.columns())
    }
}

/// A condition that may tighten at any time. It never loosens.
///
/// The consumer of the rows learns which of them it can still use: the best rows so far of ORDER BY … LIMIT, the keys
/// of a join. The scan asks for the condition again before each unit, and never waits for it.
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
