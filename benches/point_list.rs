//! How fast are the cells of a list found, be it in the SQL or in a table?
//!
//! ```text
//! python benches/arrays.py /data/bench            # once; needs tiledb==0.36.1, numpy, pyarrow
//! TILEDB_BENCH_DIR=/data/bench cargo bench --bench point_list
//! ```
//!
//! The points in the dense array are spread evenly; those of the sparse one lie in a tenth of its tiles.

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
    let mut bench = Bench::new("point_list", 1.5);
    for points in [10, 100] {
        bench.query(
            &format!("dense, OR of {points} points"),
            "dense50m",
            &format!("SELECT * FROM a WHERE {}", any_of(points)),
        );
    }
    // Ten numbers in each of ten rows of tiles.
    let numbers = (0..100).map(|i| (i / 10 * 100_000 + i % 10 * 997).to_string());
    let numbers = numbers.collect::<Vec<_>>().join(", ");
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
