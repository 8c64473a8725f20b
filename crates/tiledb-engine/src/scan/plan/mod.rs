//! The plan of a scan: which fragments, which tiles, in which units of work.
//!
//! Units are independent: any thread can read any unit in any order. A sparse unit is a few tiles, with a box to clip
//! them to if they are de-duplicated against each other; a dense unit is a run of space tiles in tile order. The plan
//! holds units compactly, so a dense array of a billion tiles plans as fast as one of ten.

pub mod boxes;
pub mod dense;
pub mod first_cells;
pub mod ordered;
pub mod overlap;
mod pruning;
pub mod range_cuts;
mod runs;
pub mod share;
pub mod sparse;
pub mod sparse_units;
pub mod touching;
mod unfit;
pub mod versions;
pub mod whole;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::dense::DensePlan;
use super::spec::ScanSpec;
use crate::array::fragment::boxes::TileBoxes;
use crate::error::Result;
use crate::scan::plan::sparse_units::{CellVersions, SparseUnit};
use crate::stats::StatisticsCache;
use crate::tile::fields::FragmentScan;
use crate::tile::visibility::BYTES_PER_COMPARED_CELL;

/// The assumed size of a cell in a variable-sized column.
const STRING_BYTES: usize = 32;

/// What planning considered and skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCounts {
    /// Fragments the snapshot shows.
    pub fragments: u64,
    /// Fragments skipped because their non-empty domain lies outside the subarray.
    pub fragments_pruned: u64,
    /// Tiles of the fragments that were not skipped (dense: space tiles of the non-empty domain).
    pub tiles: u64,
    /// Tiles skipped because they lie outside the subarray.
    pub tiles_pruned: u64,
    /// Tiles whose cells must be compared with those of other tiles.
    pub tiles_overlapping: u64,
    /// Tiles skipped because their statistics prove that no cell meets the condition.
    pub tiles_pruned_statistics: u64,
    /// Tiles whose statistics prove that every cell meets the condition.
    pub tiles_proven: u64,
    /// Delete conditions that apply to the fragments that are read, and that these have not yet processed.
    pub deletes: u64,
}

impl fmt::Display for PlanCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            fragments, tiles, ..
        } = self;
        write!(
            f,
            "{} of {fragments} fragments and {} of {tiles} tiles outside the ranges, {} tiles without a match by their statistics",
            self.fragments_pruned, self.tiles_pruned, self.tiles_pruned_statistics
        )
    }
}

/// The units of a plan.
#[derive(Debug)]
pub enum PlanUnits {
    /// Units of a sparse array.
    Sparse(Vec<Arc<SparseUnit>>),
    /// Units of a dense array.
    Dense(Box<DensePlan>),
}

/// A planned scan.
#[derive(Debug)]
pub struct ScanPlan {
    /// The request.
    pub spec: ScanSpec,
    /// The fragments that are read, oldest first; shared with the rest of the scan when metadata answer part of it.
    pub fragments: Arc<Vec<FragmentScan>>,
    /// The boxes of the tiles of the sparse fragments.
    pub boxes: Vec<Arc<TileBoxes>>,
    /// The statistics of tiles that have been loaded.
    pub statistics_cache: Arc<StatisticsCache>,
    /// Whether tiles are pruned by their statistics only when they are about to be read.
    pub prunes_late: bool,
    /// The units.
    pub units: PlanUnits,
    /// What planning considered and skipped.
    pub counts: PlanCounts,
    /// The number of rows, if the metadata prove it.
    pub exact_rows: Option<u128>,
    /// An upper bound of the number of rows.
    pub max_rows: u64,
}

impl ScanPlan {
    /// Plans a scan. Reads the R-trees of the fragments that the subarray touches, and nothing else.
    pub async fn new(spec: ScanSpec) -> Result<Self> {
        let table = Arc::clone(&spec.table);
        let uri = table.snapshot.storage.uri().to_owned();
        let planned = if spec.table.snapshot.schema.is_dense() {
            dense::plan(spec).await
        } else {
            sparse::plan(spec).await
        };
        match &planned {
            Ok(plan) => log::debug!("{uri}: {} units, {}", plan.unit_count(), plan.counts),
            Err(e) => log::debug!("{uri}: no plan: {e}"),
        }
        match planned {
            Err(e) => Err(table.snapshot.explain_missing(e).await.with("array", uri)),
            planned => planned,
        }
    }

