//! SQL on an array, or on its Parquet twin, with as many threads as libtiledb is given.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::Schema;
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use datafusion_tiledb::{TileDbTable, TileDbTableBuilder};
use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};

use super::Volume;

/// Of the runtime, and partitions of a query. Tiles are decoded on as many threads as the process may use processors.
const THREADS: usize = 2;

/// The paths of an array and its twin.
pub struct TwinPaths {
    pub array: PathBuf,
    pub twin: PathBuf,
}

pub enum Engine {
    TileDb,
    /// With conditions evaluated while Parquet is decoded, or above.
    Parquet {
        pushdown: bool,
    },
}

/// What a query gave.
pub struct Drained {
    pub volume: Volume,
    /// What was read for it, in words.
    pub note: String,
}

pub fn block_on<F: Future>(work: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .build()
            .expect("a runtime")
    });
    runtime.block_on(work)
}

/// A session in which the array, or its twin, is table `a`, after the statements of `prepare`.
pub async fn session(
    paths: &TwinPaths,
    engine: &Engine,
    options: &[(&str, &str)],
    prepare: &str,
) -> SessionContext {
    let ctx = match engine {
        Engine::TileDb => {
            let mut builder = TileDbTable::builder(paths.array.display().to_string());
            for (key, value) in options {
                builder = builder.option(key, value).expect("an option");
            }
            array_session(builder).await
        }
        Engine::Parquet { pushdown } => {
            let option = "datafusion.execution.parquet.pushdown_filters";
            let config = config().set_bool(option, *pushdown);
            let ctx = SessionContext::new_with_config(config);
            let path = paths.twin.display().to_string();
            ctx.register_parquet("a", path, ParquetReadOptions::default())
                .await
                .expect("the twin opens");
            ctx
        }
    };
    for statement in prepare.split(';').filter(|s| !s.is_empty()) {
        drain(&ctx, statement).await;
    }
    ctx
}

/// The same for an array that is opened in a way of its own.
pub async fn array_session(builder: TileDbTableBuilder) -> SessionContext {
    let ctx = SessionContext::new_with_config(config());
    datafusion_tiledb::register(&ctx).expect("a fresh session");
    let table = builder.open().await.expect("the array opens");
    ctx.register_table("a", Arc::new(table))
        .expect("a free name");
    ctx
}

fn config() -> SessionConfig {
    SessionConfig::new().with_target_partitions(THREADS)
}

/// Plans, reads every partition at once, and drops each batch as it comes.
pub async fn drain(ctx: &SessionContext, sql: &str) -> Drained {
    let plan = ctx.sql(sql).await.expect("SQL");
    let plan = plan.create_physical_plan().await.expect("a plan");
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
        rows += task.await.expect("a partition ends") as u64;
    }
    let volume = Volume {
        elements: rows,
        bytes: rows * row_bytes(&plan.schema()),
    };
    let note = note(&plan);
    Drained { volume, note }
}

/// Of columns of fixed width, which all here are.
fn row_bytes(schema: &Schema) -> u64 {
    let fields = schema.fields().iter();
    let widths = fields.filter_map(|field| field.data_type().primitive_width());
    widths.sum::<usize>() as u64
}

/// How much of the array was read.
fn note(plan: &Arc<dyn ExecutionPlan>) -> String {
    let count = |name| sum(plan, name);
    match count("tiles") {
        0 => String::new(),
        tiles => format!(
            "{} of {tiles} tiles decoded, {:.1} MB fetched",
            count("tiles_decoded"),
            count("bytes_fetched") as f64 / 1e6
        ),
    }
}

/// A counter, of all that has it in the plan.
fn sum(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let here = plan.metrics().and_then(|m| m.sum_by_name(name));
    let below = plan.children().into_iter().map(|child| sum(child, name));
    here.map_or(0, |m| m.as_usize()) + below.sum::<usize>()
}
