//! The rows of a statement, kept by the space tile they belong to.
//!
//! Rows come in any order. Each is put to the others of its tile with its place in there, so that nothing needs to be sorted but
//! the places of a tile, and most often not even those. What the memory does not hold goes to disk, tile by tile.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use futures::StreamExt;
use futures::stream::BoxStream;

use super::boxes::TouchedTiles;
use super::given::{GivenCells, decode, encode};
use crate::arrow::{CellWriter, Refused};
use crate::error::{Error, Result};
use crate::geometry::tile_grid::TileGrid;
use crate::memory::budget::Grant;

/// Keeps records on disk while a statement runs.
pub trait Scratch: fmt::Debug + Send + Sync {
    /// Keeps records, and gives them back, in their order, once.
    ///
    /// # Errors
    /// The disk is full, or must not be used.
    fn keep(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Records>;
}

/// Records that are read back.
pub type Records = BoxStream<'static, Result<Vec<u8>>>;

/// Rows are brought into the order of their tiles first if so few of them in a row belong to one tile.
const FEW_TOGETHER: usize = 8;

/// A row that cannot be stored.
#[derive(Debug)]
pub(super) struct RefusedCell {
    /// The number of the attribute.
    pub(super) attribute: usize,
    pub(super) tile: Vec<u64>,
    pub(super) place: u64,
    pub(super) why: Error,
}

/// Why rows are not added.
#[derive(Debug)]
pub(super) enum NotAdded {
    Refused(Box<RefusedCell>),
    Failed(Error),
}

impl From<Error> for NotAdded {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Rows whose places are computed side by side.
const BLOCK: usize = 64;

/// The rows of a statement, by space tile.
#[derive(Debug)]
pub(super) struct CollectedTiles {
    grid: TileGrid,
    tiles: HashMap<Vec<u64>, GivenCells>,
    touched: TouchedTiles,
    spilled: Vec<SpilledTiles>,
    scratch: Arc<dyn Scratch>,
    /// Tiles in memory that had all their cells, in the order of their places, when rows were last added to them.
    full: Vec<Vec<u64>>,
    /// The bytes of the tiles in memory.
    bytes: usize,
    /// How many times these bytes are reserved.
    copies: usize,
    /// What is reserved for them.
    memory: Grant,
}

/// Where the rows of a batch belong.
struct Places {
    /// The place of each row in its tile.
    places: Vec<u64>,
    /// Rows that follow each other and belong to one tile: the first one, and behind it the tile.
    segments: Vec<(usize, Vec<u64>)>,
}

impl CollectedTiles {
    /// No rows yet. For each tile in memory, `copies` times its bytes are reserved.
    pub(super) fn new(grid: &TileGrid, scratch: Arc<dyn Scratch>, copies: usize) -> Self {
        Self {
            grid: grid.clone(),
            tiles: HashMap::new(),
            touched: TouchedTiles::new(grid.clone()),
            spilled: Vec::new(),
            scratch,
            full: Vec::new(),
            bytes: 0,
            copies,
            memory: Grant::default(),
        }
    }

    /// Takes memory for the tiles, and gives back what they do not need. Rows that follow each other in a tile need less than
    /// others, which is known when they have been added.
    pub(super) fn settle(&mut self, memory: Grant) {
        self.memory.absorb(memory);
        self.memory
            .shrink_to(self.bytes.saturating_mul(self.copies));
    }

    /// The bytes that must still be reserved for the tiles.
    pub(super) fn missing(&self) -> usize {
        let needed = self.bytes.saturating_mul(self.copies);
        needed.saturating_sub(self.memory.bytes())
    }

