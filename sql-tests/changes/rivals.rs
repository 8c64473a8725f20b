//! Many writers of one array at once, and writers that are killed: nothing is lost, nothing is there twice, and every reader
//! finds a state that existed.
//!
//! Eight writers and four readers, each with a session of its own, share an array while it is consolidated and vacuumed. What
//! they do keeps laws that every state obeys, so nobody needs to know in which order they were served: money moves between
//! accounts and its sum stays; rows come and go in batches that are whole or not there; each writer numbers its batches, and
//! no reader sees them go backwards. Each writer knows which of its statements were done, so at the end every row is known.
//!
//! `RIVALS=<seconds>` lets them run longer, and `RIVALS_KILLED=<n>` kills so many processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::collect;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::register;
use libtest_mimic::Failed;
use object_store::memory::InMemory;

use crate::changes::crashes::{self, Faulty, Meeting, copy_of, execute};
use crate::shell::program::PROGRAM;
use crate::support::array_files::{Files, METADATA_FILE};
use crate::support::neutral_rows;
use crate::support::rng::Rng;
use crate::{block_on, trial};

const WRITERS: i64 = 8;
const READERS: i64 = 4;
/// Rows of a batch.
const BATCH: i64 = 5;
const ACCOUNTS: i64 = 16;
/// What is in each account at first.
const MONEY: i64 = 100;
/// The row numbers of accounts, in the column of writers.
const ACCOUNT: i64 = -1;

/// An array, and how its rows may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sparse,
    Duplicates,
    Dense,
}

impl Kind {
    fn create(self, array: &Path) -> String {
        let options = match self {
            Self::Sparse => "'tiledb.capacity' '16'",
            Self::Duplicates => "'tiledb.capacity' '16', 'tiledb.allows_duplicates' 'true'",
            Self::Dense => {
                "'tiledb.array_type' 'dense', 'tiledb.dim.x.domain' '[0, 999]', 'tiledb.dim.x.tile' '20'"
            }
        };
        format!(
            "CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, w BIGINT NOT NULL, s BIGINT NOT NULL, v BIGINT NOT NULL, \
             PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{}' OPTIONS ({options})",
            array.display()
        )
    }

    /// Where the rows of a writer's batch lie. The cells of the writers of a dense array lie among each other, and each batch
    /// takes the place of the one before.
    fn cell(self, writer: i64, batch: i64, row: i64) -> i64 {
        match self {
            Self::Sparse => 1_000_000 * (writer + 1) + batch * BATCH + row,
            // Rows of all writers have the same coordinates.
            Self::Duplicates => 1000 + row,
            Self::Dense => 100 + row * WRITERS + writer,
        }
    }
}

trial!(rows_written_before_all_are_read);
async fn rows_written_before_all_are_read() -> Result<(), Failed> {
    the_last_to_end_wins(
        "INSERT INTO t SELECT value, repeat('x', 4000) FROM range(0, 10000)",
        &["UPDATE t SET s = 'updated' WHERE k = 5"],
    )
    .await
}

trial!(rows_from_another_time);
async fn rows_from_another_time() -> Result<(), Failed> {
    the_last_to_end_wins(
        "INSERT INTO t SELECT k, repeat('x', 4000) FROM tiledb_scan('crash://store/array', timestamp => '2100-01-01') WHERE k = 5",
        &["UPDATE t SET s = 'updated' WHERE k = 5"],
    )
    .await
}

trial!(a_consolidation_without_times);
async fn a_consolidation_without_times() -> Result<(), Failed> {
    the_last_to_end_wins(
        "INSERT INTO t VALUES (5, repeat('x', 4000))",
        &[
            "INSERT INTO t VALUES (9, 'other')",
            "SELECT * FROM tiledb_consolidate('crash://store/array', timestamps => false)",
        ],
    )
    .await
}

trials!(
    [
        ("sparse", Kind::Sparse),
        ("duplicates", Kind::Duplicates),
        ("dense", Kind::Dense),
    ]
    .map(|(name, kind)| trial(format!("{name}_at_once"), move || block_on(at_once(kind))))
);

fn session() -> Result<SessionContext, Failed> {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    register(&ctx)?;
    Ok(ctx)
}

