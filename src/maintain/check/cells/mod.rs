//! The cells of a fragment: every tile of every field is decoded and compared with what is said of it.
//!
//! Tiles are fetched in runs and decoded on the threads of scans, several at the same time; what depends on the tiles
//! before (the order from tile to tile, the statistics of the fragment) is put together afterwards, in the order of tiles.

mod boxes;
mod context;
mod dense;
mod field;
mod order;
mod reader;
mod run;
mod sparse;
mod times;
mod values;

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use self::context::Audited;
use self::order::Chain;
use super::CheckOptions;
use super::directory::schemas::Schemas;
use super::fragment::Sound;
use super::report::Reporter;
use super::rule::Rule;
use super::statistics::{FragmentTotals, Seen};
use crate::error::Result;
use crate::format::fragment::data_files::FilePart;
use crate::storage::Storage;

/// Runs that are fetched or decoded at the same time.
const RUNS: usize = 4;

/// A broken rule of a tile.
#[derive(Debug)]
pub struct Problem {
    pub rule: Rule,
    /// The index of the field among those that are checked; `None` if it is about cells.
    pub field: Option<usize>,
    pub tile: u64,
    pub found: String,
    pub expected: String,
}

/// What was found in a tile, and what the next tile and the fragment need to know of it.
#[derive(Debug, Default)]
pub struct TileFindings {
    problems: Vec<Problem>,
    /// Problems that mean nothing if any coordinate of the fragment is NaN, which no sort can place.
    order: Vec<Problem>,
    chain: Option<Chain>,
    totals: Vec<Option<Seen>>,
    /// Cells that were looked at, and fields whose tile was decoded.
    cells: u64,
    fields: u64,
}

/// Checks all cells of a fragment.
pub async fn check(
    storage: &Storage,
    sound: Sound,
    schemas: &Schemas,
    options: &CheckOptions,
    report: &Reporter,
) -> Result<()> {
    let _metadata = options.budget.reserve(sound.memory_bytes())?;
    let audited = Audited::new(storage, sound, schemas, options.exact_statistics, report).await?;
    let audited = Arc::new(audited);
    let runs = run::plan(&audited);
    let memory = run::Memory::new(Arc::clone(&options.budget), RUNS);
    let mut findings = stream::iter(runs)
        .map(|run| run::check(Arc::clone(&audited), run, storage.clone(), memory.clone()))
        .buffered(RUNS);
    let mut order = Vec::new();
    let mut chain: Option<Chain> = None;
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
                chain = Some(Chain::joined(chain, next));
            }
            totals.add(tile.totals);
            report.progress.add_tile(tile.fields, tile.cells);
        }
    }
    if !chain.as_ref().is_some_and(|chain| chain.nan) {
        order.into_iter().for_each(|p| tell(p, &audited, report));
    }
    let fields = audited.fields.iter().map(|r| (&r.field, &r.stored));
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

/// Tells of a problem of a tile.
fn tell(problem: Problem, audited: &Audited, report: &Reporter) {
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
) -> Problem {
    Problem {
        rule,
        field: Some(field),
        tile,
        found: found.into(),
        expected: expected.into(),
    }
}
