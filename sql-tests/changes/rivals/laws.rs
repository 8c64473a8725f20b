//! Eight writers and four readers, each with a session of its own, share an array while it is consolidated and vacuumed. What
//! they do keeps laws that every state obeys, so nobody needs to know in which order they were served: money moves between
//! accounts and its sum stays; rows come and go in batches that are whole or not there; each writer numbers its batches, and
//! no reader sees them go backwards. Each writer knows which of its statements were done, so at the end every row is known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;

use super::{BATCH, Kind, WRITERS, nothing_wrong, open, run, session};
use crate::support::rng::Rng;
use crate::{block_on, trial};

const READERS: i64 = 4;

const ACCOUNTS: i64 = 16;

/// What is in each account at first.
const MONEY: i64 = 100;

/// The row numbers of accounts, in the column of writers.
const ACCOUNT: i64 = -1;

trials!(
    [
        ("sparse", Kind::Sparse),
        ("duplicates", Kind::Duplicates),
        ("dense", Kind::Dense),
    ]
    .map(|(name, kind)| trial(format!("{name}_at_once"), move || block_on(at_once(kind))))
);

/// What all writers and readers of an array share.
struct Shared {
    kind: Kind,
    array: PathBuf,
    seed: u64,
    over: AtomicBool,
    done: AtomicUsize,
    met: AtomicUsize,
    reads: AtomicUsize,
    gone: AtomicUsize,
    tended: AtomicUsize,
}

fn count(number: &AtomicUsize) -> usize {
    number.load(Ordering::Relaxed)
}

impl Shared {
    fn summary(&self) -> String {
        format!(
            "{:?}, seed {}: {} statements done, {} met others; {} reads, {} lost their files; tended {} times",
            self.kind,
            self.seed,
            count(&self.done),
            count(&self.met),
            count(&self.reads),
            count(&self.gone),
            count(&self.tended)
        )
    }
}

/// What a writer has done.
#[derive(Debug, Default)]
struct Ledger {
    /// Its batches, and the value that all rows of each have.
    batches: BTreeMap<i64, i64>,
    transfers: i64,
}

/// Whether a statement was done; `false` if it met others.
fn outcome(
    shared: &Shared,
    sql: &str,
    ended: Result<Vec<RecordBatch>, DataFusionError>,
) -> Result<bool, Failed> {
    match ended {
        Ok(_) => {
            shared.done.fetch_add(1, Ordering::Relaxed);
            Ok(true)
        }
        Err(error) if met_others(&error) => {
            shared.met.fetch_add(1, Ordering::Relaxed);
            Ok(false)
        }
        Err(error) => Err(format!("{:?}: {sql}: {error}", shared.kind).into()),
    }
}

/// Whether an error is the clear one for those who meet others: they are to do it again.
fn met_others(error: &DataFusionError) -> bool {
    let text = error.to_string();
    text.contains("run the statement again")
        || text.contains("plan it again")
        || text.contains("run it again")
}

