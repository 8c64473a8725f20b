//! Two statements that meet on one array: which of them counts, and which is done again.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::collect;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;
use object_store::memory::InMemory;

use super::{Kind, nothing_wrong, open, rows, run, session};
use crate::support::array_files::METADATA_FILE;
use crate::support::faulty_store::{self, Faulty, Meeting, copy_of, execute};

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

/// Whether a conflict names what another writer committed, and what this statement depends on.
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
    let commit = listed()?
        .difference(&before)
        .next()
        .cloned()
        .ok_or("the insert was not committed")?;
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
    if changed == ["25", "26", "30"] {
        Ok(())
    } else {
        Err(format!("{changed:?}").into())
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
    let error = collect(planned, ctx.task_ctx())
        .await
        .err()
        .ok_or("the move has missed a row")?
        .to_string();
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
    let ctx = faulty_store::session(&quiet(&before))?;
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
                let ctx = faulty_store::session(&others).unwrap();
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
        let ctx = faulty_store::session(&store)?;
        execute(&ctx, OPEN).await?;
        execute(&ctx, insert).await?;
        let requests = store.requests.count.load(Ordering::SeqCst);
        let ctx = faulty_store::session(&quiet(&inner))?;
        execute(&ctx, OPEN).await?;
        let found = rows(&ctx, WRITTEN).await?;
        if found == ["1"] || seen.load(Ordering::SeqCst) {
            Ok::<usize, Failed>(requests)
        } else {
            let there = rows(&ctx, "SELECT length(s) FROM t WHERE k = 5").await?;
            Err(format!("{beside:?} before request {n} hide the row of {insert}: {there:?}").into())
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
