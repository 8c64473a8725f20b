//! Opening an array as a table, by path or URL; also where a planner, which cannot wait, needs the columns of arrays.

use std::sync::Arc;
use std::thread;

use datafusion::prelude::SessionContext;
use tiledb_engine::filter::EncryptionKey;
use tiledb_engine::storage::{MetadataCache, RequestLog, Storage};
use tiledb_engine::{Engine, Error, Result};

use crate::options::TableOptions;
use crate::stores::location::{of_runtime, storage, with_key};
use crate::stores::place::ArrayPlace;
use crate::stores::runtime::ArrayRuntime;
use crate::table::provider::TileDbTable;

/// Opens the array at `path`.
pub(crate) async fn open_table(
    path: &str,
    options: &TableOptions,
    runtime: &ArrayRuntime,
) -> Result<TileDbTable> {
    let storage = storage(path, options, runtime)?;
    TileDbTable::open_storage(storage, options.clone()).await
}

/// Opens the array at `path` for a statement that names it: only its columns are read.
pub(crate) async fn open_columns(
    path: &str,
    options: &TableOptions,
    runtime: &ArrayRuntime,
) -> Result<TileDbTable> {
    let storage = storage(path, options, runtime)?;
    TileDbTable::open_columns(storage, options.clone()).await
}

/// Does the work on a thread of its own while the caller waits, whose runtime may have no other thread than the one
/// that waits here. `name` is that of the thread.
pub(crate) fn wait_for<T, F>(name: &str, work: F) -> Result<T>
where
    T: Send + 'static,
    F: AsyncFnOnce() -> Result<T> + Send + 'static,
{
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::internal("no runtime to open the array with").with_source(e))?;
        runtime.block_on(work())
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    let thread =
        thread.map_err(|e| Error::internal("no thread to open the array with").with_source(e))?;
    thread
        .join()
        .map_err(|_| Error::internal("opening the array ended in a panic"))?
}

/// Opens a [`TileDbTable`] with options; see [`TileDbTable::builder`].
#[derive(Debug, Clone)]
pub struct TileDbTableBuilder {
    place: ArrayPlace,
    options: TableOptions,
    runtime: Option<ArrayRuntime>,
    engine: Option<Engine>,
    request_log: Option<Arc<RequestLog>>,
    cache: Option<Arc<MetadataCache>>,
}

impl TileDbTable {
    /// Opens the array at a local path, a `file://` URL or a [`Location`](crate::Location) in its current state.
    pub async fn open(place: impl Into<ArrayPlace>) -> Result<Self> {
        Self::builder(place).open().await
    }

    /// Opens an array with options, for example at a time.
    pub fn builder(place: impl Into<ArrayPlace>) -> TileDbTableBuilder {
        TileDbTableBuilder {
            place: place.into(),
            options: TableOptions::default(),
            runtime: None,
            engine: None,
            request_log: None,
            cache: None,
        }
    }
}

impl TileDbTableBuilder {
    /// Ignores what was written before this time (milliseconds since the epoch).
    #[must_use]
    pub fn timestamp_start(mut self, ms: u64) -> Self {
        self.options.timestamp_start = Some(ms);
        self
    }

    /// Ignores what was written after this time (milliseconds since the epoch).
    #[must_use]
    pub fn timestamp_end(mut self, ms: u64) -> Self {
        self.options.timestamp_end = Some(ms);
        self
    }

    /// Reads an encrypted array with this key.
    #[must_use]
    pub fn encryption_key(mut self, key: EncryptionKey) -> Self {
        self.options.encryption_key = Some(Arc::new(key));
        self
    }

    /// Sets all options at once.
    #[must_use]
    pub fn options(mut self, options: TableOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets one option by its name, with or without the prefix `tiledb.`.
    pub fn option(mut self, key: &str, value: &str) -> Result<Self> {
        self.options.set(key, value)?;
        Ok(self)
    }

    /// Finds the object store of a URL among those of a session, and opens the array in its engine. Without a session, only
    /// local paths can be opened.
    #[must_use]
    pub fn session(mut self, ctx: &SessionContext) -> Self {
        self.runtime = Some(ArrayRuntime::of_context(ctx));
        self
    }

    /// Logs every storage request.
    #[must_use]
    pub fn request_log(mut self, log: Arc<RequestLog>) -> Self {
        self.request_log = Some(log);
        self
    }

    /// Opens the array in this engine instead of that of the session.
    #[must_use]
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// Keeps parsed metadata in this cache instead of that of the engine.
    #[must_use]
    pub fn cache(mut self, cache: Arc<MetadataCache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Opens the array.
    pub async fn open(self) -> Result<TileDbTable> {
        let options = self.options.clone();
        TileDbTable::open_storage(self.storage()?, options).await
    }

    /// The storage of the array or group, with its key, the engine and the object store of the session. It is what functions
    /// without SQL take, such as [`Array::open`](tiledb_engine::Array::open) and [`Array::check`](tiledb_engine::Array::check).
    ///
    /// # Errors
    /// There is no object store for the URL.
    pub fn storage(self) -> Result<Storage> {
        let runtime = match (self.runtime, &self.engine) {
            (Some(runtime), Some(engine)) => Some(runtime.in_engine(engine.clone())),
            (runtime, _) => runtime,
        };
        let location = self.place.locate(runtime.as_ref())?;
        let storage = match &runtime {
            Some(runtime) => of_runtime(location, runtime),
            None => Storage::in_engine(location, &self.engine.unwrap_or_default()),
        };
        let mut storage = with_key(storage, &self.options)?;
        if let Some(log) = self.request_log {
            storage = storage.with_request_log(log);
        }
        if let Some(cache) = self.cache {
            storage = storage.with_cache(cache);
        }
        Ok(storage)
    }
}
