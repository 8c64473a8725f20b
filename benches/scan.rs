//! How fast do all cells of an array come into Arrow, with and without their coordinates? How fast a small part of it and the cells of
//! a list, and how much of the rest is read with them?
//!
//! ```text
//! python benches/arrays.py /data/bench            # once; needs tiledb==0.36.1, numpy, pyarrow
//! TILEDB_BENCH_DIR=/data/bench cargo bench --bench scan
//! ```
//!
//! Rows and columns of the dense array are one cell wide, the thinnest slices there are: each touches a row, or a
//! column, of tiles. The points of a list in the dense array are spread evenly; those in the sparse one lie in a tenth of its
//! tiles.
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
    scans();
    slices();
    lists();
}

fn scans() {
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

fn slices() {
    let mut bench = Bench::new("slice", 1.5);
    for (case, array, condition) in [
        (
            "dense, a box of 1 %",
            "dense50m",
            "y BETWEEN 1000 AND 1706 AND x BETWEEN 2000 AND 2706",
        ),
        ("dense, one row", "dense50m", "y = 3000"),
        ("dense, one column", "dense50m", "x = 3000"),
        (
            "sparse, a box of 1 %",
            "sparse10m",
            "d0 BETWEEN 200000 AND 299999 AND d1 BETWEEN 200000 AND 299999",
        ),
        (
            "sparse, a band of 1 %",
            "sparse10m",
            "d1 BETWEEN 500000 AND 509999",
        ),
    ] {
        let sql = format!("SELECT * FROM a WHERE {condition}");
        bench.query(case, array, &sql);
    }
    bench.report();
}

fn lists() {
    let mut bench = Bench::new("point_list", 1.5);
    for points in [10, 100] {
        bench.query(
            &format!("dense, OR of {points} points"),
            "dense50m",
            &format!("SELECT * FROM a WHERE {}", any_of(points)),
        );
    }
    // Ten numbers in each of ten rows of tiles.
    let numbers = (0..100)
        .map(|i| (i / 10 * 100_000 + i % 10 * 997).to_string())
        .collect::<Vec<_>>()
        .join(", ");
    bench.query(
        "sparse, 100 numbers of a dimension",
        "sparse10m",
        &format!("SELECT * FROM a WHERE d0 IN ({numbers})"),
    );
    bench.query(
        "sparse, join with 1,000 points",
        "sparse10m",
        "CREATE TABLE points AS SELECT d0, d1 FROM a WHERE d0 < 100000 AND d0 % 1000 = 7;\
         SELECT a.* FROM a JOIN points USING (d0, d1)",
    );
    bench.report();
}

/// Points spread over the whole dense array.
fn any_of(points: u64) -> String {
    let points = (0..points).map(|i| {
        let (y, x) = (i * 2_654_435_761 % 7072, i * 40_503 % 7069);
        format!("(y = {y} AND x = {x})")
    });
    points.collect::<Vec<_>>().join(" OR ")
}
