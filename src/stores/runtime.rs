//! What a session opens arrays with.

use std::ops::Deref;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};
use tiledb_engine::Engine;
use tiledb_stores::NetworkLimits;
use url::Url;

use super::registry::{FoundStore, StoreRegistry};
use crate::options::SharedLimits;
use crate::options::settings::TileDbSettings;

/// The runtime of a session, with its object stores and its memory pool, and the engine in which the session opens arrays.
///
/// The engine is an extension of the session's configuration. A session without one uses the shared engine.
#[derive(Debug, Clone)]
pub(crate) struct ArrayRuntime {
    env: Arc<RuntimeEnv>,
    engine: Engine,
    /// The registry of `env`, if it is ours.
    registry: Option<Arc<StoreRegistry>>,
    limits: SharedLimits,
}

impl ArrayRuntime {
    pub(crate) fn new(env: Arc<RuntimeEnv>, engine: Engine) -> Self {
        Self {
            env,
            engine,
            registry: None,
            limits: SharedLimits::default(),
        }
    }

    /// The runtime `env` of a session with this configuration.
    pub(crate) fn of_config(config: &SessionConfig, env: Arc<RuntimeEnv>) -> Self {
        let engine = config.get_extension::<Engine>();
        Self {
            env,
            engine: engine.map_or_else(Engine::shared, |engine| Engine::clone(&engine)),
            registry: config.get_extension::<StoreRegistry>(),
            limits: TileDbSettings::of(config.options()).limits,
        }
    }

    /// The runtime of a session.
    pub(crate) fn of_session(session: &dyn Session) -> Self {
        Self::of_config(session.config(), Arc::clone(session.runtime_env()))
    }

    /// The runtime of a session.
    pub(crate) fn of_context(ctx: &SessionContext) -> Self {
        let state = ctx.state_ref();
        let state = state.read();
        Self::of_session(&*state)
    }

    /// Replaces the engine, and keeps the object stores and the memory pool.
    pub(crate) fn in_engine(self, engine: Engine) -> Self {
        Self { engine, ..self }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether tables of files find the stores of this module, too.
    pub(crate) fn serves_files(&self) -> bool {
        self.registry.is_some()
    }

    /// The limits of requests to object stores now.
    pub(crate) fn limits(&self) -> NetworkLimits {
        self.limits.get()
    }

    /// The store of the session for a URL. DataFusion's own registry would confuse the containers of an account of Azure, so it
    /// isn't asked for a URL with a user.
    pub(crate) fn session_store(&self, url: &Url) -> Option<FoundStore> {
        match &self.registry {
            Some(registry) => registry.find(url).ok(),
            None if url.username().is_empty() && url.password().is_none() => {
                let store = self.env.object_store_registry.get_store(url).ok()?;
                Some(FoundStore {
                    store,
                    address: None,
                })
            }
            None => None,
        }
    }
}

impl Deref for ArrayRuntime {
    type Target = RuntimeEnv;

    fn deref(&self) -> &RuntimeEnv {
        &self.env
    }
}
