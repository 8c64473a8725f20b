//! Writes rows as dense fragments, one for each box.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use arrow::array::ArrayRef;
use async_trait::async_trait;

use super::boxes::WrittenBox;
use super::collected::{CollectedTiles, NotAdded, RecordStore, RefusedCell};
use super::given::GivenCells;
use super::tiler::{DenseTiler, FoundCells};
use crate::array::window::TimestampMs;
use crate::arrow::{
    CellWriter, FixedText, FloatBits, InvalidUtf8, NullPolicy, TimeAs, TypeOptions,
};
use crate::error::{Error, ErrorKind, Result};
use crate::format::domain_range::DomainRange;
use crate::geometry::domain::KeyBox;
use crate::geometry::key;
use crate::memory::budget::Grant;
use crate::write::checks::{BatchCoordinates, CellChecker, coordinates};
use crate::write::fields::{WrittenFields, cell_writers};
use crate::write::fragment::{FragmentWriter, StagedFragment};
use crate::write::insert::{OpenedTarget, sliced_bytes};
use crate::write::pipeline::{FilteringTile, QUEUED, TileFilters, TilePipeline};

/// The column types of existing cells, which lose nothing of the stored values.
pub const EXISTING_TYPES: TypeOptions = TypeOptions {
    invalid_utf8: InvalidUtf8::Binary,
    time_as: TimeAs::Duration,
    float_bits: FloatBits::Stored,
    as_stored: true,
    fixed_text: FixedText::Raw,
};

/// Reads cells of the array as it was when the statement began.
#[async_trait]
pub trait ExistingCells: fmt::Debug + Send + Sync {
    /// Returns the cells of a box that were ever written, in any order: batches of the columns of all dimensions and
    /// attributes, with the types of [`EXISTING_TYPES`].
    ///
    /// # Errors
    /// The array cannot be read.
    async fn read(&self, cells: &KeyBox) -> Result<Vec<Vec<ArrayRef>>>;
}

/// The memory that is reserved for a tile, in multiples of its bytes: its cells, and the output of its filters.
const COPIES: usize = 2;

/// The most memory of tiles that are filtered early, in multiples of the memory that may be idle.
const EARLY_PART: usize = 4;

/// Writes dense fragments.
#[derive(Debug)]
pub struct DenseInsert {
    target: OpenedTarget,
    fields: Arc<WrittenFields>,
    dimensions: Vec<CellWriter>,
    attributes: Vec<CellWriter>,
    existing: Arc<dyn ExistingCells>,
    existing_writers: Vec<CellWriter>,
    tiler: Arc<DenseTiler>,
    checker: CellChecker,
    collected: CollectedTiles,
    early: EarlyTiles,
    /// Where the tiles of the current box go.
    pipeline: Option<TilePipeline>,
    staged: Vec<StagedFragment>,
    rows: u64,
}

/// Complete tiles. They are filtered while other rows arrive, and wait until their fragment is begun.
#[derive(Debug)]
struct EarlyTiles {
    filters: TileFilters,
    tiler: Arc<DenseTiler>,
    tiles: HashMap<Vec<u64>, (FilteringTile, Grant)>,
    /// Tiles that a thread may still filter, in the order in which their filtering began.
    running: VecDeque<Vec<u64>>,
    /// Tiles that are filtered at the same time.
    width: usize,
    /// The bytes that are reserved for these tiles.
    bytes: usize,
    /// The limit of reserved bytes. Above it no tile begins, because filtered tiles can't go to disk.
    most: usize,
}

impl EarlyTiles {
    /// Begins to filter a tile that has all its cells, sorted by their places.
    async fn begin(&mut self, tile: Vec<u64>, cells: GivenCells, memory: Grant) -> Result<()> {
        while self.running.len() >= self.width.saturating_mul(QUEUED) {
            self.settle_one().await?;
        }
        let clip = self
            .tiler
            .grid
            .tile_box(&tile)
            .intersect(self.tiler.grid.domain())
            .ok_or_else(|| Error::internal("a tile has cells in the domain"))?;
        let real = self.tiler.runs(&tile, &clip)?;
        let tiler = Arc::clone(&self.tiler);
        self.bytes = self.bytes.saturating_add(memory.bytes());
        self.running.push_back(tile.clone());
        let begun = self.filters.begin(move || tiler.tile(real, cells, None));
        self.tiles.insert(tile, (begun, memory));
        Ok(())
    }

    /// Waits for the tile that has been running longest, and gives back the memory that it no longer needs; `false` if none is
    /// running.
    async fn settle_one(&mut self) -> Result<bool> {
        let Some(tile) = self.running.pop_front() else {
            return Ok(false);
        };
        if let Some((begun, mut memory)) = self.take(&tile) {
            let (encoded, took) = begun.finish().await?;
            memory.shrink_to(usize::try_from(encoded.bytes())?);
            self.bytes = self.bytes.saturating_add(memory.bytes());
            self.tiles
                .insert(tile, (FilteringTile::Done(encoded, took), memory));
        }
        Ok(true)
    }

