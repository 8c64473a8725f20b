//! Dimension labels from the outside: what is asked of the storage, and what sessions and changes do.
//!
//! Answers are in `dimension_labels.slt`.

mod label_arrays;

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use tiledb_engine::Engine;
use tiledb_engine::storage::{MetadataCache, RequestKind, RequestLog};

use crate::support::array_files::Files;
use crate::support::golden;

/// A session with the array as table `t`.
async fn session(files: &Files, log: &Arc<RequestLog>) -> Result<SessionContext, String> {
    let table = TileDbTable::builder(files.in_memory().await)
        .request_log(Arc::clone(log))
        .cache(Arc::new(MetadataCache::new(16 << 20)))
        .open()
        .await
        .map_err(|e| e.to_string())?;
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = SessionContext::new_with_config(config);
    ctx.register_table("t", Arc::new(table))
        .map_err(|e| e.to_string())?;
    Ok(ctx)
}

/// The rows of an answer: cells by blanks.
async fn rows(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let frame = ctx.sql(sql).await.map_err(|e| e.to_string())?;
    let batches = frame.collect().await.map_err(|e| e.to_string())?;
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|c| {
                let text = array_value_to_string(c, row).expect("displayable");
                if c.is_null(row) {
                    "NULL".to_owned()
                } else {
                    text
                }
            });
            rows.push(cells.collect::<Vec<_>>().join(" "));
        }
    }
    Ok(rows)
}

async fn answer(files: &Files, sql: &str) -> Result<Vec<String>, String> {
    rows(&session(files, &Arc::default()).await?, sql).await
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Result<(), Failed> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: expected {wanted:?}, found {found:?}").into())
}

fn refused(what: &str, outcome: Result<Vec<String>, String>, words: &[&str]) -> Result<(), Failed> {
    match outcome {
        Ok(rows) => Err(format!("{what}: expected an error with {words:?}, found {rows:?}").into()),
        Err(e) if words.iter().all(|word| e.contains(word)) && !e.contains("internal error") => {
            Ok(())
        }
        Err(e) => Err(format!("{what}: expected an error with {words:?}, found {e}").into()),
    }
}

trial!(requests);
/// A query that names no label lists the array alone and reads none of its labels.
async fn requests() -> Result<(), Failed> {
    let log = Arc::new(RequestLog::new());
    let ctx = session(&Files::golden("dimension_labels"), &log).await?;
    let lists = || {
        let entries = log.entries();
        let lists = entries.iter().filter(|r| r.kind == RequestKind::List);
        (lists.count(), entries.len())
    };
    expect("opening", lists(), (4, 6))?;
    for (sql, arrays) in [
        ("SELECT d, a FROM t WHERE d > 3 AND a <> 5", 1),
        ("SELECT count(*) FROM t", 1),
        ("SELECT depth FROM t", 2),
        ("SELECT a FROM t WHERE rank < 3", 2),
        ("SELECT depth FROM t WHERE depth > 2", 2),
        ("SELECT rank FROM t WHERE depth > 2", 3),
        ("SELECT * FROM t", 3),
        ("SELECT a FROM t WHERE depth + a > 3", 2),
        ("EXPLAIN SELECT a FROM t", 1),
    ] {
        log.clear();
        rows(&ctx, sql).await?;
        expect(&format!("lists of {sql}"), lists().0, 4 * arrays)?;
    }
    // No row can match, so no label is looked at.
    log.clear();
    expect(
        "rows",
        rows(&ctx, "SELECT a FROM t WHERE d = 77 AND depth > 0")
            .await?
            .len(),
        0,
    )?;
    let read = log
        .entries()
        .iter()
        .filter(|r| r.file.ends_with("a0.tdb"))
        .count();
    expect("label tiles read", read, 0)
}

