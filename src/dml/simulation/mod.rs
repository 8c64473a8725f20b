//! A simulation: writers, readers, a maintainer and an evolver of an array, each a process of its own, on a clock that moves
//! only when all of them wait. Processes are killed, sleep for seconds, and lose requests and answers.
//!
//! After each change of the store an auditor looks at the array. The only visible effect of a change may be the whole task of
//! the process that made it, applied once to the last state of the array. So every history is serial. A reader must find the
//! rows of one moment of its own time, even if folders are listed a few entries at a time while others put and remove some. A
//! seed determines all events; a failure prints it.
//!
//! `SIMULATED=<n>` simulates `n` worlds of each kind of array, from `SIMULATED_SEED` on.

mod stage;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::prelude::SessionContext;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, join_all, select};
use tiledb_engine::simulated::{Order, World};
use tiledb_engine::storage::believed;

use self::stage::{
    ACCOUNT, Effect, Kind, Outcome, STEWARD, Stage, WRITERS, is_broken, met_others, rows, run,
};

const READERS: usize = 2;
/// The first value of each account.
const MONEY: i64 = 100;

const ACCOUNTS: i64 = 6;
/// The statements of a writer.
const STATEMENTS: usize = 12;

async fn writes(stage: Arc<Stage>, writer: i64) {
    let mut next = 0;
    let mut left = STATEMENTS;
    while left > 0 && stage.ledger().wrong.is_none() {
        let Some((process, ctx, uri, mut killed)) = stage.live().await else {
            continue;
        };
        while left > 0 && stage.ledger().wrong.is_none() {
            left -= 1;
            let effect = stage.choose(writer, &mut next);
            let sql = effect.sql(stage.kind, &uri, stage.world.below(2));
            if !stage.perform(process, &ctx, effect, sql, &mut killed).await {
                break;
            }
        }
    }
    stage.writing.fetch_sub(1, Ordering::Relaxed);
}

async fn reads(stage: Arc<Stage>) {
    while !stage.is_over() {
        let Some((process, ctx, _, mut killed)) = stage.live().await else {
            continue;
        };
        while !stage.is_over() {
            let since = stage.ledger().states.len() - 1;
            let read = match select(Box::pin(rows(&ctx)), &mut killed).await {
                Either::Left((read, _)) => read,
                Either::Right(_) => break,
            };
            let mut ledger = stage.ledger();
            match read {
                Ok(rows) => {
                    ledger.reads += 1;
                    if !ledger.states[since..].iter().any(|s| s.rows == rows) {
                        let wrong = format!(
                            "process {process} read\n{rows:?}\nwhile there was\n{:?}",
                            &ledger.states[since..]
                        );
                        ledger.wrong.get_or_insert(wrong);
                    }
                }
                Err(error) if met_others(&error) => ledger.lost_files += 1,
                Err(error) if is_broken(&error) => {}
                Err(error) => {
                    let wrong = format!("process {process} cannot read: {error}");
                    ledger.wrong.get_or_insert(wrong);
                }
            }
        }
    }
}

/// Consolidates and vacuums.
async fn tends(stage: Arc<Stage>) {
    const CALLS: [&str; 10] = [
        "tiledb_consolidate('$A')",
        "tiledb_consolidate('$A', verify => true)",
        "tiledb_consolidate('$A', timestamps => false)",
        "tiledb_consolidate('$A', mode => 'commits')",
        "tiledb_consolidate('$A', mode => 'fragment_metadata')",
        "tiledb_consolidate('$A', mode => 'array_metadata')",
        "tiledb_vacuum('$A', min_age => '0')",
        "tiledb_vacuum('$A', min_age => '5 seconds')",
        "tiledb_vacuum('$A', mode => 'commits')",
        "tiledb_vacuum('$A', mode => 'leftovers', min_age => '10 minutes')",
    ];
    while !stage.is_over() {
        let Some((process, ctx, uri, mut killed)) = stage.live().await else {
            continue;
        };
        while !stage.is_over() {
            let call = CALLS[stage.world.below(CALLS.len())].replace("$A", &uri);
            let sql = format!("SELECT * FROM {call}");
            let tended = match select(Box::pin(run(&ctx, &sql)), &mut killed).await {
                Either::Left((tended, _)) => tended,
                Either::Right(_) => break,
            };
            match tended {
                Ok(_) => stage.ledger().tended += 1,
                Err(error) if met_others(&error) || is_broken(&error) => {}
                Err(error) => stage.wrong(|| format!("process {process}: {sql} says {error}")),
            }
        }
    }
}

