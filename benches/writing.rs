//! How fast are rows written to an array, and how fast are its fragments consolidated?
//!
//! ```text
//! python benches/arrays.py /data/bench            # once; needs tiledb==0.36.1, numpy, pyarrow
//! TILEDB_BENCH_DIR=/data/bench cargo bench --bench writing
//! ```
//!
//! Rows come from a Parquet file. The twin is DataFusion that writes them to another Parquet file with the same codec and
//! level; it keeps the rows as they come, whereas the array has them sorted. Every run writes a new array, or consolidates a
//! new copy of one, which is made before the clock starts. Two threads on both sides; with `TILEDB_BENCH_PYTHON=python`,
//! libtiledb is timed as well. The pool of memory has 512 MB.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and stops at the first surprise"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::sql;
use common::{Bench, Volume, time};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

const THREADS: usize = 2;
const POOL_BYTES: usize = 512 << 20;

const SPARSE: &str = "d0 BIGINT NOT NULL, d1 BIGINT NOT NULL, a DOUBLE NOT NULL, b INT NOT NULL, PRIMARY KEY (d0, d1)";
const SPARSE_OPTIONS: &str = "tiledb.dim.d0.domain '[0, 999999]', tiledb.dim.d1.domain '[0, 999999]', \
     tiledb.dim.d0.tile '10000', tiledb.dim.d1.tile '10000', tiledb.capacity '100000', \
     tiledb.dim.d0.filters 'zstd(3)', tiledb.dim.d1.filters 'zstd(3)', \
     tiledb.attr.a.filters 'zstd(3)', tiledb.attr.b.filters 'zstd(3)'";
const DENSE: &str = "y INT NOT NULL, x INT NOT NULL, v REAL NOT NULL, PRIMARY KEY (y, x)";
const DENSE_OPTIONS: &str = "tiledb.array_type 'dense', \
     tiledb.dim.y.domain '[0, 7071]', tiledb.dim.x.domain '[0, 7071]', tiledb.dim.y.tile '256', tiledb.dim.x.tile '256', \
     tiledb.attr.v.filters 'byteshuffle, zstd(3)'";

fn main() {
    let mut bench = Bench::new("writing", 20.0);
    for (case, array, rows, columns, options) in [
        (
            "sparse, rows in order",
            "sparse10m",
            "sparse10m.parquet",
            SPARSE,
            SPARSE_OPTIONS,
        ),
        (
            "sparse, rows in no order",
            "sparse10m",
            "sparse10m_unordered.parquet",
            SPARSE,
            SPARSE_OPTIONS,
        ),
        (
            "dense",
            "dense50m",
            "dense50m.parquet",
            DENSE,
            DENSE_OPTIONS,
        ),
    ] {
        let Some(paths) = bench.twin_paths(array) else {
            continue;
        };
        let rows = paths.array.with_file_name(rows);
        let scratch = Scratch::beside(&paths.array);
        let ctx = sql::block_on(session(&rows));
        let volume = sql::block_on(sql::drain(&ctx, "SELECT * FROM source")).volume;
        bench.compare(
            case,
            volume,
            || {
                let target = scratch.empty().display().to_string();
                let create = format!(
                    "CREATE EXTERNAL TABLE target ({columns}) STORED AS TILEDB LOCATION '{target}' OPTIONS ({options})"
                );
                run(&ctx, &create);
                let time = time(|| run(&ctx, "INSERT INTO target SELECT * FROM source"));
                run(&ctx, "DROP TABLE target");
                time
            },
            || {
                let target = scratch.empty().join("rows.parquet").display().to_string();
                let copy = format!(
                    "COPY source TO '{target}' STORED AS PARQUET OPTIONS (compression 'zstd(3)')"
                );
                time(|| run(&ctx, &copy))
            },
            String::new(),
        );
    }
    for (case, array, cells) in [
        ("consolidate, 20 fragments", "overlapping20", 5_950_000),
        ("consolidate, 500 fragments", "fragments500", 1_000_000),
    ] {
        let Some(paths) = bench.twin_paths(array) else {
            continue;
        };
        let scratch = Scratch::beside(&paths.array);
        let ctx = sql::block_on(session(&paths.twin));
        let volume = Volume {
            elements: cells,
            bytes: bytes_in(&paths.array),
        };
        bench.alone(case, volume, || {
            let copy = scratch.empty();
            copy_folder(&paths.array, &copy);
            let consolidate = format!("SELECT * FROM tiledb_consolidate('{}')", copy.display());
            time(|| run(&ctx, &consolidate))
        });
    }
    bench.report();
}

async fn session(rows: &Path) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(THREADS);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(POOL_BYTES, 1.0)
        .build()
        .expect("a pool");
    let ctx = SessionContext::new_with_config_rt(config, Arc::new(runtime));
    datafusion_tiledb::register(&ctx).expect("a fresh session");
    let path = rows.display().to_string();
    let registered = ctx.register_parquet("source", path, ParquetReadOptions::default());
    registered.await.expect("the file opens");
    ctx
}

fn run(ctx: &SessionContext, sql: &str) {
    sql::block_on(async {
        let rows = ctx.sql(sql).await.expect("SQL");
        rows.collect().await.expect("the statement ends");
    });
}

/// A folder that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn beside(array: &Path) -> Self {
        Self(array.with_file_name("writing_scratch"))
    }

    /// The folder, with nothing in it.
    fn empty(&self) -> PathBuf {
        if self.0.exists() {
            fs::remove_dir_all(&self.0).expect("the folder can be removed");
        }
        fs::create_dir_all(&self.0).expect("the folder can be made");
        self.0.clone()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(files_below(&path))
        } else {
            files.push(path)
        }
    }
    files
}

fn bytes_in(folder: &Path) -> u64 {
    let files = files_below(folder);
    let sizes = files
        .iter()
        .map(|file| fs::metadata(file).expect("a file").len());
    sizes.sum()
}

fn copy_folder(from: &Path, to: &Path) {
    for file in files_below(from) {
        let copy = to.join(file.strip_prefix(from).expect("a file of the folder"));
        fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder can be made");
        fs::copy(&file, &copy).expect("a file can be copied");
    }
    // Folders without files are part of an array.
    for folder in [
        "__commits",
        "__fragments",
        "__fragment_meta",
        "__labels",
        "__meta",
    ] {
        fs::create_dir_all(to.join(folder)).expect("a folder can be made");
    }
}
