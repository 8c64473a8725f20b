//! Memory, cancellation and execution: what a scan takes from the pool it gives back, whatever ends it.

mod consolidation;

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{Location, MetadataEdit, TileDbTable};
use futures::StreamExt;
use libtest_mimic::Failed;
use tiledb_engine::Engine;
use tiledb_engine::storage::MetadataCache;

use crate::support::array_files::{Files, contents, plain_tile};
use crate::support::golden;

const ARRAYS: [&str; 6] = [
    "weather_stations",
    "dense_overlapping",
    "dense_nullable_var",
    "elevation",
    "rtree_three_levels",
    "sparse_consolidated_strings",
];

fn session(pool: &Arc<dyn MemoryPool>, partitions: usize) -> Result<SessionContext, Failed> {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(pool))
        .build_arc()?;
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(100);
    Ok(SessionContext::new_with_config_rt(config, runtime))
}

async fn register(ctx: &SessionContext, array: &str) -> Result<(), Failed> {
    register_as(ctx, "t", array).await
}

async fn register_as(ctx: &SessionContext, name: &str, array: &str) -> Result<(), Failed> {
    let path = golden::folder().join(array).display().to_string();
    ctx.register_table(name, Arc::new(TileDbTable::open(path).await?))?;
    Ok(())
}

/// Many copies of the first fragment of `weather_stations`, in an array that allows duplicates: several scan units.
async fn large(copies: usize) -> Result<TileDbTable, Failed> {
    let mut files = Files::golden("weather_stations");
    files.0.retain(|path, _| !path.contains("/__2000_2000_"));
    let schema = files.find("__schema/__1000");
    files.edit(&schema, |tile| {
        let mut schema = contents(tile);
        // The flag behind the version: duplicates are allowed.
        schema[4] = 1;
        *tile = plain_tile(&schema);
    });
    let fragment = files.find(".wrt");
    let name = fragment
        .trim_start_matches("__commits/")
        .trim_end_matches(".wrt");
    for (path, bytes) in files.0.clone() {
        if path.contains(name) {
            for copy in 0..copies {
                let path = path.replace(name, &format!("__1000_1000_{copy:032x}_22"));
                files.0.insert(path, bytes.clone());
            }
            files.0.remove(&path);
        }
    }
    let table =
        TileDbTable::builder(files.in_memory().await).cache(Arc::new(MetadataCache::new(16 << 20)));
    Ok(table.open().await?)
}

/// Decoding that is under way when a stream ends finishes on its own. Buffers that wait for the next query, of whatever
/// session, are given back first.
async fn expect_empty(pool: &Arc<dyn MemoryPool>, what: &str) -> Result<(), Failed> {
    for _ in 0..200 {
        Engine::shared().release_idle();
        if pool.reserved() == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("{what}: {} bytes are still reserved", pool.reserved()).into())
}

/// The rows of a query, one batch at a time: the numbers of its first column, in the order in which they come.
async fn numbers(ctx: &SessionContext, sql: &str) -> Result<Vec<i64>, Failed> {
    let mut batches = ctx.sql(sql).await?.execute_stream().await?;
    let mut numbers = Vec::new();
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let column = cast(batch.column(0), &DataType::Int64)?;
        numbers.extend(column.as_primitive::<Int64Type>().values());
    }
    Ok(numbers)
}

trial!(metadata_of_many_times_their_file);
/// A file of 250 KB holds 24 MB of metadata. A pool of 16 MB does not hold them, one of 256 MB does.
async fn metadata_of_many_times_their_file() -> Result<(), Failed> {
    const BYTES: usize = 24 << 20;
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("array").display().to_string();
    let create = format!(
        "CREATE EXTERNAL TABLE t (x INT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{path}'"
    );
    let metadata = format!("SELECT count FROM tiledb_metadata('{path}')");
    for (pool, fits) in [(16 << 20, false), (256 << 20, true)] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(pool));
        let ctx = session(&pool, 2)?;
        datafusion_tiledb::register(&ctx)?;
        if !fits {
            ctx.sql(&create).await?.collect().await?;
            let edit = MetadataEdit::new().set("much", "a".repeat(BYTES))?;
            edit.apply(Location::local(&path)?).await?;
            let mut files = std::fs::read_dir(format!("{path}/__meta"))?;
            let file = files.next().ok_or("no metadata")??.metadata()?;
            assert!(file.len() < BYTES as u64 / 80, "{} bytes", file.len());
        }
        match numbers(&ctx, &metadata).await {
            Ok(found) => assert_eq!((found, fits), (vec![BYTES as i64], true)),
            Err(error) => {
                let text = format!("{error:?}");
                let told = text.contains("memory limit does not leave") && text.contains("__meta/");
                assert!(told && !fits, "{text}");
            }
        }
        expect_empty(&pool, "metadata").await?;
    }
    Ok(())
}