trial!(few_tiles);
/// Of forty tiles of labels, those are read that can hold what is asked.
async fn few_tiles() -> Result<(), Failed> {
    let log = Arc::new(RequestLog::new());
    let ctx = session(&Files::golden("labels_many_tiles"), &log).await?;
    // A tile of 50 labels of 8 bytes takes 420 bytes.
    let bytes = || {
        let entries = log.entries();
        let data = entries.iter().filter(|r| r.file.ends_with("a0.tdb"));
        data.map(|r| r.bytes_returned.unwrap_or(0)).sum::<u64>()
    };
    for (sql, count, most) in [
        ("SELECT depth FROM t WHERE d BETWEEN 510 AND 520", 11, 420),
        ("SELECT depth FROM t WHERE d IN (507, 520)", 2, 420),
    ] {
        log.clear();
        expect(sql, rows(&ctx, sql).await?.len(), count)?;
        if bytes() > most {
            return Err(format!("{sql}: {} bytes were read, expected {most}", bytes()).into());
        }
    }
    Ok(())
}

trial!(memory);
/// Labels take their memory from the pool and give it back; where there is none, the error says so.
async fn memory() -> Result<(), Failed> {
    for bytes in [0, 1000, 10_000, 100_000, 10_000_000] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool))
            .build_arc()?;
        let config = SessionConfig::new().with_target_partitions(3);
        let ctx = SessionContext::new_with_config_rt(config, runtime);
        let path = golden::folder().join("labels_many_tiles");
        let table = TileDbTable::open(path.display().to_string()).await?;
        ctx.register_table("t", Arc::new(table))?;
        for sql in [
            "SELECT depth, code FROM t",
            "SELECT d FROM t WHERE rank % 2 = 0",
        ] {
            match rows(&ctx, sql).await {
                Ok(_) if bytes < 10_000 => return Err(format!("{sql} in {bytes} bytes").into()),
                Err(e) if bytes > 1_000_000 || !e.contains("Resources exhausted") => {
                    return Err(format!("{sql} in {bytes} bytes: {e}").into());
                }
                _ => {}
            }
            Engine::shared().release_idle();
            expect("left in the pool", pool.reserved(), 0)?;
        }
    }
    Ok(())
}

trial!(every_session);
/// Projections in any order, under any number of partitions and any size of batches, see the same labels.
async fn every_session() -> Result<(), Failed> {
    let path = golden::folder().join("labels_sparse").display().to_string();
    let queries = [
        "SELECT phase, a, name, t, km, \"row\" FROM t ORDER BY a, phase, name",
        "SELECT name, km FROM t WHERE phase > 3000 ORDER BY name, km",
        "SELECT phase FROM t WHERE a < 35 AND km < 100 ORDER BY phase",
        "SELECT name FROM t ORDER BY name LIMIT 5 OFFSET 2",
        "SELECT count(*) FROM t WHERE name <> 'five' OR phase = 3000",
        "SELECT x.name, y.phase FROM t x JOIN t y ON x.name = y.name AND x.a < y.a ORDER BY 1, 2",
    ];
    let mut wanted: Vec<Vec<String>> = Vec::new();
    for (partitions, batch_size) in [(1, 8192), (1, 1), (4, 7), (16, 3)] {
        let config = SessionConfig::new()
            .with_target_partitions(partitions)
            .with_batch_size(batch_size);
        let ctx = SessionContext::new_with_config(config);
        ctx.register_table("t", Arc::new(TileDbTable::open(&path).await?))?;
        for (i, sql) in queries.iter().enumerate() {
            let found = rows(&ctx, sql).await?;
            match wanted.get(i) {
                None => wanted.push(found),
                Some(wanted) => expect(sql, &found, wanted)?,
            }
        }
    }
    Ok(())
}

