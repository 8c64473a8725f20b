//! The rows of a statement, kept by the space tile they belong to.
//!
//! Rows come in any order. Each row is collected with the others of its tile, together with its place in the tile. So only the
//! places of a tile need sorting, and often not even those. Whatever doesn't fit into memory goes to disk, tile by tile.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::Arc;

use arrow::array::ArrayRef;
use futures::StreamExt;
use futures::stream::BoxStream;

use super::boxes::TouchedTiles;
use super::given::{GivenCells, decode, encode};
use super::segments::{RowSegment, in_order_of_tiles, segments};
use crate::arrow::{CellWriter, RefusedValue};
use crate::error::{Error, ErrorKind, Result};
use crate::geometry::tile_grid::TileGrid;
use crate::memory::budget::{Grant, MemoryBudget};

/// Keeps records on disk while a statement runs.
pub trait RecordStore: fmt::Debug + Send + Sync {
    /// Keeps records, and gives them back, in their order, once.
    ///
    /// # Errors
    /// The disk is full, or must not be used.
    fn keep(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<RecordReader>;
}

/// Keeps nothing: rows that don't fit into memory are refused.
#[derive(Debug)]
pub struct NoRecordStore;

impl RecordStore for NoRecordStore {
    fn keep(&self, _records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<RecordReader> {
        Err(Error::new(
            ErrorKind::OutOfMemory,
            "the rows don't fit into the memory that may be used: allow more, or write them in several inserts",
        ))
    }
}

/// Records that are read back.
pub type RecordReader = BoxStream<'static, Result<Vec<u8>>>;

/// If fewer than this many consecutive rows belong to one tile on average, the rows are first sorted by tile.
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

/// The rows of a statement, by space tile.
#[derive(Debug)]
pub(super) struct CollectedTiles {
    grid: TileGrid,
    tiles: HashMap<Vec<u64>, GivenCells>,
    touched: TouchedTiles,
    spilled: Vec<SpilledTiles>,
    scratch: Arc<dyn RecordStore>,
    /// Tiles in memory that had as many cells as the domain has in them, when rows were last added to them.
    full: Vec<Vec<u64>>,
    /// The bytes of the tiles in memory.
    bytes: usize,
    /// How many times these bytes are reserved.
    copies: usize,
    /// The memory that is reserved for them.
    memory: Grant,
}

impl CollectedTiles {
    /// No rows yet. For each tile in memory, `copies` times its bytes are reserved.
    pub(super) fn new(grid: &TileGrid, scratch: Arc<dyn RecordStore>, copies: usize) -> Self {
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

    /// Takes memory for the tiles, and gives back what they don't need. Rows that follow each other in a tile need less than
    /// others, but this is known only once they have been added.
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
        let mut segments = segments(&self.grid, keys);
        let mut columns = columns.to_vec();
        if segments.len().saturating_mul(FEW_TOGETHER) > rows {
            segments = in_order_of_tiles(&segments, &mut columns)?;
        }
        for RowSegment { row, tile, places } in segments {
            if !self.tiles.contains_key(&tile) {
                let none = GivenCells::none(writers);
                self.bytes = self.bytes.saturating_add(none.bytes());
                self.tiles.insert(tile.clone(), none);
            }
            let Some(cells) = self.tiles.get_mut(&tile) else {
                return Err(Error::internal("a tile was just put in").into());
            };
            let before = cells.bytes();
            cells.place(&places.runs)?;
            let sources = writers.iter().zip(&columns).zip(&mut cells.fields);
            for (attribute, ((writer, column), cells)) in sources.enumerate() {
                let part = column.slice(row, places.count);
                if let Err(RefusedValue { row, why }) = writer.append(&part, cells) {
                    return Err(NotAdded::Refused(Box::new(RefusedCell {
                        attribute,
                        place: places.iter().nth(row).unwrap_or(0),
                        tile,
                        why,
                    })));
                }
            }
            let more = cells.bytes().saturating_sub(before);
            self.bytes = self.bytes.saturating_add(more);
            let count = cells.count();
            if self.are_all_of(&tile, count) {
                self.full.push(tile);
            }
        }
        Ok(())
    }

    /// Whether a number of cells is all that the domain has in a tile.
    fn are_all_of(&self, tile: &[u64], count: u64) -> bool {
        let of_tile = self.grid.cells_per_tile();
        count == of_tile
            || count < of_tile && {
                let cells = self.grid.tile_box(tile).intersect(self.grid.domain());
                cells.is_some_and(|cells| cells.cells() == Some(count))
            }
    }

    /// Takes out the complete tiles in memory, each with its memory, if `budget` has the memory to filter them. Later rows of
    /// such a tile are collected as if it were a new one.
    pub(super) fn take_full(
        &mut self,
        budget: &dyn MemoryBudget,
    ) -> Vec<(Vec<u64>, GivenCells, Grant)> {
        let mut taken = Vec::new();
        for tile in mem::take(&mut self.full) {
            let cells = self.tiles.get(&tile);
            let count = cells.map_or(0, GivenCells::count);
            // A tile at the edge of the domain is padded.
            let padding = self.grid.cells_per_tile().saturating_sub(count);
            if !self.are_all_of(&tile, count) || padding > count {
                continue;
            }
            let bytes = cells.map_or(0, GivenCells::bytes) as u64;
            let padding_bytes = bytes
                .saturating_mul(padding)
                .checked_div(count)
                .unwrap_or(0);
            let padding_bytes = usize::try_from(padding_bytes).unwrap_or(usize::MAX);
            let Ok(more) = budget.reserve(padding_bytes.saturating_mul(self.copies)) else {
                continue;
            };
            if let Some(mut cells) = self.tiles.remove(&tile) {
                cells.sort();
                self.touched.add_runs(&tile, &cells.runs);
                let mut memory = self.released(&cells);
                memory.absorb(more);
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

    /// Moves the tiles in memory to disk; returns `false` if there are none.
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

    /// Records which cells of the tiles in memory are given.
    fn touch(&mut self) {
        for (tile, cells) in &mut self.tiles {
            cells.sort();
            self.touched.add_runs(tile, &cells.runs);
        }
    }

    /// Ends the rows, and returns which cells are given.
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

/// Tiles on disk, in tile order.
pub(super) struct SpilledTiles {
    records: RecordReader,
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
    pub(super) fn write(
        scratch: &dyn RecordStore,
        tiles: Vec<(Vec<u64>, GivenCells)>,
    ) -> Result<Self> {
        let mut records = tiles.into_iter().map(|(tile, cells)| encode(&tile, &cells));
        Ok(Self {
            records: scratch.keep(&mut records)?,
            next: None,
            begun: false,
        })
    }

    /// The cells of a tile, if there are any on disk. Tiles are taken in tile order.
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
