//! A merge of sparse fragments into one, or its comparison with the written one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::feed::{TileFeed, UnopenedInput};
use super::merge::{MergeRules, Merger};
use super::order::LowerCellBound;
use super::source::ConsolidatedOutput;
use super::tile::{CellSegment, InputTile, TileRecipe};
use super::{KeptVersions, MergedCells, NextCell};
use crate::array::fragment::boxes::TileRange;
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::maintain::consolidate::options::ConsolidateProgress;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::scan::threads;
use crate::storage::{Engine, Storage};
use crate::write::encode::RawTile;
use crate::write::fragment::{FragmentWriter, StagedFragment};
use crate::write::pipeline::TilePipeline;

/// The memory that is reserved for a tile of the output, in multiples of its bytes: for the tile, and for its filtered form.
const COPIES: usize = 2;

/// A merge that can be done several times.
#[derive(Debug)]
pub(in crate::maintain::consolidate) struct SparseMerge {
    /// Where the array is.
    pub storage: Storage,
    /// The inputs, oldest first.
    pub inputs: Vec<Arc<UnopenedInput>>,
    /// The result of the merge.
    pub output: Arc<ConsolidatedOutput>,
    /// Which versions of a cell remain.
    pub versions: KeptVersions,
    /// The memory that may be used.
    pub budget: Arc<dyn MemoryBudget>,
    /// Tiles that are filtered at the same time.
    pub width: usize,
    /// The progress so far.
    pub progress: Arc<ConsolidateProgress>,
    /// How far the inputs could be trusted in writing, as an index.
    pub trust: AtomicUsize,
}

/// The trust in the order of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrderTrust {
    /// The cells of a fragment are sorted.
    Fragments,
    /// The cells of each tile lie in its rectangle.
    Boxes,
    /// Nothing is known.
    Nothing,
}

/// From the most trust to the least.
const TRUST: [OrderTrust; 3] = [
    OrderTrust::Fragments,
    OrderTrust::Boxes,
    OrderTrust::Nothing,
];

/// Where the cells go.
enum CellSink {
    Fragment(Box<TilePipeline>),
    Comparison(Box<VerifiedCells>),
}

/// The needs of a tile of the output: its memory, and in a comparison the written tile.
struct TileRoom {
    memory: Grant,
    written: Option<InputTile>,
}

/// The written fragment, and the next of its tiles.
struct VerifiedCells {
    feed: TileFeed,
    left: u64,
    budget: Arc<dyn MemoryBudget>,
    engine: Engine,
}

impl SparseMerge {
    /// Writes the fragment called `name`; `None` if no cells are left.
    pub(in crate::maintain::consolidate) async fn write(
        &self,
        name: &str,
    ) -> Result<(Option<StagedFragment>, MergedCells)> {
        for (index, trust) in TRUST.into_iter().enumerate() {
            self.trust.store(index, Ordering::Relaxed);
            let fields = &self.output.fields;
            let fragment = FragmentWriter::new(&self.storage, fields, name.to_owned());
            let key = self.storage.encryption_key().cloned();
            let budget = Arc::clone(&self.budget);
            let pipeline =
                TilePipeline::new(Arc::clone(fields), fragment, key, self.width, budget)?
                    .counted_in(self.progress.written());
            let mut sink = CellSink::Fragment(Box::new(pipeline));
            let merged = self.merge(trust, &mut sink).await;
            let CellSink::Fragment(pipeline) = sink else {
                return Err(Error::internal("a fragment became a comparison"));
            };
            match merged {
                Ok(Some(counts)) if counts.written == 0 => return Ok((None, counts)),
                Ok(Some(counts)) => return Ok((Some(pipeline.finish(None).await?), counts)),
                Ok(None) => {
                    log::debug!(
                        "{}: the cells are not sorted as {trust:?} promise",
                        self.storage.uri()
                    );
                    pipeline.withdraw().await;
                }
                Err(e) => {
                    pipeline.withdraw().await;
                    return Err(e);
                }
            }
        }
        Err(Error::internal("the cells of a tile cannot be sorted"))
    }