async fn at_once(kind: Kind) -> Result<(), Failed> {
    let seconds = std::env::var("RIVALS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(2);
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_nanos() as u64;
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let ctx = session()?;
    run(&ctx, &kind.create(&array)).await?;
    let accounts = format!(
        "INSERT INTO t SELECT i, {ACCOUNT} AS w, 0 AS s, {MONEY} AS v FROM unnest(range(0, {ACCOUNTS})) AS u(i)"
    );
    run(&ctx, &accounts).await?;
    let shared = Arc::new(Shared {
        kind,
        array: array.clone(),
        seed,
        over: AtomicBool::new(false),
        done: AtomicUsize::new(0),
        met: AtomicUsize::new(0),
        reads: AtomicUsize::new(0),
        gone: AtomicUsize::new(0),
        tended: AtomicUsize::new(0),
    });
    let task = |work: futures::future::BoxFuture<'static, Result<Ledger, Failed>>| {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let ended = work.await;
            if ended.is_err() {
                shared.over.store(true, Ordering::SeqCst);
            }
            ended.map_err(|error| error.message().unwrap_or_default().to_owned())
        })
    };
    let writers = (0..WRITERS)
        .map(|n| task(Box::pin(writes(Arc::clone(&shared), n))))
        .collect::<Vec<_>>();
    let mut others = (0..READERS)
        .map(|n| task(Box::pin(reads(Arc::clone(&shared), n))))
        .collect::<Vec<_>>();
    others.push(task(Box::pin(tends(Arc::clone(&shared)))));
    let enough =
        || count(&shared.done) > 4 && count(&shared.reads) > 4 && count(&shared.tended) > 0;
    let begun = Instant::now();
    while !shared.over.load(Ordering::SeqCst) {
        let elapsed = begun.elapsed().as_secs();
        // On a busy machine, the rivals go on until they have done enough, but not forever: they may not hinder each other for good.
        if elapsed >= seconds && (enough() || elapsed >= 10 * seconds) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    shared.over.store(true, Ordering::SeqCst);
    let (mut ledgers, mut failures) = (Vec::new(), Vec::new());
    let others = others.into_iter().map(|other| (false, other));
    for (is_writer, task) in writers.into_iter().map(|w| (true, w)).chain(others) {
        match task.await? {
            Ok(ledger) if is_writer => ledgers.push(ledger),
            Ok(_) => {}
            Err(failure) => failures.push(failure),
        }
    }
    let summary = shared.summary();
    println!("{summary}");
    if !failures.is_empty() {
        return Err(format!("{summary}\n{}", failures.join("\n")).into());
    }
    left(&ctx, &shared, &ledgers)
        .await
        .map_err(|error| format!("{summary}\n{}", error.message().unwrap_or_default()))?;
    if enough() {
        Ok(())
    } else {
        Err(format!("too little was done: {summary}").into())
    }
}

/// At the end, everything is known.
async fn left(ctx: &SessionContext, shared: &Shared, ledgers: &[Ledger]) -> Result<(), Failed> {
    let state = State::read(ctx).await?;
    state.check(shared.kind)?;
    let transfers = ledgers.iter().map(|ledger| ledger.transfers).sum::<i64>();
    let booked = state
        .accounts
        .iter()
        .map(|(_, booked, _)| booked)
        .sum::<i64>();
    if booked != 2 * transfers {
        return Err(
            format!("{transfers} transfers were done, and {booked} accounts were changed").into(),
        );
    }
    for (writer, ledger) in (0..).zip(ledgers) {
        let found = state.batches.get(&writer).cloned().unwrap_or_default();
        let found = found.into_iter().map(|(batch, values)| (batch, values[0]));
        let found = found.collect::<BTreeMap<_, _>>();
        if found != ledger.batches {
            return Err(format!(
                "writer {writer} has done {:?}, and {found:?} is there",
                ledger.batches
            )
            .into());
        }
    }
    nothing_wrong(ctx, &shared.array, false).await
}

/// The rows of an array.
#[derive(Debug, Default)]
struct State {
    /// The number, bookings and money of each account.
    accounts: Vec<(i64, i64, i64)>,
    /// The values of the rows of each batch of each writer.
    batches: BTreeMap<i64, BTreeMap<i64, Vec<i64>>>,
}

impl State {
    async fn read(ctx: &SessionContext) -> Result<Self, DataFusionError> {
        // Cells of a dense array that nobody has written have other numbers.
        let batches = run(ctx, "SELECT x, w, s, v FROM t WHERE w >= -1").await?;
        let mut state = Self::default();
        for batch in batches {
            let [x, w, s, v] =
                [0, 1, 2, 3].map(|i| batch.column(i).as_primitive::<Int64Type>().values().iter());
            for (((&x, &w), &s), &v) in x.zip(w).zip(s).zip(v) {
                if w == ACCOUNT {
                    state.accounts.push((x, s, v));
                } else {
                    state
                        .batches
                        .entry(w)
                        .or_default()
                        .entry(s)
                        .or_default()
                        .push(v);
                }
            }
        }
        Ok(state)
    }

