//! DataFusion's memory pool as the reader's budget.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use crate::error::{Error, Result};
use crate::tile::memory::{Grant, MemoryBudget};

/// More than this is refused unasked: a pool without a limit adds without looking, and what overflows there cannot be
/// given back.
const MOST_BYTES: usize = isize::MAX.cast_unsigned() >> 8;

/// Grants memory from the pool of a query.
#[derive(Debug)]
pub(crate) struct PoolBudget {
    reservation: Arc<MemoryReservation>,
}

impl PoolBudget {
    /// A consumer for one partition of a scan.
    pub(crate) fn new(context: &TaskContext, partition: usize) -> Self {
        Self::named(format!("TileDbScan[{partition}]"), context.memory_pool())
    }

    /// A consumer of a pool.
    pub(crate) fn named(name: impl Into<String>, pool: &Arc<dyn MemoryPool>) -> Self {
        let reservation = Arc::new(MemoryConsumer::new(name).register(pool));
        Self { reservation }
    }
}

impl MemoryBudget for PoolBudget {
    fn reserve(&self, bytes: usize) -> Result<Grant> {
        if bytes > MOST_BYTES {
            return Err(Error::out_of_memory(format!(
                "a scan unit needs {bytes} bytes, more than any machine has: the array's metadata may be corrupt"
            )));
        }
        self.reservation.try_grow(bytes).map_err(|e| {
            Error::out_of_memory(format!(
                "a scan unit needs {bytes} bytes, which the memory limit does not leave; raise the limit or read fewer columns"
            ))
            .with_source(e)
        })?;
        let reservation = Arc::clone(&self.reservation);
        Ok(Grant::new(bytes, move |bytes| reservation.shrink(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_requests_leave_the_pool_as_it_was() {
        let context = TaskContext::default();
        let budget = PoolBudget::new(&context, 0);
        let grants = [1, 1000, MOST_BYTES].map(|bytes| budget.reserve(bytes).unwrap());
        for bytes in [MOST_BYTES + 1, usize::MAX - 1, usize::MAX] {
            let error = budget.reserve(bytes).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::OutOfMemory);
        }
        assert_eq!(context.memory_pool().reserved(), 1001 + MOST_BYTES);
        drop(grants);
        assert_eq!(context.memory_pool().reserved(), 0);
    }
}
