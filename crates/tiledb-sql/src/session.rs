//! The DataFusion session of the shell, composed as datafusion-cli composes its own, and that of programs that want the same.
//!
//! The order of the catalogs matters. Seen from a query, ours opens a path or URL as an array, then DataFusion's opens it as files.
//! So an array is never mistaken for a folder of files. Both find the object store of a URL in one registry.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_cli::functions::{
    ListFilesCacheFunc, MetadataCacheFunc, ParquetMetadataFunc, StatisticsCacheFunc,
};
use datafusion_cli::object_storage::StdinCarriesCommands;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use datafusion_cli::pool_type::PoolType;
use datafusion_tiledb::session::{ReadOnly, StatementDepth};
use datafusion_tiledb::{Engine, SessionStores, StoreRegistry, to_datafusion_error};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use crate::args::Args;
use crate::cooperation::PausingJoins;
use crate::formats;
use crate::pools::session_pool;
use crate::printing::{Pager, Printing, ResultOutput, TableWidth};
use crate::shell::Shell;
use crate::stores::ShellStores;
use crate::watch::{StatementWatch, TaskWatchedPlanner};
#[cfg(feature = "cluster")]
use crate::worker::use_workers;

/// Twice DataFusion's. A task that collects rows from several threads is woken for each batch, so larger batches save a quarter
/// of the time of reading a hundred million rows. Four columns of such a batch still fit into the cache of a core.
const BATCH_ROWS: usize = 16384;

/// The share of the memory that queries take without `-m`, in percent.
const MEMORY_SHARE: u64 = 75;

/// The stack of each thread. Only the used part of its address space takes memory.
pub const STACK_BYTES: usize = 256 << 20;

/// The most operators in one chain, so that it fits that stack.
const MOST_OPERATORS: usize = 20_000;

/// The options of a session in a program other than the shell.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionOptions {
    /// The most bytes that queries of the session take, of those of the process.
    pub memory_limit: Option<usize>,
    /// The most bytes that queries of all sessions of the process take together; without it, a share of the memory of the machine. The
    /// first session decides.
    pub process_memory_limit: Option<usize>,
    /// Whether statements that write are refused.
    pub readonly: bool,
    /// The bytes of the stack of each thread that plans statements.
    pub stack_bytes: usize,
}

/// A session as the shell has one: with arrays and files at paths and URLs, the stores of the shared engine, and its settings.
///
/// All sessions of a process share one memory pool. [`StatementWatch::over`] watches their statements.
///
/// # Errors
/// An option of the environment (`DATAFUSION_…`) is invalid.
pub async fn open_session(options: SessionOptions) -> Result<SessionContext> {
    let registry = Arc::new(StoreRegistry::new(&Engine::shared()));
    let process = || options.process_memory_limit.or_else(share_of_memory);
    let runtime = RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::clone(&registry) as _)
        .with_memory_pool(session_pool(process, options.memory_limit));
    let parts = SessionParts {
        config: with_default_batches(environment()?).with_extension(registry),
        runtime: runtime.build_arc()?,
        planner: Some(Arc::new(TaskWatchedPlanner)),
        depth: StatementDepth {
            most_operators: MOST_OPERATORS
                .min(options.stack_bytes / (STACK_BYTES / MOST_OPERATORS)),
        },
        readonly: options.readonly,
    };
    parts.open().await
}

/// What sessions differ in.
struct SessionParts {
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
    /// Makes physical plans, if DataFusion's planner does not.
    planner: Option<Arc<dyn QueryPlanner + Send + Sync>>,
    depth: StatementDepth,
    readonly: bool,
}

