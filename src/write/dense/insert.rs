//! Rows in global order become dense fragments, one for each box.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;

use super::boxes::WrittenBox;
use super::existing::{EXISTING_TYPES, ExistingCells};
use super::tiler::{DenseTiler, FoundCells, GivenCells};
use crate::array::window::TimestampMs;
use crate::arrow::CellWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::format::domain_range::DomainRange;
use crate::geometry::domain::KeyBox;
use crate::geometry::key;
use crate::geometry::tile_grid::TileBox;
use crate::memory::budget::Grant;
use crate::write::checks::{CellChecker, Coordinates, coordinate_cells};
use crate::write::encode::RawTile;
use crate::write::fields::{WrittenFields, cell_writers};
use crate::write::fragment::{FragmentWriter, StagedFragment};
use crate::write::insert::{WriteTarget, sliced_bytes};
use crate::write::pipeline::TilePipeline;

/// Memory is reserved for so many times the bytes of a tile: its cells, and what its filters make of them.
const COPIES: usize = 2;

/// Writes dense fragments.
#[derive(Debug)]
pub struct DenseInsert {
    target: WriteTarget,
    time: TimestampMs,
    fields: Arc<WrittenFields>,
    writers: Vec<CellWriter>,
    existing: Arc<dyn ExistingCells>,
    existing_writers: Vec<CellWriter>,
    tiler: DenseTiler,
    checker: CellChecker,
    boxes: Vec<OpenBox>,
    /// The box of each tile, for boxes of one tile; there may be many.
    by_tile: HashMap<Vec<u64>, usize>,
    current: Option<CurrentTile>,
    memory: Vec<Grant>,
    staged: Vec<StagedFragment>,
    rows: u64,
    tiles: u64,
}

/// A box whose fragment is not finished.
#[derive(Debug)]
struct OpenBox {
    written: WrittenBox,
    tiles: TileBox,
    /// The number of the next tile to write.
    next: u64,
    pipeline: Option<TilePipeline>,
}

/// The space tile that rows are added to.
#[derive(Debug)]
struct CurrentTile {
    tile: Vec<u64>,
    of_box: usize,
    given: GivenCells,
}

