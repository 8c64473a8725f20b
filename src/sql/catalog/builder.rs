//! Opening of groups with options, and attaching them to a session.

use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;

use super::super::location::group_storage;
use super::super::options::TableOptions;
use super::attached;
use super::explore::Stores;
use super::group::{AttachAs, Shared, TileDbGroup};
use crate::error::{Error, Result};
use crate::sql::optimizer;
use crate::storage::{Location, MetadataCache, RequestLog};

impl TileDbGroup {
    /// Opens the group at a local path or `file://` URL in its current state.
    pub async fn open(uri: impl Into<String>) -> Result<Self> {
        Self::builder(uri).open().await
    }

    /// Opens or attaches a group with options, for example at a time.
    pub fn builder(uri: impl Into<String>) -> TileDbGroupBuilder {
        TileDbGroupBuilder {
            uri: uri.into(),
            options: TableOptions::default(),
            location: None,
            request_log: None,
            cache: None,
            attach_as: AttachAs::default(),
        }
    }
}

/// Opens a [`TileDbGroup`] with options; see [`TileDbGroup::builder`].
#[derive(Debug, Clone)]
pub struct TileDbGroupBuilder {
    uri: String,
    options: TableOptions,
    location: Option<Location>,
    request_log: Option<Arc<RequestLog>>,
    cache: Option<Arc<MetadataCache>>,
    attach_as: AttachAs,
}

impl TileDbGroupBuilder {
    /// Reads the group and its members at this time (milliseconds since the epoch).
    #[must_use]
    pub fn timestamp_end(mut self, ms: u64) -> Self {
        self.options.timestamp_end = Some(ms);
        self
    }

    /// Sets all options at once; they apply to every member.
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

    /// Reads from the caller's own object store, for example one in memory.
    #[must_use]
    pub fn location(mut self, location: Location) -> Self {
        self.location = Some(location);
        self
    }

    /// Logs every storage request.
    #[must_use]
    pub fn request_log(mut self, log: Arc<RequestLog>) -> Self {
        self.request_log = Some(log);
        self
    }

    /// Keeps parsed metadata in this cache instead of the one shared by the process.
    #[must_use]
    pub fn cache(mut self, cache: Arc<MetadataCache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets what [`attach`](Self::attach) attaches the group as.
    #[must_use]
    pub fn attach_as(mut self, what: AttachAs) -> Self {
        self.attach_as = what;
        self
    }

    /// Opens the group without a session. Members in object stores cannot be found then, only those in local files and
    /// those below the group.
    pub async fn open(self) -> Result<TileDbGroup> {
        self.open_with(Stores::of_runtime(Arc::new(RuntimeEnv::default())))
            .await
    }

    /// Opens the group and attaches it to a session as `name`, which must not be taken.
    pub async fn attach(self, ctx: &SessionContext, name: &str) -> Result<()> {
        let attach_as = self.attach_as;
        attached::check_free(ctx, name, attach_as)?;
        let group = self.open_with(Stores::of_session(ctx)).await?;
        optimizer::install(ctx)
            .map_err(|e| Error::invalid("the session cannot be taught arrays").with_source(e))?;
        attached::attach(ctx, name, group, attach_as)
    }

    async fn open_with(self, stores: Stores) -> Result<TileDbGroup> {
        let location = match self.location {
            Some(location) => location,
            None => stores.locate(&self.uri).await?,
        };
        let mut root = group_storage(location, &self.options)?;
        if let Some(log) = self.request_log {
            root = root.with_request_log(log);
        }
        if let Some(cache) = self.cache {
            root = root.with_cache(cache);
        }
        let shared = Shared::open(root, self.options, stores).await?;
        Ok(TileDbGroup(Arc::new(shared)))
    }
}
