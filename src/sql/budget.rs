//! DataFusion's memory pool as the reader's budget.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

use crate::error::{Error, Result};
use crate::read::memory::{Grant, MemoryBudget};

/// Grants memory from the pool of a query.
#[derive(Debug)]
pub(crate) struct PoolBudget {
    reservation: Arc<MemoryReservation>,
}

impl PoolBudget {
    /// A consumer for one partition of a scan.
    pub(crate) fn new(context: &TaskContext, partition: usize) -> Self {
        let consumer = MemoryConsumer::new(format!("TileDbScan[{partition}]"));
        let reservation = Arc::new(consumer.register(context.memory_pool()));
        Self { reservation }
    }
}

impl MemoryBudget for PoolBudget {
    fn reserve(&self, bytes: usize) -> Result<Grant> {
        self.reservation.try_grow(bytes).map_err(|e| {
            Error::out_of_memory(format!(
                "a scan unit needs {bytes} bytes, which the memory limit does not leave; raise the limit or read fewer columns"
            ))
            .with_source(e)
        })?;
        let reservation = Arc::clone(&self.reservation);
        Ok(Grant::new(move || reservation.shrink(bytes)))
    }
}
