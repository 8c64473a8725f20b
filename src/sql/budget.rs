//! The memory and the disk that DataFusion lets a statement use.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, LargeBinaryBuilder, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use futures::{StreamExt, TryStreamExt, stream};

use crate::error::{Error, Result};
use crate::memory::budget::{Grant, MemoryBudget};
use crate::storage::release_buffers;
use crate::tile::tile_memory::release_tile_memory;
use crate::write::dense::collected::{Records, Scratch};

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

/// The disk on which DataFusion keeps what a statement's memory does not hold.
pub(crate) struct DiskScratch {
    manager: SpillManager,
}

/// Records are kept together until they have so many bytes.
const RECORD_BYTES: usize = 1 << 20;

impl DiskScratch {
    /// The disk of a session; what goes there is counted in `metrics`.
    pub(crate) fn new(context: &TaskContext, metrics: &ExecutionPlanMetricsSet) -> Self {
        let field = Field::new("record", DataType::LargeBinary, false);
        let schema = Arc::new(Schema::new(vec![field]));
        let metrics = SpillMetrics::new(metrics, 0);
        Self {
            manager: SpillManager::new(context.runtime_env(), metrics, schema),
        }
    }

    fn spill(
        &self,
        records: &mut dyn Iterator<Item = Vec<u8>>,
    ) -> datafusion::common::Result<Records> {
        let mut file = self
            .manager
            .create_in_progress_file("rows of a dense array")?;
        let mut records = records.peekable();
        while records.peek().is_some() {
            let mut together = LargeBinaryBuilder::new();
            while together.values_slice().len() < RECORD_BYTES
                && let Some(record) = records.next()
            {
                together.append_value(record);
            }
            let schema = Arc::clone(self.manager.schema());
            let batch = RecordBatch::try_new(schema, vec![Arc::new(together.finish())])?;
            file.append_batch(&batch)?;
        }
        let Some(file) = file.finish()? else {
            return Ok(stream::empty().boxed());
        };
        let batches = self.manager.read_spill_as_stream(file, None)?;
        let records = batches.map_ok(|batch| {
            let column = batch.columns().first();
            let column = column.and_then(|column| column.as_binary_opt::<i64>());
            let values = column
                .into_iter()
                .flat_map(|column| column.iter().flatten());
            let values = values.map(|value| Ok(value.to_vec()));
            stream::iter(values.collect::<Vec<Result<_>>>())
        });
        let records = records.map_err(unreadable);
        Ok(records.try_flatten().boxed())
    }
}

fn unreadable(error: DataFusionError) -> Error {
    let what = "what the memory does not hold cannot be kept on disk";
    match error.find_root() {
        DataFusionError::ResourcesExhausted(why) => Error::out_of_memory(format!("{what}: {why}")),
        _ => Error::storage(what).with_source(error),
    }
}

impl fmt::Debug for DiskScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskScratch").finish_non_exhaustive()
    }
}

impl Scratch for DiskScratch {
    fn keep(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Records> {
        self.spill(records).map_err(unreadable)
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
