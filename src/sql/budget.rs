//! A memory budget backed by DataFusion's memory pool.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

use crate::error::{Error, Result};
use crate::memory::budget::{Grant, MemoryBudget};
use crate::storage::release_buffers;
use crate::tile::tile_memory::release_tile_memory;

/// Larger reservations are refused without asking the pool: a pool without a limit adds without a check, and after an
/// overflow the reservation cannot be released.
const MOST_BYTES: usize = isize::MAX.cast_unsigned() >> 8;

/// What waits between queries takes at most this part of a pool with a limit.
const IDLE_PART: usize = 16;

/// Reserves memory from the pool of a query.
#[derive(Debug)]
pub(crate) struct PoolBudget {
    reservation: Arc<MemoryReservation>,
    idle_limit: usize,
}

impl PoolBudget {
    /// A memory consumer for one partition of a scan.
    pub(crate) fn new(context: &TaskContext, partition: usize) -> Self {
        Self::named(format!("TileDbScan[{partition}]"), context.memory_pool())
    }

    /// A consumer of a memory pool.
    pub(crate) fn named(name: impl Into<String>, pool: &Arc<dyn MemoryPool>) -> Self {
        let reservation = Arc::new(MemoryConsumer::new(name).register(pool));
        let idle_limit = match pool.memory_limit() {
            MemoryLimit::Infinite => usize::MAX,
            MemoryLimit::Finite(bytes) => bytes / IDLE_PART,
            // Nobody could say when it is in the way.
            MemoryLimit::Unknown => 0,
        };
        Self {
            reservation,
            idle_limit,
        }
    }

    fn try_grow(&self, bytes: usize) -> datafusion::common::Result<()> {
        self.reservation.try_grow(bytes).or_else(|_| {
            release_buffers();
            release_tile_memory();
            self.reservation.try_grow(bytes)
        })
    }
}

impl MemoryBudget for PoolBudget {
    fn reserve(&self, bytes: usize) -> Result<Grant> {
        if bytes > MOST_BYTES {
            return Err(Error::out_of_memory(format!(
                "a scan unit needs {bytes} bytes, more than any machine has: the array's metadata may be corrupt"
            )));
        }
        self.try_grow(bytes).map_err(|e| {
            Error::out_of_memory(format!(
                "a scan unit needs {bytes} bytes, which the memory limit does not leave; raise the limit or read fewer columns"
            ))
            .with_source(e)
        })?;
        let reservation = Arc::clone(&self.reservation);
        Ok(Grant::new(bytes, move |bytes| reservation.shrink(bytes)))
    }

    fn idle_limit(&self) -> usize {
        self.idle_limit
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::buffer::Buffer;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;
    use crate::memory::budget::Unlimited;
    use crate::memory::idle::account_in;
    use crate::tile::tile_memory::TileMemory;

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
    #[test]
    fn a_scan_gets_what_is_idle() {
        let bytes = 104 << 10;
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(20 * bytes));
        account_in(Arc::new(PoolBudget::named("idle", &pool)));
        for _ in 0..3 {
            let memory = TileMemory::new(Arc::new(Unlimited));
            drop(Buffer::from(memory.buffer(bytes).unwrap()));
        }
        assert!(pool.reserved() <= 20 * bytes / IDLE_PART);
        let scan = PoolBudget::named("scan", &pool);
        assert!(scan.reserve(20 * bytes).is_ok());
    }
}
