//! Writers of a local folder that do not end well, and several at once: nothing is lost, and nothing stays that nobody needs.

mod commit_times;

use std::fs;
use std::path::Path;
use std::time::Duration;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::register;
use libtest_mimic::Failed;

const SPARSE: &str = "(x BIGINT NOT NULL, s VARCHAR, PRIMARY KEY (x))";

const CAPACITY: &str = "'tiledb.capacity' '100'";

trial!(eight_at_once);
async fn eight_at_once() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let ctx = session()?;
    create(&ctx, &array).await?;
    let writers = (0..8).map(|writer| {
        let array = array.clone();
        tokio::spawn(async move {
            let ctx = session().map_err(|e| format!("{e:?}"))?;
            open(&ctx, &array).await.map_err(|e| format!("{e:?}"))?;
            for round in 0..5 {
                let first = (writer * 5 + round) * 1000;
                let insert = format!("INSERT INTO t SELECT {first} + i, 'w{writer}' FROM unnest(range(0, 1000)) AS u(i)");
                run(&ctx, &insert).await.map_err(|e| format!("{e:?}"))?;
            }
            Ok::<_, String>(())
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await??;
    }
    expect(&ctx, "SELECT count(*) FROM t", 40_000).await?;
    expect(&ctx, "SELECT count(DISTINCT x) FROM t", 40_000).await?;
    expect(
        &ctx,
        "SELECT count(*) FROM t WHERE s <> concat('w', x / 5000)",
        0,
    )
    .await?;
    let findings = format!("SELECT count(*) FROM tiledb_check('{}')", array.display());
    expect(&ctx, &findings, 0).await
}

trial!(staged_files_of_a_crash_hinder_nobody);
/// A process died while it staged its files: their names are nobody else's.
async fn staged_files_of_a_crash_hinder_nobody() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let ctx = session()?;
    create(&ctx, &array).await?;
    for name in [
        "__fragment_metadata.tdb.staged",
        "__fragments.__1_1_x_22.__fragment_metadata.tdb.staged",
    ] {
        fs::write(array.join(name), b"half")?;
    }
    run(&ctx, "INSERT INTO t VALUES (1, 'a')").await?;
    expect(&ctx, "SELECT count(*) FROM t", 1).await?;
    let findings = format!(
        "SELECT count(*) FROM tiledb_check('{}') WHERE rule = 'staging-file'",
        array.display()
    );
    expect(&ctx, &findings, 2).await
}

trial!(failed_statements_leave_no_files);
async fn failed_statements_leave_no_files() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let ctx = session()?;
    create(&ctx, &array).await?;
    let twice = "INSERT INTO t SELECT i, 'a' FROM unnest(range(0, 5000)) AS u(i) UNION ALL VALUES (4999, 'b')";
    for (statement, why) in [
        (twice, "no duplicates"),
        (
            "INSERT INTO t SELECT i, CAST(1 / (i - 4000) AS VARCHAR) FROM unnest(range(0, 5000)) AS u(i)",
            "Divide by zero",
        ),
    ] {
        match run(&ctx, statement).await {
            Ok(()) => return Err(format!("{statement} succeeds").into()),
            Err(error) if error.message().is_some_and(|text| text.contains(why)) => {}
            Err(error) => return Err(format!("{statement}: {error:?}").into()),
        }
        no_fragments(&array)?;
    }
    Ok(())
}

trial!(dropped_statements_leave_no_files);
/// The rows never end, so the statement is in the middle of writing when it is dropped.
async fn dropped_statements_leave_no_files() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let ctx = session()?;
    create(&ctx, &array).await?;
    // Sorted already, so that tiles are written while rows come.
    let insert =
        "INSERT INTO t SELECT value, repeat('long', 2000) FROM generate_series(0, 1000000000)";
    let ended = tokio::time::timeout(Duration::from_millis(1500), run(&ctx, insert)).await;
    if ended.is_ok() {
        return Err(format!("the statement ended: {ended:?}").into());
    }
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if no_fragments(&array).is_ok() {
            return expect(&ctx, "SELECT count(*) FROM t", 0).await;
        }
    }
    no_fragments(&array)
}

fn no_fragments(array: &Path) -> Result<(), Failed> {
    for folder in ["__fragments", "__commits"] {
        let left = fs::read_dir(array.join(folder))?.collect::<Result<Vec<_>, _>>()?;
        if !left.is_empty() {
            return Err(format!("{folder} has {left:?}").into());
        }
    }
    let staged = fs::read_dir(array)?.filter_map(Result::ok);
    match staged
        .map(|file| file.file_name())
        .find(|name| name.to_string_lossy().ends_with(".staged"))
    {
        Some(name) => Err(format!("{} stays", name.display()).into()),
        None => Ok(()),
    }
}

fn session() -> Result<SessionContext, Failed> {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    register(&ctx)?;
    Ok(ctx)
}

async fn create(ctx: &SessionContext, array: &Path) -> Result<(), Failed> {
    let location = array.display();
    run(ctx, &format!("CREATE EXTERNAL TABLE t {SPARSE} STORED AS TILEDB LOCATION '{location}' OPTIONS ({CAPACITY})")).await
}

async fn open(ctx: &SessionContext, array: &Path) -> Result<(), Failed> {
    run(
        ctx,
        &format!(
            "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{}'",
            array.display()
        ),
    )
    .await
}

async fn run(ctx: &SessionContext, statement: &str) -> Result<(), Failed> {
    ctx.sql(statement).await?.collect().await?;
    Ok(())
}

async fn expect(ctx: &SessionContext, query: &str, expected: i64) -> Result<(), Failed> {
    let batches = ctx.sql(query).await?.collect().await?;
    let found = batches
        .iter()
        .map(|batch| batch.column(0).as_primitive::<Int64Type>().value(0))
        .sum::<i64>();
    if found == expected {
        Ok(())
    } else {
        Err(format!("{query} gives {found}, not {expected}").into())
    }
}