    /// Takes a tile out.
    fn take(&mut self, tile: &[u64]) -> Option<(FilteringTile, Grant)> {
        let (begun, memory) = self.tiles.remove(tile)?;
        self.bytes = self.bytes.saturating_sub(memory.bytes());
        Some((begun, memory))
    }
}

impl DenseInsert {
    /// Begins to collect rows. Rows that don't fit into memory go to `scratch`.
    ///
    /// # Errors
    /// The array is sparse, or has fields that cannot be written.
    pub fn begin(
        target: OpenedTarget,
        existing: Arc<dyn ExistingCells>,
        scratch: Arc<dyn RecordStore>,
    ) -> Result<Self> {
        let snapshot = &target.snapshot;
        let schema = &snapshot.schema;
        let tiler = Arc::new(DenseTiler::new(schema)?);
        let fields = Arc::new(WrittenFields::new(schema, snapshot.schema_name()?));
        let filters = TileFilters::new(&fields, snapshot.storage.encryption_key().cloned())?;
        let most = target.budget.idle_limit().saturating_mul(EARLY_PART);
        let existing_writers = cell_writers(snapshot, &EXISTING_TYPES, NullPolicy::Kept)?;
        let mut dimensions = cell_writers(snapshot, &target.types, target.nulls)?;
        let attributes = dimensions.split_off(schema.dimensions.len().min(dimensions.len()));
        Ok(Self {
            fields,
            dimensions,
            attributes,
            existing_writers: existing_writers
                .into_iter()
                .map(CellWriter::with_nulls)
                .collect(),
            existing,
            checker: CellChecker::new(schema)?,
            collected: CollectedTiles::new(&tiler.grid, scratch, COPIES),
            early: EarlyTiles {
                filters,
                tiler: Arc::clone(&tiler),
                tiles: HashMap::new(),
                running: VecDeque::new(),
                width: target.width.max(1),
                bytes: 0,
                most,
            },
            tiler,
            pipeline: None,
            staged: Vec::new(),
            rows: 0,
            target,
        })
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds rows in any order, one column for each dimension and attribute.
    ///
    /// # Errors
    /// A row cannot be stored, or neither memory nor disk has room.
    pub async fn push(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let keys = self.checked_keys(columns)?;
        let rows = keys.first().map_or(0, Vec::len);
        let attributes = columns.get(self.dimensions.len()..).unwrap_or_default();
        let bytes = attributes
            .iter()
            .map(sliced_bytes)
            .sum::<usize>()
            .saturating_add(rows.saturating_mul(size_of::<u64>()));
        let memory = self.reserve(bytes.saturating_mul(COPIES)).await?;
        let added = self.collected.add(&keys, attributes, &self.attributes);
        self.rows = self.rows.saturating_add(rows as u64);
        added.map_err(|why| match why {
            NotAdded::Failed(error) => error,
            NotAdded::Refused(refused) => self.refused(*refused),
        })?;
        self.collected.settle(memory);
        let more = self.reserve(self.collected.missing()).await?;
        self.collected.settle(more);
        if self.early.bytes < self.early.most {
            let full = self.collected.take_full(self.target.budget.as_ref());
            for (tile, mut cells, memory) in full {
                // A cell was given twice if the tile is complete for the second time, or if two of its cells claim one place.
                let again = self.early.tiles.contains_key(&tile).then_some(0);
                if let Some(place) = cells.sort().or(again) {
                    return Err(self.checker.twice(&self.cell(&tile, place), 0));
                }
                self.early.begin(tile, cells, memory).await?;
            }
        }
        Ok(())
    }

    fn refused(&self, refused: RefusedCell) -> Error {
        let attribute = self.fields.schema.attributes.get(refused.attribute);
        let name = attribute.map_or("", |attribute| attribute.name.as_str());
        let cell = self
            .checker
            .describe(&self.cell(&refused.tile, refused.place), 0);
        refused.why.with("attribute", name).with("cell", cell)
    }

    /// The coordinates of the cell in a place of a tile.
    fn cell(&self, tile: &[u64], place: u64) -> Vec<BatchCoordinates> {
        let grid = &self.tiler.grid;
        let sides = grid
            .tile_lo(tile)
            .into_iter()
            .zip(grid.strides())
            .zip(grid.extents());
        let keys = sides.map(|((lo, stride), extent)| lo.saturating_add(place / stride % extent));
        keys.map(|key| BatchCoordinates::Keys(vec![key])).collect()
    }

    /// Writes all fragments.
    ///
    /// # Errors
    /// The store fails; what has been written is removed then.
    pub async fn finish(mut self) -> Result<(Vec<StagedFragment>, Vec<KeyBox>)> {
        match self.write_boxes().await {
            Ok(filled) => Ok((self.staged, filled)),
            Err(error) => {
                self.withdraw().await;
                Err(error)
            }
        }
    }

    /// Writes a fragment for each box, and returns those that were filled with what the array shows.
    async fn write_boxes(&mut self) -> Result<Vec<KeyBox>> {
        let boxes = self.collected.complete().boxes()?;
        let time = match self.target.time {
            Some(time) => time,
            None => self.target.clock.fresh_time().await,
        };
        let mut filled = Vec::new();
        for written in boxes {
            self.pipeline = Some(self.begin_fragment(time)?);
            for tile in &self.tiler.grid.tiles_of_box(&written.cells) {
                self.write_tile(&written, &tile).await?;
            }
            if let Some(pipeline) = self.pipeline.take() {
                let domain = self.stored_domain(&written.cells);
                self.staged.push(pipeline.finish(Some(domain)).await?);
            }
            if written.needs_filling() {
                filled.push(written.cells);
            }
        }
        Ok(filled)
    }

    /// Removes what has been written.
    pub async fn withdraw(self) {
        if let Some(pipeline) = self.pipeline {
            pipeline.withdraw().await;
        }
        for staged in self.staged {
            staged.withdraw().await;
        }
    }

    fn checked_keys(&self, columns: &[ArrayRef]) -> Result<Vec<Vec<u64>>> {
        let dimensions = &self.fields.schema.dimensions;
        let coordinates = coordinates(dimensions, &self.dimensions, columns)?;
        self.checker.check_bounds(&coordinates)?;
        let keys = coordinates
            .into_iter()
            .map(|coordinates| match coordinates {
                BatchCoordinates::Keys(keys) => Ok(keys),
                BatchCoordinates::Strings(_) => {
                    Err(Error::internal("a dense array has string dimensions"))
                }
            });
        keys.collect()
    }

    async fn write_tile(&mut self, written: &WrittenBox, tile: &[u64]) -> Result<()> {
        let clip = self
            .tiler
            .grid
            .tile_box(tile)
            .intersect(&written.cells)
            .ok_or_else(|| Error::internal("a box has no cells in its tile"))?;
        let taken = self.collected.take(tile, &self.attributes).await;
        let (mut given, memory) = taken?;
        if let Some((filtering, memory)) = self.early.take(tile) {
            if let Some(run) = given.runs.first() {
                return Err(self.checker.twice(&self.cell(tile, run.place), 0));
            }
            return self.pipeline()?.push_begun(filtering, vec![memory]).await;
        }
        if let Some(place) = given.sort() {
            return Err(self.checker.twice(&self.cell(tile, place), 0));
        }
        let real = self.tiler.runs(tile, &clip)?;
        let needed = real.iter().map(|run| run.len() as u64).sum::<u64>();
        let found = if given.count() == needed {
            None
        } else {
            Some(self.existing_cells(tile, &clip).await?)
        };
        let (found, _memory_of_found) = found.unzip();
        let raw = self.tiler.tile(real, given, found.as_ref())?;
        let more = raw.bytes().saturating_mul(COPIES);
        let more = self.reserve(more.saturating_sub(memory.bytes())).await?;
        self.pipeline()?.push(raw, vec![memory, more]).await
    }

    fn pipeline(&mut self) -> Result<&mut TilePipeline> {
        let pipeline = self.pipeline.as_mut();
        pipeline.ok_or_else(|| Error::internal("a box has no fragment"))
    }

    /// The existing cells of a box, with the memory that they take.
    async fn existing_cells(&mut self, tile: &[u64], clip: &KeyBox) -> Result<(FoundCells, Grant)> {
        let batches = self.existing.read(clip).await?;
        let columns = batches.iter().flatten();
        let bytes = columns.map(sliced_bytes).sum::<usize>();
        let memory = self.reserve(bytes.saturating_mul(COPIES)).await?;
        let found = self.tiler.found(tile, &batches, &self.existing_writers)?;
        Ok((found, memory))
    }

    fn begin_fragment(&self, time: TimestampMs) -> Result<TilePipeline> {
        let storage = &self.target.snapshot.storage;
        let name = self.target.fresh_fragment_name(time)?;
        let pipeline = TilePipeline::with_filters(
            self.early.filters.clone(),
            FragmentWriter::new(storage, &self.fields, name),
            self.target.width,
            Arc::clone(&self.target.budget),
        );
        Ok(pipeline.counted_in(&self.target.written))
    }

    fn stored_domain(&self, cells: &KeyBox) -> Vec<DomainRange> {
        let ranges =
            cells
                .ranges()
                .zip(&self.fields.schema.dimensions)
                .map(|((lo, hi), dimension)| DomainRange {
                    lo: key::from_key(dimension.datatype, lo),
                    hi: key::from_key(dimension.datatype, hi),
                });
        ranges.collect()
    }

    /// Reserves memory. If there is too little, waits for tiles that are being written, and moves collected rows to disk.
    async fn reserve(&mut self, bytes: usize) -> Result<Grant> {
        loop {
            let refused = match self.target.budget.reserve(bytes) {
                Err(error) if error.kind() == ErrorKind::OutOfMemory => error,
                reserved => return reserved,
            };
            if let Some(pipeline) = &mut self.pipeline
                && pipeline.free_some().await?
            {
                continue;
            }
            if self.early.settle_one().await? {
                continue;
            }
            if !self.collected.spill()? {
                return Err(refused);
            }
        }
    }
}
