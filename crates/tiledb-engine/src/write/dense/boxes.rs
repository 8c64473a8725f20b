//! The boxes that the cells of a statement become.
//!
//! One box holds everything if the cells fill at least half of it. Otherwise each touched space tile has the box around its
//! own cells, and such boxes are joined along the direction in which tiles follow each other, if nothing is missing in them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::given::GivenRun;
use crate::error::{Error, Result};
use crate::format::schema::Layout;
use crate::geometry::domain::KeyBox;
use crate::geometry::tile_grid::TileGrid;

/// A box is filled up if it lacks at most this many cells for each given one.
const MISSING_PER_CELL: u128 = 1;

/// The cells that a statement gives, by space tile.
#[derive(Debug, Clone)]
pub struct TouchedTiles {
    grid: TileGrid,
    /// By their places in tile order.
    tiles: BTreeMap<Vec<u64>, TouchedTile>,
}

/// The given cells of one space tile.
#[derive(Debug, Clone)]
struct TouchedTile {
    cells: u64,
    lo: Vec<u64>,
    hi: Vec<u64>,
}

/// A box to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenBox {
    /// Its cells.
    pub cells: KeyBox,
    /// How many of them are given.
    pub given: u64,
}

impl WrittenBox {
    /// Whether some of its cells must be read from the array.
    pub fn needs_filling(&self) -> bool {
        self.cells.volume() != u128::from(self.given)
    }
}

impl TouchedTiles {
    /// No cells yet.
    pub fn new(grid: TileGrid) -> Self {
        Self {
            grid,
            tiles: BTreeMap::new(),
        }
    }

    /// Adds cells of a tile, in the order of their places.
    pub(super) fn add_runs(&mut self, tile: &[u64], runs: &[GivenRun]) {
        let first = self.grid.tile_lo(tile);
        let mut sides: Vec<_> = first
            .into_iter()
            .zip(self.grid.strides())
            .zip(self.grid.extents())
            .map(|((lo, stride), extent)| (lo, stride, *extent))
            .collect();
        // From the dimension in which neighbours lie farthest apart to the one in which they lie next to each other.
        let turned = matches!(self.grid.cell_order(), Layout::ColMajor);
        if turned {
            sides.reverse();
        }
        for run in runs {
            let (from, to) = (run.place, run.end().saturating_sub(1));
            let mut touched = TouchedTile {
                cells: u64::from(run.len),
                lo: Vec::with_capacity(sides.len()),
                hi: Vec::with_capacity(sides.len()),
            };
            let mut apart = false;
            for (lo, stride, extent) in &sides {
                // Cells from more than one line reach from the line's begin to its end.
                let (begin, end) = if apart {
                    (0, extent - 1)
                } else {
                    (from / stride % extent, to / stride % extent)
                };
                apart |= begin != end;
                touched.lo.push(lo.saturating_add(begin));
                touched.hi.push(lo.saturating_add(end));
            }
            if turned {
                touched.lo.reverse();
                touched.hi.reverse();
            }
            self.touch(self.in_tile_order(tile), touched);
        }
    }

    /// A tile as it compares with others in tile order.
    pub(super) fn in_tile_order(&self, tile: &[u64]) -> Vec<u64> {
        let mut tile = tile.to_vec();
        if matches!(self.grid.tile_order(), Layout::ColMajor) {
            tile.reverse();
        }
        tile
    }

    fn touch(&mut self, tile: Vec<u64>, touched: TouchedTile) {
        match self.tiles.entry(tile) {
            Entry::Occupied(mut known) => known.get_mut().merge(&touched),
            Entry::Vacant(vacant) => {
                vacant.insert(touched);
            }
        }
    }

    /// The boxes to write. They share no tile.
    ///
    /// # Errors
    /// The cells are too many to count.
    pub fn boxes(&self) -> Result<Vec<WrittenBox>> {
        let Some(whole) = self.around()? else {
            return Ok(Vec::new());
        };
        let given = u128::from(whole.given);
        if whole.cells.volume() <= given.saturating_mul(1 + MISSING_PER_CELL) {
            return Ok(vec![whole]);
        }
        let mut boxes: Vec<WrittenBox> = Vec::new();
        for touched in self.tiles.values() {
            let next = touched.written()?;
            match boxes.last().and_then(|last| joined(last, &next)) {
                Some(both) => {
                    boxes.pop();
                    boxes.push(both);
                }
                None => boxes.push(next),
            }
        }
        Ok(boxes)
    }

    /// The box around all cells.
    fn around(&self) -> Result<Option<WrittenBox>> {
        let mut tiles = self.tiles.values();
        let Some(first) = tiles.next() else {
            return Ok(None);
        };
        let mut all = first.clone();
        tiles.for_each(|touched| all.merge(touched));
        all.written().map(Some)
    }
}

