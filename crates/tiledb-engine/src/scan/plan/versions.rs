//! Units of tiles in fragments that hold several versions of a cell, as consolidation leaves them, and that are
//! disjoint from all other fragments.
//!
//! Cells are in global order, so all versions of a cell are neighbours. A tile shares cells only with the tiles right
//! before and after it, and with further ones only across tiles whose cells all have the same coordinates; where MBRs
//! do not meet, it shares none. Such tiles are read in runs, each with the few tiles around it that may share a cell as
//! *comparison tiles*. They become rows in another unit, or in none if their statistics prune them, which says nothing of
//! the versions they hold.

use super::ScanPlan;
use super::boxes::TileBounds;
use super::pruning::unplanned;
use crate::array::fragment::Fragment;
use crate::array::fragment::boxes::TileBoxes;
use crate::error::Result;
use crate::format::schema::Layout;
use crate::geometry::hilbert::Hilbert;
use crate::scan::plan::sparse_units::{CellVersions, SparseUnit, TileRef, UNIT_CELLS};
use crate::stats::trust::tells_dimension;

/// A run continues beyond [`UNIT_CELLS`] until a cut needs no comparison tiles, but not beyond this.
const MOST_UNIT_CELLS: u64 = 2 * UNIT_CELLS;

/// Where a fragment of an array without duplicates holds several versions of a cell.
///
/// libtiledb 2.14 and older wrote cells with equal Hilbert values in another order than the one in which all releases
/// merge them, so other cells may lie between versions where different cells can have equal Hilbert values. A lossy
/// filter may have changed the order of coordinates, and NaN is not ordered.
pub fn copies_within(fragment: &Fragment, boxes: &TileBoxes) -> Result<CellVersions> {
    let schema = &fragment.schema;
    if !fragment.footer.has_timestamps {
        return Ok(CellVersions::None);
    }
    let told = (0..schema.dimensions.len()).all(|d| tells_dimension(fragment, d));
    let in_order = match schema.cell_order {
        Layout::Hilbert => Hilbert::new(&schema.dimensions)?.tells_cells_apart(),
        _ => true,
    };
    Ok(if told && in_order && boxes.are_in_order() {
        CellVersions::Neighbours
    } else {
        CellVersions::Anywhere
    })
}

/// Tiles in the order of their fragments, and their boxes, to find the comparison tiles of units.
pub struct TileNeighbourhood<'a> {
    tiles: &'a [TileRef],
    bounds: &'a TileBounds,
}

impl<'a> TileNeighbourhood<'a> {
    /// Looks for comparison tiles among these tiles.
    pub fn new(tiles: &'a [TileRef], bounds: &'a TileBounds) -> Self {
        Self { tiles, bounds }
    }

