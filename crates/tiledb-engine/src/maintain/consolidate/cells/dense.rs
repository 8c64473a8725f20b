//! A merge of dense fragments into one, tile by tile: the newest fragment whose box holds a cell decides its values.
//!
//! Tiles of all fragments lie on one grid, so a tile of the output is put together from the tiles of the inputs in the same
//! place. The cells around the box of the output are padding, which nobody reads.

use std::collections::VecDeque;
use std::sync::Arc;

use super::MergedCells;
use super::feed::UnopenedInput;
use super::source::ConsolidatedOutput;
use super::sparse::compare_tiles;
use super::tile::TileColumn;
use crate::arrow::StoredCells;
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::format::domain_range::DomainRange;
use crate::geometry::box_runs::BoxRuns;
use crate::geometry::domain::KeyBox;
use crate::geometry::key;
use crate::geometry::tile_grid::{TileBox, TileGrid};
use crate::maintain::consolidate::cells::feed::AbortingTask;
use crate::maintain::consolidate::options::ConsolidateProgress;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::scan::threads;
use crate::storage::Storage;
use crate::tile::fetch::FetchList;
use crate::tile::tile_memory::DecodeScratch;
use crate::write::encode::RawTile;
use crate::write::fields::{WrittenField, WrittenFields};
use crate::write::fragment::{FragmentWriter, StagedFragment};
use crate::write::pipeline::TilePipeline;

/// Tiles that are read at the same time.
const AHEAD: usize = 4;

/// A merge of dense fragments.
#[derive(Debug)]
pub(in crate::maintain::consolidate) struct DenseMerge {
    /// Where the array is.
    pub storage: Storage,
    /// The inputs, oldest first.
    pub inputs: Vec<DenseInput>,
    /// The result of the merge.
    pub output: Arc<ConsolidatedOutput>,
    /// The box of the output.
    pub cells: KeyBox,
    /// The memory that may be used.
    pub budget: Arc<dyn MemoryBudget>,
    /// Tiles that are filtered at the same time.
    pub width: usize,
    /// The progress so far.
    pub progress: Arc<ConsolidateProgress>,
}

/// A dense fragment.
#[derive(Debug)]
pub(in crate::maintain::consolidate) struct DenseInput {
    /// The fragment.
    pub source: Arc<UnopenedInput>,
    /// Its box.
    pub cells: KeyBox,
}

/// Cells that follow each other in a tile, from one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MergedPiece {
    start: usize,
    len: usize,
    from: CellsFrom,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellsFrom {
    /// A cell outside the box.
    Padding,
    /// A cell that nobody wrote.
    Nothing,
    /// A cell of the input with this index.
    Input(usize),
}

/// A tile of the output, before it is put together.
struct TileParts {
    position: u64,
    pieces: Vec<MergedPiece>,
    /// The columns of the inputs that take part.
    columns: Vec<Option<Vec<TileColumn>>>,
    cells: u64,
    memory: Grant,
}

/// The tiles of inputs that a tile of the output needs.
struct RequestedCells {
    position: u64,
    pieces: Vec<MergedPiece>,
    list: FetchList,
    inputs: Vec<Option<super::source::SourceTiles>>,
    /// The bytes of the input tiles, of the output tile, and of its filtered form.
    bytes: usize,
}

impl DenseMerge {
    /// Writes the fragment called `name`.
    pub(in crate::maintain::consolidate) async fn write(
        &self,
        name: &str,
    ) -> Result<(StagedFragment, MergedCells)> {
        let fields = &self.output.fields;
        let fragment = FragmentWriter::new(&self.storage, fields, name.to_owned());
        let key = self.storage.encryption_key().cloned();
        let budget = Arc::clone(&self.budget);
        let mut pipeline =
            TilePipeline::new(Arc::clone(fields), fragment, key, self.width, budget)?
                .counted_in(self.progress.written());
        match self.fill(&mut pipeline).await {
            Ok(counts) => {
                let domain = self.stored_domain();
                Ok((pipeline.finish(Some(domain)).await?, counts))
            }
            Err(e) => {
                pipeline.withdraw().await;
                Err(e)
            }
        }
    }

    async fn fill(&self, pipeline: &mut TilePipeline) -> Result<MergedCells> {
        let (grid, tiles) = self.grid()?;
        let mut running: VecDeque<AbortingTask<TileParts>> = VecDeque::new();
        let mut counts = MergedCells::default();
        for position in 0..tiles.count().unwrap_or(u64::MAX) {
            let asked = self.ask(&grid, &tiles, position).await?;
            let grant = loop {
                let reserved = if running.len() < AHEAD {
                    self.budget.reserve(asked.bytes).map(Some)
                } else {
                    Ok(None)
                };
                match reserved {
                    Ok(Some(grant)) => break grant,
                    Err(e) if e.kind() != ErrorKind::OutOfMemory => return Err(e),
                    refused => {
                        if let Some(first) = running.pop_front() {
                            self.push(first.join().await?, pipeline, &mut counts)
                                .await?;
                        } else if !pipeline.wait_for_one().await? {
                            refused?;
                        }
                    }
                }
            };
            running.push_back(AbortingTask::new(self.load(asked, grant)));
        }
        for first in running {
            self.push(first.join().await?, pipeline, &mut counts)
                .await?;
        }
        Ok(counts)
    }

