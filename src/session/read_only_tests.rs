//! Read-only sessions write nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::options::ReadOnly;
use crate::session::execute;

/// A read-only session, and a folder with an array of two rows.
struct ReadOnlyPlace {
    folder: tempfile::TempDir,
    ctx: SessionContext,
    files: Vec<PathBuf>,
}

impl ReadOnlyPlace {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = SessionConfig::new().with_extension(Arc::new(ReadOnly));
        let mut place = Self {
            ctx: SessionContext::new_with_config(config),
            files: Vec::new(),
            folder,
        };
        let writing = SessionContext::new();
        crate::register(&writing).unwrap();
        crate::register(&place.ctx).unwrap();
        for sql in [
            "CREATE EXTERNAL TABLE a (x INT, v INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$A'",
            "INSERT INTO a VALUES (1, 1), (2, 2)",
        ] {
            let rows = execute(&writing, &place.fill(sql)).await.unwrap();
            rows.collect().await.unwrap();
        }
        place.files = walk(place.folder.path());
        place
    }

    /// A statement with the array's path for `$A`, and a path where there is nothing for `$N`.
    fn fill(&self, sql: &str) -> String {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        sql.replace("$A", &path("array"))
            .replace("$N", &path("new"))
    }

    async fn run(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        execute(&self.ctx, &self.fill(sql)).await?.collect().await
    }

    fn check_nothing_written(&self) {
        assert_eq!(walk(self.folder.path()), self.files);
    }
}

#[tokio::test]
async fn nothing_is_written() {
    let place = ReadOnlyPlace::new().await;
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
        place
            .run(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
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
        let error = place.run(sql).await.unwrap_err().to_string();
        assert!(error.contains("the session is read-only"), "{sql}: {error}");
    }
    place.check_nothing_written();
}

#[tokio::test]
async fn nothing_is_written_through_the_door_of_datafusion() {
    let place = ReadOnlyPlace::new().await;
    let create = "CREATE EXTERNAL TABLE a STORED AS TILEDB LOCATION '$A'";
    place.run(create).await.unwrap();
    for sql in [
        "INSERT INTO a VALUES (3, 3)",
        "UPDATE a SET v = 3",
        "DELETE FROM a WHERE x = 1",
        "DELETE FROM a WHERE x + v = 2",
        "TRUNCATE TABLE a",
        "COPY a TO '$N' STORED AS TILEDB PARTITIONED BY (x)",
        "SELECT * FROM tiledb_vacuum('$A')",
    ] {
        let planned = place.ctx.sql(&place.fill(sql)).await;
        let error = match planned {
            Ok(rows) => rows.collect().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(error.to_string().contains("read-only"), "{sql}: {error}");
    }
    place.check_nothing_written();
}

/// All files of a folder, sorted.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let deeper = |path: PathBuf| match path.is_dir() {
        true => walk(&path),
        false => vec![path],
    };
    let mut files = entries.flat_map(deeper).collect::<Vec<_>>();
    files.sort();
    files
}