trial!(wide_values_that_no_fragment_has);
/// An attribute of 4,000 bytes is added to arrays of 30,000 cells. A pool of 16 MB holds no tile of it, not even in part of a
/// tile's columns; it is read a few cells at a time, in the same order.
async fn wide_values_that_no_fragment_has() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let rows = "SELECT value AS k, value * 3 AS a FROM range(0, 30000)";
    for (kind, options) in [
        ("sparse", "'tiledb.capacity' '10000'"),
        (
            "dense",
            "'tiledb.array_type' 'dense', 'tiledb.dim.k.domain' '[0, 39999]', 'tiledb.dim.k.tile' '10000'",
        ),
    ] {
        let place = scratch.path().join(kind).display().to_string();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(16 << 20));
        let ctx = session(&pool, 2)?;
        datafusion_tiledb::register(&ctx)?;
        let create = format!(
            "CREATE EXTERNAL TABLE t (k BIGINT NOT NULL, a BIGINT, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '{place}' OPTIONS ({options})"
        );
        ctx.sql(&create).await?.collect().await?;
        let insert = format!("INSERT INTO t {rows}");
        ctx.sql(&insert).await?.collect().await?;
        let add = "ALTER TABLE t ADD COLUMN v REAL[1000]";
        datafusion_tiledb::execute(&ctx, add).await?;
        let expected = (0..30_000).collect::<Vec<_>>();
        for (sql, expected) in [
            ("SELECT k, v FROM t", expected.as_slice()),
            (
                "SELECT k, v FROM t WHERE v[7] IS NULL OR v[7] > 1",
                expected.as_slice(),
            ),
            (
                "SELECT k, v FROM t WHERE a BETWEEN 60000 AND 75000",
                &expected[20_000..=25_000],
            ),
        ] {
            let mut found = numbers(&ctx, sql)
                .await
                .map_err(|e| format!("{kind}: {sql}: {e:?}"))?;
            found.sort_unstable();
            if found != expected {
                return Err(format!("{kind}: {sql}: {} rows", found.len()).into());
            }
            expect_empty(&pool, sql).await?;
        }
        // On one partition the rows come in the order of the cells.
        let ctx = session(&pool, 1)?;
        datafusion_tiledb::register(&ctx)?;
        let sql = format!("SELECT k, v FROM '{place}'");
        assert!(numbers(&ctx, &sql).await?.is_sorted(), "{kind}");
    }
    Ok(())
}

trial!(large_tiles_of_which_little_is_read);
/// A dense tile has sixteen million cells, of which two writes made fifteen, and a query reads those: which write supplies which
/// cell takes no memory for the others. What the pool does not hold is the tile itself, if it is read at all.
async fn large_tiles_of_which_little_is_read() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let place = scratch.path().join("t").display().to_string();
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4 << 20));
    let writes = session(&(Arc::new(GreedyMemoryPool::new(1 << 30)) as _), 2)?;
    datafusion_tiledb::register(&writes)?;
    let create = format!(
        "CREATE EXTERNAL TABLE t (k BIGINT NOT NULL, a TINYINT, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '{place}' OPTIONS ( \
         'tiledb.array_type' 'dense', 'tiledb.dim.k.domain' '[0, 16777215]', 'tiledb.dim.k.tile' '16777216')"
    );
    writes.sql(&create).await?.collect().await?;
    for (first, last) in [(1000, 1010), (1005, 1015)] {
        let insert = format!("INSERT INTO t SELECT value, value % 100 FROM range({first}, {last})");
        writes.sql(&insert).await?.collect().await?;
    }
    let ctx = session(&pool, 2)?;
    datafusion_tiledb::register(&ctx)?;
    let keys = numbers(&ctx, &format!("SELECT k FROM '{place}'")).await?;
    assert_eq!(keys, (1000..1015).collect::<Vec<_>>());
    Ok(())
}

