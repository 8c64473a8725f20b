//! Runs of neighbouring tiles, which are fetched together; and the memory they may take at the same time.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::context::{Audited, Source};
use super::reader::Asked;
use super::{Problem, TileFindings, dense, of_field, sparse};
use crate::error::{Error, Result};
use crate::maintain::check::directory::tile::stored;
use crate::maintain::check::rule::Rule;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::scan::threads;
use crate::storage::Storage;
use crate::tile::fetch::{FetchList, Fetched};
use crate::tile::scratch::Scratch;

/// A run has about so many filtered bytes, or one tile.
const RUN_BYTES: u64 = 4 << 20;
/// A run has no more tiles.
const RUN_TILES: u64 = 512;

/// Cuts the tiles of a fragment into runs.
pub fn plan(audited: &Audited) -> Vec<Range<u64>> {
    let mut runs = Vec::new();
    let (mut start, mut bytes) = (0, 0_u64);
    for tile in 0..audited.sound.tiles {
        let readers = audited.fields.iter();
        let of_tile = readers
            .map(|reader| reader.filtered_bytes(tile))
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

/// The memory of runs. Where it does not suffice for several at the same time, it is one after the other.
#[derive(Debug, Clone)]
pub struct Memory {
    budget: Arc<dyn MemoryBudget>,
    turns: Arc<Semaphore>,
    most: u32,
}

struct Held {
    _grant: Grant,
    _turn: OwnedSemaphorePermit,
}

impl Memory {
    pub fn new(budget: Arc<dyn MemoryBudget>, runs: usize) -> Self {
        Self {
            budget,
            turns: Arc::new(Semaphore::new(runs)),
            most: u32::try_from(runs).unwrap_or(1),
        }
    }

    async fn reserve(&self, bytes: usize) -> Result<Held> {
        let turn = self.turn(1).await?;
        if let Ok(grant) = self.budget.reserve(bytes) {
            return Ok(Held {
                _grant: grant,
                _turn: turn,
            });
        }
        drop(turn);
        // When it is this run's turn alone, nothing of this check holds memory.
        let turn = self.turn(self.most).await?;
        Ok(Held {
            _grant: self.budget.reserve(bytes)?,
            _turn: turn,
        })
    }

    async fn turn(&self, turns: u32) -> Result<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.turns).acquire_many_owned(turns).await;
        turn.map_err(|e| Error::internal("nobody grants memory any longer").with_source(e))
    }
}

/// A tile whose fields were asked for; `None` for those that cannot be located.
struct AskedTile {
    tile: u64,
    cells: usize,
    fields: Vec<Option<Asked>>,
    findings: TileFindings,
}

/// Fetches the tiles of a run, and checks them one after the other.
pub async fn check(
    audited: Arc<Audited>,
    run: Range<u64>,
    storage: Storage,
    memory: Memory,
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
            let problem = stored(e)?.to_string();
            let findings = tiles.into_iter().map(|mut tile| {
                let unreadable = unreadable(tile.tile, problem.clone());
                tile.findings.problems.push(unreadable);
                tile.findings
            });
            return Ok(findings.collect());
        }
    };
    threads::decode(move || {
        let mut scratch = Scratch::default();
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
fn unreadable(tile: u64, found: String) -> Problem {
    Problem {
        rule: Rule::UnreadableTile,
        field: None,
        tile,
        found,
        expected: "cells that can be read".to_owned(),
    }
}

fn ask(audited: &Audited, tile: u64, list: &mut FetchList) -> Result<AskedTile> {
    let mut findings = TileFindings::default();
    let mut fields = Vec::with_capacity(audited.fields.len());
    for (index, reader) in audited.fields.iter().enumerate() {
        fields.push(match reader.ask(tile, list) {
            Ok(asked) => Some(asked),
            Err(e) => {
                let found = stored(e)?.to_string();
                let expected = "a tile that can be located";
                let problem = of_field(Rule::UnreadableTile, index, tile, found, expected);
                findings.problems.push(problem);
                None
            }
        });
    }
    Ok(AskedTile {
        tile,
        cells: audited.cells_in(tile)?,
        fields,
        findings,
    })
}

/// The memory to decode a tile: coordinates and times are there together, attributes one after the other.
fn decoded_bytes(audited: &Audited, tile: &AskedTile) -> usize {
    let (mut together, mut largest) = (0_usize, 0_usize);
    for (index, (reader, asked)) in audited.fields.iter().zip(&tile.fields).enumerate() {
        let bytes = asked.map_or(0, |asked| reader.decoded_bytes(&asked, tile.cells));
        match sparse::is_kept(audited, index) {
            // Their keys, too.
            true => together = together.saturating_add(bytes.saturating_mul(2)),
            false => largest = largest.max(bytes),
        }
    }
    together.saturating_add(largest)
}

fn check_tile(
    audited: &Audited,
    tile: AskedTile,
    fetched: &Fetched,
    scratch: &mut Scratch,
) -> Result<TileFindings> {
    let AskedTile {
        tile,
        cells,
        fields,
        mut findings,
    } = tile;
    let source = Source {
        audited,
        tile,
        cells,
        asked: &fields,
        fetched,
    };
    let checked = match audited.sound.fragment.footer.dense {
        true => dense::check(&source, scratch, &mut findings),
        false => sparse::check(&source, scratch, &mut findings),
    };
    if let Err(e) = checked {
        let problem = stored(e)?.to_string();
        findings.problems.push(unreadable(tile, problem));
    }
    Ok(findings)
}
