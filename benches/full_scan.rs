//! How fast does a whole array come into Arrow, beside libtiledb's Python package on the same machine?
//!
//! ```text
//! python benches/arrays.py make /data/bench          # once; needs tiledb==0.36.1, numpy, pyarrow
//! TILEDB_BENCH_DIR=/data/bench TILEDB_BENCH_PYTHON=python cargo bench --bench full_scan
//! ```
//!
//! Both sides have two threads and a warm page cache; the best of five counts. Without `TILEDB_BENCH_PYTHON` there is
//! no peer, without `TILEDB_BENCH_DIR` nothing to measure. Also shown: how many tiles a slice of 1 % of the cells
//! decodes, and the peak memory of the process.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use futures::StreamExt;

const THREADS: usize = 2;
const RUNS: usize = 5;

/// A scan: its name, the array, the SQL that drains it, and its rows.
const SCANS: [(&str, &str, &str, usize); 4] = [
    (
        "dense, attribute",
        "dense50m",
        "SELECT v FROM a",
        7072 * 7072,
    ),
    (
        "dense, coordinates and attribute",
        "dense50m",
        "SELECT * FROM a",
        7072 * 7072,
    ),
    (
        "sparse, attributes",
        "sparse10m",
        "SELECT a, b FROM a",
        10_000_000,
    ),
    (
        "sparse, coordinates and attributes",
        "sparse10m",
        "SELECT * FROM a",
        10_000_000,
    ),
];

/// Slices of 1 % of the cells, and the tiles they touch at most.
const SLICES: [(&str, &str, &str); 2] = [
    (
        "dense, 1 %",
        "dense50m",
        "SELECT * FROM a WHERE y BETWEEN 1000 AND 1706 AND x BETWEEN 2000 AND 2706",
    ),
    (
        "sparse, 1 %",
        "sparse10m",
        "SELECT * FROM a WHERE d0 BETWEEN 200000 AND 299999 AND d1 BETWEEN 200000 AND 299999",
    ),
];

fn main() {
    let Some(folder) = std::env::var_os("TILEDB_BENCH_DIR").map(PathBuf::from) else {
        println!("TILEDB_BENCH_DIR is not set: see the top of benches/full_scan.rs");
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime starts");
    let peers = peers(&folder);
    println!(
        "{:36} {:>9} {:>12} {:>11} {:>7}  libtiledb's way",
        "scan", "seconds", "Mcells/s", "libtiledb", "ratio"
    );
    for (name, array, sql, rows) in SCANS {
        let ours = runtime.block_on(best_of_runs(&folder.join(array), sql, rows));
        let speed = rows as f64 / ours / 1e6;
        match peers.get(name) {
            Some((seconds, way)) => println!(
                "{name:36} {ours:9.3} {speed:12.1} {seconds:11.3} {:7.2}  {way}",
                ours / seconds
            ),
            None => println!("{name:36} {ours:9.3} {speed:12.1}"),
        }
    }
    for (name, array, sql) in SLICES {
        runtime.block_on(slice(name, &folder.join(array), sql));
    }
    println!("peak memory of this process: {} MB", peak_memory_mb());
}

async fn session(array: &Path) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(THREADS);
    let ctx = SessionContext::new_with_config(config);
    let table = TileDbTable::open(array.display().to_string())
        .await
        .expect("the array opens");
    ctx.register_table("a", Arc::new(table))
        .expect("a free name");
    ctx
}

/// Plans, reads every partition at once, and drops each batch as it comes.
async fn drain(ctx: &SessionContext, sql: &str) -> (usize, Arc<dyn ExecutionPlan>) {
    let plan = ctx
        .sql(sql)
        .await
        .expect("SQL")
        .create_physical_plan()
        .await
        .expect("a plan");
    let streams = execute_stream_partitioned(Arc::clone(&plan), ctx.task_ctx()).expect("streams");
    let tasks = streams.into_iter().map(|mut stream| {
        tokio::spawn(async move {
            let mut rows = 0;
            while let Some(batch) = stream.next().await {
                rows += batch.expect("a batch").num_rows();
            }
            rows
        })
    });
    let mut rows = 0;
    for task in tasks.collect::<Vec<_>>() {
        rows += task.await.expect("a partition ends");
    }
    (rows, plan)
}

async fn best_of_runs(array: &Path, sql: &str, expected: usize) -> f64 {
    let ctx = session(array).await;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let begin = Instant::now();
        let (rows, _) = drain(&ctx, sql).await;
        best = best.min(begin.elapsed().as_secs_f64());
        assert_eq!(rows, expected, "{sql}");
    }
    best
}

async fn slice(name: &str, array: &Path, sql: &str) {
    let ctx = session(array).await;
    let begin = Instant::now();
    let (rows, plan) = drain(&ctx, sql).await;
    let seconds = begin.elapsed().as_secs_f64();
    let mut leaf = plan;
    while let Some(child) = leaf.children().first().map(|c| Arc::clone(c)) {
        leaf = child;
    }
    let metrics = leaf.metrics().expect("the scan counts");
    let count = |name: &str| metrics.sum_by_name(name).map_or(0, |m| m.as_usize());
    println!(
        "{name:36} {seconds:9.3} s, {rows} rows, {} of {} tiles decoded, {} bytes fetched",
        count("tiles_decoded"),
        count("tiles"),
        count("bytes_fetched")
    );
}

/// What libtiledb takes, by scan.
fn peers(folder: &Path) -> HashMap<String, (f64, String)> {
    let Some(python) = std::env::var_os("TILEDB_BENCH_PYTHON") else {
        return HashMap::new();
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/arrays.py");
    let output = Command::new(python)
        .arg(script)
        .arg("time")
        .arg(folder)
        .output()
        .expect("Python runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|line| {
            let text = |key: &str| line[key].as_str().map(str::to_owned);
            Some((text("scan")?, (line["seconds"].as_f64()?, text("way")?)))
        })
        .collect()
}

/// The high-water mark of resident memory, where the system tells it.
fn peak_memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|l| l.starts_with("VmHWM:"))
        .unwrap_or_default();
    let kilobytes = line
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1024
}