async fn open(array: &Path) -> Result<SessionContext, Failed> {
    let ctx = session()?;
    let table = format!(
        "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{}'",
        array.display()
    );
    ctx.sql(&table).await?.collect().await?;
    Ok(ctx)
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, DataFusionError> {
    ctx.sql(sql).await?.collect().await
}

/// The rows of a query, as text.
async fn rows(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, Failed> {
    let rows = neutral_rows::rows(&run(ctx, sql).await?);
    let rows = rows
        .iter()
        .map(|row| row.trim_matches(['[', ']']).to_owned());
    Ok(rows.collect())
}

/// A stream that gives its rows once.
#[derive(Debug)]
struct Once(
    std::sync::Mutex<Option<RecordBatch>>,
    datafusion::arrow::datatypes::SchemaRef,
);

impl PartitionStream for Once {
    fn schema(&self) -> &datafusion::arrow::datatypes::SchemaRef {
        &self.1
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batch = self.0.lock().expect("nobody panics").take();
        let batch = futures::stream::iter(batch.map(Ok));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.1), batch))
    }
}

/// Registers the table `once` of the rows of a query.
async fn once(ctx: &SessionContext, sql: &str) -> Result<(), Failed> {
    let batches = run(ctx, sql).await?;
    let schema = batches[0].schema();
    let batch = datafusion::arrow::compute::concat_batches(&schema, &batches)?;
    let stream = Once(std::sync::Mutex::new(Some(batch)), Arc::clone(&schema));
    let table = StreamingTable::try_new(schema, vec![Arc::new(stream)])?;
    ctx.deregister_table("once")?;
    ctx.register_table("once", Arc::new(table))?;
    Ok(())
}

/// An array with the rows (0, 0, 0, 0) to (99, …), and a session for each of two.
async fn hundred() -> Result<(tempfile::TempDir, SessionContext, SessionContext), Failed> {
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let ctx = session()?;
    run(&ctx, &Kind::Sparse.create(&array)).await?;
    run(
        &ctx,
        "INSERT INTO t SELECT i, 0 AS w, 0 AS s, i AS v FROM unnest(range(0, 100)) AS u(i)",
    )
    .await?;
    let other = open(&array).await?;
    Ok((folder, ctx, other))
}

trial!(disjoint_changes_do_not_meet);
/// A statement that cannot be done again is not disturbed by deletes of other cells, whatever they are stored as.
async fn disjoint_changes_do_not_meet() -> Result<(), Failed> {
    let merge = "MERGE INTO t USING once ON t.x = once.x WHEN MATCHED THEN UPDATE SET v = once.v \
                 WHEN NOT MATCHED THEN INSERT (x, w, s, v) VALUES (once.x, 0, 0, once.v)";
    for (beside, met) in [
        ("DELETE FROM t WHERE x BETWEEN 50 AND 59", false),
        ("DELETE FROM t WHERE x < 10 AND v < 5", false),
        ("DELETE FROM t WHERE x + 0 = 50", false),
        ("UPDATE t SET v = 0 WHERE x = 50", false),
        ("UPDATE t SET x = 1000 WHERE x = 50", false),
        ("DELETE FROM t WHERE x BETWEEN 5 AND 20", true),
        // It may be any cell.
        ("DELETE FROM t WHERE v = 50", true),
        ("DELETE FROM t WHERE x + 0 = 25", true),
        ("INSERT INTO t VALUES (27, 0, 0, 0)", true),
    ] {
        let (_folder, ctx, other) = hundred().await?;
        once(
            &ctx,
            "SELECT i AS x, -i AS v FROM unnest(range(20, 30)) AS u(i)",
        )
        .await?;
        let planned = ctx.sql(merge).await?.create_physical_plan().await?;
        run(&other, beside).await?;
        let ended = collect(planned, ctx.task_ctx()).await;
        let sum = rows(&ctx, "SELECT count(*) FROM t WHERE v = -x AND x > 0").await?;
        match (ended, met) {
            (Ok(_), false) if sum == ["10"] => {}
            (Err(error), true) if sum == ["0"] && names_both(&error.to_string()) => {}
            (ended, _) => return Err(format!("{beside}: {ended:?}, {sum:?}").into()),
        }
    }
    Ok(())
}

