//! What do aggregates cost that the statistics of tiles answer, and what without them?
//!
//! ```text
//! python benches/arrays.py /data/bench            # once; needs tiledb==0.36.1, numpy, pyarrow
//! TILEDB_BENCH_DIR=/data/bench cargo bench --bench metadata_aggregates
//! ```
//!
//! Tiles inside the box are not read; those on its border are. Elements and bytes are those of the cells that are
//! aggregated. Parquet has no sums among its statistics.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and stops at the first surprise"
)]

mod common;

use common::{Bench, Volume};

fn main() {
    let mut bench = Bench::new("metadata_aggregates", 1.0);
    for (source, options) in [
        ("", [("aggregate_from", "metadata")].as_slice()),
        (", from cells", &[("aggregate_from", "cells")]),
    ] {
        bench.options = options;
        for (case, array, sql, cells, bytes) in [
            (
                "dense, all",
                "dense50m",
                "SELECT count(*), min(v), max(v), avg(v) FROM a",
                7072 * 7072,
                4,
            ),
            (
                "dense, a box of half the cells",
                "dense50m",
                "SELECT count(*), min(v), max(v), avg(v) FROM a \
                 WHERE y BETWEEN 1000 AND 5999 AND x BETWEEN 1000 AND 5999",
                5000 * 5000,
                4,
            ),
            (
                "sparse, all",
                "sparse10m",
                "SELECT count(*), min(a), max(a), sum(b) FROM a",
                10_000_000,
                12,
            ),
        ] {
            let volume = Volume {
                elements: cells,
                bytes: cells * bytes,
            };
            bench.aggregate(&format!("{case}{source}"), array, sql, volume);
        }
    }
    bench.report();
}