    /// Adds rows inside the domain: the keys of each dimension, and the columns of all attributes.
    pub(super) fn add(
        &mut self,
        keys: &[Vec<u64>],
        columns: &[ArrayRef],
        writers: &[CellWriter],
    ) -> Result<(), NotAdded> {
        let rows = keys.first().map_or(0, Vec::len);
        let mut given = self.places(keys);
        let mut columns = columns.to_vec();
        if given.segments.len().saturating_mul(FEW_TOGETHER) > rows {
            given = in_order_of_tiles(given, &mut columns)?;
        }
        let ends = given.segments.iter().skip(1).map(|(first, _)| *first);
        let ends = ends.chain([rows]).collect::<Vec<_>>();
        for ((first, tile), end) in given.segments.into_iter().zip(ends) {
            let places = given.places.get(first..end).unwrap_or_default();
            if !self.tiles.contains_key(&tile) {
                let none = GivenCells::none(writers);
                self.bytes = self.bytes.saturating_add(none.bytes());
                self.tiles.insert(tile.clone(), none);
            }
            let Some(cells) = self.tiles.get_mut(&tile) else {
                return Err(Error::internal("a tile was just put in").into());
            };
            let before = cells.bytes();
            cells.place(places)?;
            let sources = writers.iter().zip(&columns).zip(&mut cells.fields);
            for (attribute, ((writer, column), cells)) in sources.enumerate() {
                let part = column.slice(first, places.len());
                if let Err(Refused { row, why }) = writer.append(&part, cells) {
                    return Err(NotAdded::Refused(Box::new(RefusedCell {
                        attribute,
                        place: places.get(row).copied().unwrap_or(0),
                        tile,
                        why,
                    })));
                }
            }
            let more = cells.bytes().saturating_sub(before);
            self.bytes = self.bytes.saturating_add(more);
            if cells.are_all_of(self.grid.cells_per_tile()) {
                self.full.push(tile);
            }
        }
        Ok(())
    }

    /// Takes out the tiles in memory whose cells have all come, in the order of their places, with the memory that is reserved
    /// for them. Rows that come later for such a tile are collected as those of a tile that had none.
    pub(super) fn take_full(&mut self) -> Vec<(Vec<u64>, GivenCells, Grant)> {
        let mut taken = Vec::new();
        for tile in mem::take(&mut self.full) {
            let cells = self.tiles.get(&tile);
            if !cells.is_some_and(|cells| cells.are_all_of(self.grid.cells_per_tile())) {
                continue;
            }
            if let Some(cells) = self.tiles.remove(&tile) {
                self.touched.add_runs(&tile, &cells.runs);
                let memory = self.released(&cells);
                taken.push((tile, cells, memory));
            }
        }
        taken
    }

    /// The memory that is reserved for a tile that was taken out.
    fn released(&mut self, cells: &GivenCells) -> Grant {
        let bytes = cells.bytes();
        self.bytes = self.bytes.saturating_sub(bytes);
        self.memory.split(bytes.saturating_mul(self.copies))
    }

    fn places(&self, keys: &[Vec<u64>]) -> Places {
        let (extents, strides) = (self.grid.extents(), self.grid.strides());
        let rows = keys.first().map_or(0, Vec::len);
        let mut given = Places {
            places: vec![0; rows],
            segments: Vec::new(),
        };
        let mut row = 0;
        while row < rows {
            let of_row = keys.iter().filter_map(|of_dim| of_dim.get(row).copied());
            let of_row = of_row.enumerate();
            let tile = of_row.map(|(dim, key)| self.grid.tile_of(dim, key));
            let tile = tile.collect::<Vec<_>>();
            let lo = self.grid.tile_lo(&tile);
            let sides = lo.into_iter().zip(extents).zip(&strides);
            let sides = sides.map(|((lo, extent), stride)| Side {
                lo,
                extent: *extent,
                stride: *stride,
            });
            let sides = sides.collect::<Vec<_>>();
            given.segments.push((row, tile));
            row = places_in_tile(keys, &sides, row, &mut given.places);
        }
        given
    }

    /// Puts what is in memory on disk; `false` if there is nothing.
    pub(super) fn spill(&mut self) -> Result<bool> {
        if self.tiles.is_empty() {
            return Ok(false);
        }
        self.touch();
        let mut tiles: Vec<_> = mem::take(&mut self.tiles).into_iter().collect();
        tiles.sort_by_cached_key(|(tile, _)| self.touched.in_tile_order(tile));
        let spilled = SpilledTiles::write(self.scratch.as_ref(), tiles)?;
        self.spilled.push(spilled);
        self.full.clear();
        self.bytes = 0;
        self.memory = Grant::default();
        Ok(true)
    }

    /// Remembers which cells of the tiles in memory are given.
    fn touch(&mut self) {
        for (tile, cells) in &mut self.tiles {
            cells.sort();
            self.touched.add_runs(tile, &cells.runs);
        }
    }

    /// No more rows come; tells which cells are given.
    pub(super) fn complete(&mut self) -> &TouchedTiles {
        self.touch();
        &self.touched
    }