/// Adds and drops columns, and sets metadata.
async fn evolves(stage: Arc<Stage>) {
    let mut number = 0;
    while !stage.is_over() {
        let Some((process, ctx, uri, mut killed)) = stage.live().await else {
            continue;
        };
        while !stage.is_over() {
            number += 1;
            let there = stage.ledger().states.last().map(|s| s.columns.clone());
            let first = there.and_then(|columns| columns.first().cloned());
            let effect = match (stage.world.below(3), first) {
                (0, _) => Effect::Note(number),
                (1, Some(column)) => Effect::DropColumn(column),
                _ => Effect::AddColumn(format!("c{number}")),
            };
            let sql = effect.sql(stage.kind, &uri, 0);
            if !stage.perform(process, &ctx, effect, sql, &mut killed).await {
                break;
            }
        }
    }
}

impl Stage {
    /// The next statement of a writer; nobody else changes its batches.
    fn choose(&self, writer: i64, next: &mut i64) -> Effect {
        let batches = {
            let ledger = self.ledger();
            let rows = ledger.states.last().into_iter().flat_map(|s| &s.rows);
            let batches = rows.filter(|row| row[1] == writer).map(|row| row[2]);
            batches.collect::<BTreeSet<_>>()
        };
        let number = |n: usize| self.world.below(n);
        let batch = batches.iter().nth(number(batches.len())).copied();
        match (number(4), batch) {
            (0, _) => {
                let from = number(ACCOUNTS as usize) as i64;
                let to = (from + 1 + number(ACCOUNTS as usize - 1) as i64) % ACCOUNTS;
                let amount = 1 + number(9) as i64;
                Effect::Transfer { from, to, amount }
            }
            (1, Some(batch)) => Effect::Raise { writer, batch },
            (2, Some(batch)) if self.kind != Kind::Dense => Effect::Drop { writer, batch },
            _ => {
                *next += 1;
                let batch = *next;
                Effect::Put { writer, batch }
            }
        }
    }
}

/// Creates the array, and lets an auditor look at it from now on.
async fn prepare(stage: &Arc<Stage>) -> Outcome<(SessionContext, String)> {
    let (ctx, uri) = stage.session(Some(STEWARD));
    let create = format!(
        "CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, w BIGINT NOT NULL, s BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (x)) \
         STORED AS TILEDB LOCATION '{uri}' OPTIONS ({})",
        stage.kind.options()
    );
    run(&ctx, &create).await?;
    let accounts = (0..ACCOUNTS)
        .map(|x| format!("({x}, {ACCOUNT}, 0, {MONEY})"))
        .collect::<Vec<_>>()
        .join(", ");
    run(&ctx, &format!("INSERT INTO t VALUES {accounts}")).await?;
    let first = stage.look().await?;
    stage.ledger().states.push(first);
    let auditor = Arc::downgrade(stage);
    stage.world.set_audit(Arc::new(move |process| {
        let stage = auditor.upgrade();
        let audit = async move {
            if let Some(stage) = stage {
                stage.audit(process).await;
            }
        };
        audit.boxed()
    }));
    Ok((ctx, uri))
}

/// At the end, every byte of the array is right, and the remains of crashes can be removed.
async fn tidy(stage: &Stage, ctx: &SessionContext, uri: &str) -> Outcome<()> {
    let findings = async |only: &str| -> Outcome<()> {
        let check = format!("SELECT rule, object, found FROM tiledb_check('{uri}') {only}");
        let found = run(ctx, &check).await?;
        if found.iter().any(|batch| batch.num_rows() > 0) {
            stage.wrong(|| {
                arrow::util::pretty::pretty_format_batches(&found)
                    .unwrap()
                    .to_string()
            });
        }
        Ok(())
    };
    findings("WHERE severity <> 'leftover'").await?;
    for call in [
        "tiledb_vacuum('$A', mode => 'leftovers', min_age => '0')",
        "tiledb_consolidate('$A')",
        "tiledb_vacuum('$A', min_age => '0')",
        "tiledb_consolidate('$A', mode => 'commits')",
        "tiledb_vacuum('$A', mode => 'commits')",
        "tiledb_consolidate('$A', mode => 'array_metadata')",
        "tiledb_vacuum('$A', mode => 'array_metadata')",
        "tiledb_consolidate('$A', mode => 'fragment_metadata')",
        "tiledb_vacuum('$A', mode => 'fragment_metadata')",
        "tiledb_vacuum('$A', mode => 'leftovers', min_age => '0')",
    ] {
        let call = call.replace("$A", uri);
        run(ctx, &format!("SELECT * FROM {call}")).await?;
    }
    // The latest copies of footers stay, even those of removed fragments.
    findings("WHERE rule <> 'stale-copy'").await
}