/// Whether a conflict names what somebody else committed, and what this statement depends on.
fn names_both(error: &str) -> bool {
    let theirs = error.contains("the fragment __") || error.contains("the delete __");
    theirs && error.contains("(x = 20 to 29)") && error.contains("run the statement again")
}

trial!(a_stream_is_not_read_twice);
/// A stream would be empty, so what it was to change stays as it is.
async fn a_stream_is_not_read_twice() -> Result<(), Failed> {
    let (_folder, ctx, other) = hundred().await?;
    once(&ctx, "SELECT 20 AS x").await?;
    let delete = "DELETE FROM t WHERE v IN (SELECT x FROM once)";
    let planned = ctx.sql(delete).await?.create_physical_plan().await?;
    run(&other, "UPDATE t SET v = 21 WHERE x = 20").await?;
    let ended = collect(planned, ctx.task_ctx()).await;
    let there = rows(&ctx, "SELECT count(*) FROM t WHERE x = 20").await?;
    match ended {
        Err(error) if error.to_string().contains("run the statement again") && there == ["1"] => {
            Ok(())
        }
        ended => Err(format!("{ended:?}, {there:?}").into()),
    }
}

trial!(complete_fragments_count_until_they_are_old);
/// What is complete is about to be committed, unless its writer died long ago.
async fn complete_fragments_count_until_they_are_old() -> Result<(), Failed> {
    let (folder, ctx, other) = hundred().await?;
    let array = folder.path().join("array");
    let commits = array.join("__commits");
    let listed = || -> Result<BTreeSet<PathBuf>, Failed> {
        let files = fs::read_dir(&commits)?;
        Ok(files
            .map(|file| Ok(file?.path()))
            .collect::<std::io::Result<_>>()?)
    };
    let before = listed()?;
    run(&other, "INSERT INTO t VALUES (20, 0, 0, 7), (29, 0, 0, 8)").await?;
    let commit = listed()?.difference(&before).next().cloned();
    let commit = commit.ok_or("the insert was not committed")?;
    fs::remove_file(&commit)?;
    run(&ctx, "UPDATE t SET v = -1 WHERE x = 30").await?;
    match run(&ctx, "UPDATE t SET v = -1 WHERE x IN (25, 26)").await {
        Err(error) if error.to_string().contains("is about to be committed") => {}
        ended => return Err(format!("{ended:?}").into()),
    }
    let name = commit.file_stem().ok_or("the commit has a name")?;
    let metadata = array.join("__fragments").join(name).join(METADATA_FILE);
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::options()
        .append(true)
        .open(metadata)?
        .set_modified(old)?;
    run(&ctx, "UPDATE t SET v = -1 WHERE x IN (25, 26)").await?;
    let changed = rows(&ctx, "SELECT x FROM t WHERE v = -1 ORDER BY x").await?;
    match changed == ["25", "26", "30"] {
        true => Ok(()),
        false => Err(format!("{changed:?}").into()),
    }
}

