//! Sessions with engines of their own: each caches, decodes and leaves idle within its own limits, and frees what it holds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{Engine, EngineOptions, TileDbSessionExt, TileDbTable};
use libtest_mimic::Failed;

/// Rows whose columns have files of more than 64 KiB.
const ROWS: usize = 60_000;

fn session(options: EngineOptions) -> Result<(SessionContext, Engine), Failed> {
    let engine = Engine::new(options);
    let config = SessionConfig::new()
        .with_target_partitions(2)
        .with_extension(Arc::new(engine.clone()));
    let ctx = SessionContext::new_with_config(config);
    datafusion_tiledb::register(&ctx)?;
    Ok((ctx, engine))
}

/// Statements of each kind that open an array; `$` stands for the folder.
const STATEMENTS: [&str; 12] = [
    "CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, a DOUBLE, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$/t'",
    "INSERT INTO t SELECT value, random() FROM range(0, 30000)",
    "INSERT INTO t SELECT value, random() FROM range(30000, 60000)",
    "SELECT sum(a) FROM t",
    "SELECT sum(a) FROM '$/t'",
    "UPDATE t SET a = 1 WHERE x = 7",
    "SELECT * FROM tiledb_fragments('$/t')",
    "SELECT * FROM tiledb_consolidate('$/t', 'verify', 'true')",
    "SELECT * FROM tiledb_vacuum('$/t', min_age => '0')",
    "COPY (SELECT x, a FROM t) TO '$/copy' STORED AS TILEDB PARTITIONED BY (x)",
    "SELECT sum(a) FROM '$/copy'",
    "SELECT * FROM tiledb_check('$/t')",
];

async fn run(ctx: &SessionContext, folder: &Path, sql: &str) -> Result<(), Failed> {
    let sql = sql.replace('$', &folder.display().to_string());
    let planned = ctx.sql(&sql).await.map_err(|e| format!("{sql}: {e}"))?;
    planned.collect().await.map_err(|e| format!("{sql}: {e}"))?;
    Ok(())
}

trial!(sessions_side_by_side);
/// One session caches and leaves buffers idle, and the other one does neither. Whatever one of them does shows nowhere in the
/// other.
async fn sessions_side_by_side() -> Result<(), Failed> {
    let (large, of_large) = session(EngineOptions::default())?;
    let none = EngineOptions::default()
        .with_metadata_bytes(0)
        .with_idle_bytes(0)
        .with_decode_threads(1);
    let (small, of_small) = session(none)?;
    let folders = [tempfile::tempdir()?, tempfile::tempdir()?];
    let mut seen = [of_large.cache().stats(), of_small.cache().stats()];
    for sql in STATEMENTS {
        run(&large, folders[0].path(), sql).await?;
        assert_eq!(of_small.cache().stats(), seen[1], "{sql}");
        seen[0] = of_large.cache().stats();
        run(&small, folders[1].path(), sql).await?;
        assert_eq!(of_large.cache().stats(), seen[0], "{sql}");
        let stats = of_small.cache().stats();
        assert_eq!((stats.entries, of_small.idle_bytes()), (0, 0), "{sql}");
        seen[1] = stats;
    }
    assert!(seen[0].entries > 0 && seen[0].hits > 0, "{:?}", seen[0]);
    assert!(seen[1].misses > seen[0].misses, "{seen:?}");
    expect(|| of_large.idle_bytes() > 0).await?;
    of_small.release_idle();
    assert!(of_large.idle_bytes() > 0);

    let weak = of_large.downgrade();
    drop((large, of_large));
    expect(|| weak.upgrade().is_none()).await?;
    run(&small, folders[1].path(), "SELECT sum(a) FROM t").await
}

trial!(a_table_keeps_its_engine);
/// A table belongs to the engine that it was opened in, whatever session scans it.
async fn a_table_keeps_its_engine() -> Result<(), Failed> {
    let (ctx, engine) = session(EngineOptions::default())?;
    let folder = tempfile::tempdir()?;
    for sql in &STATEMENTS[..3] {
        run(&ctx, folder.path(), sql).await?;
    }
    let path = folder.path().join("t").display().to_string();
    ctx.register_tiledb("opened", &path).await?;
    let chosen = Engine::new(EngineOptions::default());
    let table = TileDbTable::builder(&path)
        .session(&ctx)
        .engine(&chosen)
        .open()
        .await?;
    ctx.register_table("chosen", Arc::new(table))?;
    for (name, of_table, of_other) in [("opened", &engine, &chosen), ("chosen", &chosen, &engine)] {
        let before = (of_table.cache().stats(), of_other.cache().stats());
        let scan = format!("SELECT count(DISTINCT a) FROM {name}");
        run(&ctx, folder.path(), &scan).await?;
        assert_ne!(of_table.cache().stats(), before.0, "{name}");
        assert_eq!(of_other.cache().stats(), before.1, "{name}");
    }
    let rows = ctx.table("chosen").await?.count().await?;
    assert_eq!(rows, ROWS);
    Ok(())
}

/// Waits for what decoding that is under way still changes when its query has ended.
async fn expect(holds: impl Fn() -> bool) -> Result<(), Failed> {
    for _ in 0..500 {
        if holds() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err("it didn't come true in five seconds".into())
}