    /// What every state obeys.
    fn check(&self, kind: Kind) -> Result<(), Failed> {
        let numbers = self
            .accounts
            .iter()
            .map(|(x, ..)| *x)
            .collect::<BTreeSet<_>>();
        let money = self.accounts.iter().map(|(.., v)| v).sum::<i64>();
        let booked = self.accounts.iter().map(|(_, s, _)| s).sum::<i64>();
        if numbers.len() != self.accounts.len()
            || numbers.len() != ACCOUNTS as usize
            || money != ACCOUNTS * MONEY
            || booked % 2 != 0
        {
            return Err(format!("{kind:?}: {money} in {:?}", self.accounts).into());
        }
        for (writer, batches) in &self.batches {
            let first = *batches.keys().next().unwrap_or(&0);
            for ((batch, values), expected) in batches.iter().zip(first..) {
                let whole =
                    values.len() == BATCH as usize && values.iter().all(|v| *v == values[0]);
                if !whole || *batch != expected {
                    return Err(format!(
                        "{kind:?}: the batches of writer {writer} are {batches:?}"
                    )
                    .into());
                }
            }
        }
        Ok(())
    }

    /// The first and last batch of each writer, and the bookings of each account.
    fn progress(&self) -> BTreeMap<(i64, i64), i64> {
        let batches = self.batches.iter().flat_map(|(writer, batches)| {
            let ends = batches
                .keys()
                .next()
                .into_iter()
                .chain(batches.keys().last());
            ends.zip(0..).map(|(batch, end)| ((*writer, end), *batch))
        });
        let accounts = self
            .accounts
            .iter()
            .map(|(x, booked, _)| ((-1 - x, 0), *booked));
        batches.chain(accounts).collect()
    }
}

async fn writes(shared: Arc<Shared>, writer: i64) -> Result<Ledger, Failed> {
    let ctx = open(&shared.array).await?;
    let mut rng = Rng::new(shared.seed, writer as u64);
    let mut ledger = Ledger::default();
    let mut next = 0;
    while !shared.over.load(Ordering::SeqCst) {
        match rng.below(4) {
            0 => transfer(&shared, &ctx, &mut rng, &mut ledger).await?,
            1 => next += i64::from(put(&shared, &ctx, writer, next, &mut ledger).await?),
            2 => raise(&shared, &ctx, writer, &mut rng, &mut ledger).await?,
            _ => drop_oldest(&shared, &ctx, writer, &mut rng, &mut ledger).await?,
        }
    }
    Ok(ledger)
}

/// Moves money between two accounts.
async fn transfer(
    shared: &Shared,
    ctx: &SessionContext,
    rng: &mut Rng,
    ledger: &mut Ledger,
) -> Result<(), Failed> {
    let from = rng.below(ACCOUNTS as usize) as i64;
    let to = (from + 1 + rng.below(ACCOUNTS as usize - 1) as i64) % ACCOUNTS;
    let amount = rng.between(1, 9);
    let sql = if rng.chance(50) && shared.kind == Kind::Sparse {
        format!(
            "MERGE INTO t USING (VALUES ({from}, -{amount}), ({to}, {amount})) AS n(k, d) ON t.x = n.k \
             WHEN MATCHED THEN UPDATE SET v = v + n.d, s = s + 1"
        )
    } else {
        format!(
            "UPDATE t SET s = s + 1, v = CASE x WHEN {from} THEN v - {amount} ELSE v + {amount} END \
             WHERE x IN ({from}, {to})"
        )
    };
    let ended = run(ctx, &sql).await;
    ledger.transfers += i64::from(outcome(shared, &sql, ended)?);
    Ok(())
}

/// Inserts the next batch.
async fn put(
    shared: &Shared,
    ctx: &SessionContext,
    writer: i64,
    batch: i64,
    ledger: &mut Ledger,
) -> Result<bool, Failed> {
    let rows = (0..BATCH)
        .map(|row| {
            let x = shared.kind.cell(writer, batch, row);
            format!("({x}, {writer}, {batch}, {batch})")
        })
        .collect::<Vec<_>>()
        .join(", ");
    let sql = format!("INSERT INTO t VALUES {rows}");
    let ended = run(ctx, &sql).await;
    let done = outcome(shared, &sql, ended)?;
    if done {
        if shared.kind == Kind::Dense {
            ledger.batches.clear();
        }
        ledger.batches.insert(batch, batch);
    }
    Ok(done)
}