impl DenseInsert {
    /// Begins fragments for `boxes`, which hold all rows that will be added.
    ///
    /// # Errors
    /// The array is sparse, or has fields that cannot be written.
    pub async fn begin(
        target: WriteTarget,
        boxes: Vec<WrittenBox>,
        existing: Arc<dyn ExistingCells>,
    ) -> Result<Self> {
        let snapshot = &target.snapshot;
        let schema = &snapshot.schema;
        let time = match target.time {
            Some(time) => time,
            None => target.clock.fresh_time().await,
        };
        let tiler = DenseTiler::new(schema)?;
        let mut by_tile = HashMap::new();
        let mut open = Vec::with_capacity(boxes.len());
        for written in boxes {
            let tiles = tiler.grid.tiles_of_box(&written.cells);
            if tiles.count() == Some(1) {
                by_tile.insert(tiles.lo().to_vec(), open.len());
            }
            open.push(OpenBox {
                written,
                tiles,
                next: 0,
                pipeline: None,
            });
        }
        let existing_writers = cell_writers(snapshot, &EXISTING_TYPES)?;
        Ok(Self {
            fields: Arc::new(WrittenFields::new(schema, snapshot.schema_name()?)),
            writers: cell_writers(snapshot, &target.types)?,
            existing_writers: existing_writers
                .into_iter()
                .map(CellWriter::with_nulls)
                .collect(),
            existing,
            checker: CellChecker::new(schema)?,
            tiler,
            boxes: open,
            by_tile,
            current: None,
            memory: Vec::new(),
            staged: Vec::new(),
            rows: 0,
            tiles: 0,
            time,
            target,
        })
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of tiles so far.
    pub fn tiles(&self) -> u64 {
        self.tiles
    }

    /// Adds rows, one column for each dimension and attribute, which follow in global order those before them.
    ///
    /// # Errors
    /// A row cannot be stored, the memory is not enough, or the store fails.
    pub async fn push(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let bytes = columns.iter().map(sliced_bytes).sum::<usize>();
        let grant = self.reserve(bytes).await?;
        self.memory.push(grant);
        let rows = columns.first().map_or(0, |column| column.len());
        let keys = self.checked_keys(columns)?;
        self.rows = self.rows.saturating_add(rows as u64);
        let mut start = 0;
        while start < rows {
            let of_row = keys.iter().filter_map(|keys| keys.get(start)).enumerate();
            let tile = of_row.map(|(dim, key)| self.tiler.grid.tile_of(dim, *key));
            let tile = tile.collect::<Vec<_>>();
            self.enter(&tile).await?;
            let mut places = Vec::new();
            self.tiler.places(&tile, &keys, start, &mut places)?;
            let count = places.len();
            if count == 0 {
                return Err(Error::internal("a cell lies outside its tile"));
            }
            let part = columns.iter().map(|column| column.slice(start, count));
            let part = part.collect::<Vec<_>>();
            self.add(&part, places, &keys, start)?;
            start += count;
        }
        Ok(())
    }

    /// Finishes all fragments.
    ///
    /// # Errors
    /// The store fails; what has been written is removed then.
    pub async fn finish(mut self) -> Result<(Vec<StagedFragment>, Vec<KeyBox>)> {
        if let Err(error) = self.write_rest().await {
            self.withdraw().await;
            return Err(error);
        }
        let boxes = self.boxes.into_iter().map(|open| open.written);
        let filled = boxes.filter(WrittenBox::needs_filling);
        Ok((self.staged, filled.map(|written| written.cells).collect()))
    }

    async fn write_rest(&mut self) -> Result<()> {
        self.leave().await?;
        for of_box in 0..self.boxes.len() {
            self.write_until(of_box, None).await?;
        }
        Ok(())
    }

    /// Removes what has been written.
    pub async fn withdraw(self) {
        for pipeline in self.boxes.into_iter().filter_map(|open| open.pipeline) {
            pipeline.withdraw().await;
        }
        for staged in self.staged {
            staged.withdraw().await;
        }
    }

    fn checked_keys(&mut self, columns: &[ArrayRef]) -> Result<Vec<Vec<u64>>> {
        let dimensions = &self.fields.schema.dimensions;
        let stored = coordinate_cells(dimensions, &self.writers, columns)?;
        let coordinates = dimensions.iter().zip(&stored);
        let coordinates = coordinates.map(|(d, cells)| Coordinates::new(d.datatype, cells));
        let coordinates = coordinates.collect::<Result<Vec<_>>>()?;
        self.checker.check(&coordinates)?;
        let keys = coordinates
            .into_iter()
            .map(|coordinates| match coordinates {
                Coordinates::Keys(keys) => Ok(keys),
                Coordinates::Strings(_) => {
                    Err(Error::internal("a dense array has string dimensions"))
                }
            });
        keys.collect()
    }

    fn add(
        &mut self,
        columns: &[ArrayRef],
        places: Vec<usize>,
        keys: &[Vec<u64>],
        first_row: usize,
    ) -> Result<()> {
        let dimensions = self.fields.schema.dimensions.len();
        let current = self.current.as_mut();
        let current = current.ok_or_else(|| Error::internal("rows are added to a tile"))?;
        let sources = self.writers.iter().zip(columns).skip(dimensions);
        for ((i, (writer, column)), cells) in sources.enumerate().zip(&mut current.given.fields) {
            if let Err(refused) = writer.append(column, cells) {
                let attribute = self.fields.schema.attributes.get(i);
                let name = attribute.map_or("", |attribute| attribute.name.as_str());
                let row = first_row.saturating_add(refused.row);
                let parts = keys.iter().zip(&self.fields.schema.dimensions);
                let parts = parts.map(|(keys, dimension)| {
                    let key = keys.get(row).copied().unwrap_or(0);
                    format!(
                        "{} = {}",
                        dimension.name,
                        key::show(dimension.datatype, key)
                    )
                });
                let cell = format!("({})", parts.collect::<Vec<_>>().join(", "));
                return Err(refused.why.with("attribute", name).with("cell", cell));
            }
        }
        current.given.places.extend(places);
        Ok(())
    }

    /// Makes `tile` the current one.
    async fn enter(&mut self, tile: &[u64]) -> Result<()> {
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.tile == tile)
        {
            return Ok(());
        }
        self.leave().await?;
        let single = self.by_tile.get(tile).copied();
        let found = single.or_else(|| {
            let mut open = self.boxes.iter();
            open.position(|open| open.tiles.contains(tile) && open.tiles.count() != Some(1))
        });
        let of_box = found.ok_or_else(|| {
            Error::internal("a row lies in none of the boxes that were planned for it")
        })?;
        let dimensions = self.fields.schema.dimensions.len();
        let attributes = self.writers.iter().skip(dimensions);
        self.current = Some(CurrentTile {
            tile: tile.to_vec(),
            of_box,
            given: GivenCells {
                fields: attributes.map(CellWriter::no_cells).collect(),
                places: Vec::new(),
            },
        });
        Ok(())
    }

    /// Writes the current tile, after those of its box that come before it and have no rows.
    async fn leave(&mut self) -> Result<()> {
        let Some(CurrentTile {
            tile,
            of_box,
            given,
        }) = self.current.take()
        else {
            return Ok(());
        };
        self.write_until(of_box, Some(&tile)).await?;
        self.write_tile(of_box, &tile, given).await
    }