    async fn push(
        &self,
        parts: TileParts,
        pipeline: &mut TilePipeline,
        counts: &mut MergedCells,
    ) -> Result<()> {
        counts.read += parts.cells;
        counts.written += parts.cells;
        self.progress.set(counts.read);
        let output = Arc::clone(&self.output);
        let make = move || {
            let tile = parts.make(&output.fields);
            drop(parts.memory);
            tile
        };
        pipeline.push_made(make, Vec::new()).await
    }

    /// Merges again, and compares every cell with those of `written`.
    pub(in crate::maintain::consolidate) async fn compare(
        &self,
        written: Arc<UnopenedInput>,
    ) -> Result<()> {
        let (grid, tiles) = self.grid()?;
        let again = Self {
            storage: self.storage.clone(),
            inputs: vec![DenseInput {
                source: written,
                cells: self.cells.clone(),
            }],
            output: Arc::clone(&self.output),
            cells: self.cells.clone(),
            budget: Arc::clone(&self.budget),
            width: self.width,
            progress: Arc::default(),
        };
        for position in 0..tiles.count().unwrap_or(u64::MAX) {
            let mut both = Vec::with_capacity(2);
            for merge in [self, &again] {
                let asked = merge.ask(&grid, &tiles, position).await?;
                let grant = self.budget.reserve(asked.bytes)?;
                both.push(merge.load(asked, grant).await?);
            }
            let output = Arc::clone(&self.output);
            threads::decode(self.storage.engine(), move || {
                let made = both
                    .iter()
                    .map(|parts| parts.make(&output.fields))
                    .collect::<Result<Vec<_>>>()?;
                let [expected, found] = made.as_slice() else {
                    return Err(Error::internal("two tiles are compared"));
                };
                compare_tiles(expected, found, position, &output)
            })
            .await??;
        }
        Ok(())
    }

    fn grid(&self) -> Result<(TileGrid, TileBox)> {
        let grid = TileGrid::new(&self.output.fields.schema)?;
        let tiles = grid.tiles_of_box(&self.cells);
        Ok((grid, tiles))
    }

    fn stored_domain(&self) -> Vec<DomainRange> {
        let ranges = self
            .cells
            .ranges()
            .zip(&self.output.fields.schema.dimensions)
            .map(|((lo, hi), dimension)| DomainRange {
                lo: key::from_key(dimension.datatype, lo),
                hi: key::from_key(dimension.datatype, hi),
            });
        ranges.collect()
    }

    async fn ask(&self, grid: &TileGrid, tiles: &TileBox, position: u64) -> Result<RequestedCells> {
        let tile = tiles.tile_at(position);
        let tile = tile.ok_or_else(|| Error::internal("a box has no such tile"))?;
        let pieces = self.pieces(grid, &tile)?;
        let needed = |index: usize| pieces.iter().any(|p| p.from == CellsFrom::Input(index));
        let mut list = FetchList::default();
        let (mut inputs, mut bytes, mut largest) = (Vec::new(), 0_usize, 0_usize);
        for (index, input) in self.inputs.iter().enumerate() {
            if !needed(index) {
                inputs.push(None);
                continue;
            }
            let source = input.source.open(&self.storage).await?;
            let own = grid
                .tiles_of_box(&input.cells)
                .position(&tile)
                .ok_or_else(|| Error::internal("an input has no such tile"))?;
            let asked = source.ask(own..own + 1, &mut list)?;
            bytes = bytes.saturating_add(asked.bytes());
            largest = largest.max(asked.bytes());
            inputs.push(Some(asked));
        }
        let fetched = usize::try_from(list.bytes())?;
        let output = largest.saturating_mul(2);
        Ok(RequestedCells {
            position,
            pieces,
            list,
            inputs,
            bytes: bytes.saturating_add(fetched).saturating_add(output),
        })
    }

