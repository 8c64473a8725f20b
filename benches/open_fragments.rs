//! How long does it take to open an array of 500 fragments, and to read a cell of it?
//!
//! ```text
//! python benches/arrays.py /data/bench            # once; needs tiledb==0.36.1, numpy, pyarrow
//! TILEDB_BENCH_DIR=/data/bench cargo bench --bench open_fragments
//! ```
//!
//! Nothing is remembered from one opening to the next, but files are in the page cache. The twin is a folder of 500
//! Parquet files, which register as one table. Bytes are those that we read, metadata for the most part.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and stops at the first surprise"
)]

mod common;

use std::sync::Arc;

use common::sql::{self, Engine, TwinPaths};
use common::{Bench, Volume, time};
use datafusion::prelude::SessionContext;
use datafusion_tiledb::TileDbTable;
use tiledb_engine::storage::{MetadataCache, RequestLog};

const FRAGMENTS: u64 = 500;
const CELL: &str = "SELECT * FROM a WHERE id = 123456";

fn main() {
    let mut bench = Bench::new("open_fragments", 2.0).counting("fragments");
    for (array, how) in [
        ("fragments500", ""),
        ("fragments500_consolidated", ", metadata consolidated"),
    ] {
        let Some(paths) = bench.twin_paths(array) else {
            continue;
        };
        for (what, sql) in [("open", None), ("open and read a cell", Some(CELL))] {
            let log = Arc::new(RequestLog::new());
            sql::block_on(array_opened(&paths, sql, Some(Arc::clone(&log))));
            let volume = Volume {
                elements: FRAGMENTS,
                bytes: log.bytes_returned(),
            };
            bench.compare(
                &format!("{what}{how}"),
                volume,
                || time(|| sql::block_on(array_opened(&paths, sql, None))),
                || time(|| sql::block_on(twin_opened(&paths, sql))),
                format!("{} requests", log.len()),
            );
        }
    }
    bench.report();
}

async fn array_opened(
    paths: &TwinPaths,
    sql: Option<&str>,
    log: Option<Arc<RequestLog>>,
) -> SessionContext {
    let mut builder = TileDbTable::builder(paths.array.display().to_string())
        .cache(Arc::new(MetadataCache::new(128 << 20)));
    if let Some(log) = log {
        builder = builder.request_log(log);
    }
    let ctx = sql::array_session(builder).await;
    read(&ctx, sql).await;
    ctx
}

async fn twin_opened(paths: &TwinPaths, sql: Option<&str>) -> SessionContext {
    let ctx = sql::session(paths, &Engine::Parquet { pushdown: false }, &[], "").await;
    read(&ctx, sql).await;
    ctx
}

async fn read(ctx: &SessionContext, sql: Option<&str>) {
    if let Some(sql) = sql {
        let cells = sql::drain(ctx, sql).await.volume.elements;
        assert_eq!(cells, 1, "{sql}");
    }
}
