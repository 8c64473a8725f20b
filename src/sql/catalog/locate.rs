//! The locations of absolute URIs in group files.
//!
//! The subtle thing: some programs register an object store when a query first names a URL in it, and no query names
//! the URLs of members. So if a store is missing, the URL is looked up once as a table of the session, to have the
//! store registered.

use std::fmt;
use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use url::Url;

use crate::error::Result;
use crate::sql::location::{local, locate};
use crate::storage::Location;

/// The schema in which a session would look up a URL, as long as the session exists.
type SessionSchema = dyn Fn() -> Option<Arc<dyn SchemaProvider>> + Send + Sync;

/// Finds the locations of URIs.
#[derive(Clone)]
pub(crate) struct Stores {
    runtime: Arc<RuntimeEnv>,
    session: Option<Arc<SessionSchema>>,
}

impl Stores {
    /// The stores of a session.
    pub(super) fn of_session(ctx: &SessionContext) -> Self {
        let weak = ctx.state_weak_ref();
        let schema = move || {
            let state = weak.upgrade()?;
            let state = state.read();
            let names = &state.config_options().catalog;
            let catalog = state.catalog_list().catalog(&names.default_catalog)?;
            catalog.schema(&names.default_schema)
        };
        Self {
            runtime: ctx.runtime_env(),
            session: Some(Arc::new(schema)),
        }
    }

    /// The stores of a runtime.
    pub(crate) fn of_runtime(runtime: Arc<RuntimeEnv>) -> Self {
        Self {
            runtime,
            session: None,
        }
    }

    /// The location of `uri`.
    pub(crate) async fn locate(&self, uri: &str) -> Result<Location> {
        // libtiledb writes paths into URIs unescaped, so `%` is an ordinary character.
        if let Some(path) = uri.strip_prefix("file://")
            && path.starts_with('/')
            && !cfg!(windows)
        {
            return local(path, &self.runtime);
        }
        if !self.has_store(uri)
            && let Some(schema) = self.session.as_ref().and_then(|session| session())
        {
            // Only the registration of the store matters; the location is opened below.
            let _ = schema.table(uri).await;
        }
        locate(uri, &self.runtime)
    }

    fn has_store(&self, uri: &str) -> bool {
        let is_url = uri.contains("://");
        !is_url
            || Url::parse(uri)
                .is_ok_and(|url| self.runtime.object_store_registry.get_store(&url).is_ok())
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}
