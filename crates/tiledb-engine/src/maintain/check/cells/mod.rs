//! The cells of a fragment: every tile of every field is decoded and compared with its metadata.
//!
//! Tiles are fetched in runs and decoded on the threads of scans, several at the same time. Results that depend on the tiles
//! before (the order from tile to tile, the statistics of the fragment) are put together afterwards, in the order of tiles.

mod context;
mod field;
mod order;
mod tiles;

use std::ops::Range;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::context::{CheckedFragment, TileSource};
use self::order::CellChain;
use super::CheckOptions;
use super::directory::schemas::CheckedSchemas;
use super::fragment::SoundFragment;
use super::report::FindingReporter;
use super::rule::Rule;
use super::statistics::{FragmentTotals, TileContents};
use crate::array::fragment::TileIdx;
use crate::error::{Error, Result};
use crate::format::fragment::data_files::FilePart;
use crate::maintain::check::directory::folders::about_stored;
use crate::maintain::stored_field::RequestedTile;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::scan::threads;
use crate::storage::Storage;
use crate::tile::fetch::{FetchList, FetchedBytes};
use crate::tile::tile_memory::DecodeScratch;

/// Runs that are fetched or decoded at the same time.
const RUNS: usize = 4;

/// A broken rule of a tile.
#[derive(Debug)]
pub struct TileProblem {
    pub rule: Rule,
    /// The index of the field among the checked ones; `None` if the problem is about cells.
    pub field: Option<usize>,
    pub tile: u64,
    pub found: String,
    pub expected: String,
}

/// The findings in a tile, and the facts about it that the next tile and the fragment need.
#[derive(Debug, Default)]
pub struct TileFindings {
    problems: Vec<TileProblem>,
    /// Problems that mean nothing if any coordinate of the fragment is NaN, which no sort can place.
    order: Vec<TileProblem>,
    chain: Option<CellChain>,
    totals: Vec<Option<TileContents>>,
    /// The checked cells, and the fields whose tile was decoded.
    cells: u64,
    fields: u64,
}

/// Checks all cells of a fragment.
pub async fn check(
    storage: &Storage,
    sound: SoundFragment,
    schemas: &CheckedSchemas,
    options: &CheckOptions,
    report: &FindingReporter,
) -> Result<()> {
    let _metadata = options.budget.reserve(sound.memory_bytes())?;
    let audited =
        CheckedFragment::new(storage, sound, schemas, options.exact_statistics, report).await?;
    let audited = Arc::new(audited);
    let runs = plan(&audited);
    let memory = CheckMemory::new(Arc::clone(&options.budget), RUNS);
    let mut findings = stream::iter(runs)
        .map(|run| check_runs(Arc::clone(&audited), run, storage.clone(), memory.clone()))
        .buffered(RUNS);
    let mut order = Vec::new();
    let mut chain: Option<CellChain> = None;
    let mut totals = FragmentTotals::new(audited.fields.len());
    while let Some(tiles) = findings.try_next().await? {
        for tile in tiles {
            tile.problems
                .into_iter()
                .for_each(|p| tell(p, &audited, report));
            order.extend(tile.order);
            if let Some(next) = tile.chain {
                let rule = audited.order.as_ref();
                let before = chain.as_ref().zip(rule);
                order.extend(before.and_then(|(before, rule)| before.follows(&next, rule)));
                chain = Some(CellChain::joined(chain, next));
            }
            totals.add(tile.totals);
            report.progress.add_tile(tile.fields, tile.cells);
        }
    }
    if !chain.as_ref().is_some_and(|chain| chain.nan) {
        order.into_iter().for_each(|p| tell(p, &audited, report));
    }
    let fields = audited.fields.iter().map(|r| (&r.field, &r.statistics));
    for problem in totals.compare(&audited.sound, fields, options.exact_statistics) {
        let object = format!(
            "{}, {}",
            audited.sound.fragment.metadata_path(),
            problem.what
        );
        report.tell(problem.rule, object, problem.found, problem.expected);
    }
    Ok(())
}

/// Reports a problem of a tile.
fn tell(problem: TileProblem, audited: &CheckedFragment, report: &FindingReporter) {
    let fragment = &audited.sound.fragment;
    let tile = problem.tile;
    let field = problem.field.and_then(|index| audited.fields.get(index));
    let object = match field {
        Some(reader) => {
            let file = reader.field.stem.file(FilePart::Fixed);
            format!("{}/{file}, {}, tile {tile}", fragment.folder, reader.field)
        }
        None => format!("{}, tile {tile}", fragment.folder),
    };
    report.tell(problem.rule, object, problem.found, problem.expected);
}