    fn load(
        &self,
        asked: RequestedCells,
        memory: Grant,
    ) -> impl Future<Output = Result<TileParts>> + Send + 'static {
        let storage = self.storage.clone();
        let sources = self
            .inputs
            .iter()
            .map(|input| Arc::clone(&input.source))
            .collect::<Vec<_>>();
        async move {
            let RequestedCells {
                position,
                pieces,
                list,
                inputs,
                ..
            } = asked;
            let fetched = list.fetch(&storage).await?;
            let columns = threads::decode(storage.engine(), move || {
                let mut scratch = DecodeScratch::default();
                let each = sources.iter().zip(&inputs).map(|(source, asked)| {
                    let Some(asked) = asked else {
                        return Ok(None);
                    };
                    let source = source
                        .source
                        .get()
                        .ok_or_else(|| Error::internal("an input is not open"))?;
                    source.decode_dense(asked, &fetched, &mut scratch).map(Some)
                });
                each.collect::<Result<Vec<_>>>()
            })
            .await??;
            let real = pieces
                .iter()
                .filter(|piece| piece.from != CellsFrom::Padding);
            let cells = real.map(|piece| piece.len as u64).sum();
            Ok(TileParts {
                position,
                pieces,
                columns,
                cells,
                memory,
            })
        }
    }

    /// Where each cell of a tile comes from, in the order of cells.
    fn pieces(&self, grid: &TileGrid, tile: &[u64]) -> Result<Vec<MergedPiece>> {
        let clip = grid
            .tile_box(tile)
            .intersect(&self.cells)
            .ok_or_else(|| Error::internal("a box has no cells in its tile"))?;
        let lo = grid.tile_lo(tile);
        let cells = usize::try_from(grid.cells_per_tile())?;
        let mut from = vec![CellsFrom::Padding; cells];
        let mut left = 0;
        for run in BoxRuns::new(grid.extents(), grid.cell_order(), &lo, &clip)? {
            if let Some(run) = from.get_mut(run.start..run.start.saturating_add(run.len)) {
                run.fill(CellsFrom::Nothing);
                left += run.len();
            }
        }
        for (index, input) in self.inputs.iter().enumerate().rev() {
            let Some(own) = clip.intersect(&input.cells) else {
                continue;
            };
            for run in BoxRuns::new(grid.extents(), grid.cell_order(), &lo, &own)? {
                let run = from.get_mut(run.start..run.start.saturating_add(run.len));
                for cell in run.unwrap_or_default() {
                    if *cell == CellsFrom::Nothing {
                        *cell = CellsFrom::Input(index);
                        left -= 1;
                    }
                }
            }
            if left == 0 {
                break;
            }
        }
        let mut pieces: Vec<MergedPiece> = Vec::new();
        for (start, from) in from.into_iter().enumerate() {
            match pieces.last_mut() {
                Some(last) if last.from == from => last.len += 1,
                _ => pieces.push(MergedPiece {
                    start,
                    len: 1,
                    from,
                }),
            }
        }
        Ok(pieces)
    }
}

impl TileParts {
    fn make(&self, fields: &WrittenFields) -> Result<RawTile> {
        let mut made = Vec::with_capacity(fields.fields.len());
        for (index, field) in fields.fields.iter().enumerate() {
            let cells = self
                .field(fields, index, field)
                .context("field", || field.name.clone())
                .context("tile", || self.position.to_string())?;
            made.push(cells);
        }
        let real = self.pieces.iter().filter(|p| p.from != CellsFrom::Padding);
        let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
        for piece in real {
            match runs.last_mut() {
                Some(last) if last.end == piece.start => last.end += piece.len,
                _ => runs.push(piece.start..piece.start + piece.len),
            }
        }
        Ok(RawTile {
            fields: made,
            real: runs,
        })
    }

    fn field(
        &self,
        fields: &WrittenFields,
        index: usize,
        field: &WrittenField,
    ) -> Result<StoredCells> {
        let var = field.cell_val_num.is_var();
        let mut cells = StoredCells::none(var, field.nullable);
        let zeros = field.cell_val_num.cell_size(field.datatype)?;
        // Padding that differs in size has one element each, as libtiledb writes it.
        let zeros = zeros.unwrap_or(field.datatype.size());
        let padding = TileColumn::Fill {
            value: vec![0; zeros].into(),
            valid: false,
        };
        let attribute = fields.schema.attributes.get(index);
        let attribute = attribute.ok_or_else(|| Error::internal("an attribute is not there"))?;
        let nothing = TileColumn::Fill {
            value: attribute.fill_value.as_slice().into(),
            valid: attribute.fill_valid,
        };
        for piece in &self.pieces {
            let column = match piece.from {
                CellsFrom::Padding => &padding,
                CellsFrom::Nothing => &nothing,
                CellsFrom::Input(input) => {
                    let columns = self.columns.get(input).and_then(Option::as_ref);
                    let column = columns.and_then(|columns| columns.get(index));
                    column.ok_or_else(|| Error::internal("a tile of an input was not read"))?
                }
            };
            column.append_to(piece.start..piece.start + piece.len, &mut cells);
        }
        Ok(cells)
    }
}
