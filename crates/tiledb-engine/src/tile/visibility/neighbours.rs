//! De-duplication of versions that are neighbours: those within one fragment, whose cells are in global order.
//!
//! Cells that the order does not distinguish are next to each other, also across tiles. So comparing each cell with the one
//! before, dimension by dimension, finds all versions. Usually there are none, and one dimension shows it. The subtle thing:
//! NaN isn't ordered, and equals everything in a comparison of neighbours, so a run of NaN cells may hold versions of several
//! cells.

use super::ComparedCells;
use crate::error::{Error, Result};
use crate::geometry::key::{NativeKey, with_native};
use crate::tile::coordinates::DimCells;
use crate::tile::selection;

/// The compared cells of consecutive tiles, and which of them may be another version of the cell before.
#[derive(Debug)]
pub struct ComparedRuns {
    tiles: Vec<TileRuns>,
}

#[derive(Debug)]
struct TileRuns {
    asked: ComparedCells,
    /// Whether each compared cell is equal to the one before in all dimensions compared so far; the first cell of a
    /// tile is compared with the last of the tile before.
    tied: Vec<bool>,
    any: bool,
}

/// What decides between the versions in a tile.
#[derive(Debug)]
pub struct TimedTile<'a> {
    /// When each cell was written.
    pub times: &'a [u64],
    /// The dimensions whose order does not distinguish all coordinates.
    pub floats: Vec<DimCells<'a>>,
}

impl ComparedRuns {
    /// The runs before any dimension is compared; each tile has a cell to compare.
    pub fn new(tiles: impl Iterator<Item = ComparedCells>) -> Self {
        let tile = |(number, asked): (usize, ComparedCells)| {
            let mut tied = vec![true; asked.len()];
            if let Some(first) = tied.first_mut() {
                *first = number > 0;
            }
            let any = selection::any_selected(&tied);
            TileRuns { asked, tied, any }
        };
        Self {
            tiles: tiles.enumerate().map(tile).collect(),
        }
    }

    /// Whether no cell has several versions.
    pub fn is_empty(&self) -> bool {
        !self.tiles.iter().any(|tile| tile.any)
    }

    /// Whether cells of a tile may be versions of each other, or of cells of the next tile.
    pub fn meet(&self, tile: usize) -> bool {
        let own = self.tiles.get(tile).is_some_and(|tile| tile.any);
        own || self.tiles.get(tile + 1).is_some_and(TileRuns::continues)
    }