trial!(dense_rows_on_disk);
/// Rows of a dense array come in no order, and the pool holds a part of them: the others wait on disk, several times. The array
/// has them all in the end, and two rows of one cell are refused even where the one waits on disk when the other comes.
async fn dense_rows_on_disk() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let place = scratch.path().join("t").display().to_string();
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(3 << 20));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(&pool))
        .build_arc()?;
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    datafusion_tiledb::register(&ctx)?;
    let create = format!(
        "CREATE EXTERNAL TABLE t (y INT NOT NULL, x INT NOT NULL, a BIGINT, s VARCHAR NOT NULL, PRIMARY KEY (y, x)) STORED AS TILEDB \
         LOCATION '{place}' OPTIONS ('tiledb.array_type' 'dense', 'tiledb.cell_order' 'col-major', 'tiledb.tile_order' 'col-major', \
         'tiledb.dim.y.domain' '[-150, 149]', 'tiledb.dim.y.tile' '40', 'tiledb.dim.x.domain' '[7, 506]', 'tiledb.dim.x.tile' '70')"
    );
    ctx.sql(&create).await?.collect().await?;
    // 7919 has no common factor with the 150,000 cells, so each comes once.
    let rows = "SELECT c / 500 - 150 AS y, c % 500 + 7 AS x, CASE WHEN c % 11 > 0 THEN c END AS a, \
                repeat('x', CAST(c % 9 AS INT)) || CAST(c AS VARCHAR) AS s \
                FROM (SELECT value * 7919 % 150000 AS c FROM range(0, 150000))";
    let twice = format!("INSERT INTO t {rows} UNION ALL SELECT -150, 7, 1, 'twice'");
    let refused = ctx
        .sql(&twice)
        .await?
        .collect()
        .await
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    if !refused.contains("two rows have the coordinates (y = -150, x = 7)") {
        return Err(format!("a cell twice: {refused}").into());
    }
    let plan = ctx
        .sql(&format!("INSERT INTO t {rows}"))
        .await?
        .create_physical_plan()
        .await?;
    collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    let spills = plan.metrics().and_then(|metrics| metrics.spill_count());
    if spills.is_none_or(|spills| spills < 2) {
        return Err(format!("{spills:?} times on disk, expected several").into());
    }
    let plain = SessionContext::new();
    let table = TileDbTable::open(place).await?;
    plain.register_table("t", Arc::new(table))?;
    let wrong = format!(
        "(SELECT y, x, a, s FROM t EXCEPT {rows}) UNION ALL ({rows} EXCEPT SELECT y, x, a, s FROM t)"
    );
    let wrong = plain.sql(&wrong).await?.count().await?;
    let count = plain.sql("SELECT * FROM t").await?.count().await?;
    if (count, wrong) != (150_000, 0) {
        return Err(format!("{count} rows, {wrong} of them wrong").into());
    }
    expect_empty(&pool, "after the insert").await
}

trial!(limits);
/// Under any limit a scan gives all rows or says that the memory does not suffice.
async fn limits() -> Result<(), Failed> {
    for array in ARRAYS {
        let expected = {
            let ctx = SessionContext::new();
            register(&ctx, array).await?;
            ctx.table("t").await?.count().await?
        };
        let (mut worked, mut refused) = (0, 0);
        for bits in [0, 4, 10, 12, 14, 16, 18, 20, 24, 28] {
            let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new((1 << bits) - 1));
            let ctx = session(&pool, 2)?;
            register(&ctx, array).await?;
            let what = format!("{array} in 2^{bits} bytes");
            match ctx.sql("SELECT * FROM t").await?.collect().await {
                Ok(batches) => {
                    let rows: usize = batches.iter().map(|b| b.num_rows()).sum();
                    if rows != expected {
                        return Err(format!("{what}: {rows} rows instead of {expected}").into());
                    }
                    worked += 1;
                }
                Err(e) => {
                    let text = e.to_string();
                    if !matches!(e.find_root(), DataFusionError::ResourcesExhausted(_))
                        || !text.contains("memory limit")
                        || !text.contains(array)
                    {
                        return Err(format!("{what}: {text}").into());
                    }
                    refused += 1;
                }
            }
            expect_empty(&pool, &what).await?;
        }
        if worked == 0 || refused == 0 {
            return Err(format!("{array}: {worked} limits sufficed, {refused} did not").into());
        }
    }
    Ok(())
}

