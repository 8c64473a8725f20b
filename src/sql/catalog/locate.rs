//! Where the absolute URIs in group files lead.
//!
//! The subtle thing: fronts register an object store when a query first names a URL of it, and nobody names the URLs
//! of members. So where a store is missing, the session is asked for the URL as a table, once, for that effect.

use std::fmt;
use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use url::Url;

use crate::error::Result;
use crate::sql::location::{local, locate};
use crate::storage::Location;

/// The schema that a session would look up a URL in, while the session lives.
type SessionSchema = dyn Fn() -> Option<Arc<dyn SchemaProvider>> + Send + Sync;

/// Finds locations for URIs.
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

    /// Where `uri` leads.
    pub(crate) async fn locate(&self, uri: &str) -> Result<Location> {
        // libtiledb writes paths into URIs as they are, so `%` escapes nothing.
        if let Some(path) = uri.strip_prefix("file://")
            && path.starts_with('/')
            && !cfg!(windows)
        {
            return local(path, &self.runtime);
        }
        if !self.has_store(uri)
            && let Some(schema) = self.session.as_ref().and_then(|session| session())
        {
            // What matters is that the store is registered now; what lies there is opened below.
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