impl SessionParts {
    async fn open(self) -> Result<SessionContext> {
        let config = self.config.with_extension(Arc::new(self.depth));
        let config = match self.readonly {
            true => config.with_extension(Arc::new(ReadOnly)),
            false => config,
        };
        let mut builder = SessionStateBuilder::new_with_default_features()
            .with_config(config)
            .with_runtime_env(self.runtime);
        if let Some(planner) = self.planner {
            builder = builder.with_query_planner(planner);
        }
        let state = with_pauses(builder.build());
        let ctx = SessionContext::new_with_state(state).enable_url_table();
        ctx.refresh_catalogs().await?;
        datafusion_tiledb::register(&ctx).map_err(to_datafusion_error)?;
        register_formats(&ctx)?;
        register_functions(&ctx);
        Ok(ctx)
    }
}

/// Builds the shell with the session that the command line describes.
pub async fn open(args: &Args) -> Result<Shell> {
    let stores = Arc::new(
        InstrumentedObjectStoreRegistry::new().with_profile_mode(args.object_store_profiling),
    );
    let registry = StoreRegistry::around(Arc::clone(&stores) as _, &Engine::shared());
    let registry = Arc::new(registry);
    let mut runtime =
        RuntimeEnvBuilder::new().with_object_store_registry(Arc::clone(&registry) as _);
    if let Some(bytes) = args.memory_limit.or_else(share_of_memory) {
        runtime = runtime.with_memory_pool(memory_pool(args, bytes));
    }
    if let Some(bytes) = args.disk_limit {
        runtime = runtime.with_disk_manager_builder(
            DiskManagerBuilder::default()
                .with_mode(DiskManagerMode::OsTmpDirectory)
                .with_max_temp_directory_size(u64::try_from(bytes).unwrap_or(u64::MAX)),
        );
    }

    let watch = Arc::new(StatementWatch::default());
    let statement_stores = Arc::new(ShellStores {
        reads_sql_from_stdin: args.reads_sql_from_stdin(),
    });
    let config = config(args)?
        .with_extension(Arc::clone(watch.maintenance()))
        .with_extension(registry)
        .with_extension(Arc::new(SessionStores::new(statement_stores)));
    let parts = SessionParts {
        config,
        runtime: runtime.build_arc()?,
        planner: Some(watch.planner()),
        depth: StatementDepth {
            most_operators: MOST_OPERATORS,
        },
        readonly: args.readonly,
    };
    let ctx = parts.open().await?;
    set_cache(&ctx, args)?;
    #[cfg(feature = "cluster")]
    if let Some(workers) = &args.workers {
        use_workers(&ctx, workers, &args.trust)?;
    }

    let printing = Printing {
        format: args.format,
        expanded: args.expanded,
        quiet: args.quiet,
        timing: None,
        max_rows: args.maxrows,
        width: TableWidth::default(),
        color: args.color.is_on(),
        pager: Pager::default(),
        output: ResultOutput::default(),
        stores,
    };
    let mut shell = Shell::new(ctx, printing, watch);
    for (name, value) in &args.variables {
        shell.variables.set(name, value)?;
    }
    Ok(shell)
}

/// Sets where bytes of object stores are kept. The size comes first, so that the cache has it from the beginning.
fn set_cache(ctx: &SessionContext, args: &Args) -> Result<()> {
    let state = ctx.state_ref();
    let mut state = state.write();
    let options = state.config_mut().options_mut();
    for (name, value) in [
        ("tiledb.cache_size", &args.cache_size),
        ("tiledb.cache_dir", &args.cache_dir),
    ] {
        if let Some(value) = value {
            options.set(name, value)?;
        }
    }
    Ok(())
}

/// The memory that queries may take, as a share of the memory of the machine or the container; `None` if that is unknown.
fn share_of_memory() -> Option<usize> {
    let memory = MemoryRefreshKind::nothing().with_ram();
    let system = System::new_with_specifics(RefreshKind::nothing().with_memory(memory));
    let container = system.cgroup_limits().map(|limits| limits.total_memory);
    share_of(system.total_memory(), container)
}