/// Changes the values of one batch.
async fn raise(
    shared: &Shared,
    ctx: &SessionContext,
    writer: i64,
    rng: &mut Rng,
    ledger: &mut Ledger,
) -> Result<(), Failed> {
    let batches = ledger.batches.keys().copied().collect::<Vec<_>>();
    let Some(batch) = rng.pick_any(&batches) else {
        return Ok(());
    };
    let sql = format!("UPDATE t SET v = v + 1000 WHERE w = {writer} AND s = {batch}");
    let ended = run(ctx, &sql).await;
    if outcome(shared, &sql, ended)?
        && let Some(value) = ledger.batches.get_mut(batch)
    {
        *value += 1000;
    }
    Ok(())
}

/// Deletes the oldest batch, by a stored condition or row by row.
async fn drop_oldest(
    shared: &Shared,
    ctx: &SessionContext,
    writer: i64,
    rng: &mut Rng,
    ledger: &mut Ledger,
) -> Result<(), Failed> {
    let oldest = ledger.batches.keys().next().copied();
    let Some(batch) = oldest.filter(|_| shared.kind != Kind::Dense) else {
        return Ok(());
    };
    let sum = if shared.kind == Kind::Sparse && rng.chance(50) {
        " + 0"
    } else {
        ""
    };
    let sql = format!("DELETE FROM t WHERE w{sum} = {writer} AND s = {batch}");
    let ended = run(ctx, &sql).await;
    if outcome(shared, &sql, ended)? {
        ledger.batches.remove(&batch);
    }
    Ok(())
}

async fn reads(shared: Arc<Shared>, _reader: i64) -> Result<Ledger, Failed> {
    let ctx = open(&shared.array).await?;
    let mut last = BTreeMap::new();
    while !shared.over.load(Ordering::SeqCst) {
        let state = match State::read(&ctx).await {
            Ok(state) => state,
            Err(error) if met_others(&error) => {
                shared.gone.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Err(error) => return Err(format!("a reader: {error}").into()),
        };
        state.check(shared.kind)?;
        shared.reads.fetch_add(1, Ordering::Relaxed);
        let progress = state.progress();
        for (of, now) in &progress {
            if last.get(of).is_some_and(|before| before > now) {
                return Err(format!(
                    "{:?}: {of:?} went from {last:?} back to {progress:?}",
                    shared.kind
                )
                .into());
            }
        }
        last.extend(progress);
    }
    Ok(Ledger::default())
}

/// Consolidates and vacuums.
async fn tends(shared: Arc<Shared>) -> Result<Ledger, Failed> {
    let ctx = open(&shared.array).await?;
    let mut rng = Rng::new(shared.seed, 99);
    let array = shared.array.display();
    while !shared.over.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(rng.below(200) as u64)).await;
        let call = rng.weighted(&[
            (4, "tiledb_consolidate('{}')"),
            (2, "tiledb_consolidate('{}', mode => 'commits')"),
            (1, "tiledb_consolidate('{}', mode => 'fragment_metadata')"),
            (2, "tiledb_vacuum('{}', min_age => '0')"),
            (3, "tiledb_vacuum('{}', min_age => '1 second')"),
            (1, "tiledb_vacuum('{}', mode => 'commits')"),
            (1, "tiledb_vacuum('{}', mode => 'leftovers')"),
        ]);
        let sql = format!("SELECT * FROM {}", call.replace("{}", &array.to_string()));
        match run(&ctx, &sql).await {
            Ok(_) => shared.tended.fetch_add(1, Ordering::Relaxed),
            Err(error) if met_others(&error) => 0,
            Err(error) => return Err(format!("{sql}: {error}").into()),
        };
    }
    Ok(Ledger::default())
}