    /// Takes out the cells of a tile, with the memory that is reserved for those of them that were not on disk. Tiles are taken
    /// in tile order.
    pub(super) async fn take(
        &mut self,
        tile: &[u64],
        writers: &[CellWriter],
    ) -> Result<(GivenCells, Grant)> {
        let mut given = GivenCells::none(writers);
        for spilled in &mut self.spilled {
            if let Some(more) = spilled.take(tile).await? {
                given.append(more)?;
            }
        }
        let Some(in_memory) = self.tiles.remove(tile) else {
            return Ok((given, Grant::default()));
        };
        let memory = self.released(&in_memory);
        if given.runs.is_empty() {
            return Ok((in_memory, memory));
        }
        given.append(in_memory)?;
        Ok((given, memory))
    }
}

/// A tile in one dimension.
struct Side {
    /// Its first key.
    lo: u64,
    /// The number of its keys.
    extent: u64,
    /// The distance between the places of neighbours.
    stride: u64,
}

/// Computes the places of the rows from `row` on, the first of which belongs to the tile, up to one that does not; returns
/// the number of that one.
fn places_in_tile(keys: &[Vec<u64>], sides: &[Side], row: usize, places: &mut [u64]) -> usize {
    let first = row;
    let mut row = row;
    loop {
        let block = row..places.len().min(row + BLOCK);
        let slots = places.get_mut(block.clone()).unwrap_or_default();
        if let Some((place, step)) = line(keys, sides, &block) {
            for (slot, i) in slots.iter_mut().zip(0..) {
                *slot = place + i * step;
            }
            row = block.end;
            if row == places.len() {
                return row;
            }
            continue;
        }
        slots.fill(0);
        let mut outside = [false; BLOCK];
        for (keys, side) in keys.iter().zip(sides) {
            let keys = keys.get(block.clone()).unwrap_or_default();
            for ((key, slot), outside) in keys.iter().zip(slots.iter_mut()).zip(&mut outside) {
                let offset = key.wrapping_sub(side.lo);
                *outside |= offset >= side.extent;
                *slot = slot.wrapping_add(offset.wrapping_mul(side.stride));
            }
        }
        if let Some(inside) = outside.iter().position(|outside| *outside) {
            // A tile has its first row even if that lies outside the domain, or this would not end.
            return (row + inside).max(first + 1);
        }
        row = block.end;
        if row == places.len() {
            return row;
        }
    }
}

/// The place of the first row of a block, and the distance between the places of neighbours, if each row is one step from the
/// one before and all lie in the tile: so come the rows of a grid that is read line by line.
fn line(keys: &[Vec<u64>], sides: &[Side], block: &Range<usize>) -> Option<(u64, u64)> {
    let (mut place, mut step) = (0_u64, 0_u64);
    for (keys, side) in keys.iter().zip(sides) {
        let keys = keys.get(block.clone())?;
        let (first, last) = (*keys.first()?, *keys.last()?);
        let offsets = keys.iter().map(|key| key.wrapping_sub(first));
        // All differences are joined and then compared once, which the compiler does for several rows at a time.
        let moves = last != first;
        let differ = match moves {
            false => offsets.fold(0, |differ, offset| differ | offset),
            true => offsets
                .zip(0_u64..)
                .fold(0, |differ, (offset, i)| differ | (offset ^ i)),
        };
        let [begin, end] = [first, last].map(|key| key.wrapping_sub(side.lo));
        if differ != 0 || begin >= side.extent || end >= side.extent {
            return None;
        }
        place = place.checked_add(begin.checked_mul(side.stride)?)?;
        step = step.checked_add(if moves { side.stride } else { 0 })?;
    }
    // The last row lies in the tile, so the places of all rows up to it are numbers of 64 bits.
    Some((place, step))
}

/// Tiles on disk, in tile order.
pub(super) struct SpilledTiles {
    records: Records,
    next: Option<(Vec<u64>, GivenCells)>,
    begun: bool,
}

impl fmt::Debug for SpilledTiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpilledTiles").finish_non_exhaustive()
    }
}

impl SpilledTiles {
    /// Keeps tiles, which are in tile order.
    pub(super) fn write(scratch: &dyn Scratch, tiles: Vec<(Vec<u64>, GivenCells)>) -> Result<Self> {
        let mut records = tiles.into_iter().map(|(tile, cells)| encode(&tile, &cells));
        Ok(Self {
            records: scratch.keep(&mut records)?,
            next: None,
            begun: false,
        })
    }

