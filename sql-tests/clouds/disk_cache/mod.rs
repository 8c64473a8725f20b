//! Bytes of arrays in object stores that are kept on disk: what is asked for again, who gets them, and what is in their way.
//!
//! A new session with a new engine stands for a new process.

mod answers;
mod folders;
mod hits;
mod people;
mod shell;

use std::fs;
use std::path::{Path, PathBuf};

use datafusion::prelude::SessionContext;
use datafusion_tiledb::Engine;
use libtest_mimic::Failed;
use tempfile::TempDir;

use crate::support::cloud::{S3Cloud, rows};
use crate::support::s3::ServedRequest;

/// A server, and a folder for a cache.
struct CachedCloud {
    cloud: S3Cloud,
    folder: TempDir,
}

impl CachedCloud {
    fn start() -> Result<Self, Failed> {
        Self::with(S3Cloud::start())
    }

    fn with(cloud: S3Cloud) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        Ok(Self { cloud, folder })
    }

    fn folder(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// A session with a cache.
    async fn session(&self) -> Result<SessionContext, Failed> {
        let ctx = self.cloud.session();
        keep_in(&ctx, &self.folder()).await?;
        Ok(ctx)
    }

    /// The rows of a statement in a new session with the cache, and the requests of the statement.
    async fn run(&self, sql: &[&str]) -> Result<(String, Vec<ServedRequest>), Failed> {
        let ctx = self.session().await?;
        self.cloud.server.clear();
        let mut found = String::new();
        for sql in sql {
            found = rows(&ctx, sql).await?;
        }
        let requests = self.cloud.server.requests();
        end(&ctx).await?;
        Ok((found, requests))
    }
}

async fn keep_in(ctx: &SessionContext, folder: &Path) -> Result<(), Failed> {
    rows(ctx, "SET tiledb.cache_size = '64 MiB'").await?;
    let set = format!("SET tiledb.cache_dir = '{}'", folder.display());
    rows(ctx, &set).await?;
    Ok(())
}

fn engine(ctx: &SessionContext) -> Result<Engine, Failed> {
    let engine = ctx.copied_config().get_extension::<Engine>();
    Ok(Engine::clone(&*engine.ok_or("the session has an engine")?))
}

/// Ends a process: its cache is written, and the folder is free.
async fn end(ctx: &SessionContext) -> Result<(), Failed> {
    engine(ctx)?.close_disk_cache().await;
    Ok(())
}

fn is_listing(request: &ServedRequest) -> bool {
    request.query.contains("list-type=2")
}

/// The requests that aren't listings, as text.
fn reads(requests: &[ServedRequest]) -> Vec<String> {
    let reads = requests.iter().filter(|request| !is_listing(request));
    reads
        .map(|request| format!("{} {} {:?}", request.method, request.path, request.range))
        .collect()
}

fn expect(found: &str, part: &str) -> Result<(), Failed> {
    if found.contains(part) {
        return Ok(());
    }
    Err(format!("{found}\ndoes not contain {part}").into())
}

/// Arrays of each kind, and changes of them.
const ARRANGED: [&str; 21] = [
    "CREATE EXTERNAL TABLE sparse (x BIGINT, kind VARCHAR, v DOUBLE, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/sparse' \
     OPTIONS ('tiledb.capacity' '1000', 'tiledb.dim.x.domain' '[0, 1000000]')",
    "INSERT INTO sparse SELECT value, 'k' || (value % 7), value / 2.0 FROM generate_series(0, 49999)",
    "INSERT INTO sparse SELECT value, 'm' || (value % 7), value / 2.0 FROM generate_series(50000, 59999)",
    "COPY (SELECT value AS x, arrow_cast('k' || (value % 7), 'Dictionary(Int8, Utf8)') AS kind, value AS v FROM generate_series(0, 19999)) \
     TO 's3://data/enumerated' STORED AS TILEDB PARTITIONED BY (x)",
    "CREATE EXTERNAL TABLE dense (y BIGINT, x BIGINT, a DOUBLE, b BIGINT, PRIMARY KEY (y, x)) STORED AS TILEDB LOCATION 's3://data/dense' \
     OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.y.domain' '[0, 199]', 'tiledb.dim.x.domain' '[0, 199]', 'tiledb.dim.y.tile' '20', 'tiledb.dim.x.tile' '20')",
    "INSERT INTO dense SELECT value / 200, value % 200, value AS a, value AS b FROM generate_series(0, 39999)",
    "CREATE EXTERNAL TABLE changed (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/changed'",
    "INSERT INTO changed SELECT value, value AS v FROM generate_series(0, 99)",
    "DELETE FROM changed WHERE x >= 90",
    "ALTER TABLE changed ADD COLUMN w BIGINT DEFAULT 1",
    "INSERT INTO changed VALUES (200, 1, 2)",
    "UPDATE changed SET v = 0 WHERE x < 10",
    "CREATE EXTERNAL TABLE merged (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/merged'",
    "INSERT INTO merged SELECT value, value AS v FROM generate_series(0, 99)",
    "INSERT INTO merged SELECT value, value AS v FROM generate_series(100, 199)",
    "DELETE FROM merged WHERE x >= 190",
    "SELECT * FROM tiledb_consolidate('s3://data/merged', mode => 'fragments')",
    "SELECT * FROM tiledb_consolidate('s3://data/merged', mode => 'commits')",
    "SELECT * FROM tiledb_consolidate('s3://data/merged', mode => 'fragment_metadata')",
    "COPY (SELECT 5 AS x, 50 AS v) TO 's3://data/group/member' STORED AS TILEDB PARTITIONED BY (x)",
    "SELECT * FROM tiledb_create_group('s3://data/group')",
];

/// Makes the first array.
async fn arrange_sparse(cloud: &S3Cloud) -> Result<(), Failed> {
    let ctx = cloud.session();
    for sql in ARRANGED.iter().take(3) {
        rows(&ctx, sql).await?;
    }
    Ok(())
}

async fn arrange(cloud: &S3Cloud) -> Result<(), Failed> {
    let ctx = cloud.session();
    for sql in ARRANGED {
        rows(&ctx, sql).await?;
    }
    let add =
        "SELECT * FROM tiledb_add_member('s3://data/group', 's3://data/group/member', name => 'm')";
    rows(&ctx, add).await?;
    Ok(())
}

/// All files below a folder.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failed> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_of(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}
