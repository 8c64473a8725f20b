//! Units of a sparse scan: tiles that are read together.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::array::fragment::TileIdx;
use crate::geometry::subarray::Subarray;

/// The number of cells in a unit of disjoint tiles, where there are many.
pub(super) const UNIT_CELLS: u64 = 128 * 1024;
/// Small scans have smaller units, so that at least this many can be decoded in parallel. Two partitions request all of
/// them from the store at once.
const FEWEST_UNITS: u64 = 4;
/// No unit is made smaller than this: each costs tens of microseconds, and requests.
const SMALLEST_UNIT_CELLS: u64 = 32 * 1024;

/// A tile of a fragment of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileRef {
    /// Index into the plan's fragments.
    pub fragment: usize,
    /// The tile.
    pub tile: TileIdx,
    /// Number of cells in it.
    pub cells: usize,
    /// Whether its box lies inside the subarray, so that no cell needs a test.
    pub covered: bool,
    /// Whether its box proves that no delete condition matches a cell.
    pub no_deletes: bool,
    /// Whether its statistics prove that every cell satisfies the predicate.
    pub proven: bool,
}

/// Where the versions of a cell may lie, of which the newest becomes a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CellVersions {
    /// No cell has several versions.
    None,
    /// The versions of a cell are neighbours in the order of the tiles.
    Neighbours,
    /// The versions of a cell may lie in any of the tiles.
    Anywhere,
}

/// Tiles that are read together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseUnit {
    /// The tiles whose cells become rows.
    pub tiles: Vec<TileRef>,
    /// Other tiles, which may hold versions of these cells.
    pub comparison_tiles: Vec<TileRef>,
    /// The part of the subarray whose cells belong to this unit; `None` if all of it.
    pub clip: Option<Arc<Subarray>>,
    /// The cells that are read, by their numbers in the only tile; `None` if all.
    pub within: Option<Range<usize>>,
    /// Where the versions of a cell may lie among the tiles and the comparison tiles.
    pub versions: CellVersions,
    /// The number of cells in all tiles.
    pub cells: u64,
}

impl SparseUnit {
    /// The tiles and the comparison tiles.
    pub fn all_tiles(&self) -> impl Iterator<Item = &TileRef> {
        self.tiles.iter().chain(&self.comparison_tiles)
    }
}

/// The number of cells up to which disjoint tiles are read together in one unit.
pub(super) fn unit_cells(tiles: &[TileRef]) -> u64 {
    // The numbers of cells come from files, so their sum may overflow.
    let cells = tiles
        .iter()
        .map(|tile| tile.cells as u64)
        .fold(0, u64::saturating_add);
    (cells / FEWEST_UNITS).clamp(SMALLEST_UNIT_CELLS, UNIT_CELLS)
}

/// Groups neighbouring tiles of one fragment into units of about `enough` cells.
pub(super) fn group_disjoint(tiles: &[TileRef], enough: u64) -> Vec<SparseUnit> {
    let mut units: Vec<SparseUnit> = Vec::new();
    for tile in tiles {
        let joins = units.last().is_some_and(|unit| {
            unit.cells < enough
                && unit
                    .tiles
                    .last()
                    .is_some_and(|t| t.fragment == tile.fragment)
        });
        match units.last_mut() {
            Some(unit) if joins => {
                unit.tiles.push(*tile);
                unit.cells = unit.cells.saturating_add(tile.cells as u64);
            }
            _ => units.push(SparseUnit {
                tiles: vec![*tile],
                comparison_tiles: Vec::new(),
                clip: None,
                within: None,
                versions: CellVersions::None,
                cells: tile.cells as u64,
            }),
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units_of(cells: &[usize]) -> Vec<usize> {
        let tile = |(i, cells): (usize, &usize)| TileRef {
            fragment: 0,
            tile: TileIdx(i as u64),
            cells: *cells,
            covered: false,
            no_deletes: true,
            proven: false,
        };
        let tiles = cells.iter().enumerate().map(tile).collect::<Vec<_>>();
        let units = group_disjoint(&tiles, unit_cells(&tiles));
        units.iter().map(|unit| unit.tiles.len()).collect()
    }

    #[test]
    fn few_cells_are_units_for_several_cores_and_many_are_large_ones() {
        assert!(units_of(&[]).is_empty());
        assert_eq!(units_of(&[1]), [1]);
        assert_eq!(units_of(&[100_000; 2]), [1, 1]);
        assert_eq!(units_of(&[1_000; 10]), [10]);
        assert_eq!(units_of(&[10_000; 20]), [5, 5, 5, 5]);
        assert_eq!(units_of(&[10_000; 140]), [14; 10]);
        // Forged numbers of cells cause no panic.
        assert_eq!(units_of(&[1, usize::MAX, usize::MAX]), [2, 1]);
    }
}
