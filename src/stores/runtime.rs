//! What a session opens arrays with.

use std::ops::Deref;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};
use tiledb_engine::Engine;

/// The runtime of a session, with its object stores and its memory pool, and the engine in which the session opens arrays.
///
/// The engine is an extension of the session's configuration. A session without one uses the shared engine.
#[derive(Debug, Clone)]
pub(crate) struct ArrayRuntime {
    env: Arc<RuntimeEnv>,
    engine: Engine,
}

impl ArrayRuntime {
    pub(crate) fn new(env: Arc<RuntimeEnv>, engine: Engine) -> Self {
        Self { env, engine }
    }

    /// The runtime `env` of a session with this configuration.
    pub(crate) fn of_config(config: &SessionConfig, env: Arc<RuntimeEnv>) -> Self {
        let engine = config.get_extension::<Engine>();
        Self::new(
            env,
            engine.map_or_else(Engine::shared, |engine| Engine::clone(&engine)),
        )
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
}

impl Deref for ArrayRuntime {
    type Target = RuntimeEnv;

    fn deref(&self) -> &RuntimeEnv {
        &self.env
    }
}
