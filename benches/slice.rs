//! How fast does a small part of an array come, and how much of the rest is read with it?
//!
//! ```text
//! python benches/arrays.py /data/bench            # once; needs tiledb==0.36.1, numpy, pyarrow
//! TILEDB_BENCH_DIR=/data/bench cargo bench --bench slice
//! ```
//!
//! Rows and columns of the dense array are one cell wide, the thinnest slices there are: each touches a row, or a
//! column, of tiles.

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
