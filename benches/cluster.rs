//! How much faster are two workers than one core, each held to one core, and beside plain DataFusion on Parquet over the same workers?
//!
//! ```text
//! cargo bench -p tiledb-sql --bench cluster                # all rows
//! cargo bench -p tiledb-sql --bench cluster -- "group by"  # only the rows with this in their names
//! ```
//!
//! The workers are processes of their own, held to their cores with `taskset`. With one worker nothing is sent, so what one core does is
//! measured in a process held to one core; `process` is a process with two. The array and its Parquet twin have the same rows in the
//! same order, and lie in a temporary folder. Both sides see warm files; the best of seven runs counts. At the end comes the cost of
//! sending a query that could have stayed in the process.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt};
use datafusion_tiledb::cluster::trust::ClusterTrust;
use datafusion_tiledb::cluster::worker_urls::WorkerUrls;
use datafusion_tiledb::{cluster, execute};
use futures::TryStreamExt;

const RUNS: usize = 7;

/// The argument before the folder of the arrays, with which this program measures itself on one core.
const ONE_CORE: &str = "--one-core";

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

/// With one partition for each core that this process may use.
fn config() -> SessionConfig {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    SessionConfig::new().with_target_partitions(cores)
}

/// A session with the array, in the process, or on workers.
async fn arrays(folder: &Path, workers: &[PinnedWorker]) -> Result<SessionContext> {
    let ctx = SessionContext::new_with_config(config());
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
async fn twins(folder: &Path, workers: &[PinnedWorker]) -> Result<SessionContext> {
    let mut builder = SessionStateBuilder::new_with_default_features().with_config(config());
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

fn urls(workers: &[PinnedWorker]) -> WorkerUrls {
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

/// The best times of a query over the array and over its twin, in milliseconds, and the number of rows.
struct QueryTimes {
    array: f64,
    twin: f64,
    rows: usize,
}

/// Runs the chosen queries over the array and over its twin, and shows each to `each`.
async fn measure(
    [array, twin]: &[SessionContext; 2],
    chosen: Option<&str>,
    mut each: impl FnMut(&'static str, QueryTimes),
) -> Result<()> {
    for (name, sql) in QUERIES {
        if chosen.is_some_and(|chosen| !name.contains(chosen)) {
            continue;
        }
        let ((ours, rows), (peers, peer_rows)) = (best(array, sql).await?, best(twin, sql).await?);
        assert_eq!(rows, peer_rows, "rows of {name}");
        let (array, twin) = (milliseconds(ours), milliseconds(peers));
        each(name, QueryTimes { array, twin, rows });
    }
    Ok(())
}

/// What a process does that is held to one core. It is this program, with other arguments.
fn on_one_core(folder: &Path, chosen: Option<&str>) -> HashMap<String, QueryTimes> {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new("taskset")
        .args(["-c", "0"])
        .arg(program)
        .arg(ONE_CORE)
        .arg(folder)
        .args(chosen)
        .stderr(Stdio::inherit())
        .output()
        .expect("taskset");
    assert!(output.status.success(), "on one core: {}", output.status);
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let fields = lines
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let times = fields.map(|fields| {
        let number = |field: &str| field.parse::<f64>().expect("a number");
        let times = QueryTimes {
            array: number(fields[1]),
            twin: number(fields[2]),
            rows: fields[3].parse().expect("a number"),
        };
        (fields[0].to_owned(), times)
    });
    times.collect()
}

/// What the query costs that could have stayed.
async fn print_overhead(process: &SessionContext, cluster: &SessionContext) -> Result<()> {
    let sql = "SELECT k, count(*) FROM t WHERE x < 400000 GROUP BY k";
    let set = "SET tiledb.bytes_per_task = '1 B'";
    execute(cluster, set).await?.collect().await?;
    let plan = execute(cluster, &format!("EXPLAIN {sql}")).await?;
    let plan = pretty_format_batches(&plan.collect().await?)?.to_string();
    assert!(plan.contains("tasks=2"), "{plan}");
    let ((stays, _), (goes, _)) = (best(process, sql).await?, best(cluster, sql).await?);
    let (stays, goes) = (milliseconds(stays), milliseconds(goes));
    println!("a query of 400,000 rows: {stays:.1} ms in the process, {goes:.1} ms on two workers");
    Ok(())
}

async fn compare(chosen: Option<&str>) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let folder = scratch.path();
    println!("writing 20 million rows");
    arrange(folder).await?;
    // Nothing is written to the disk while queries run.
    let synced = Command::new("sync").status().expect("sync");
    assert!(synced.success(), "sync: {synced}");
    let one_core = on_one_core(folder, chosen);
    let workers = [PinnedWorker::start(0), PinnedWorker::start(1)];
    let process = [arrays(folder, &[]).await?, twins(folder, &[]).await?];
    let cluster = [
        arrays(folder, &workers).await?,
        twins(folder, &workers).await?,
    ];
    let mut on_two_cores = HashMap::new();
    let keep = |name, times| {
        on_two_cores.insert(name, times);
    };
    measure(&process, chosen, keep).await?;
    println!(
        "{:<18} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>7} {:>9}",
        "ms",
        "process",
        "1 core",
        "2 workers",
        "gain",
        "Parquet",
        "1 core",
        "2 workers",
        "gain",
        "ours/peer"
    );
    measure(&cluster, chosen, |name, two| {
        let (process, one) = (&on_two_cores[name], &one_core[name]);
        assert_eq!([process.rows, one.rows], [two.rows; 2], "rows of {name}");
        println!(
            "{name:<18} {:>9.0} {:>9.0} {:>9.0} {:>6.2}x {:>9.0} {:>9.0} {:>9.0} {:>6.2}x {:>9.2}",
            process.array,
            one.array,
            two.array,
            one.array / two.array,
            process.twin,
            one.twin,
            two.twin,
            one.twin / two.twin,
            two.array / two.twin
        );
    })
    .await?;
    print_overhead(&process[0], &cluster[0]).await
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let mut plain = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"));
    if !arguments.iter().any(|argument| argument == ONE_CORE) {
        return compare(plain.next().map(String::as_str)).await;
    }
    let folder = Path::new(plain.next().expect("a folder"));
    let chosen = plain.next().map(String::as_str);
    let sessions = [arrays(folder, &[]).await?, twins(folder, &[]).await?];
    let print = |name, times: QueryTimes| {
        println!("{name}\t{}\t{}\t{}", times.array, times.twin, times.rows);
    };
    measure(&sessions, chosen, print).await
}