    /// The same scan in other units.
    fn with_units(&self, units: PlanUnits) -> Self {
        Self {
            spec: self.spec.clone(),
            fragments: Arc::clone(&self.fragments),
            boxes: self.boxes.clone(),
            statistics_cache: Arc::clone(&self.statistics_cache),
            prunes_late: self.prunes_late,
            units,
            counts: self.counts,
            exact_rows: self.exact_rows,
            max_rows: self.max_rows,
        }
    }

    /// The same scan, of which nothing is read.
    #[must_use]
    pub fn without_units(&self) -> Self {
        Self {
            exact_rows: None,
            ..self.with_units(PlanUnits::Sparse(Vec::new()))
        }
    }

    /// How many units there are.
    pub fn unit_count(&self) -> u64 {
        match &self.units {
            PlanUnits::Sparse(units) => units.len() as u64,
            PlanUnits::Dense(dense) => dense.unit_count(),
        }
    }

    /// About how many bytes a unit takes while it is decoded and its cells are compared.
    pub fn unit_bytes(&self, unit: u64) -> u64 {
        let units = match &self.units {
            PlanUnits::Sparse(units) => units,
            PlanUnits::Dense(dense) => {
                return dense.unit_cells().saturating_mul(self.row_bytes(false));
            }
        };
        let unit = usize::try_from(unit).ok().and_then(|unit| units.get(unit));
        let Some(unit) = unit else { return 0 };
        let cells = unit
            .all_tiles()
            .map(|tile| tile.cells as u64)
            .fold(0, u64::saturating_add);
        let compared = match unit.versions {
            CellVersions::Anywhere => unit.cells.saturating_mul(BYTES_PER_COMPARED_CELL as u64),
            CellVersions::None | CellVersions::Neighbours => 0,
        };
        let row_bytes = self.row_bytes(unit.versions != CellVersions::None);
        cells.saturating_mul(row_bytes).saturating_add(compared)
    }

    /// About how many bytes a cell takes in the columns that are read.
    fn row_bytes(&self, with_dimensions: bool) -> u64 {
        let table = &self.spec.table;
        let dimensions = 0..table.dimension_count();
        let condition = self
            .spec
            .predicate
            .as_ref()
            .map_or(&[][..], |p| p.columns());
        let read = |column: usize| {
            let compared = with_dimensions && dimensions.contains(&column);
            compared || self.spec.projection.contains(&column) || condition.contains(&column)
        };
        let columns = table
            .types
            .iter()
            .enumerate()
            .filter(|(column, _)| read(*column));
        let bytes = columns.map(|(_, ty)| ty.cell_bytes().unwrap_or(STRING_BYTES) as u64);
        bytes.sum()
    }

    /// Splits the units into at most `wanted` ranges of about equally many cells; at least one range, which may be
    /// empty.
    pub fn partitions(&self, wanted: usize) -> Vec<Range<u64>> {
        let count = self.unit_count();
        let wanted = (wanted.max(1) as u64).min(count.max(1));
        let costs: Option<Vec<u64>> = match &self.units {
            PlanUnits::Sparse(units) => Some(units.iter().map(|u| u.cells).collect()),
            PlanUnits::Dense(_) => None,
        };
        let Some(costs) = costs else {
            return (0..wanted)
                .map(|i| share(count, i, wanted)..share(count, i + 1, wanted))
                .collect();
        };
        cut_by_cost(&costs, wanted)
    }
}

