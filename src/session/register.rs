//! Support for arrays in sessions: existing ones, and ones that are being built.
//!
//! [`equip`] has the one list of what is added to a session; [`register`] takes an existing session apart, equips it,
//! and rebuilds it in place, so that both add the same.

use std::sync::Arc;

use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList, TableProvider};
use datafusion::common::GetExt;
use datafusion::config::TableOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use futures::future::BoxFuture;
use tiledb_engine::array::folder::arrays_in;
use tiledb_engine::{Error, ErrorKind, Result};

use super::time_travel;
use crate::catalog::explain_group;
use crate::dml::ArrayFormatFactory;
use crate::error::to_datafusion_error;
use crate::evolve;
use crate::functions;
use crate::optimizer;
use crate::options;
use crate::options::TileDbTableOptions;
use crate::options::settings::TileDbSettings;
use crate::session::factory::TileDbTableFactory;
use crate::statements::changes;
use crate::statements::one_moment;
use crate::statements::written;
use crate::stores::ahead::OpenedTables;
use crate::stores::location::storage;
use crate::stores::registry::StoreRegistry;
use crate::stores::runtime::ArrayRuntime;
use crate::table::open::open_columns;
use crate::table::session::rebuild;
use crate::table::url_table;
use crate::upstream::chains;

/// The name of arrays in `STORED AS`.
pub(super) const STORED_AS: &str = "TILEDB";

/// Adds support for arrays to a session: `CREATE EXTERNAL TABLE … STORED AS TILEDB`, options under `tiledb.`, paths or
/// URLs of arrays as table names (`SELECT * FROM '/data/array'`), the table [`functions`] that describe arrays (`SELECT
/// * FROM tiledb_schema('/data/array')`), and the [`optimizer`] rules for arrays.
///
/// The session opens arrays in the [`Engine`](crate::Engine) that is an extension of its configuration, so that it has limits of
/// its own for cached metadata, threads and idle buffers. A session without one uses the shared engine.
///
/// ```
/// use std::sync::Arc;
/// use datafusion::prelude::*;
/// use datafusion_tiledb::{Engine, EngineOptions};
///
/// # fn example() -> datafusion_tiledb::Result<()> {
/// let engine = Engine::new(EngineOptions::default().with_metadata_bytes(16 << 20));
/// let config = SessionConfig::new().with_extension(Arc::new(engine));
/// let ctx = SessionContext::new_with_config(config);
/// datafusion_tiledb::register(&ctx)?;
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
///
/// Registering twice does no harm. Call it before or after `enable_url_table`, and before any statement is prepared:
/// prepared statements are lost. A session that is still being built can be [equipped](equip) instead.
pub fn register(ctx: &SessionContext) -> Result<()> {
    let state = ctx.state_ref();
    let mut state = state.write();
    if !is_equipped(&state) {
        return rebuild(&mut state, fill);
    }
    // Other catalogs may wrap ours by now.
    let catalogs = Arc::clone(state.catalog_list());
    let catalogs = with_paths(catalogs, ArrayRuntime::of_session(&*state));
    state.register_catalog_list(catalogs);
    Ok(())
}

/// Adds to a session that is being built all that [`register`] adds to an existing one.
///
/// Call it when the builder has its configuration, runtime, catalogs and rules: those set later replace what this adds
/// to them, and paths of arrays are looked up in the object stores of the runtime that the builder has now.
/// [`register`] then adds only what is missing. Equipping twice does no harm.
///
/// It fails if the builder was given physical optimizer rules that lack a rule of DataFusion next to which one of ours
/// must be inserted.
///
/// ```
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::*;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = SessionStateBuilder::new_with_default_features()
///     .with_config(SessionConfig::new().with_target_partitions(2));
/// let state = datafusion_tiledb::equip(builder)?.build();
/// let ctx = SessionContext::new_with_state(state);
/// let facts = ctx.sql("SELECT array_type FROM tiledb_array('./examples/data/weather_stations')").await?;
/// assert_eq!(facts.count().await?, 1);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub fn equip(mut builder: SessionStateBuilder) -> Result<SessionStateBuilder> {
    fill(&mut builder)?;
    Ok(builder)
}

