//! The next statement that names a column that another session has added finds it, although the table was opened before.

use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::execute;
use datafusion_tiledb::to_datafusion_error;
use libtest_mimic::Failed;

/// Statements that name the new column `c`, and fail while it is unknown.
const STATEMENTS: [&str; 8] = [
    "SELECT c FROM t",
    "SELECT t.c FROM t WHERE t.c > 0",
    "SELECT count(*) FROM t WHERE k IN (SELECT c FROM t)",
    "INSERT INTO t (k, c) VALUES (3, 3)",
    "UPDATE t SET c = 5",
    "DELETE FROM t WHERE c = 1",
    "MERGE INTO t USING (VALUES (7)) AS s(k) ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, c) VALUES (s.k, 1)",
    "SELECT k FROM t ORDER BY c",
];

/// An array, a session that has opened and read it, and a column `c` that another session has added since.
async fn overtaken(folder: &str) -> Result<SessionContext, DataFusionError> {
    let ctx = session()?;
    let create = format!(
        "CREATE EXTERNAL TABLE t (k INT NOT NULL, a INT, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '{folder}'"
    );
    ctx.sql(&create).await?;
    ctx.sql("INSERT INTO t VALUES (1, 1)")
        .await?
        .collect()
        .await?;
    ctx.sql("SELECT * FROM t").await?.collect().await?;
    let other = session()?;
    let evolve = format!("SELECT * FROM tiledb_evolve('{folder}', add => 'c INT DEFAULT 1')");
    other.sql(&evolve).await?.collect().await?;
    Ok(ctx)
}

fn session() -> Result<SessionContext, DataFusionError> {
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx).map_err(to_datafusion_error)?;
    Ok(ctx)
}

trial!(planned);
/// Through the door of the library, the first statement finds the column.
async fn planned() -> Result<(), Failed> {
    for sql in STATEMENTS {
        let folder = tempfile::tempdir()?;
        let ctx = overtaken(&folder.path().join("t").display().to_string()).await?;
        let run = run(&ctx, sql).await;
        assert!(run.is_ok(), "{sql}: {run:?}");
    }
    let folder = tempfile::tempdir()?;
    let ctx = overtaken(&folder.path().join("t").display().to_string()).await?;
    assert_eq!(run(&ctx, "DESCRIBE t").await?, 3);
    Ok(())
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<usize, DataFusionError> {
    let rows = execute(ctx, sql).await?.collect().await?;
    Ok(rows.iter().map(|batch| batch.num_rows()).sum())
}

trial!(of_a_session);
/// With `SessionContext::sql`, the library doesn't see the error, so the second statement finds the column.
async fn of_a_session() -> Result<(), Failed> {
    for sql in STATEMENTS {
        let folder = tempfile::tempdir()?;
        let ctx = overtaken(&folder.path().join("t").display().to_string()).await?;
        let first = async { ctx.sql(sql).await?.collect().await }.await;
        assert!(first.is_err(), "{sql}: {first:?}");
        let second = async { ctx.sql(sql).await?.collect().await }.await;
        assert!(second.is_ok(), "{sql}: {second:?}");
    }
    Ok(())
}

trial!(unknown);
/// A column that nobody has added stays unknown, and the table stays usable.
async fn unknown() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let ctx = overtaken(&folder.path().join("t").display().to_string()).await?;
    for _ in 0..3 {
        let error = run(&ctx, "SELECT nobody FROM t").await.unwrap_err();
        assert!(
            error.to_string().contains("No field named nobody"),
            "{error}"
        );
    }
    assert_eq!(run(&ctx, "SELECT a, c FROM t").await?, 1);
    Ok(())
}