/// `count * i / n` without overflow.
fn share(count: u64, i: u64, n: u64) -> u64 {
    let exact = u128::from(count) * u128::from(i) / u128::from(n.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

fn cut_by_cost(costs: &[u64], wanted: u64) -> Vec<Range<u64>> {
    let total: u64 = costs.iter().fold(0, |sum, c| sum.saturating_add(*c));
    let mut ranges = Vec::new();
    let (mut start, mut spent) = (0_u64, 0_u64);
    for (i, cost) in costs.iter().enumerate() {
        spent = spent.saturating_add(*cost);
        let cut = ranges.len() as u64 + 1;
        if cut < wanted && spent >= share(total, cut, wanted) {
            ranges.push(start..i as u64 + 1);
            start = i as u64 + 1;
        }
    }
    ranges.push(start..costs.len() as u64);
    ranges
}

/// The columns whose tiles a scan may read: those of the projection, of the predicate, and `extra`.
fn needed_columns(spec: &ScanSpec, extra: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut needed = (0..spec.table.types.len()).map(extra).collect::<Vec<_>>();
    for column in spec.projection.iter().chain(spec.predicate_columns()) {
        if let Some(needed) = needed.get_mut(*column) {
            *needed = true;
        }
    }
    needed
}

/// Small dense tiles are read together until a unit holds this many cells.
const DENSE_UNIT_CELLS: u64 = 128 * 1024;
/// A dense unit under a condition is read in two rounds, which cost less by the cell if it has more cells: up to so many.
const FILTERED_UNIT_CELLS: u64 = 512 * 1024;
/// Units under a condition are no larger than others where that would make them fewer than this.
const FEWEST_FILTERED_UNITS: u64 = 128;
/// Units under a condition are no larger than others where they would take more bytes than this in memory.
const FILTERED_UNIT_BYTES: u64 = 4 << 20;
/// The bytes of a coordinate in memory.
const COORDINATE_BYTES: u64 = 8;

/// The number of cells up to which the tiles of a scan of `cells` dense cells are read together in one unit.
fn dense_unit_cells(cells: u64, spec: &ScanSpec) -> u64 {
    match spec.predicate {
        Some(_) => filtered_unit_cells(cells, row_bytes(spec)),
        None => DENSE_UNIT_CELLS,
    }
}

fn filtered_unit_cells(cells: u64, row_bytes: Option<u64>) -> u64 {
    let Some(fitting) = row_bytes.and_then(|bytes| FILTERED_UNIT_BYTES.checked_div(bytes)) else {
        return DENSE_UNIT_CELLS;
    };
    let most = fitting.clamp(DENSE_UNIT_CELLS, FILTERED_UNIT_CELLS);
    (cells / FEWEST_FILTERED_UNITS).clamp(DENSE_UNIT_CELLS, most)
}

/// The bytes of a row of all columns that the scan reads; `None` if rows differ in size.
fn row_bytes(spec: &ScanSpec) -> Option<u64> {
    let dimensions = spec.table.dimension_count();
    let attributes = &spec.table.snapshot.schema.attributes;
    let needed = needed_columns(spec, |_| false)
        .into_iter()
        .enumerate()
        .filter(|(_, is_needed)| *is_needed);
    let mut sizes = needed.map(|(column, _)| match column.checked_sub(dimensions) {
        None => Some(COORDINATE_BYTES),
        Some(attribute) => attributes
            .get(attribute)?
            .cell_size()
            .map(|size| size as u64),
    });
    sizes.try_fold(0_u64, |sum, size| Some(sum.saturating_add(size?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_units_under_a_condition_are_bounded_in_cells_and_bytes() {
        const MANY: u64 = 1 << 40;
        assert_eq!(filtered_unit_cells(MANY, Some(6)), FILTERED_UNIT_CELLS);
        assert_eq!(filtered_unit_cells(MANY, Some(16)), 256 * 1024);
        assert_eq!(
            filtered_unit_cells(256 * DENSE_UNIT_CELLS, Some(6)),
            2 * DENSE_UNIT_CELLS
        );
        // Wide rows, rows that differ in size, and few cells leave the units as they are.
        let unchanged = [
            (MANY, Some(4000)),
            (MANY, None),
            (MANY, Some(0)),
            (1000, Some(6)),
            (0, Some(6)),
        ];
        for (cells, row_bytes) in unchanged {
            assert_eq!(filtered_unit_cells(cells, row_bytes), DENSE_UNIT_CELLS);
        }
    }

    #[test]
    fn units_are_cut_by_cost_and_none_is_lost() {
        assert_eq!(
            cut_by_cost(&[10, 1, 1, 1, 1, 1, 1, 1, 1, 1], 2),
            [0..1, 1..10]
        );
        assert_eq!(cut_by_cost(&[1, 1, 1, 1], 4), [0..1, 1..2, 2..3, 3..4]);
        assert_eq!(cut_by_cost(&[], 1).first(), Some(&(0..0)));
        let cuts = cut_by_cost(&[5, 0, 0, 7, 9, 1], 3);
        assert_eq!(cuts.first().map(|r| r.start), Some(0));
        assert_eq!(cuts.last().map(|r| r.end), Some(6));
        assert!(cuts.windows(2).all(|w| w[0].end == w[1].start));
    }
}
