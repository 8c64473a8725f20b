//! Whole tiles, which metadata may answer, and the scan without them.
//!
//! Every cell of a whole tile is a row of the scan, and no other tile hides any of them, so its number of cells and its
//! statistics are those of rows. Tiles answered from metadata need not be read; the other tiles, grouped into units
//! anew, are the rest of the scan.

use std::sync::Arc;

use super::dense::{DensePlan, StoredAs};
use super::{PlanUnits, ScanPlan};
use crate::array::fragment::TileIdx;
use crate::array::window::WindowVisibility;
use crate::geometry::domain::KeyBox;
use crate::scan::plan::sparse_units::{
    CellVersions, SparseUnit, TileRef, group_disjoint, unit_cells,
};

/// With more dense tiles than this, none is tested for being whole.
const MOST_DENSE_TILES: u64 = 1 << 22;

/// A tile all of whose cells are rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeTile {
    /// Its number among the tiles of the plan.
    pub ordinal: u64,
    /// Index into the plan's fragments.
    pub fragment: usize,
    /// The tile, in the fragment's own numbering.
    pub tile: TileIdx,
    /// Number of cells in it.
    pub cells: u64,
    /// The box of a dense tile; `None` for a sparse one.
    pub dense: Option<KeyBox>,
}

impl ScanPlan {
    /// The whole tiles, in the order of their numbers.
    pub fn whole_tiles(&self) -> Vec<WholeTile> {
        match &self.units {
            PlanUnits::Sparse(units) => self.whole_sparse_tiles(units),
            PlanUnits::Dense(dense) => self.whole_dense_tiles(dense),
        }
    }

    /// The same scan without the tiles with these ascending numbers.
    #[must_use]
    pub fn without(&self, ordinals: &[u64]) -> Self {
        let units = match &self.units {
            PlanUnits::Sparse(units) => PlanUnits::Sparse(sparse_rest(units, ordinals)),
            PlanUnits::Dense(dense) => PlanUnits::Dense(Box::new(dense.without(ordinals))),
        };
        Self {
            exact_rows: None,
            ..self.with_units(units)
        }
    }

    fn whole_sparse_tiles(&self, units: &[Arc<SparseUnit>]) -> Vec<WholeTile> {
        let whole = |tile: &TileRef| {
            let fragment = self.fragments.get(tile.fragment);
            let visible =
                fragment.is_some_and(|f| f.fragment.visibility == WindowVisibility::Whole);
            let asked = self.spec.predicate.is_none() || tile.proven;
            visible && asked && tile.covered && tile.no_deletes
        };
        let tiles = (0_u64..).zip(disjoint_tiles(units));
        let whole = tiles
            .filter(|(_, tile)| whole(tile))
            .map(|(ordinal, tile)| WholeTile {
                ordinal,
                fragment: tile.fragment,
                tile: tile.tile,
                cells: tile.cells as u64,
                dense: None,
            });
        whole.collect()
    }

    fn whole_dense_tiles(&self, dense: &DensePlan) -> Vec<WholeTile> {
        if self.spec.predicate.is_some() || dense.tile_count() > MOST_DENSE_TILES {
            return Vec::new();
        }
        let whole = |ordinal| {
            let cells = dense.grid.tile_box(&dense.tile_at(ordinal)?);
            let count = cells.cells()?;
            // A tile at the end of the range of its datatype has fewer cells.
            if count != dense.grid.cells_per_tile() || !self.spec.subarray.covers_box(&cells) {
                return None;
            }
            let (fragment, tile) = dense.only_supplier(&cells)?;
            Some(WholeTile {
                ordinal,
                fragment,
                tile,
                cells: count,
                dense: Some(cells),
            })
        };
        (0..dense.tile_count()).filter_map(whole).collect()
    }
}

impl DensePlan {
    /// The fragment that supplies every cell of a tile, and the tile's number in it. A fragment that wrote only part of
    /// the tile does not count: the rest is padding, which its statistics may include.
    fn only_supplier(&self, cells: &KeyBox) -> Option<(usize, TileIdx)> {
        let scattered = self.scattered.touching(cells);
        for number in self.index.newest_first(cells) {
            let fragment = self.fragments.get(number)?;
            match &fragment.stored_as {
                StoredAs::Tiles(tiles) if fragment.domain.intersects(cells) => {
                    let lo = cells.ranges().map(|(lo, _)| lo).enumerate();
                    let tile = lo.map(|(d, lo)| self.grid.tile_of(d, lo));
                    let position = tiles.position(&tile.collect::<Vec<_>>())?;
                    return fragment
                        .domain
                        .contains(cells)
                        .then_some((number, TileIdx(position)));
                }
                StoredAs::Cells if scattered.iter().any(|t| t.fragment == number) => return None,
                _ => {}
            }
        }
        None
    }
}

/// The tiles without versions of cells in other tiles, in the order of the units.
fn disjoint_tiles(units: &[Arc<SparseUnit>]) -> impl Iterator<Item = &TileRef> {
    let disjoint = units.iter().filter(|unit| is_disjoint(unit));
    disjoint.flat_map(|unit| &unit.tiles)
}

fn is_disjoint(unit: &SparseUnit) -> bool {
    unit.versions == CellVersions::None && unit.clip.is_none()
}

fn sparse_rest(units: &[Arc<SparseUnit>], ordinals: &[u64]) -> Vec<Arc<SparseUnit>> {
    let mut ordinals = ordinals.iter().copied().peekable();
    let tiles = (0_u64..).zip(disjoint_tiles(units));
    let left = tiles
        .filter(|(ordinal, _)| ordinals.next_if_eq(ordinal).is_none())
        .map(|(_, tile)| *tile)
        .collect::<Vec<_>>();
    let resolved = units.iter().filter(|unit| !is_disjoint(unit)).cloned();
    let disjoint = group_disjoint(&left, unit_cells(&left))
        .into_iter()
        .map(Arc::new);
    disjoint.chain(resolved).collect()
}