trial!(what_met_another_is_done_again);
/// What a statement has read is outdated, so it reads again, also where the optimizer had put a number into its plan.
async fn what_met_another_is_done_again() -> Result<(), Failed> {
    for (statement, beside, query, expected) in [
        (
            "UPDATE t SET v = v + 1 WHERE x IN (20, 21)",
            "UPDATE t SET v = v * 10 WHERE x = 20",
            "SELECT v FROM t WHERE x IN (20, 21) ORDER BY x",
            ["201", "22"].as_slice(),
        ),
        (
            "UPDATE t SET v = (SELECT count(*) FROM t) WHERE x < 3",
            "INSERT INTO t VALUES (1, 0, 0, 0), (100, 0, 0, 0), (101, 0, 0, 0)",
            "SELECT v FROM t WHERE x < 3",
            &["102", "102", "102"],
        ),
        (
            "DELETE FROM t WHERE x % 10 = 0 AND v < 50",
            "UPDATE t SET v = v + 90 WHERE x = 20",
            "SELECT count(*) FROM t WHERE x % 10 = 0",
            &["6"],
        ),
        (
            "MERGE INTO t USING (VALUES (20), (200)) AS n(k) ON t.x = n.k WHEN MATCHED THEN UPDATE SET v = v + 1 \
             WHEN NOT MATCHED THEN INSERT (x, w, s, v) VALUES (n.k, 0, 0, -1)",
            "INSERT INTO t VALUES (200, 0, 0, 7), (20, 0, 0, 8)",
            "SELECT x * 100 + v FROM t WHERE x IN (20, 200)",
            &["20008", "2009"],
        ),
        (
            "MERGE INTO t USING (VALUES (99)) AS n(k) ON t.v = n.k WHEN MATCHED THEN UPDATE SET w = 1",
            "UPDATE t SET v = 99 WHERE x = 3",
            "SELECT w FROM t WHERE x IN (3, 99)",
            &["1", "1"],
        ),
        (
            "MERGE INTO t USING (VALUES (20)) AS n(k) ON t.x = n.k WHEN MATCHED THEN UPDATE SET w = 1 \
             WHEN NOT MATCHED BY SOURCE AND t.v < 0 THEN UPDATE SET w = 2",
            "UPDATE t SET v = -1 WHERE x = 3",
            "SELECT x + w FROM t WHERE x IN (3, 20)",
            &["21", "5"],
        ),
    ] {
        let (folder, ctx, other) = hundred().await?;
        let planned = ctx.sql(statement).await?.create_physical_plan().await?;
        run(&other, beside).await?;
        collect(planned, ctx.task_ctx()).await?;
        let found = rows(&ctx, query).await?;
        if found != expected {
            return Err(format!("{statement} beside {beside}: {found:?}").into());
        }
        nothing_wrong(&ctx, &folder.path().join("array"), true).await?;
    }
    Ok(())
}

trial!(a_move_is_done_again);
/// A move by a condition on attributes reads all rows, even if it looks for only one coordinate that may be taken. The row that
/// another statement adds to its rows would get the same coordinate.
async fn a_move_is_done_again() -> Result<(), Failed> {
    let (_folder, ctx, other) = hundred().await?;
    let statement = "UPDATE t SET x = 1000 WHERE v = 99 OR v < -1";
    let planned = ctx.sql(statement).await?.create_physical_plan().await?;
    run(&other, "UPDATE t SET v = -2 WHERE x = 3").await?;
    let error = collect(planned, ctx.task_ctx()).await;
    let error = error.err().ok_or("the move has missed a row")?.to_string();
    assert!(error.contains("more than once"), "{error}");
    let found = rows(&ctx, "SELECT x FROM t WHERE x IN (3, 99, 1000)").await?;
    assert_eq!(found, ["3", "99"]);
    Ok(())
}

trial!(a_dense_array_grows_beside_a_merge);
/// A dense array shows all cells of the box around its fragments. A MERGE that found no cell there finds one with the fill value
/// when another statement has made the box larger, but not when it is elsewhere.
async fn a_dense_array_grows_beside_a_merge() -> Result<(), Failed> {
    for (rows_of_merge, expected) in [
        (
            "(4, 11), (5, 14), (6, 14)",
            ["11", "15", "-9223372036854775794"],
        ),
        ("(4, 11), (5, 14), (3, 14)", ["11", "15", "15"]),
    ] {
        let folder = tempfile::tempdir()?;
        let array = folder.path().join("array");
        let ctx = session()?;
        let create = format!(
            "CREATE EXTERNAL TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '{}' \
             OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.k.domain' '[0, 11]', 'tiledb.dim.k.tile' '4')",
            array.display()
        );
        run(&ctx, &create).await?;
        let insert = "INSERT INTO t SELECT i, i % 2 FROM unnest(range(0, 6)) AS u(i)";
        run(&ctx, insert).await?;
        let other = open(&array).await?;
        let merge = format!(
            "MERGE INTO t USING (VALUES {rows_of_merge}) AS n(k, v) ON t.k = n.k \
             WHEN MATCHED THEN UPDATE SET v = t.v + n.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (n.k, n.v)"
        );
        let planned = ctx.sql(&merge).await?.create_physical_plan().await?;
        run(
            &other,
            "INSERT INTO t SELECT k + 4, v FROM t WHERE k BETWEEN 4 AND 5",
        )
        .await?;
        collect(planned, ctx.task_ctx()).await?;
        let mut found = rows(
            &ctx,
            "SELECT v FROM t WHERE k BETWEEN 3 AND 6 AND v NOT IN (0, 1, -9223372036854775808)",
        )
        .await?;
        found.sort_by_key(String::len);
        assert_eq!(found, expected, "{merge}");
    }
    Ok(())
}