    /// The cells of a tile, which none comes after that was taken before.
    pub(super) async fn take(&mut self, tile: &[u64]) -> Result<Option<GivenCells>> {
        if !self.begun {
            self.begun = true;
            self.advance().await?;
        }
        let Some((next, _)) = &self.next else {
            return Ok(None);
        };
        if next != tile {
            return Ok(None);
        }
        let taken = self.next.take().map(|(_, cells)| cells);
        self.advance().await?;
        Ok(taken)
    }

    async fn advance(&mut self) -> Result<()> {
        let record = self.records.next().await.transpose()?;
        self.next = record.map(|record| decode(&record)).transpose()?;
        Ok(())
    }
}

/// The same rows with those of each tile behind each other, in their order there.
fn in_order_of_tiles(given: Places, columns: &mut [ArrayRef]) -> Result<Places> {
    let mut numbers: BTreeMap<&[u64], usize> = BTreeMap::new();
    for (_, tile) in &given.segments {
        numbers.insert(tile, 0);
    }
    for (number, slot) in numbers.values_mut().enumerate() {
        *slot = number;
    }
    let ends = given.segments.iter().skip(1).map(|(first, _)| *first);
    let ends = ends.chain([given.places.len()]);
    let mut order: Vec<(usize, u64, u32)> = Vec::with_capacity(given.places.len());
    for ((first, tile), end) in given.segments.iter().zip(ends) {
        let number = numbers.get(tile.as_slice()).copied().unwrap_or(0);
        for row in *first..end {
            let place = given.places.get(row).copied().unwrap_or(0);
            order.push((number, place, u32::try_from(row)?));
        }
    }
    // Rows of the same cell stay in their order.
    order.sort_unstable();
    let rows = UInt32Array::from_iter_values(order.iter().map(|(.., row)| *row));
    for column in columns {
        let taken = take(column.as_ref(), &rows, None);
        *column = taken.map_err(|e| Error::internal("rows cannot be reordered").with_source(e))?;
    }
    let tiles = numbers.into_keys().map(<[u64]>::to_vec).collect::<Vec<_>>();
    let mut segments: Vec<(usize, Vec<u64>)> = Vec::with_capacity(tiles.len());
    let mut last = None;
    for (row, (number, ..)) in order.iter().enumerate() {
        if last != Some(number) {
            last = Some(number);
            segments.push((row, tiles.get(*number).cloned().unwrap_or_default()));
        }
    }
    Ok(Places {
        places: order.iter().map(|(_, place, _)| *place).collect(),
        segments,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rows that walk through a grid, mostly in steps of one in some dimensions.
    fn walks() -> impl Strategy<Value = Vec<[u64; 2]>> {
        let step = (0..6_u64, 0..6_u64, 1..90_usize, 0..2_u64, 0..2_u64);
        let steps = prop::collection::vec(step, 1..5);
        steps.prop_map(|steps| {
            let walk = |(a, b, rows, da, db): (u64, u64, usize, u64, u64)| {
                (0..rows as u64).map(move |i| [u64::MAX - 200 + a + i * da, b + i * db])
            };
            steps.into_iter().flat_map(walk).collect()
        })
    }

    proptest! {
        #[test]
        fn lines_have_the_places_of_their_rows(walk in walks(), extents in [1..100_u64, 1..100_u64]) {
            let keys = [0, 1].map(|dim| walk.iter().map(|row| row[dim]).collect::<Vec<_>>());
            let lows = [u64::MAX - 200, 0];
            let strides = [extents[1], 1];
            let sides = [0, 1].map(|dim| Side { lo: lows[dim], extent: extents[dim], stride: strides[dim] });
            let offset = |row: &[u64; 2], dim: usize| row[dim].wrapping_sub(lows[dim]);
            let is_inside = |row: &[u64; 2]| (0..2).all(|dim| offset(row, dim) < extents[dim]);
            let inside = walk.iter().take_while(|row| is_inside(row)).count();
            let mut places = vec![0; walk.len()];
            let end = places_in_tile(&keys, &sides, 0, &mut places);
            prop_assert_eq!(end, inside.max(1));
            for (row, place) in walk.iter().zip(&places).take(inside) {
                prop_assert_eq!(*place, offset(row, 0) * strides[0] + offset(row, 1));
            }
        }
    }
}
