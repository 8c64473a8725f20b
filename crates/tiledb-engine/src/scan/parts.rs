//! Parts of units, which are read where memory does not hold a whole one.
//!
//! A unit is planned by its number of cells, before anybody knows how much memory is left. When the memory pool refuses a unit,
//! its halves are read one after the other, and theirs, down to a few cells. The rows of the halves come in the order of the
//! unit's. Cells that may have versions anywhere in a unit are not split, nor are rows that are sorted.

use std::ops::Range;
use std::sync::Arc;

use super::plan::dense::DensePlan;
use super::plan::sparse_units::{CellVersions, SparseUnit};
use super::plan::versions::comparison_tiles_of_rest;
use super::plan::{PlanUnits, ScanPlan};
use crate::error::{Error, Result};
use crate::format::schema::Layout;
use crate::geometry::domain::KeyBox;
use crate::geometry::subarray::Subarray;

/// No part has fewer cells than half of this.
const SMALLEST_CELLS: u64 = 128;

/// A part of a unit.
#[derive(Debug, Clone)]
pub enum UnitPart {
    /// Some of its tiles, by their places in the unit.
    Tiles(Range<usize>),
    /// Cells of one of its sparse tiles, by their numbers.
    Cells {
        /// The tile's place in the unit.
        tile: usize,
        /// The numbers of the cells.
        cells: Range<usize>,
    },
    /// A box of cells of one of its dense tiles.
    Box {
        /// The tile's place in the unit.
        tile: usize,
        /// The box.
        cells: KeyBox,
    },
}

impl UnitPart {
    /// The places of its tiles in the unit.
    fn tiles(&self) -> Range<usize> {
        match self {
            Self::Tiles(tiles) => tiles.clone(),
            Self::Cells { tile, .. } | Self::Box { tile, .. } => *tile..tile.saturating_add(1),
        }
    }

    /// Some tiles of a dense unit, and the box that their cells must lie in.
    pub fn of_dense(&self, mut tiles: Vec<Vec<u64>>) -> (Vec<Vec<u64>>, Option<&KeyBox>) {
        let kept = self.tiles();
        tiles.truncate(kept.end);
        tiles.drain(..kept.start.min(tiles.len()));
        match self {
            Self::Box { cells, .. } => (tiles, Some(cells)),
            Self::Tiles(_) | Self::Cells { .. } => (tiles, None),
        }
    }

    /// A part of a sparse unit, as a unit.
    pub fn of_sparse(&self, plan: &ScanPlan, unit: &SparseUnit) -> Result<Arc<SparseUnit>> {
        let tiles = unit.tiles.get(self.tiles());
        let tiles = tiles.ok_or_else(|| Error::internal("a part has tiles that its unit lacks"))?;
        let cells = tiles.iter().map(|tile| tile.cells as u64);
        Ok(Arc::new(SparseUnit {
            cells: cells.fold(0, u64::saturating_add),
            tiles: tiles.to_vec(),
            comparison_tiles: match unit.versions {
                CellVersions::Neighbours => comparison_tiles_of_rest(plan, unit, tiles)?,
                CellVersions::None | CellVersions::Anywhere => unit.comparison_tiles.clone(),
            },
            within: match self {
                Self::Cells { cells, .. } => Some(cells.clone()),
                Self::Tiles(_) | Self::Box { .. } => None,
            },
            ..unit.clone()
        }))
    }
}

/// The halves of a unit, or of a part of it; `None` if it cannot be halved.
pub fn halves(
    plan: &ScanPlan,
    subarray: &Subarray,
    unit: u64,
    part: Option<&UnitPart>,
) -> Option<[UnitPart; 2]> {
    match &plan.units {
        PlanUnits::Sparse(units) => halves_of_sparse(units.get(usize::try_from(unit).ok()?)?, part),
        PlanUnits::Dense(dense) => halves_of_dense(dense, subarray, &dense.unit_tiles(unit), part),
    }
}

fn halves_of_sparse(unit: &SparseUnit, part: Option<&UnitPart>) -> Option<[UnitPart; 2]> {
    if unit.versions == CellVersions::Anywhere {
        return None;
    }
    let tiles = part.map_or(0..unit.tiles.len(), UnitPart::tiles);
    if let Some(halves) = halves_of_tiles(&tiles) {
        return Some(halves);
    }
    if unit.versions != CellVersions::None {
        return None;
    }
    let tile = tiles.start;
    let cells = match part {
        Some(UnitPart::Cells { cells, .. }) => cells.clone(),
        _ => 0..unit.tiles.get(tile)?.cells,
    };
    let middle = middle(&cells, SMALLEST_CELLS)?;
    Some([cells.start..middle, middle..cells.end].map(|cells| UnitPart::Cells { tile, cells }))
}

fn halves_of_dense(
    dense: &DensePlan,
    subarray: &Subarray,
    tiles: &[Vec<u64>],
    part: Option<&UnitPart>,
) -> Option<[UnitPart; 2]> {
    let places = part.map_or(0..tiles.len(), UnitPart::tiles);
    if let Some(halves) = halves_of_tiles(&places) {
        return Some(halves);
    }
    let tile = places.start;
    let cells = match part {
        Some(UnitPart::Box { cells, .. }) => cells.clone(),
        _ => dense
            .grid
            .tile_box(tiles.get(tile)?)
            .intersect(&dense.bounds)?,
    };
    let cells = subarray.shrink(&cells)?;
    if cells.cells().is_some_and(|cells| cells < SMALLEST_CELLS) {
        return None;
    }
    let [low, high] = halves_of_box(&cells, dense.grid.cell_order())?;
    Some([low, high].map(|cells| UnitPart::Box { tile, cells }))
}

fn halves_of_tiles(tiles: &Range<usize>) -> Option<[UnitPart; 2]> {
    let middle = middle(tiles, 2)?;
    Some([tiles.start..middle, middle..tiles.end].map(UnitPart::Tiles))
}

/// The middle of at least `smallest` numbers.
fn middle(range: &Range<usize>, smallest: u64) -> Option<usize> {
    let middle = range.start.midpoint(range.end);
    (range.len() as u64 >= smallest && middle > range.start).then_some(middle)
}

/// Halves a box so that all cells of the first half come before those of the second.
fn halves_of_box(cells: &KeyBox, order: Layout) -> Option<[KeyBox; 2]> {
    let mut wide = cells.ranges().enumerate().filter(|(_, (lo, hi))| lo < hi);
    let slowest = match order {
        Layout::ColMajor => wide.next_back(),
        _ => wide.next(),
    };
    let (dim, (lo, hi)) = slowest?;
    let last = lo.midpoint(hi);
    let (mut first_hi, mut second_lo) = (cells.hi().to_vec(), cells.lo().to_vec());
    *first_hi.get_mut(dim)? = last;
    *second_lo.get_mut(dim)? = last + 1;
    let first = KeyBox::new(cells.lo().to_vec(), first_hi)?;
    Some([first, KeyBox::new(second_lo, cells.hi().to_vec())?])
}