    /// Merges again, and compares every cell with those of `written`.
    pub(in crate::maintain::consolidate) async fn compare(
        &self,
        written: Arc<UnopenedInput>,
    ) -> Result<()> {
        let tiles = written.fragment.tile_count()?;
        let trust = TRUST
            .get(self.trust.load(Ordering::Relaxed))
            .copied()
            .unwrap_or(OrderTrust::Nothing);
        let mut feed = TileFeed::new(&self.storage, &self.budget);
        feed.add(Arc::clone(&written), 0..tiles);
        feed.begin(vec![0]);
        let mut sink = CellSink::Comparison(Box::new(VerifiedCells {
            feed,
            left: tiles,
            budget: Arc::clone(&self.budget),
            engine: self.storage.engine().clone(),
        }));
        let merged = self.merge(trust, &mut sink).await?;
        match sink {
            CellSink::Comparison(comparison) if comparison.left == 0 && merged.is_some() => Ok(()),
            _ => Err(differs(
                "the written fragment has more tiles than the inputs fill",
            )),
        }
    }

    /// Merges, and returns the numbers of cells; `None` if the inputs are less sorted than `trust` assumes.
    async fn merge(&self, trust: OrderTrust, sink: &mut CellSink) -> Result<Option<MergedCells>> {
        let (mut merger, mut feed) = self.begin(trust).await?;
        loop {
            let (advanced, step) = threads::decode(self.storage.engine(), move || {
                let step = merger.advance();
                (merger, step)
            })
            .await?;
            merger = advanced;
            let step = step?;
            self.progress.set(merger.counts().read);
            for recipe in step.tiles {
                let bytes = recipe.bytes().saturating_mul(COPIES);
                let room = loop {
                    match sink.room(bytes).await {
                        Err(e) if e.kind() == ErrorKind::OutOfMemory => {
                            // Dropped tiles are loaded again when the merge needs them.
                            if !feed.give_up(None, merger.empty_stock()) {
                                return Err(e);
                            }
                        }
                        room => break room?,
                    }
                };
                sink.take(recipe, room, &self.output).await?;
            }
            let input = match step.next {
                NextCell::More => continue,
                NextCell::Done => return Ok(Some(merger.counts())),
                NextCell::Unsorted => return Ok(None),
                NextCell::Needs(input) => input,
            };
            let tile = loop {
                if let Some(tile) = feed.next(input).await? {
                    break tile;
                }
                let stock = merger.empty_stock();
                if !feed.give_up(Some(input), stock) && !sink.wait_for_one().await? {
                    return Err(Error::out_of_memory(format!(
                        "{} fragments whose cells lie among each other need more memory to be merged: \
                         allow more, or consolidate fewer at a time",
                        self.inputs.len()
                    )));
                }
            };
            if !merger.give(input, tile)? {
                return Ok(None);
            }
            // Loaded tiles are stored, so that the merge continues without a request for each.
            for (input, tile) in feed.loaded().await? {
                merger.store(input, tile);
            }
        }
    }

    async fn begin(&self, trust: OrderTrust) -> Result<(Box<Merger>, TileFeed)> {
        let schema = &self.output.fields.schema;
        let mut merger = Box::new(Merger::new(MergeRules {
            output: Arc::clone(&self.output),
            capacity: usize::try_from(schema.capacity)?.max(1),
            allows_duplicates: schema.allows_duplicates,
            versions: self.versions,
        }));
        let mut feed = TileFeed::new(&self.storage, &self.budget);
        let mut bounds: Vec<LowerCellBound> = Vec::new();
        for input in &self.inputs {
            let fragment = &input.fragment;
            let tiles = fragment.tile_count()?;
            if trust == OrderTrust::Fragments {
                let bound = self.output.order.bound(|d| fragment.non_empty_range(d));
                merger.add(input.age, 0, tiles, bound.clone());
                if tiles > 0 {
                    feed.add(Arc::clone(input), 0..tiles);
                    bounds.push(bound);
                }
                continue;
            }
            let boxes = match trust {
                OrderTrust::Boxes => Some(fragment.boxes(&self.storage).await?),
                _ => None,
            };
            for tile in 0..tiles {
                let number = usize::try_from(tile)?;
                let range = |d: usize| {
                    let boxes = boxes.as_ref().filter(|boxes| number < boxes.len());
                    boxes.map_or(TileRange::Unknown, |boxes| boxes.range(number, d))
                };
                let bound = self.output.order.bound(range);
                merger.add(input.age, tile, 1, bound.clone());
                feed.add(Arc::clone(input), tile..tile + 1);
                bounds.push(bound);
            }
        }
        let mut order = (0..bounds.len()).collect::<Vec<_>>();
        order.sort_by(|a, b| match (bounds.get(*a), bounds.get(*b)) {
            (Some(x), Some(y)) => x.compare(y).then(a.cmp(b)),
            _ => a.cmp(b),
        });
        feed.begin(order);
        Ok((merger, feed))
    }
}