/// Runs all processes of a world. Returns its events, or the first problem, and the log.
fn simulate(
    kind: Kind,
    seed: u64,
    faults: (u64, u64),
    pages: (usize, Order),
) -> (Result<String, String>, (u64, usize)) {
    let simulated = World::run(seed, |world| async move {
        world.set_pages(pages.0, pages.1);
        // Shows the problems of a reader that takes each listing for the state of one moment.
        let is_blind = std::env::var_os("SIMULATED_BLIND").is_some();
        believed::set_page(if is_blind { usize::MAX } else { pages.0 });
        believed::set_in_order(pages.1 == Order::Sorted);
        let stage = Stage::new(kind, world.clone());
        let (ctx, uri) = prepare(&stage).await.unwrap();
        world.set_faults(faults.0, faults.1);
        let mut actors: Vec<BoxFuture<()>> = Vec::new();
        for writer in 0..WRITERS {
            actors.push(writes(Arc::clone(&stage), writer).boxed());
        }
        for _ in 0..READERS {
            actors.push(reads(Arc::clone(&stage)).boxed());
        }
        actors.push(tends(Arc::clone(&stage)).boxed());
        actors.push(evolves(Arc::clone(&stage)).boxed());
        join_all(actors).await;
        world.set_faults(0, 0);
        if stage.ledger().wrong.is_none()
            && let Err(error) = tidy(&stage, &ctx, &uri).await
        {
            stage.wrong(|| format!("at the end: {error}"));
        }
        let ledger = stage.ledger();
        let mut summary = format!("{kind:?}, seed {seed}, faults {faults:?}, pages {pages:?}: ");
        let _ = write!(
            summary,
            "{} changes, {} met others, {} unknown, {} killed; {} reads, {} lost their files; tended {} times",
            ledger.happened,
            ledger.met,
            ledger.unknown,
            ledger.killed,
            ledger.reads,
            ledger.lost_files,
            ledger.tended
        );
        let outcome = match &ledger.wrong {
            Some(wrong) => Err(format!("{summary}\n{wrong}")),
            None => Ok(summary),
        };
        (outcome, world.course())
    });
    believed::set_page(1000);
    simulated
}

fn number_of(variable: &str, otherwise: u64) -> u64 {
    let number = std::env::var(variable).ok();
    number.and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

fn worlds(kind: Kind) {
    // One with faults, one without, and one with faults again.
    let usual = match kind {
        Kind::Sparse => 2,
        Kind::Duplicates => 1,
        Kind::Dense => 4,
    };
    let first = number_of("SIMULATED_SEED", usual);
    for seed in first..first + number_of("SIMULATED", 1) {
        // Every other world is without faults, so that a wrong answer cannot hide behind one.
        let faults = if seed % 2 == 0 { (20, 5) } else { (0, 0) };
        // Folders are listed at once, or a few entries at a time: by name, as in an object store, or in the order of a file
        // system.
        let pages = match seed % 3 {
            0 => (3, Order::Sorted),
            1 => (1000, Order::Sorted),
            _ => (3, Order::Scattered),
        };
        match simulate(kind, seed, faults, pages).0 {
            Ok(summary) => println!("{summary}"),
            Err(wrong) => panic!("{wrong}"),
        }
    }
}

#[test]
fn worlds_of_a_sparse_array() {
    worlds(Kind::Sparse);
}

#[test]
fn worlds_of_duplicates() {
    worlds(Kind::Duplicates);
}

#[test]
fn worlds_of_a_dense_array() {
    worlds(Kind::Dense);
}

#[test]
fn one_seed_is_one_course() {
    let course = |seed| simulate(Kind::Sparse, seed, (8, 4), (3, Order::Scattered)).1;
    let (first, again, other) = (course(7), course(7), course(8));
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert!(first.1 > 100, "{first:?}");
}

/// The auditor sees a change that no process had as its task.
#[test]
fn what_nobody_was_told_is_seen() {
    let wrong = World::run(3, |world| async move {
        let stage = Stage::new(Kind::Sparse, world);
        prepare(&stage).await.unwrap();
        let (ctx, _) = stage.open(9).await.unwrap();
        run(&ctx, "UPDATE t SET v = 0 WHERE x = 1").await.unwrap();
        stage.ledger().wrong.clone()
    })
    .unwrap();
    assert!(wrong.contains("process 9, told None"), "{wrong}");
}
