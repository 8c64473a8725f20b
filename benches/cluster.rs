//! How much faster are two workers than one, each held to one core, and beside plain DataFusion on Parquet over the same workers?
//!
//! ```text
//! cargo bench -p tiledb-sql --bench cluster                # all rows
//! cargo bench -p tiledb-sql --bench cluster -- "group by"  # only the rows with this in their names
//! ```
//!
//! The workers are processes of their own, held to their cores with `taskset`. The array and its Parquet twin have the same rows in
//! the same order, and lie in a temporary folder. `process` is the time without workers, with two threads. Both sides see warm files;
//! the best of five runs counts. In the end come the costs of a query that could have stayed in the process.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt};
use datafusion_tiledb::cluster::trust::ClusterTrust;
use datafusion_tiledb::cluster::worker_urls::WorkerUrls;
use datafusion_tiledb::{cluster, execute};
use futures::TryStreamExt;

const RUNS: usize = 5;

/// What is asked of the array and of its twin.
const QUERIES: [(&str, &str); 7] = [
    (
        "scan",
        "SELECT sum(x), sum(y), sum(v), sum(w) FROM t WHERE v + w > -1",
    ),
    (
        "filter",
        "SELECT count(*), sum(w) FROM t WHERE v BETWEEN 100 AND 400 AND k <> 'k7'",
    ),
    (
        "group by 100",
        "SELECT k, count(*), avg(v) FROM t GROUP BY k",
    ),
    (
        "group by 100,000",
        "SELECT y, count(*), sum(v) FROM t GROUP BY y",
    ),
    (
        "join",
        "SELECT count(*), sum(t.v) FROM t JOIN s ON t.y = s.y WHERE s.g < 50",
    ),
    (
        "sort, 100 rows",
        "SELECT x, v FROM t ORDER BY v DESC, x LIMIT 100",
    ),
    ("all rows", "SELECT x, y, v FROM t"),
];

/// A worker on one core.
struct PinnedWorker {
    child: Child,
    url: String,
}