    /// Writes the tiles without rows before `tile`, or all that are left, and then finishes the fragment.
    async fn write_until(&mut self, of_box: usize, tile: Option<&[u64]>) -> Result<()> {
        loop {
            let Some(open) = self.boxes.get(of_box) else {
                return Err(Error::internal("a box is not open"));
            };
            let next = open.tiles.tile_at(open.next);
            let next = next.filter(|_| open.tiles.count().is_some_and(|count| open.next < count));
            match (next, tile) {
                (Some(next), Some(tile)) if next == tile => return Ok(()),
                (Some(next), _) => {
                    let attributes = self
                        .writers
                        .iter()
                        .skip(self.fields.schema.dimensions.len());
                    let nothing = GivenCells {
                        fields: attributes.map(CellWriter::no_cells).collect(),
                        places: Vec::new(),
                    };
                    self.write_tile(of_box, &next, nothing).await?;
                }
                (None, None) => return Ok(()),
                (None, Some(_)) => {
                    return Err(Error::internal(
                        "the tiles of a box were given out of order",
                    ));
                }
            }
        }
    }

    async fn write_tile(&mut self, of_box: usize, tile: &[u64], given: GivenCells) -> Result<()> {
        let Some(open) = self.boxes.get(of_box) else {
            return Err(Error::internal("a box is not open"));
        };
        let clip = self
            .tiler
            .grid
            .tile_box(tile)
            .intersect(&open.written.cells);
        let clip = clip.ok_or_else(|| Error::internal("a box has no cells in its tile"))?;
        let real = self.tiler.runs(tile, &clip)?;
        let needed = real.iter().map(ExactSizeIterator::len).sum::<usize>();
        let missing = needed != given.places.len();
        let found = match missing {
            true => Some(self.existing_cells(tile, &clip).await?),
            false => None,
        };
        let (found, _memory) = found.unzip();
        let raw = self.tiler.tile(real, given, found.as_ref())?;
        self.push_tile(of_box, raw).await
    }

    /// The cells of a box that are there, with the memory that they take.
    async fn existing_cells(&mut self, tile: &[u64], clip: &KeyBox) -> Result<(FoundCells, Grant)> {
        let batches = self.existing.read(clip).await?;
        let columns = batches.iter().flatten();
        let bytes = columns.map(sliced_bytes).sum::<usize>();
        let memory = self.reserve(bytes.saturating_mul(COPIES)).await?;
        let found = self.tiler.found(tile, &batches, &self.existing_writers)?;
        Ok((found, memory))
    }

    async fn push_tile(&mut self, of_box: usize, raw: RawTile) -> Result<()> {
        let bytes = raw.bytes();
        let memory_of_tile = self.reserve(bytes.saturating_mul(COPIES)).await?;
        let count = self.tiles.saturating_add(1);
        if self
            .boxes
            .get(of_box)
            .is_some_and(|open| open.pipeline.is_none())
        {
            let pipeline = self.pipeline()?;
            if let Some(open) = self.boxes.get_mut(of_box) {
                open.pipeline = Some(pipeline);
            }
        }
        let Some(open) = self.boxes.get_mut(of_box) else {
            return Err(Error::internal("a box is not open"));
        };
        let Some(pipeline) = &mut open.pipeline else {
            return Err(Error::internal("a box has no fragment"));
        };
        let mut memory = std::mem::take(&mut self.memory);
        memory.push(memory_of_tile);
        pipeline.push(raw, memory).await?;
        open.next += 1;
        self.tiles = count;
        if open.tiles.count() == Some(open.next)
            && let Some(pipeline) = open.pipeline.take()
        {
            let written = open.written.cells.clone();
            let domain = self.stored_domain(&written);
            self.staged.push(pipeline.finish(Some(domain)).await?);
        }
        Ok(())
    }

    fn pipeline(&self) -> Result<TilePipeline> {
        let storage = &self.target.snapshot.storage;
        let name = self
            .target
            .clock
            .fresh_fragment_name(self.time, self.time)?;
        let pipeline = TilePipeline::new(
            Arc::clone(&self.fields),
            FragmentWriter::new(storage, &self.fields, name),
            storage.encryption_key().cloned(),
            self.target.width,
            Arc::clone(&self.target.budget),
        )?;
        Ok(pipeline.counted_in(&self.target.written))
    }

    fn stored_domain(&self, cells: &KeyBox) -> Vec<DomainRange> {
        let ranges = cells.ranges().zip(&self.fields.schema.dimensions);
        let ranges = ranges.map(|((lo, hi), dimension)| DomainRange {
            lo: key::from_key(dimension.datatype, lo),
            hi: key::from_key(dimension.datatype, hi),
        });
        ranges.collect()
    }

    /// Reserves memory, after waiting for running tiles if there is too little.
    async fn reserve(&mut self, bytes: usize) -> Result<Grant> {
        'again: loop {
            let refused = match self.target.budget.reserve(bytes) {
                Err(error) if error.kind() == ErrorKind::OutOfMemory => error,
                reserved => return reserved,
            };
            for pipeline in self
                .boxes
                .iter_mut()
                .filter_map(|open| open.pipeline.as_mut())
            {
                if pipeline.free_some().await? {
                    continue 'again;
                }
            }
            return Err(refused);
        }
    }
}