trial!(changes);
/// Cells of labelled arrays change, fragments become one and columns come; labels stay, and libtiledb 2.30 reads the rows that
/// stand here. What would write a label is refused.
async fn changes() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("dense");
    dense_changes(&path).await?;
    sparse_changes(&folder.path().join("sparse")).await?;

    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    for (table, place) in [("t", ""), ("up", "/__labels/l0"), ("down", "/__labels/l1")] {
        let place = format!("{}{place}", path.display());
        let table = format!("CREATE EXTERNAL TABLE {table} STORED AS TILEDB LOCATION '{place}'");
        rows(&ctx, &table).await?;
    }
    for (statement, words) in [
        (
            "INSERT INTO t (d, a, rank) VALUES (3, 33, 4)",
            &["the column rank", "leave it out"][..],
        ),
        (
            "UPDATE t SET rank = 3 WHERE d = 4",
            &["rank is neither a dimension nor an attribute"],
        ),
        (
            "SELECT * FROM tiledb_evolve('t', drop => 'rank')",
            &["rank", "labels do not change"],
        ),
        (
            "SELECT * FROM tiledb_evolve('t', add => 'rank INT')",
            &["\"rank\""],
        ),
        (
            "INSERT INTO up VALUES (3, 5.0)",
            &["label holds dimension labels in increasing order"],
        ),
        (
            "UPDATE down SET label = 7",
            &["label holds dimension labels in decreasing order"],
        ),
    ] {
        refused(statement, rows(&ctx, statement).await, words)?;
    }
    Ok(())
}

async fn dense_changes(path: &Path) -> Result<(), Failed> {
    let dense = [
        "INSERT INTO t (d, a) VALUES (3, 33)",
        "UPDATE t SET a = 78 WHERE rank = 5",
        "UPDATE t SET a = rank WHERE d = 5",
        "REPLACE INTO t (d, a) VALUES (6, 66)",
        "SELECT * FROM tiledb_evolve('t', add => 'b INT')",
        "INSERT INTO t (d, a, b) VALUES (9, 90, 99)",
        "SELECT * FROM tiledb_consolidate('t', verify => true)",
        "SELECT * FROM tiledb_vacuum('t', min_age => '0')",
    ];
    let found = after("dimension_labels", path, &dense).await?;
    let wanted = [
        "1 0 NULL 0.0 10",
        "2 1 NULL 0.5 9",
        "3 33 NULL 1.0 8",
        "4 3 NULL 1.5 7",
        "5 6 NULL 2.0 6",
        "6 66 NULL 2.5 5",
        "7 6 NULL 3.0 4",
        "8 7 NULL 3.5 3",
        "9 90 99 4.0 2",
        "10 9 NULL 4.5 1",
    ];
    expect("the dense array", found, wanted.map(str::to_owned).to_vec())
}

async fn sparse_changes(path: &Path) -> Result<(), Failed> {
    let sparse = [
        "INSERT INTO t (x, y, a) VALUES (3, 4, 7), (1, 4, 8), (4, 1, 9)",
        "DELETE FROM t WHERE x = 2",
        "DELETE FROM t WHERE name < 'a' AND a = 7",
        "UPDATE t SET a = 80 WHERE y = 4",
        "SELECT * FROM tiledb_consolidate('t', verify => true)",
        "SELECT * FROM tiledb_vacuum('t', min_age => '0')",
    ];
    let found = after("dimension_labels_sparse", path, &sparse).await?;
    let wanted = ["1 3 5 \0", "1 4 80 \0", "4 1 9 \0"];
    expect(
        "the sparse array",
        found,
        wanted.map(str::to_owned).to_vec(),
    )
}

/// The rows of a copy of a golden array after statements about it as table `t`.
async fn after(golden: &str, path: &Path, statements: &[&str]) -> Result<Vec<String>, String> {
    Files::golden(golden).write(path);
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx).map_err(|e| e.to_string())?;
    let place = path.display();
    let table = format!("CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{place}'");
    for statement in statements {
        // A table keeps the columns that it was made with.
        rows(&ctx, "DROP TABLE IF EXISTS t").await?;
        rows(&ctx, &table).await?;
        let statement = statement.replace("('t'", &format!("('{place}'"));
        rows(&ctx, &statement)
            .await
            .map_err(|e| format!("{statement}: {e}"))?;
    }
    let found = rows(&ctx, &format!("SELECT * FROM tiledb_check('{place}')")).await?;
    if !found.is_empty() {
        return Err(format!("{golden}: {found:?}"));
    }
    rows(&ctx, &format!("SELECT * FROM '{place}' ORDER BY 1, 2")).await
}