    /// The other tiles that may share a cell with one of the tiles in `read`; both are positions in order.
    pub fn comparison_tiles(&self, read: &[usize]) -> Vec<usize> {
        let mut found = Vec::new();
        let is_read = |tile: &usize| read.binary_search(tile).is_ok();
        for tile in read {
            let before = (0..*tile).rev().take_while(|tile| !is_read(tile));
            self.walk(*tile, before, &mut found);
            let after = (*tile + 1..self.tiles.len()).take_while(|tile| !is_read(tile));
            self.walk(*tile, after, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Follows neighbouring tiles as long as they may share a cell with the first.
    fn walk(&self, from: usize, to: impl Iterator<Item = usize>, found: &mut Vec<usize>) {
        let mut last = from;
        for next in to {
            if !self.may_share(last.min(next), last.max(next)) {
                break;
            }
            found.push(next);
            if !self.bounds.has_one_coordinate(next) {
                break;
            }
            last = next;
        }
    }

    /// Whether a tile and the tile at the next position may hold versions of one cell.
    fn may_share(&self, tile: usize, next: usize) -> bool {
        let both = self.tiles.get(tile).zip(self.tiles.get(next));
        let follows = |(a, b): (&TileRef, &TileRef)| {
            a.fragment == b.fragment && a.tile.0.checked_add(1) == Some(b.tile.0)
        };
        both.is_some_and(follows) && self.bounds.meet(tile, next)
    }

    /// Groups the tiles that are read, all of one fragment and in order, into units.
    pub fn units(&self, read: &[TileRef]) -> Vec<SparseUnit> {
        let mut units = Vec::new();
        let mut run: Vec<(usize, TileRef)> = Vec::new();
        let mut cells = 0;
        for tile in read {
            let Some(position) = self.position(tile) else {
                continue;
            };
            let apart = |(last, _): &(usize, TileRef)| !self.may_share(*last, position);
            if cells >= MOST_UNIT_CELLS || cells >= UNIT_CELLS && run.last().is_some_and(apart) {
                units.push(self.unit(std::mem::take(&mut run), cells));
                cells = 0;
            }
            run.push((position, *tile));
            cells += tile.cells as u64;
        }
        if !run.is_empty() {
            units.push(self.unit(run, cells));
        }
        units
    }

    fn unit(&self, run: Vec<(usize, TileRef)>, cells: u64) -> SparseUnit {
        let (positions, tiles): (Vec<_>, Vec<_>) = run.into_iter().unzip();
        let comparison_tiles = self.comparison_tiles(&positions).into_iter();
        SparseUnit {
            tiles,
            comparison_tiles: comparison_tiles
                .filter_map(|w| self.tiles.get(w).copied())
                .collect(),
            clip: None,
            within: None,
            versions: CellVersions::Neighbours,
            cells,
        }
    }

    fn position(&self, tile: &TileRef) -> Option<usize> {
        let key = |tile: &TileRef| (tile.fragment, tile.tile);
        self.tiles.binary_search_by_key(&key(tile), key).ok()
    }
}

/// The comparison tiles of a unit that has lost some of its tiles.
pub fn comparison_tiles_of_rest(
    plan: &ScanPlan,
    unit: &SparseUnit,
    left: &[TileRef],
) -> Result<Vec<TileRef>> {
    let mut tiles = unit.all_tiles().copied().collect::<Vec<_>>();
    tiles.sort_unstable_by_key(|tile| (tile.fragment, tile.tile));
    let boxes = tiles
        .iter()
        .map(|tile| {
            let of_fragment = plan.boxes.get(tile.fragment).ok_or_else(unplanned)?;
            Ok((of_fragment.as_ref(), tile.tile.get()))
        })
        .collect::<Result<Vec<(&TileBoxes, usize)>>>()?;
    let bounds = TileBounds::new(&plan.spec.table.snapshot.schema, &boxes);
    let neighbourhood = TileNeighbourhood::new(&tiles, &bounds);
    let left = left.iter().filter_map(|tile| neighbourhood.position(tile));
    let comparison_tiles = neighbourhood
        .comparison_tiles(&left.collect::<Vec<_>>())
        .into_iter();
    Ok(comparison_tiles
        .filter_map(|w| tiles.get(w).copied())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::fragment::TileIdx;

    fn tiles(cells: &[usize]) -> Vec<TileRef> {
        let tile = |(i, cells): (usize, &usize)| TileRef {
            fragment: 0,
            tile: TileIdx(i as u64),
            cells: *cells,
            covered: false,
            no_deletes: true,
            proven: false,
        };
        cells.iter().enumerate().map(tile).collect()
    }

    #[test]
    fn comparison_tiles_are_the_tiles_around_that_may_share_a_cell() {
        let bounds = vec![(0, 5), (5, 5), (5, 5), (5, 9), (9, 12), (13, 20), (20, 20)];
        let bounds = TileBounds::of_line(bounds);
        let tiles = tiles(&[10; 7]);
        let comparison_tiles =
            |read: &[usize]| TileNeighbourhood::new(&tiles, &bounds).comparison_tiles(read);
        assert_eq!(comparison_tiles(&[0]), [1, 2, 3]);
        assert_eq!(comparison_tiles(&[3]), [0, 1, 2, 4]);
        assert_eq!(comparison_tiles(&[1]), [0, 2, 3]);
        assert_eq!(comparison_tiles(&[4]), [3]);
        assert_eq!(comparison_tiles(&[6]), [5]);
        assert_eq!(comparison_tiles(&[0, 3]), [1, 2, 4]);
        assert!(comparison_tiles(&[0, 1, 2, 3, 4, 5, 6]).is_empty());
        // A tile outside the subarray has no cell to share.
        let gap = [0, 1, 3].map(|tile| tiles[tile]);
        let bounds = TileBounds::of_line(vec![(0, 5), (5, 5), (5, 9)]);
        assert_eq!(
            TileNeighbourhood::new(&gap, &bounds).comparison_tiles(&[0]),
            [1]
        );
    }

    #[test]
    fn runs_are_cut_where_nothing_is_shared_or_when_they_are_long() {
        let most = UNIT_CELLS as usize;
        let tiles = tiles(&[most, 1, 1, most, most, 1]);
        let bounds = vec![(0, 5), (5, 7), (8, 9), (9, 12), (12, 30), (30, 40)];
        let bounds = TileBounds::of_line(bounds);
        let neighbourhood = TileNeighbourhood::new(&tiles, &bounds);
        let units = |read: &[usize]| {
            let read = read.iter().map(|tile| tiles[*tile]).collect::<Vec<_>>();
            let numbers = |tiles: &[TileRef]| tiles.iter().map(|t| t.tile.0).collect::<Vec<_>>();
            let units = neighbourhood
                .units(&read)
                .into_iter()
                .map(|u| (numbers(&u.tiles), numbers(&u.comparison_tiles)));
            units.collect::<Vec<_>>()
        };
        let all = [
            (vec![0, 1], vec![]),
            (vec![2, 3, 4], vec![5]),
            (vec![5], vec![4]),
        ];
        assert_eq!(units(&[0, 1, 2, 3, 4, 5]), all);
        assert_eq!(units(&[1, 3]), [(vec![1, 3], vec![0, 2, 4])]);
    }
}