impl CellSink {
    /// Makes room for a tile of the output with this number of bytes.
    async fn room(&mut self, bytes: usize) -> Result<TileRoom> {
        Ok(match self {
            Self::Fragment(pipeline) => TileRoom {
                memory: pipeline.reserve(bytes).await?,
                written: None,
            },
            Self::Comparison(comparison) => TileRoom {
                memory: comparison.budget.reserve(bytes)?,
                written: Some(comparison.next().await?),
            },
        })
    }

    async fn take(
        &mut self,
        recipe: TileRecipe,
        room: TileRoom,
        output: &Arc<ConsolidatedOutput>,
    ) -> Result<()> {
        let output = Arc::clone(output);
        match (self, room.written) {
            (Self::Fragment(pipeline), _) => {
                let make = move || recipe.make(&output.fields);
                pipeline.push_made(make, vec![room.memory]).await
            }
            (Self::Comparison(comparison), Some(written)) => {
                let work = move || compare(&recipe, written, &output);
                threads::decode(&comparison.engine, work).await?
            }
            (Self::Comparison(_), None) => Err(Error::internal("there is no tile to compare with")),
        }
    }

    /// Waits until a tile has been written, so that its memory is free; `false` if none is on its way.
    async fn wait_for_one(&mut self) -> Result<bool> {
        match self {
            Self::Fragment(pipeline) => pipeline.wait_for_one().await,
            Self::Comparison(_) => Ok(false),
        }
    }
}

impl VerifiedCells {
    /// The next written tile.
    async fn next(&mut self) -> Result<InputTile> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(differs(
                "the written fragment has fewer tiles than the inputs fill",
            ));
        };
        let tile = self.feed.next(0).await?.ok_or_else(|| {
            Error::out_of_memory("there is no memory to compare the written fragment")
        })?;
        self.left = left;
        Ok(tile)
    }
}

/// Compares a tile of the merge with the written one.
fn compare(recipe: &TileRecipe, tile: InputTile, output: &ConsolidatedOutput) -> Result<()> {
    let serial = tile.serial;
    let cells = tile.cells;
    let written = TileRecipe {
        segments: vec![CellSegment {
            tile: 0,
            start: 0,
            len: u32::try_from(cells)?,
        }],
        tiles: vec![Arc::new(tile)],
        cells,
    };
    let (expected, found) = (recipe.make(&output.fields)?, written.make(&output.fields)?);
    compare_tiles(&expected, &found, serial & ((1 << 40) - 1), output)
}

/// Compares the cells of two tiles of the output. Lossy filters change cells; those fields are not compared.
pub(super) fn compare_tiles(
    expected: &RawTile,
    found: &RawTile,
    tile: u64,
    output: &ConsolidatedOutput,
) -> Result<()> {
    let columns = expected.fields.iter().zip(&found.fields);
    for ((expected, found), field) in columns.zip(&output.fields.fields) {
        if expected != found && !field.filters.is_lossy() {
            return Err(differs(
                "the cells that were written are not those of the inputs",
            ))
            .context("field", || field.name.clone())
            .context("tile", || tile.to_string());
        }
    }
    Ok(())
}

fn differs(what: &str) -> Error {
    Error::internal(format!(
        "{what}: nothing was committed, and the inputs are untouched; please report this with the array's schema"
    ))
}
