//! The session in which an array is read or written without SQL.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use tiledb_engine::Error;

use crate::error::to_datafusion_error;
use crate::optimizer;

/// What may be chosen for it.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionChoices {
    pub(super) batch_size: Option<usize>,
    pub(super) partitions: Option<usize>,
    pub(super) memory_pool: Option<Arc<dyn MemoryPool>>,
}

impl SessionChoices {
    /// A session with the object stores, and unless another one was chosen the memory pool, of `runtime`.
    pub(super) fn context(&self, runtime: &Arc<RuntimeEnv>) -> Result<SessionContext> {
        let mut config = SessionConfig::new().with_create_default_catalog_and_schema(false);
        if let Some(rows) = self.batch_size {
            config = config.with_batch_size(at_least_one("batch_size", rows)?);
        }
        if let Some(partitions) = self.partitions {
            config = config.with_target_partitions(at_least_one("partitions", partitions)?);
        }
        let mut runtime = Arc::clone(runtime);
        if let Some(pool) = &self.memory_pool {
            let builder = RuntimeEnvBuilder::from_runtime_env(&runtime);
            runtime = builder.with_memory_pool(Arc::clone(pool)).build_arc()?;
        }
        let mut builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime);
        optimizer::equip(&mut builder)?;
        Ok(SessionContext::new_with_state(builder.build()))
    }
}

fn at_least_one(what: &str, number: usize) -> Result<usize> {
    match number {
        0 => Err(to_datafusion_error(Error::invalid(format!(
            "{what} is 0, expected at least 1"
        )))),
        _ => Ok(number),
    }
}
