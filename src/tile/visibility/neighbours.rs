//! De-duplication of versions that are neighbours: those within one fragment, whose cells are in global order.
//!
//! Cells that the order does not distinguish are next to each other, also across tiles. So comparing each cell with the
//! one before, dimension by dimension, finds all versions. Usually there are none, and one dimension shows it. The
//! subtle thing: zeros of either sign are two coordinates that are equal in the order, and NaN is not ordered, so a run
//! of such cells may hold versions of several cells.

use super::asked::Asked;
use crate::error::{Error, Result};
use crate::geometry::key::{Native, with_native};
use crate::tile::bitmask;
use crate::tile::coordinates::DimCells;

/// The compared cells of consecutive tiles, and which of them may be another version of the cell before.
#[derive(Debug)]
pub struct Runs {
    tiles: Vec<TileRuns>,
}

#[derive(Debug)]
struct TileRuns {
    asked: Asked,
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

impl Runs {
    /// The runs before any dimension is compared; each tile has a cell to compare.
    pub fn new(tiles: impl Iterator<Item = Asked>) -> Self {
        let tile = |(number, asked): (usize, Asked)| {
            let mut tied = vec![true; asked.len()];
            if let Some(first) = tied.first_mut() {
                *first = number > 0;
            }
            let any = bitmask::any(&tied);
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
                tile.any = bitmask::any(&tile.tied);
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
        let mut newest: Vec<Copy<'_, '_>> = Vec::new();
        let mut last: Option<Copy<'_, '_>> = None;
        for (number, (runs, tile)) in self.tiles.iter().zip(tiles).enumerate() {
            let Some(tile) = tile else {
                last = None;
                continue;
            };
            runs.asked.for_each(&runs.tied, |cell, tied| {
                let version = Copy { number, tile, cell };
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
            (DimCells::Numbers { datatype, bytes }, Asked::All(_)) => {
                with_native!(*datatype, T => {
                    let values = bytes.as_chunks().0;
                    let next = values.get(1..).unwrap_or_default();
                    for ((tied, a), b) in tied.iter_mut().zip(values).zip(next) {
                        *tied &= T::from_le_bytes(*a).ties(T::from_le_bytes(*b));
                    }
                }, _ => return Err(Error::internal("a dimension of this type has no order")));
            }
            (_, Asked::All(_)) => {
                for (cell, tied) in tied.iter_mut().enumerate().filter(|(_, tied)| **tied) {
                    *tied = dim.ties(cell + 1, dim, cell);
                }
            }
            (_, Asked::Some(cells)) => {
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
struct Copy<'t, 'a> {
    number: usize,
    tile: &'t TimedTile<'a>,
    cell: usize,
}

impl Copy<'_, '_> {
    fn time(&self) -> u64 {
        self.tile.times.get(self.cell).copied().unwrap_or(0)
    }

    fn has_coordinates_of(&self, other: &Self) -> bool {
        let mut dims = self.tile.floats.iter().zip(&other.tile.floats);
        dims.all(|(a, b)| a.exact_key(self.cell) == b.exact_key(other.cell))
    }
}

#[cfg(test)]
mod tests;