fn share_of(machine: u64, container: Option<u64>) -> Option<usize> {
    let known = [Some(machine), container].into_iter().flatten();
    let least = known.filter(|bytes| *bytes > 0).min()?;
    usize::try_from(least / 100 * MEMORY_SHARE).ok()
}

fn memory_pool(args: &Args, bytes: usize) -> Arc<dyn MemoryPool> {
    match (
        &args.mem_pool_type,
        NonZeroUsize::new(args.top_memory_consumers),
    ) {
        (PoolType::Fair, None) => Arc::new(FairSpillPool::new(bytes)),
        (PoolType::Greedy, None) => Arc::new(GreedyMemoryPool::new(bytes)),
        (PoolType::Fair, Some(top)) => {
            Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes), top))
        }
        (PoolType::Greedy, Some(top)) => {
            Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(bytes), top))
        }
    }
}

/// `DATAFUSION_*` from the environment, then the shell's defaults, then the command line.
fn config(args: &Args) -> Result<SessionConfig> {
    let mut config = environment()?;
    config = match args.batch_size {
        Some(rows) => config.with_batch_size(rows),
        None => with_default_batches(config),
    };
    if args.reads_sql_from_stdin() {
        config = config.with_extension(Arc::new(StdinCarriesCommands));
    }
    Ok(config)
}

/// `DATAFUSION_*` from the environment, then the defaults of all sessions.
fn environment() -> Result<SessionConfig> {
    let mut options = ConfigOptions::from_env()?;
    if std::env::var_os("DATAFUSION_EXPLAIN_FORMAT").is_none() {
        options.explain.format = ExplainFormat::Tree;
    }
    if std::env::var_os("DATAFUSION_FORMAT_NULL").is_none() {
        options.format.null = "NULL".to_owned();
    }
    if std::env::var_os("DATAFUSION_FORMAT_TYPES_INFO").is_none() {
        options.format.types_info = true;
    }
    Ok(SessionConfig::from(options).with_information_schema(true))
}

fn with_default_batches(config: SessionConfig) -> SessionConfig {
    match std::env::var_os("DATAFUSION_EXECUTION_BATCH_SIZE") {
        Some(_) => config,
        None => config.with_batch_size(BATCH_ROWS),
    }
}

/// The state with the rule that makes joins pause, behind all others.
fn with_pauses(state: SessionState) -> SessionState {
    let mut builder = SessionStateBuilder::from(state);
    let rules = builder.physical_optimizers().get_or_insert_default();
    rules.rules.push(Arc::new(PausingJoins));
    builder.build()
}

fn register_formats(ctx: &SessionContext) -> Result<()> {
    let state = ctx.state_ref();
    let mut state = state.write();
    let mut formats = formats::all().into_iter();
    formats.try_for_each(|format| state.register_file_format(format, true))
}

/// Registers the table functions of datafusion-cli that show the contents of files and caches.
fn register_functions(ctx: &SessionContext) {
    let caches = || Arc::clone(&ctx.runtime_env().cache_manager);
    ctx.register_udtf("parquet_metadata", Arc::new(ParquetMetadataFunc {}));
    ctx.register_udtf("metadata_cache", Arc::new(MetadataCacheFunc::new(caches())));
    ctx.register_udtf(
        "statistics_cache",
        Arc::new(StatisticsCacheFunc::new(caches())),
    );
    ctx.register_udtf(
        "list_files_cache",
        Arc::new(ListFilesCacheFunc::new(caches())),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_take_a_share_of_the_least_memory_that_is_known() {
        assert_eq!(share_of(4000, None), Some(3000));
        assert_eq!(share_of(4000, Some(1000)), Some(750));
        assert_eq!(share_of(4000, Some(u64::MAX)), Some(3000));
        assert_eq!(share_of(0, Some(1000)), Some(750));
        assert_eq!(share_of(0, None), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_memory_of_this_machine_is_known() {
        let share = share_of_memory().unwrap();
        assert!((64 << 20..1 << 50).contains(&share), "{share}");
    }
}