/// Other statements run before the n-th request of an insert, for many n. Whatever they did, the cell of the insert, which
/// ends last unless they have seen it, is there afterwards.
async fn the_last_to_end_wins(insert: &str, beside: &'static [&'static str]) -> Result<(), Failed> {
    const OPEN: &str = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'crash://store/array'";
    const WRITTEN: &str = "SELECT count(*) FROM t WHERE k = 5 AND length(s) = 4000";
    let quiet = |store: &Arc<InMemory>| {
        Faulty::meeting(
            Arc::clone(store),
            usize::MAX,
            Box::new(|| Box::pin(async {})),
        )
    };
    let before = Arc::new(InMemory::new());
    let ctx = crashes::session(&quiet(&before))?;
    for statement in [
        "CREATE EXTERNAL TABLE t (k BIGINT NOT NULL, s VARCHAR NOT NULL, PRIMARY KEY (k)) STORED AS TILEDB LOCATION \
         'crash://store/array' OPTIONS ('tiledb.dim.k.domain' '[0, 1000000]', 'tiledb.capacity' '100')",
        "INSERT INTO t VALUES (5, 'old'), (7, 'seven')",
    ] {
        execute(&ctx, statement).await?;
    }
    let meet = async |n: usize| {
        let inner = Arc::new(copy_of(&before).await?);
        let seen = Arc::new(AtomicBool::new(false));
        let (others, saw) = (quiet(&inner), Arc::clone(&seen));
        let meeting: Meeting = Box::new(move || {
            let (others, saw) = (Arc::clone(&others), Arc::clone(&saw));
            // On a stack of its own: that of the insert is deep already.
            let met = tokio::spawn(async move {
                let ctx = crashes::session(&others).unwrap();
                execute(&ctx, OPEN).await.unwrap();
                let found = rows(&ctx, WRITTEN).await.unwrap();
                saw.store(found == ["1"], Ordering::SeqCst);
                for statement in beside {
                    // It may find that the insert comes first, and fail.
                    drop(execute(&ctx, statement).await);
                }
            });
            Box::pin(async move { met.await.unwrap() })
        });
        let store = Faulty::meeting(Arc::clone(&inner), n, meeting);
        let ctx = crashes::session(&store)?;
        execute(&ctx, OPEN).await?;
        execute(&ctx, insert).await?;
        let requests = store.requests.count.load(Ordering::SeqCst);
        let ctx = crashes::session(&quiet(&inner))?;
        execute(&ctx, OPEN).await?;
        let found = rows(&ctx, WRITTEN).await?;
        match found == ["1"] || seen.load(Ordering::SeqCst) {
            true => Ok::<usize, Failed>(requests),
            false => {
                let there = rows(&ctx, "SELECT length(s) FROM t WHERE k = 5").await?;
                Err(
                    format!("{beside:?} before request {n} hide the row of {insert}: {there:?}")
                        .into(),
                )
            }
        }
    };
    let requests = meet(usize::MAX).await?;
    let step = (requests / 16).max(1);
    let late = requests.saturating_sub(12);
    let points = (0..late).step_by(step).chain(late..requests);
    for n in points {
        meet(n).await?;
    }
    Ok(())
}

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
    let writers = (0..WRITERS).map(|n| task(Box::pin(writes(Arc::clone(&shared), n))));
    let writers = writers.collect::<Vec<_>>();
    let others = (0..READERS).map(|n| task(Box::pin(reads(Arc::clone(&shared), n))));
    let mut others = others.collect::<Vec<_>>();
    others.push(task(Box::pin(tends(Arc::clone(&shared)))));
    let count = |number: &AtomicUsize| number.load(Ordering::Relaxed);
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
    for (is_writer, task) in writers
        .into_iter()
        .map(|w| (true, w))
        .chain(others.into_iter().map(|o| (false, o)))
    {
        match task.await? {
            Ok(ledger) if is_writer => ledgers.push(ledger),
            Ok(_) => {}
            Err(failure) => failures.push(failure),
        }
    }
    let summary = format!(
        "{kind:?}, seed {seed}: {} statements done, {} met others; {} reads, {} lost their files; tended {} times",
        count(&shared.done),
        count(&shared.met),
        count(&shared.reads),
        count(&shared.gone),
        count(&shared.tended)
    );
    println!("{summary}");
    if !failures.is_empty() {
        return Err(format!("{summary}\n{}", failures.join("\n")).into());
    }
    let left = left(&ctx, &shared, &ledgers).await;
    left.map_err(|error| format!("{summary}\n{}", error.message().unwrap_or_default()))?;
    match enough() {
        true => Ok(()),
        false => Err(format!("too little was done: {summary}").into()),
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

/// The auditor finds nothing but what consolidation has left, or nothing at all.
async fn nothing_wrong(ctx: &SessionContext, array: &Path, at_all: bool) -> Result<(), Failed> {
    let only = if at_all {
        ""
    } else {
        "WHERE severity <> 'leftover'"
    };
    let findings = format!("SELECT * FROM tiledb_check('{}') {only}", array.display());
    let findings = rows(ctx, &findings).await?;
    match findings.is_empty() {
        true => Ok(()),
        false => Err(format!("{findings:?}").into()),
    }
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
    let sql = match rng.chance(50) && shared.kind == Kind::Sparse {
        true => format!(
            "MERGE INTO t USING (VALUES ({from}, -{amount}), ({to}, {amount})) AS n(k, d) ON t.x = n.k \
             WHEN MATCHED THEN UPDATE SET v = v + n.d, s = s + 1"
        ),
        false => format!(
            "UPDATE t SET s = s + 1, v = CASE x WHEN {from} THEN v - {amount} ELSE v + {amount} END \
             WHERE x IN ({from}, {to})"
        ),
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
    let rows = (0..BATCH).map(|row| {
        let x = shared.kind.cell(writer, batch, row);
        format!("({x}, {writer}, {batch}, {batch})")
    });
    let rows = rows.collect::<Vec<_>>().join(", ");
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
            (2, "tiledb_vacuum('{}')"),
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

/// What is killed, and whether it changes rows.
const KILLED: [(&str, &str); 7] = [
    (
        "insert",
        "INSERT INTO t SELECT i, 1 AS w, 1 AS s, i AS v FROM unnest(range(1500, 9000)) AS u(i)",
    ),
    ("update", "UPDATE t SET v = v + 1 WHERE x % 3 = 0"),
    ("move", "UPDATE t SET x = x + 10000 WHERE x % 3 = 0"),
    ("delete", "DELETE FROM t WHERE v + 0 > 700"),
    (
        "copy",
        "COPY (SELECT * FROM t) TO 'copy' STORED AS TILEDB PARTITIONED BY (x)",
    ),
    ("consolidate", "SELECT * FROM tiledb_consolidate('array')"),
    ("vacuum", "SELECT * FROM tiledb_vacuum('array')"),
];

trials!([trial("killed", || block_on(killed())).with_ignored_flag(PROGRAM.is_none())]);
/// `tiledb-sql` is killed at a random moment: the array holds what it held before or what the statement makes of it.
async fn killed() -> Result<(), Failed> {
    let times = std::env::var("RIVALS_KILLED")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(10);
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let ctx = session()?;
    run(&ctx, &Kind::Sparse.create(&array)).await?;
    for first in [0, 1000, 500] {
        let insert = format!(
            "INSERT INTO t SELECT i, 0 AS w, 0 AS s, i AS v FROM unnest(range({first}, {})) AS u(i)",
            first + 1000
        );
        run(&ctx, &insert).await?;
    }
    let many = Files::of(&array);
    run(
        &ctx,
        &format!("SELECT * FROM tiledb_consolidate('{}')", array.display()),
    )
    .await?;
    let replaced = Files::of(&array);
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_nanos() as u64;
    let mut rng = Rng::new(seed, 0);
    let mut counts = BTreeMap::<(&str, &str), usize>::new();
    let mut expected = BTreeMap::new();
    for number in 0..times {
        let (name, statement) = KILLED[number % KILLED.len()];
        let before = if name == "vacuum" { &replaced } else { &many };
        if !expected.contains_key(name) {
            let place = tempfile::tempdir()?;
            before.write(&place.path().join("array"));
            let held = held(place.path()).await?;
            let begun = Instant::now();
            let ended = start(place.path(), "SELECT 1")?.wait()?;
            let opened = begun.elapsed();
            let begun = Instant::now();
            let ended = (
                ended.success(),
                start(place.path(), statement)?.wait()?.success(),
            );
            if ended != (true, true) {
                return Err(format!("{statement} fails").into());
            }
            let after = self::held(place.path()).await?;
            expected.insert(name, (held, after, opened, begun.elapsed()));
        }
        let (was, after, opened, whole) = &expected[name];
        let place = tempfile::tempdir()?;
        before.write(&place.path().join("array"));
        let mut child = start(place.path(), statement)?;
        let from = opened.as_micros() as usize * 7 / 10;
        let until = whole.as_micros() as usize * 11 / 10;
        let wait = rng.between(from, until.max(from));
        tokio::time::sleep(Duration::from_micros(wait as u64)).await;
        child.kill()?;
        let ended = child.wait()?.success();
        let found = held(place.path()).await?;
        let state =
            match (ended, found == *was, found == *after) {
                (_, true, true) => "as before and after",
                (_, false, true) => "as after",
                (false, true, false) => "as before",
                _ => return Err(format!(
                    "{name}, seed {seed}, killed after {wait} us, success {ended}, left {found:?}"
                )
                .into()),
            };
        tidied(place.path(), &found).await.map_err(|error| {
            format!(
                "{name}, seed {seed}, killed after {wait} us: {}",
                error.message().unwrap_or_default()
            )
        })?;
        *counts.entry((name, state)).or_default() += 1;
    }
    println!("{counts:?}");
    Ok(())
}

fn start(place: &Path, statement: &str) -> Result<std::process::Child, Failed> {
    let program = PROGRAM.ok_or("the shell was not built")?;
    let open = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'array'";
    let child = Command::new(program)
        .args(["-q", "-c", open, "-c", statement])
        .current_dir(place)
        .env("HOME", place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Ok(child?)
}

/// The number and sums of the rows of the array, and of its copy if there is one.
async fn held(place: &Path) -> Result<Vec<String>, Failed> {
    let ctx = session()?;
    let mut held = Vec::new();
    for name in ["array", "copy"] {
        let array = place.join(name);
        let query = format!(
            "SELECT count(*), count(DISTINCT x), sum(x), sum(x * v), sum(v * w), sum(s) FROM '{}'",
            array.display()
        );
        match ctx.sql(&query).await {
            Ok(found) => held.extend(neutral_rows::rows(&found.collect().await?)),
            Err(error) if name == "copy" => {
                let text = error.to_string();
                if !text.contains("not found") && !text.contains("not a TileDB array") {
                    return Err(error.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(held)
}

/// What a killed statement left is listed and removed, and nothing else is wrong.
async fn tidied(place: &Path, expected: &[String]) -> Result<(), Failed> {
    let ctx = session()?;
    let array = place.join("array");
    nothing_wrong(&ctx, &array, false).await?;
    // A consolidation that was committed is completed by the next vacuum.
    for mode in ["leftovers", "fragments", "commits", "leftovers"] {
        let vacuum = format!(
            "SELECT * FROM tiledb_vacuum('{}', mode => '{mode}', min_age => '0')",
            array.display()
        );
        run(&ctx, &vacuum).await?;
    }
    nothing_wrong(&ctx, &array, true).await?;
    let found = held(place).await?;
    match found == expected {
        true => Ok(()),
        false => Err(format!("{expected:?} became {found:?}").into()),
    }
}
