//! Units of a sparse scan: tiles that are read together.

use std::sync::Arc;

use crate::array::fragment::TileIdx;
use crate::geometry::subarray::Subarray;

/// Cells of a unit of tiles that are disjoint, where there are many.
pub(super) const UNIT_CELLS: u64 = 128 * 1024;
/// Of few cells, units are smaller, so that there are about so many to be decoded side by side. All of them are asked of
/// the store at once by two partitions.
const FEWEST_UNITS: u64 = 4;
/// No unit is made smaller than this; it costs some tens of microseconds by itself, and requests.
const SMALLEST_UNIT_CELLS: u64 = 32 * 1024;

/// A tile of a fragment of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileRef {
    /// Index into the plan's fragments.
    pub fragment: usize,
    /// The tile.
    pub tile: TileIdx,
    /// Cells in it.
    pub cells: usize,
    /// The box lies inside the subarray: no cell needs a test.
    pub covered: bool,
    /// The box proves that no delete hits a cell.
    pub no_deletes: bool,
    /// The statistics prove that every cell meets the condition.
    pub proven: bool,
}

/// Where versions of a cell may lie, of which the newest is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellVersions {
    /// There are none.
    None,
    /// Next to each other, in the order of the tiles.
    Neighbours,
    /// In any of the tiles.
    Anywhere,
}

/// Tiles read together.
#[derive(Debug, Clone)]
pub struct SparseUnit {
    /// The tiles whose cells become rows.
    pub tiles: Vec<TileRef>,
    /// Others, which may hold versions of these cells.
    pub witnesses: Vec<TileRef>,
    /// The part of the subarray whose cells are this unit's; `None`: all of it.
    pub clip: Option<Arc<Subarray>>,
    /// Where versions of the cells may lie among all of these tiles.
    pub versions: CellVersions,
    /// Cells to look through.
    pub cells: u64,
}

impl SparseUnit {
    /// The tiles and the witnesses.
    pub fn all_tiles(&self) -> impl Iterator<Item = &TileRef> {
        self.tiles.iter().chain(&self.witnesses)
    }
}

/// Tiles that are disjoint are read together until a unit holds so many cells.
pub(super) fn unit_cells(tiles: &[TileRef]) -> u64 {
    // How many cells a tile has is what a file says.
    let cells = tiles.iter().map(|tile| tile.cells as u64);
    let cells = cells.fold(0, u64::saturating_add);
    (cells / FEWEST_UNITS).clamp(SMALLEST_UNIT_CELLS, UNIT_CELLS)
}

/// Units of neighbouring tiles of one fragment, joined until a unit holds `enough` cells.
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
                witnesses: Vec::new(),
                clip: None,
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
        // What a forged file says of its tiles is no panic.
        assert_eq!(units_of(&[1, usize::MAX, usize::MAX]), [2, 1]);
    }
}