pub(super) fn fill(builder: &mut SessionStateBuilder) -> Result<()> {
    optimizer::equip(builder)
        .map_err(|e| Error::invalid("the session cannot be taught arrays").with_source(e))?;

    changes::install(builder);
    one_moment::install(builder);
    chains::install(builder);
    written::install(builder);

    share_settings(builder)?;
    let options = Arc::clone(builder.config().get_or_insert_default().options());
    let from_session = || TableOptions::default_from_session_config(&options);
    let table_options = builder.table_options().get_or_insert_with(from_session);
    let extensions = &mut table_options.extensions;
    if extensions.get::<TileDbTableOptions>().is_none() {
        extensions.insert(TileDbTableOptions::default());
    }

    let factories = builder.table_factories().get_or_insert_default();
    factories.insert(STORED_AS.to_owned(), Arc::new(TileDbTableFactory));
    let formats = builder.file_formats().get_or_insert_default();
    if !formats
        .iter()
        .any(|format| format.get_ext() == ArrayFormatFactory.get_ext())
    {
        formats.push(Arc::new(ArrayFormatFactory));
    }
    let functions = functions::all().into_iter().chain(evolve::all());
    let functions = functions.map(|function| (function.name().to_owned(), Arc::new(function)));
    let known = builder.table_functions().get_or_insert_default();
    let is_new = !known.keys().any(|name| functions::is_name(name));
    known.extend(functions);
    if is_new {
        time_travel::install(builder);
    }

    let runtime = Arc::clone(builder.runtime_env().get_or_insert_default());
    let catalogs = builder.catalog_list().take();
    let catalogs = catalogs.unwrap_or_else(|| Arc::new(MemoryCatalogProviderList::new()));
    let runtime = ArrayRuntime::of_config(builder.config().get_or_insert_default(), runtime);
    *builder.catalog_list() = Some(with_paths(catalogs, runtime));
    Ok(())
}

/// Gives a session limits of its own: those of its registry of stores, or others that no session shares. The cache on disk is that
/// of its engine.
fn share_settings(builder: &mut SessionStateBuilder) -> Result<()> {
    let factories = builder.table_factories().get_or_insert_default();
    if factories.contains_key(STORED_AS) {
        return Ok(());
    }
    let env = Arc::clone(builder.runtime_env().get_or_insert_default());
    let config = builder.config().get_or_insert_default();
    let mut settings = TileDbSettings::of(config.options());
    settings.limits = match config.get_extension::<StoreRegistry>() {
        Some(registry) => registry.limits().clone(),
        None => settings.limits.unshared(),
    };
    let runtime = ArrayRuntime::of_config(config, env);
    settings.cache = settings.cache.of_engine(runtime.engine())?;
    config.options_mut().extensions.insert(settings);
    Ok(())
}

/// Whether a session has everything that can only be added by rebuilding it.
pub(super) fn is_equipped(state: &SessionState) -> bool {
    let knows = |name: &str| state.table_functions().contains_key(name);
    state.table_factories().contains_key(STORED_AS)
        && functions::all().iter().all(|f| knows(f.name()))
        && evolve::all().iter().all(|f| knows(f.name()))
        && optimizer::is_equipped(state)
        && changes::is_installed(state)
        && written::is_installed(state)
        && one_moment::is_installed(state)
        && chains::is_installed(state)
}

/// Wraps catalogs, so that paths and URLs of arrays are table names, too.
fn with_paths(
    catalogs: Arc<dyn CatalogProviderList>,
    runtime: ArrayRuntime,
) -> Arc<dyn CatalogProviderList> {
    url_table::around(catalogs, runtime, open_array, list_arrays)
}

fn open_array(
    path: String,
    options: options::TableOptions,
    runtime: ArrayRuntime,
) -> BoxFuture<'static, datafusion::error::Result<Option<Arc<dyn TableProvider>>>> {
    async move {
        if let Some(opened) = OpenedTables::get(&path, &options) {
            return Ok(Some(opened));
        }
        match open_columns(&path, &options, &runtime).await {
            Ok(table) => {
                let is_remote = table.storage().is_remote();
                let table: Arc<dyn TableProvider> = Arc::new(table);
                if is_remote {
                    OpenedTables::keep(&path, &options, &table);
                }
                Ok(Some(table))
            }
            // A path without an array may still be a file that others read. A web server that refuses to list the folder says
            // something about it, too.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) if e.kind() == ErrorKind::NotAnArray && !is_web(&path) => Ok(None),
            Err(e) => {
                let error = explain_group(e, &path, &options, &runtime).await;
                Err(to_datafusion_error(error))
            }
        }
    }
    .boxed()
}

/// Whether a location is on a web server.
fn is_web(path: &str) -> bool {
    path.starts_with("http://") || path.starts_with("https://")
}

fn list_arrays(path: String, runtime: ArrayRuntime) -> BoxFuture<'static, Vec<String>> {
    async move {
        match storage(&path, &options::TableOptions::default(), &runtime) {
            Ok(folder) => arrays_in(&folder).await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }
    .boxed()
}