impl TouchedTile {
    fn merge(&mut self, other: &Self) {
        self.cells = self.cells.saturating_add(other.cells);
        self.lo
            .iter_mut()
            .zip(&other.lo)
            .for_each(|(lo, key)| *lo = (*lo).min(*key));
        self.hi
            .iter_mut()
            .zip(&other.hi)
            .for_each(|(hi, key)| *hi = (*hi).max(*key));
    }

    fn written(&self) -> Result<WrittenBox> {
        let cells = KeyBox::new(self.lo.clone(), self.hi.clone());
        Ok(WrittenBox {
            cells: cells.ok_or_else(|| Error::internal("a box of cells has its ends in order"))?,
            given: self.cells,
        })
    }
}

/// Both boxes as one, if neither needs filling, and the one follows the other without a gap in one dimension.
fn joined(a: &WrittenBox, b: &WrittenBox) -> Option<WrittenBox> {
    if a.needs_filling() || b.needs_filling() {
        return None;
    }
    let mut differing = 0;
    for ((lo_a, hi_a), (lo_b, hi_b)) in a.cells.ranges().zip(b.cells.ranges()) {
        if (lo_a, hi_a) != (lo_b, hi_b) {
            differing += 1;
            if hi_a.checked_add(1) != Some(lo_b) {
                return None;
            }
        }
    }
    let cells = a.cells.union(&b.cells).filter(|_| differing == 1)?;
    let given = a.given.checked_add(b.given)?;
    Some(WrittenBox { cells, given })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grid() -> TileGrid {
        let domain = KeyBox::new(vec![0, 0], vec![19, 29]).unwrap();
        TileGrid::from_parts(domain, vec![5, 10], Layout::RowMajor, Layout::RowMajor).unwrap()
    }

    fn boxes_of(cells: &[[u64; 2]]) -> Vec<WrittenBox> {
        let mut touched = TouchedTiles::new(grid());
        let mut by_tile: BTreeMap<[u64; 2], Vec<GivenRun>> = BTreeMap::new();
        for [x, y] in cells {
            let place = x % 5 * 10 + y % 10;
            let runs = by_tile.entry([x / 5, y / 10]).or_default();
            match runs.last_mut() {
                Some(last) if last.end() == place => last.len += 1,
                _ => runs.push(GivenRun {
                    place,
                    cell: 0,
                    len: 1,
                }),
            }
        }
        for (tile, runs) in by_tile {
            touched.add_runs(&tile, &runs);
        }
        touched.boxes().unwrap()
    }

    fn all_of(lo: [u64; 2], hi: [u64; 2]) -> Vec<[u64; 2]> {
        (lo[0]..=hi[0])
            .flat_map(|x| (lo[1]..=hi[1]).map(move |y| [x, y]))
            .collect()
    }

    #[test]
    fn a_full_grid_is_one_box() {
        let cells = all_of([3, 4], [17, 25]);
        let [only] = boxes_of(&cells).try_into().unwrap();
        assert!(!only.needs_filling());
        assert_eq!(only.cells, KeyBox::new(vec![3, 4], vec![17, 25]).unwrap());
    }

    #[test]
    fn far_cells_are_boxes_of_their_own() {
        let far = boxes_of(&[[0, 0], [19, 29]]);
        assert_eq!(far.len(), 2);
        assert!(far.iter().all(|written| !written.needs_filling()));
        // Two cells of one tile are one box, which is filled up.
        let near = boxes_of(&[[0, 0], [4, 9], [19, 29]]);
        assert_eq!(near.len(), 2);
        assert_eq!(
            near.iter()
                .filter(|written| written.needs_filling())
                .count(),
            1
        );
    }

    #[test]
    fn a_row_over_tiles_is_joined() {
        let mut cells = all_of([2, 0], [2, 29]);
        cells.push([19, 0]);
        let boxes = boxes_of(&cells);
        assert_eq!(boxes.len(), 2);
        assert_eq!(boxes[0].given, 30);
    }

    proptest! {
        #[test]
        fn boxes_hold_every_cell_and_share_no_tile(
            cells in prop::collection::btree_set([0..20_u64, 0..30_u64], 1..60)
        ) {
            let cells = cells.into_iter().collect::<Vec<_>>();
            let boxes = boxes_of(&cells);
            let grid = grid();
            for cell in &cells {
                let holding = boxes.iter().filter(|written| written.cells.contains_cell(cell));
                prop_assert_eq!(holding.count(), 1);
            }
            prop_assert_eq!(boxes.iter().map(|w| w.given).sum::<u64>(), cells.len() as u64);
            for (i, a) in boxes.iter().enumerate() {
                for b in &boxes[i + 1..] {
                    let tiles = grid.tiles_of_box(&a.cells);
                    prop_assert!(tiles.intersect(&grid.tiles_of_box(&b.cells)).is_none());
                }
            }
        }
    }
}