trial!(dropped_halfway);
/// A stream that is dropped before its end, or before its beginning, gives everything back.
async fn dropped_halfway() -> Result<(), Failed> {
    let table = Arc::new(large(200).await?);
    for batches in [0, 1, 3, 700] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
        let ctx = session(&pool, 2)?;
        ctx.register_table("t", Arc::clone(&table) as _)?;
        let mut stream = ctx.table("t").await?.execute_stream().await?;
        for _ in 0..batches {
            let batch = stream.next().await.ok_or("the stream is short")??;
            assert!(batch.num_rows() > 0);
        }
        if batches == 1 && pool.reserved() == 0 {
            return Err("a running scan has reserved nothing".into());
        }
        drop(stream);
        expect_empty(&pool, &format!("dropped after {batches} batches")).await?;
    }
    Ok(())
}

async fn rows_of(
    plan: &Arc<dyn ExecutionPlan>,
    ctx: &SessionContext,
) -> Result<Vec<usize>, Failed> {
    let mut rows = Vec::new();
    for partition in 0..plan.output_partitioning().partition_count() {
        let mut stream = plan.execute(partition, ctx.task_ctx())?;
        let mut count = 0;
        while let Some(batch) = stream.next().await {
            count += batch?.num_rows();
        }
        rows.push(count);
    }
    Ok(rows)
}

trial!(idle);
/// What waits for the next query takes a small part of the pool.
async fn idle() -> Result<(), Failed> {
    let table = Arc::new(large(200).await?);
    for limit in [16 << 20, 64 << 20] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limit));
        let ctx = session(&pool, 2)?;
        ctx.register_table("t", Arc::clone(&table) as _)?;
        register_as(&ctx, "e", "elevation").await?;
        for sql in ["SELECT * FROM t", "SELECT * FROM e"] {
            assert!(ctx.sql(sql).await?.count().await? > 0);
            let mut left = pool.reserved();
            // Decoding that is under way finishes on its own.
            for _ in 0..200 {
                if left <= limit / 16 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
                left = pool.reserved();
            }
            if left > limit / 16 {
                return Err(format!("{sql} leaves {left} bytes of {limit}").into());
            }
        }
    }
    Ok(())
}

trial!(executed_again);
/// One plan, executed twice as a whole and partition by partition, gives the same rows.
async fn executed_again() -> Result<(), Failed> {
    for array in ARRAYS.into_iter().chain(["large"]) {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
        let ctx = session(&pool, 3)?;
        match array {
            "large" => {
                ctx.register_table("t", Arc::new(large(200).await?))?;
            }
            _ => register(&ctx, array).await?,
        }
        let plan = ctx
            .sql("SELECT * FROM t")
            .await?
            .create_physical_plan()
            .await?;
        let total = |batches: Vec<datafusion::arrow::array::RecordBatch>| {
            batches.iter().map(|b| b.num_rows()).sum::<usize>()
        };
        let first = total(collect(Arc::clone(&plan), ctx.task_ctx()).await?);
        let second = total(collect(Arc::clone(&plan), ctx.task_ctx()).await?);
        let apart = rows_of(&plan, &ctx).await?;
        let again: Vec<usize> = rows_of(&plan, &ctx).await?;
        if first != second
            || first != apart.iter().sum::<usize>()
            || first != again.iter().sum::<usize>()
        {
            return Err(format!("{array}: {first}, {second}, {apart:?}, {again:?} rows").into());
        }
        if array == "large" && apart.len() < 2 {
            return Err(format!("one partition of {first} rows").into());
        }
        expect_empty(&pool, array).await?;
    }
    Ok(())
}

fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan
        .metrics()
        .and_then(|m| m.sum_by_name(name))
        .map_or(0, |v| v.as_usize());
    own + plan
        .children()
        .iter()
        .map(|child| metric(child, name))
        .sum::<usize>()
}

trial!(limit_stops_early);
/// LIMIT decodes the first tiles only, and a scan without one decodes all of them.
async fn limit_stops_early() -> Result<(), Failed> {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    ctx.register_table("t", Arc::new(large(400).await?))?;
    let mut decoded = Vec::new();
    for (sql, rows) in [
        ("SELECT * FROM t LIMIT 5", 5),
        ("SELECT * FROM t", usize::MAX),
    ] {
        let plan = ctx.sql(sql).await?.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await?;
        let found: usize = batches.iter().map(|b| b.num_rows()).sum();
        if rows != usize::MAX && found != rows {
            return Err(format!("{sql}: {found} rows").into());
        }
        decoded.push(metric(&plan, "tiles_decoded"));
    }
    if decoded[0] == 0 || decoded[0] * 2 > decoded[1] {
        return Err(format!(
            "{} of {} tiles were decoded for 5 rows",
            decoded[0], decoded[1]
        )
        .into());
    }
    Ok(())
}