/// A short form for problems of a field in a tile.
fn of_field(
    rule: Rule,
    field: usize,
    tile: u64,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> TileProblem {
    TileProblem {
        rule,
        field: Some(field),
        tile,
        found: found.into(),
        expected: expected.into(),
    }
}

/// About the filtered bytes of a run, which has at least one tile.
const RUN_BYTES: u64 = 4 << 20;
/// A run has no more tiles.
const RUN_TILES: u64 = 512;

/// Cuts the tiles of a fragment into runs.
pub fn plan(audited: &CheckedFragment) -> Vec<Range<u64>> {
    let mut runs = Vec::new();
    let (mut start, mut bytes) = (0, 0_u64);
    for tile in 0..audited.sound.tiles {
        let readers = audited.fields.iter();
        let of_tile = readers
            .map(|reader| reader.stored.filtered_bytes(TileIdx(tile)))
            .fold(0, u64::saturating_add);
        let full = tile - start >= RUN_TILES || bytes.saturating_add(of_tile) > RUN_BYTES;
        if tile > start && full {
            runs.push(start..tile);
            (start, bytes) = (tile, 0);
        }
        bytes = bytes.saturating_add(of_tile);
    }
    if start < audited.sound.tiles {
        runs.push(start..audited.sound.tiles);
    }
    runs
}

/// The memory of runs. If it isn't enough for several runs at the same time, they take turns.
#[derive(Debug, Clone)]
pub struct CheckMemory {
    budget: Arc<dyn MemoryBudget>,
    turns: Arc<Semaphore>,
    most: u32,
}

struct HeldTile {
    _grant: Grant,
    _turn: OwnedSemaphorePermit,
}

impl CheckMemory {
    pub fn new(budget: Arc<dyn MemoryBudget>, runs: usize) -> Self {
        Self {
            budget,
            turns: Arc::new(Semaphore::new(runs)),
            most: u32::try_from(runs).unwrap_or(1),
        }
    }

    async fn reserve(&self, bytes: usize) -> Result<HeldTile> {
        let turn = self.turn(1).await?;
        if let Ok(grant) = self.budget.reserve(bytes) {
            return Ok(HeldTile {
                _grant: grant,
                _turn: turn,
            });
        }
        drop(turn);
        // If this run has all turns, no other run of this check holds memory.
        let turn = self.turn(self.most).await?;
        Ok(HeldTile {
            _grant: self.budget.reserve(bytes)?,
            _turn: turn,
        })
    }

    async fn turn(&self, turns: u32) -> Result<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.turns).acquire_many_owned(turns).await;
        turn.map_err(|e| Error::internal("nobody grants memory any longer").with_source(e))
    }
}

/// A tile whose fields were requested; a field is `None` if its tile cannot be located.
struct AskedTile {
    tile: u64,
    cells: usize,
    fields: Vec<Option<RequestedTile>>,
    findings: TileFindings,
}

/// Fetches the tiles of a run, and checks them one after the other.
pub async fn check_runs(
    audited: Arc<CheckedFragment>,
    run: Range<u64>,
    storage: Storage,
    memory: CheckMemory,
) -> Result<Vec<TileFindings>> {
    let mut list = FetchList::default();
    let mut tiles = Vec::new();
    for tile in run {
        tiles.push(ask(&audited, tile, &mut list)?);
    }
    let decoded = tiles.iter().map(|tile| decoded_bytes(&audited, tile)).max();
    let fetched_bytes = usize::try_from(list.bytes())?;
    let bytes = fetched_bytes.saturating_add(decoded.unwrap_or(0));
    let held = memory.reserve(bytes).await?;
    let fetched = match list.fetch(&storage).await {
        Ok(fetched) => fetched,
        Err(e) => {
            let problem = about_stored(e)?.to_string();
            let findings = tiles.into_iter().map(|mut tile| {
                let unreadable = unreadable(tile.tile, problem.clone());
                tile.findings.problems.push(unreadable);
                tile.findings
            });
            return Ok(findings.collect());
        }
    };
    threads::decode(storage.engine(), move || {
        let mut scratch = DecodeScratch::default();
        let checked = tiles
            .into_iter()
            .map(|tile| check_tile(&audited, tile, &fetched, &mut scratch))
            .collect::<Result<Vec<_>>>();
        drop(held);
        checked
    })
    .await?
}

/// The problem of a tile none of whose fields can be read.
fn unreadable(tile: u64, found: String) -> TileProblem {
    TileProblem {
        rule: Rule::UnreadableTile,
        field: None,
        tile,
        found,
        expected: "cells that can be read".to_owned(),
    }
}

fn ask(audited: &CheckedFragment, tile: u64, list: &mut FetchList) -> Result<AskedTile> {
    let mut findings = TileFindings::default();
    let mut fields = Vec::with_capacity(audited.fields.len());
    for (index, reader) in audited.fields.iter().enumerate() {
        fields.push(match reader.stored.request(TileIdx(tile), list) {
            Ok(asked) => Some(asked),
            Err(e) => {
                let found = about_stored(e)?.to_string();
                let expected = "a tile that can be located";
                let problem = of_field(Rule::UnreadableTile, index, tile, found, expected);
                findings.problems.push(problem);
                None
            }
        });
    }
    Ok(AskedTile {
        tile,
        cells: audited.sound.fragment.stored_tile_cells(TileIdx(tile))?,
        fields,
        findings,
    })
}

/// The memory to decode a tile: coordinates and times are held together, attributes one after the other.
fn decoded_bytes(audited: &CheckedFragment, tile: &AskedTile) -> usize {
    let (mut together, mut largest) = (0_usize, 0_usize);
    for (index, (reader, requested)) in audited.fields.iter().zip(&tile.fields).enumerate() {
        let stored = &reader.stored;
        let bytes = requested.map_or(0, |requested| stored.decoded_bytes(&requested, tile.cells));
        match tiles::is_kept(audited, index) {
            // Their keys, too.
            true => together = together.saturating_add(bytes.saturating_mul(2)),
            false => largest = largest.max(bytes),
        }
    }
    together.saturating_add(largest)
}

fn check_tile(
    audited: &CheckedFragment,
    tile: AskedTile,
    fetched: &FetchedBytes,
    scratch: &mut DecodeScratch,
) -> Result<TileFindings> {
    let AskedTile {
        tile,
        cells,
        fields,
        mut findings,
    } = tile;
    let source = TileSource {
        audited,
        tile,
        cells,
        requested: &fields,
        fetched,
    };
    let checked = if audited.sound.fragment.footer.dense {
        tiles::check_dense(&source, scratch, &mut findings)
    } else {
        tiles::check_sparse(&source, scratch, &mut findings)
    };
    if let Err(e) = checked {
        let problem = about_stored(e)?.to_string();
        findings.problems.push(unreadable(tile, problem));
    }
    Ok(findings)
}
