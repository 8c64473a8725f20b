//! Read-only sessions write nothing.

use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};

use crate::options::ReadOnly;
use crate::session::execute;

#[tokio::test]
async fn nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let fill = |sql: &str| {
        sql.replace("$A", &path("array"))
            .replace("$N", &path("new"))
    };
    let ctx = SessionContext::new();
    crate::register(&ctx).unwrap();
    for sql in [
        "CREATE EXTERNAL TABLE a (x INT, v INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$A'",
        "INSERT INTO a VALUES (1, 1), (2, 2)",
    ] {
        let rows = execute(&ctx, &fill(sql)).await.unwrap();
        rows.collect().await.unwrap();
    }
    let listed = || {
        let mut files = walk(folder.path());
        files.sort();
        files
    };
    let before = listed();
    let config = SessionConfig::new().with_extension(Arc::new(ReadOnly));
    let ctx = SessionContext::new_with_config(config);
    crate::register(&ctx).unwrap();
    let run = async |sql: &str| execute(&ctx, &fill(sql)).await?.collect().await;
    for sql in [
        "CREATE EXTERNAL TABLE a STORED AS TILEDB LOCATION '$A'",
        "CREATE EXTERNAL TABLE b (x INT, v INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$A'",
        "CREATE VIEW w AS SELECT * FROM a",
        "CREATE TABLE m AS SELECT * FROM a",
        "INSERT INTO m VALUES (3, 3)",
        "EXPLAIN DELETE FROM a",
        "SELECT * FROM tiledb_check('$A')",
        "SELECT * FROM tiledb_vacuum('$A', dry_run => true)",
        "SELECT count(*) FROM w",
    ] {
        run(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    for sql in [
        "INSERT INTO a VALUES (3, 3)",
        "INSERT OVERWRITE a VALUES (3, 3)",
        "UPDATE a SET v = 3",
        "DELETE FROM a",
        "DELETE FROM a WHERE x = 1",
        "TRUNCATE TABLE a",
        "MERGE INTO a USING m ON a.x = m.x WHEN MATCHED THEN DELETE",
        "EXPLAIN ANALYZE DELETE FROM a",
        "PREPARE p AS DELETE FROM a",
        "ALTER TABLE a ADD COLUMN w INT",
        "COPY a TO '$N.csv'",
        "COPY a TO '$N' STORED AS TILEDB PARTITIONED BY (x)",
        "CREATE EXTERNAL TABLE c (x INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$N'",
        "SELECT * FROM tiledb_consolidate('$A')",
        "SELECT * FROM tiledb_vacuum('$A')",
        "SELECT * FROM tiledb_evolve('$A', add => 'w INT')",
        "SELECT * FROM tiledb_set_metadata('$A', 'k', 1)",
        "SELECT * FROM tiledb_create_group('$N')",
        "SELECT 1 UNION ALL SELECT inputs FROM tiledb_vacuum('a')",
    ] {
        let error = run(sql).await.unwrap_err().to_string();
        assert!(error.contains("the session is read-only"), "{sql}: {error}");
    }
    assert_eq!(listed(), before);
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let deeper = |path: std::path::PathBuf| match path.is_dir() {
        true => walk(&path),
        false => vec![path],
    };
    entries.flat_map(deeper).collect()
}
