//! How fast do all cells of an array come into Arrow, with and without their coordinates?
//!
//! ```text
//! python benches/arrays.py /data/bench            # once; needs tiledb==0.36.1, numpy, pyarrow
//! TILEDB_BENCH_DIR=/data/bench cargo bench --bench scan
//! ```
//!
//! Two threads and a warm page cache, on both sides. With `TILEDB_BENCH_PYTHON=python`, libtiledb is timed as well.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and stops at the first surprise"
)]

mod common;

use common::Bench;

fn main() {
    let mut bench = Bench::new("dense_scan", 3.0);
    bench.query("attribute", "dense50m", "SELECT v FROM a");
    bench.query(
        "coordinates and attribute",
        "dense50m",
        "SELECT y, x, v FROM a",
    );
    bench.report();
    let mut bench = Bench::new("sparse_scan", 3.0);
    bench.query("attributes", "sparse10m", "SELECT a, b FROM a");
    bench.query(
        "coordinates and attributes",
        "sparse10m",
        "SELECT d0, d1, a, b FROM a",
    );
    bench.report();
}
