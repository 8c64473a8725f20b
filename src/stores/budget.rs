//! The memory and the disk that DataFusion lets a statement use.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{AsArray, LargeBinaryBuilder, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use futures::{StreamExt, TryStreamExt, stream};
use tiledb_engine::memory::budget::{Grant, MemoryBudget};
use tiledb_engine::storage::WeakEngine;
use tiledb_engine::write::dense::collected::{RecordReader, RecordStore};
use tiledb_engine::{Engine, Error, Result};

/// Larger reservations are refused without asking the pool: a pool without a limit adds without a check, and after an
/// overflow the reservation cannot be released.
const MOST_BYTES: usize = isize::MAX.cast_unsigned() >> 8;

/// The partitions of a scan may fill this part of a pool with a limit by reading ahead.
const AHEAD_PART: usize = 2;

/// What waits between queries takes at most this part of a pool with a limit.
const IDLE_PART: usize = 16;

/// Sorts that can go on on disk may hold all of a pool but this part, all together: they need memory to merge what they hold,
/// which then no longer can go on on disk, and so does what merges their rows.
const MERGE_PART: usize = 2;
/// From its first row on, each sort reserves at most this part of a pool for merging what it has put on disk. DataFusion's
/// setting is a number of bytes, which may be most of a small pool.
const RESERVED_MERGE_PART: usize = 16;

/// A pool whose memory is shared evenly among those who can go on on disk.
///
/// The pool of a session may give memory to whoever asks first. Then the sort of one partition takes what that of another
/// needs to put its rows on disk, and the statement fails, however small its rows are.
#[derive(Debug)]
struct FairPool {
    pool: Arc<dyn MemoryPool>,
    limit: usize,
    shares: Mutex<BudgetShares>,
}

#[derive(Debug, Default)]
struct BudgetShares {
    /// Those who can go on on disk.
    spillers: usize,
    /// The bytes of all others.
    fixed: usize,
}

/// A task with the same pool. Each sort takes at most its share of it, and reserves little for its merge.
pub(crate) fn with_fair_pool(context: &Arc<TaskContext>) -> Arc<TaskContext> {
    let pool = context.memory_pool();
    let MemoryLimit::Finite(limit) = pool.memory_limit() else {
        return Arc::clone(context);
    };
    let fair = FairPool {
        pool: Arc::clone(pool),
        limit,
        shares: Mutex::default(),
    };
    let runtime = RuntimeEnv {
        memory_pool: Arc::new(fair),
        ..context.runtime_env().as_ref().clone()
    };
    let config = context.session_config();
    let for_merge = config
        .options()
        .execution
        .sort_spill_reservation_bytes
        .min(limit / RESERVED_MERGE_PART);
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config.clone().with_sort_spill_reservation_bytes(for_merge),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        Arc::new(runtime),
    ))
}

impl FairPool {
    fn shares(&self) -> MutexGuard<'_, BudgetShares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grown(&self, reservation: &MemoryReservation, additional: usize) {
        if !reservation.consumer().can_spill() {
            let mut shares = self.shares();
            shares.fixed = shares.fixed.saturating_add(additional);
        }
    }
}

impl fmt::Display for FairPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}