    /// Compares a dimension, which must be decoded for every tile that [`Self::meet`]s.
    pub fn compare(&mut self, dims: &[Option<DimCells<'_>>]) -> Result<()> {
        let missing = || Error::internal("coordinates to be compared were not decoded");
        // The last compared cell of the tile before.
        let mut before: Option<(&DimCells<'_>, usize)> = None;
        for (tile, dim) in self.tiles.iter_mut().zip(dims) {
            if tile.any {
                let dim = dim.as_ref().ok_or_else(missing)?;
                tile.compare(dim)?;
                if tile.continues() {
                    let (dim_before, last) = before.ok_or_else(missing)?;
                    let first = tile.asked.ends().map_or(0, |(first, _)| first);
                    if let Some(tied) = tile.tied.first_mut() {
                        *tied = dim.ties(first, dim_before, last);
                    }
                }
                tile.any = selection::any_selected(&tile.tied);
            }
            before = dim.as_ref().zip(tile.asked.ends().map(|(_, last)| last));
        }
        Ok(())
    }

    /// The cells with newer versions, as (tile, cell); of equally new versions the first is visible. All dimensions
    /// must be compared; `tiles` has what decides for every tile that [`Self::meet`]s.
    pub fn older(&self, tiles: &[Option<TimedTile<'_>>]) -> Vec<(usize, usize)> {
        let mut older = Vec::new();
        // The newest version at each coordinates of the run; empty while the run is a single cell.
        let mut newest: Vec<CellCopy<'_, '_>> = Vec::new();
        let mut last: Option<CellCopy<'_, '_>> = None;
        for (number, (runs, tile)) in self.tiles.iter().zip(tiles).enumerate() {
            let Some(tile) = tile else {
                last = None;
                continue;
            };
            runs.asked.for_each(&runs.tied, |cell, tied| {
                let version = CellCopy { number, tile, cell };
                match (tied, last) {
                    (true, Some(last)) => {
                        if newest.is_empty() {
                            newest.push(last);
                        }
                        match newest.iter_mut().find(|n| n.has_coordinates_of(&version)) {
                            Some(known) if version.time() > known.time() => {
                                older.push((known.number, known.cell));
                                *known = version;
                            }
                            Some(_) => older.push((number, cell)),
                            None => newest.push(version),
                        }
                    }
                    _ => newest.clear(),
                }
                last = Some(version);
            });
        }
        older
    }
}

impl TileRuns {
    /// Whether the first compared cell may be a version of one in the tile before.
    fn continues(&self) -> bool {
        self.tied.first().is_some_and(|tied| *tied)
    }

    /// Compares the cells with each other.
    fn compare(&mut self, dim: &DimCells<'_>) -> Result<()> {
        let Some((_, tied)) = self.tied.split_first_mut() else {
            return Ok(());
        };
        match (dim, &self.asked) {
            (DimCells::Numbers { datatype, bytes }, ComparedCells::All(_)) => {
                with_native!(*datatype, T => {
                    let values = bytes.as_chunks().0;
                    let next = values.get(1..).unwrap_or_default();
                    for ((tied, a), b) in tied.iter_mut().zip(values).zip(next) {
                        *tied &= T::from_le_bytes(*a).ties(T::from_le_bytes(*b));
                    }
                }, _ => return Err(Error::internal("a dimension of this type has no order")));
            }
            (_, ComparedCells::All(_)) => {
                for (cell, tied) in tied.iter_mut().enumerate().filter(|(_, tied)| **tied) {
                    *tied = dim.ties(cell + 1, dim, cell);
                }
            }
            (_, ComparedCells::Some(cells)) => {
                let next = cells.get(1..).unwrap_or_default();
                let pairs = tied.iter_mut().zip(cells).zip(next);
                for ((tied, a), b) in pairs.filter(|((tied, _), _)| **tied) {
                    *tied = dim.ties(*b as usize, dim, *a as usize);
                }
            }
        }
        Ok(())
    }
}

/// A version in a run.
#[derive(Clone, Copy)]
struct CellCopy<'t, 'a> {
    number: usize,
    tile: &'t TimedTile<'a>,
    cell: usize,
}

impl CellCopy<'_, '_> {
    fn time(&self) -> u64 {
        self.tile.times.get(self.cell).copied().unwrap_or(0)
    }

    fn has_coordinates_of(&self, other: &Self) -> bool {
        let mut dims = self.tile.floats.iter().zip(&other.tile.floats);
        dims.all(|(a, b)| a.cell_key(self.cell) == b.cell_key(other.cell))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::format::datatype::Datatype;

    /// A tile of cells with two dimensions, of floats and of strings.
    #[derive(Debug, Clone, Default)]
    struct Tile {
        floats: Vec<f64>,
        strings: Vec<&'static str>,
        times: Vec<u64>,
        mask: Vec<bool>,
    }

    impl Tile {
        fn push(&mut self, (float, string, time, asked): Cell) {
            self.floats.push(float);
            self.strings.push(string);
            self.times.push(time);
            self.mask.push(asked);
        }

        fn dims(&self) -> (Vec<u8>, (Vec<usize>, Vec<u8>)) {
            let ends = self.strings.iter().scan(0, |end, string| {
                *end += string.len();
                Some(*end)
            });
            let offsets = std::iter::once(0).chain(ends).collect();
            let floats = self.floats.iter().flat_map(|v| v.to_le_bytes());
            let strings = self.strings.concat().into_bytes();
            (floats.collect(), (offsets, strings))
        }
    }

    type Cell = (f64, &'static str, u64, bool);

    /// The cells with newer versions.
    fn older(tiles: &[Tile]) -> Vec<(usize, usize)> {
        let stored: Vec<_> = tiles.iter().map(Tile::dims).collect();
        let floats = |tile: usize| DimCells::Numbers {
            datatype: Datatype::Float64,
            bytes: &stored[tile].0,
        };
        let strings = |tile: usize| DimCells::Bytes {
            offsets: stored[tile].1.0.clone(),
            data: &stored[tile].1.1,
        };
        let mut runs = ComparedRuns::new(tiles.iter().map(|tile| ComparedCells::new(&tile.mask)));
        let all = 0..tiles.len();
        let meet = |runs: &ComparedRuns| all.clone().map(|t| runs.meet(t)).collect::<Vec<_>>();
        let needed = meet(&runs).into_iter().enumerate();
        let dims: Vec<_> = needed.map(|(t, n)| n.then(|| strings(t))).collect();
        runs.compare(&dims).unwrap();
        let needed = meet(&runs).into_iter().enumerate();
        let dims: Vec<_> = needed.map(|(t, n)| n.then(|| floats(t))).collect();
        runs.compare(&dims).unwrap();
        let needed = meet(&runs).into_iter().enumerate();
        let timed = |(t, needed): (usize, bool)| {
            needed.then(|| TimedTile {
                times: &tiles[t].times,
                floats: vec![floats(t)],
            })
        };
        let timed: Vec<_> = needed.map(timed).collect();
        let mut older = runs.older(&timed);
        older.sort_unstable();
        older
    }

    /// The expected result, computed as simply as possible.
    fn simple(tiles: &[Tile]) -> Vec<(usize, usize)> {
        let mut newest = HashMap::new();
        let mut older = Vec::new();
        for (t, tile) in tiles.iter().enumerate() {
            for c in (0..tile.mask.len()).filter(|c| tile.mask[*c]) {
                let coordinates = (tile.floats[c].to_cell_key(), tile.strings[c]);
                let known = newest.entry(coordinates).or_insert((t, c));
                if *known == (t, c) {
                    continue;
                }
                if tile.times[c] > tiles[known.0].times[known.1] {
                    older.push(std::mem::replace(known, (t, c)));
                } else {
                    older.push((t, c));
                }
            }
        }
        older.sort_unstable();
        older
    }

    /// Cuts cells into tiles, each with a cell to compare.
    fn cut(cells: &[Cell], sizes: &[usize]) -> Vec<Tile> {
        let mut tiles = Vec::new();
        let (mut rest, mut sizes) = (cells, sizes.iter().cycle());
        while !rest.is_empty() {
            let size = sizes.next().map_or(1, |size| (*size).min(rest.len()));
            let (now, then) = rest.split_at(size);
            let mut tile = Tile::default();
            now.iter().for_each(|cell| tile.push(*cell));
            if tile.mask.contains(&true) {
                tiles.push(tile);
            }
            rest = then;
        }
        tiles
    }

    const COORDINATES: [f64; 6] = [-1.5, -0.0, 0.0, 1.0, 1e300, f64::INFINITY];

    proptest! {
        #[test]
        fn the_newest_of_neighbours_is_left(
            mut cells in prop::collection::vec(
                (
                    prop::sample::select(COORDINATES.to_vec()),
                    prop::sample::select(vec!["", "a", "ab"]),
                    0_u64..4,
                    prop::bool::weighted(0.8),
                ),
                0..60,
            ),
            sizes in prop::collection::vec(1_usize..6, 1..4),
        ) {
            // Zeros of either sign stay mixed.
            cells.sort_by_key(|(float, string, _, _)| (float.to_key(), *string));
            let tiles = cut(&cells, &sizes);
            prop_assert_eq!(older(&tiles), simple(&tiles));
        }
    }

    #[test]
    fn copies_are_found_in_a_tile_and_across_tiles_of_the_same_coordinates() {
        let cell = |coordinate, time| (coordinate, "", time, true);
        let cells = [
            cell(1.0, 3),
            cell(2.0, 1),
            cell(2.0, 4),
            cell(2.0, 2),
            cell(2.0, 9),
            cell(2.0, 9),
            cell(2.0, 8),
            cell(3.0, 1),
        ];
        let tiles = cut(&cells, &[2]);
        assert_eq!(older(&tiles), [(0, 1), (1, 0), (1, 1), (2, 1), (3, 0)]);
        assert_eq!(
            older(&cut(&cells, &[8])),
            [(0, 1), (0, 2), (0, 3), (0, 5), (0, 6)]
        );
    }

    #[test]
    fn a_cell_that_is_not_asked_for_hides_nothing_and_parts_nothing() {
        let cells = [
            (1.0, "", 9, false),
            (1.0, "", 5, true),
            (1.0, "", 8, false),
            (1.0, "", 4, true),
        ];
        assert_eq!(older(&cut(&cells, &[4])), [(0, 3)]);
        // A tile without cells to compare is left out.
        let tiles = cut(&cells, &[1]);
        assert_eq!(tiles.len(), 2);
        assert_eq!(older(&tiles), [(1, 0)]);
    }

    #[test]
    fn what_has_no_order_does_not_part_copies() {
        let cell = |coordinate, time| (coordinate, "", time, true);
        let zeros = [cell(-0.0, 3), cell(0.0, 2), cell(-0.0, 1)];
        assert_eq!(older(&cut(&zeros, &[3])), [(0, 1), (0, 2)]);
        assert_eq!(older(&cut(&zeros, &[1])), [(1, 0), (2, 0)]);
        let other_nan = -f64::NAN;
        let nan = [
            cell(f64::NAN, 3),
            cell(other_nan, 2),
            cell(f64::NAN, 1),
            cell(other_nan, 4),
        ];
        assert_eq!(older(&cut(&nan, &[4])), [(0, 1), (0, 2)]);
        let nan = [cell(1.0, 3), cell(f64::NAN, 2), cell(1.0, 1)];
        assert_eq!(older(&cut(&nan, &[2])), [(1, 0)]);
    }
}