impl PinnedWorker {
    fn start(core: usize) -> Self {
        let mut child = Command::new("taskset")
            .args(["-c", &core.to_string(), env!("CARGO_BIN_EXE_tiledb-sql")])
            .args(["-m", "4g", "worker", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("taskset and the shell");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http://"));
        let url = url.expect("an address").trim_end_matches(',').to_owned();
        Self { child, url }
    }
}

impl Drop for PinnedWorker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(partitions: usize) -> SessionConfig {
    SessionConfig::new().with_target_partitions(partitions)
}

/// A session with the array, in the process, or on workers.
async fn arrays(folder: &Path, workers: &[&PinnedWorker]) -> Result<SessionContext> {
    let ctx = SessionContext::new_with_config(config(2));
    datafusion_tiledb::register(&ctx).map_err(datafusion_tiledb::to_datafusion_error)?;
    for table in ["t", "s"] {
        let place = folder.join(table).display().to_string();
        let sql = format!("CREATE EXTERNAL TABLE {table} STORED AS TILEDB LOCATION '{place}'");
        execute(&ctx, &sql).await?.collect().await?;
    }
    if !workers.is_empty() {
        let coordinated = cluster::coordinate_session(&ctx, urls(workers), ClusterTrust::default());
        coordinated.map_err(datafusion_tiledb::to_datafusion_error)?;
        execute(&ctx, "SET tiledb.bytes_per_task = '1 MB'")
            .await?
            .collect()
            .await?;
    }
    Ok(ctx)
}

/// A session with the Parquet twins, in the process, or on workers.
async fn twins(folder: &Path, workers: &[&PinnedWorker]) -> Result<SessionContext> {
    let mut builder = SessionStateBuilder::new_with_default_features().with_config(config(2));
    if !workers.is_empty() {
        builder = builder
            .with_distributed_worker_resolver(urls(workers))
            .with_distributed_planner();
    }
    let ctx = SessionContext::new_with_state(builder.build());
    for table in ["t", "s"] {
        let place = folder
            .join(format!("{table}.parquet"))
            .display()
            .to_string();
        ctx.register_parquet(table, place, ParquetReadOptions::default())
            .await?;
    }
    if !workers.is_empty() {
        ctx.sql("SET distributed.file_scan_config_bytes_per_partition = 1000000")
            .await?
            .collect()
            .await?;
    }
    Ok(ctx)
}

fn urls(workers: &[&PinnedWorker]) -> WorkerUrls {
    let urls: Vec<_> = workers.iter().map(|worker| worker.url.as_str()).collect();
    urls.join(",").parse().expect("addresses")
}

async fn arrange(folder: &Path) -> Result<()> {
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx).map_err(datafusion_tiledb::to_datafusion_error)?;
    let place = folder.display();
    for sql in [
        "CREATE EXTERNAL TABLE t (x BIGINT, y BIGINT NOT NULL, k VARCHAR NOT NULL, v DOUBLE NOT NULL, w DOUBLE NOT NULL, PRIMARY KEY (x)) \
         STORED AS TILEDB LOCATION '$P/t' OPTIONS ('tiledb.dim.x.domain' '[0, 100000000]', 'tiledb.capacity' '100000')",
        "INSERT INTO t SELECT value AS x, (value * 7919) % 100000 AS y, 'k' || ((value * 31) % 100) AS k, \
         sqrt((value * 48271) % 1000000) AS v, (value * 69621) % 1000 AS w FROM generate_series(0, 19999999)",
        "CREATE EXTERNAL TABLE s (y BIGINT, g BIGINT NOT NULL, PRIMARY KEY (y)) STORED AS TILEDB LOCATION '$P/s' \
         OPTIONS ('tiledb.dim.y.domain' '[0, 1000000]', 'tiledb.capacity' '10000')",
        "INSERT INTO s SELECT value AS y, value % 100 AS g FROM generate_series(0, 99999)",
        "COPY (SELECT * FROM t ORDER BY x) TO '$P/t.parquet' STORED AS PARQUET",
        "COPY (SELECT * FROM s ORDER BY y) TO '$P/s.parquet' STORED AS PARQUET",
    ] {
        let sql = sql.replace("$P", &place.to_string());
        execute(&ctx, &sql).await?.collect().await?;
    }
    Ok(())
}

/// The fastest of some runs, and the number of rows.
async fn best(ctx: &SessionContext, sql: &str) -> Result<(Duration, usize)> {
    let (mut best, mut rows) = (Duration::MAX, 0);
    for _ in 0..RUNS {
        let begin = Instant::now();
        let stream = execute(ctx, sql).await?.execute_stream().await?;
        rows = stream
            .try_fold(0, async |rows, batch| Ok(rows + batch.num_rows()))
            .await?;
        best = best.min(begin.elapsed());
    }
    Ok((best, rows))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let chosen = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let folder = tempfile::tempdir()?;
    println!("20 million rows are written");
    arrange(folder.path()).await?;
    let workers = [PinnedWorker::start(0), PinnedWorker::start(1)];
    let (one, two) = ([&workers[0]], [&workers[0], &workers[1]]);
    let ours = [
        arrays(folder.path(), &[]).await?,
        arrays(folder.path(), &one).await?,
        arrays(folder.path(), &two).await?,
    ];
    let peers = [
        twins(folder.path(), &[]).await?,
        twins(folder.path(), &one).await?,
        twins(folder.path(), &two).await?,
    ];
    println!(
        "{:<18} {:>10} {:>10} {:>10} {:>7} {:>10} {:>10} {:>10} {:>7} {:>9}",
        "ms",
        "process",
        "1 worker",
        "2 workers",
        "gain",
        "Parquet",
        "1 worker",
        "2 workers",
        "gain",
        "ours/peer"
    );
    for (what, sql) in QUERIES {
        if chosen.as_ref().is_some_and(|chosen| !what.contains(chosen)) {
            continue;
        }
        let (mut times, mut counts) = (Vec::new(), Vec::new());
        for ctx in ours.iter().chain(&peers) {
            let (time, rows) = best(ctx, sql).await?;
            times.push(milliseconds(time));
            counts.push(rows);
        }
        assert!(
            counts.iter().all(|rows| *rows == counts[0]),
            "{what}: {counts:?} rows"
        );
        println!(
            "{what:<18} {:>10.0} {:>10.0} {:>10.0} {:>6.2}x {:>10.0} {:>10.0} {:>10.0} {:>6.2}x {:>9.2}",
            times[0],
            times[1],
            times[2],
            times[1] / times[2],
            times[3],
            times[4],
            times[5],
            times[4] / times[5],
            times[2] / times[5]
        );
    }
    let small = "SELECT k, count(*) FROM t WHERE x < 20000 GROUP BY k";
    execute(&ours[2], "SET tiledb.bytes_per_task = '1 B'")
        .await?
        .collect()
        .await?;
    let (stays, _) = best(&ours[0], small).await?;
    let (goes, _) = best(&ours[2], small).await?;
    println!(
        "a query of 20,000 rows: {:.1} ms in the process, {:.1} ms on two workers",
        milliseconds(stays),
        milliseconds(goes)
    );
    Ok(())
}