impl MemoryPool for FairPool {
    fn name(&self) -> &str {
        self.pool.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
        self.shares().spillers += usize::from(consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let mut shares = self.shares();
        let spillers = usize::from(consumer.can_spill());
        shares.spillers = shares.spillers.saturating_sub(spillers);
        drop(shares);
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
        self.grown(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
        if !reservation.consumer().can_spill() {
            let mut shares = self.shares();
            shares.fixed = shares.fixed.saturating_sub(shrink);
        }
    }

    fn try_grow(
        &self,
        reservation: &MemoryReservation,
        additional: usize,
    ) -> datafusion::common::Result<()> {
        if reservation.consumer().can_spill() {
            let shares = self.shares();
            let free = self.limit.saturating_sub(shares.fixed);
            let share = (free - free / MERGE_PART) / shares.spillers.max(1);
            drop(shares);
            if reservation.size().saturating_add(additional) > share {
                return Err(DataFusionError::ResourcesExhausted(format!(
                    "{} asks for {additional} bytes more than the {} that it has, and its share of the memory is {share}",
                    reservation.consumer().name(),
                    reservation.size()
                )));
            }
        }
        self.pool.try_grow(reservation, additional)?;
        self.grown(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

/// Reserves memory from the pool of a query.
#[derive(Debug)]
pub(crate) struct PoolBudget {
    /// The engine whose idle buffers make room. Those buffers hold the budget, so it doesn't keep their engine alive.
    engine: WeakEngine,
    reservation: Arc<MemoryReservation>,
    idle_limit: usize,
    share: usize,
}

impl PoolBudget {
    /// A memory consumer for one partition of a scan in `engine`.
    pub(crate) fn new(context: &TaskContext, partition: usize, engine: &Engine) -> Self {
        let pool = context.memory_pool();
        let partitions = context.session_config().target_partitions().max(1);
        let share = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / AHEAD_PART / partitions,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        Self {
            share,
            ..Self::named(format!("TileDbScan[{partition}]"), pool, engine)
        }
    }

    /// A consumer of a memory pool. Where the pool has no more memory, the idle buffers of `engine` are freed.
    pub(crate) fn named(
        name: impl Into<String>,
        pool: &Arc<dyn MemoryPool>,
        engine: &Engine,
    ) -> Self {
        let reservation = Arc::new(MemoryConsumer::new(name).register(pool));
        let idle_limit = match pool.memory_limit() {
            MemoryLimit::Infinite => usize::MAX,
            MemoryLimit::Finite(bytes) => bytes / IDLE_PART,
            // Nobody could say when it is in the way.
            MemoryLimit::Unknown => 0,
        };
        Self {
            engine: engine.downgrade(),
            reservation,
            idle_limit,
            share: usize::MAX,
        }
    }

    fn try_grow(&self, bytes: usize) -> datafusion::common::Result<()> {
        self.reservation.try_grow(bytes).or_else(|_| {
            if let Some(engine) = self.engine.upgrade() {
                engine.release_idle();
            }
            self.reservation.try_grow(bytes)
        })
    }
}

impl MemoryBudget for PoolBudget {
    fn reserve(&self, bytes: usize) -> Result<Grant> {
        if bytes > MOST_BYTES {
            return Err(Error::out_of_memory(format!(
                "{bytes} bytes are needed at once, more than any machine has: the array's metadata may be corrupt"
            )));
        }
        self.try_grow(bytes).map_err(|e| {
            Error::out_of_memory(format!(
                "{bytes} bytes are needed at once, which the memory limit does not leave; raise the limit or read fewer columns"
            ))
            .with_source(e)
        })?;
        let reservation = Arc::clone(&self.reservation);
        Ok(Grant::new(bytes, move |bytes| reservation.shrink(bytes)))
    }

    fn share(&self) -> usize {
        self.share
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
    ) -> datafusion::common::Result<RecordReader> {
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
        let records = batches
            .map_ok(|batch| {
                let column = batch.columns().first();
                let column = column.and_then(|column| column.as_binary_opt::<i64>());
                let values = column
                    .into_iter()
                    .flat_map(|column| column.iter().flatten())
                    .map(|value| Ok(value.to_vec()));
                stream::iter(values.collect::<Vec<Result<_>>>())
            })
            .map_err(unreadable);
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

impl RecordStore for DiskScratch {
    fn keep(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<RecordReader> {
        self.spill(records).map_err(unreadable)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::buffer::Buffer;
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use tiledb_engine::EngineOptions;
    use tiledb_engine::memory::budget::UnlimitedBudget;
    use tiledb_engine::tile::tile_memory::TileMemory;

    use super::*;

    #[test]
    fn absurd_requests_leave_the_pool_as_it_was() {
        let context = TaskContext::default();
        let budget = PoolBudget::new(&context, 0, &Engine::shared());
        let grants = [1, 1000, MOST_BYTES].map(|bytes| budget.reserve(bytes).unwrap());
        for bytes in [MOST_BYTES + 1, usize::MAX - 1, usize::MAX] {
            let error = budget.reserve(bytes).unwrap_err();
            assert_eq!(error.kind(), tiledb_engine::ErrorKind::OutOfMemory);
        }
        assert_eq!(context.memory_pool().reserved(), 1001 + MOST_BYTES);
        drop(grants);
        assert_eq!(context.memory_pool().reserved(), 0);
    }
    #[test]
    fn a_scan_gets_what_is_idle() {
        let bytes = 104 << 10;
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(20 * bytes));
        let engine = Engine::new(EngineOptions::default());
        for _ in 0..3 {
            let idle = Arc::new(PoolBudget::named("idle", &pool, &engine));
            let memory = TileMemory::new(Arc::new(UnlimitedBudget), engine.tile_account(idle));
            drop(Buffer::from(memory.buffer(bytes).unwrap()));
        }
        assert!((bytes..=20 * bytes / IDLE_PART).contains(&pool.reserved()));
        let scan = PoolBudget::named("scan", &pool, &engine);
        assert!(scan.reserve(20 * bytes).is_ok());
    }

    /// A pool that gives memory to whoever asks first lets one sort starve another; a share does not, and what cannot go on on
    /// disk finds some left.
    #[test]
    fn sorts_share_a_pool() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool));
        let context = TaskContext::default().with_runtime(runtime.build_arc().unwrap());
        let context = with_fair_pool(&Arc::new(context));
        let fair = context.memory_pool();
        let sort = |name: &str| {
            MemoryConsumer::new(name)
                .with_can_spill(true)
                .register(fair)
        };
        let (one, other) = (sort("one"), sort("other"));
        one.try_grow(250).unwrap();
        let error = one.try_grow(1).unwrap_err().to_string();
        assert!(error.contains("its share of the memory is 250"), "{error}");
        other.try_grow(250).unwrap();
        let merge = MemoryConsumer::new("merge").register(fair);
        merge.try_grow(500).unwrap();
        assert!(merge.try_grow(1).is_err());
        assert_eq!((pool.reserved(), fair.reserved()), (1000, 1000));
        drop(other);
        merge.shrink(500);
        one.try_grow(250).unwrap();
        drop((one, merge));
        assert_eq!(pool.reserved(), 0);
    }
}
