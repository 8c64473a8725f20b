//! State that the units of one partition share.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;

use super::metrics::{ScanCount, ScanMetrics};
use super::order::RowOrder;
use super::plan::ScanPlan;
use super::spec::{Predicate, RuntimeCondition, RuntimeFilter};
use super::threads;
use super::unit_order::UnitOrder;
use crate::error::Result;
use crate::geometry::box_runs::BoxCoordinates;
use crate::geometry::subarray::Subarray;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::stats::pruner::TilePruner;
use crate::storage::{CacheReads, Storage};
use crate::tile::fetch::{FetchList, FetchedBytes};
use crate::tile::joint_fetch::{FetchVolume, JointFetch};
use crate::tile::tile_memory::{DecodeScratch, TileMemory};

thread_local! {
    /// Decompression contexts are expensive to make, so each decoding thread keeps its own. Decoding threads belong to an
    /// engine and end with it, and so does this.
    static SCRATCH: RefCell<DecodeScratch> = RefCell::default();
}

/// How far a partition reads ahead.
#[derive(Debug, Clone, Copy)]
pub struct ReadAhead {
    /// Number of partitions whose share of bytes in flight this one uses.
    pub partitions: usize,
    /// Whether the consumer may soon have enough rows: then one unit is read first, and more and more after it.
    pub gradual: bool,
}

impl Default for ReadAhead {
    fn default() -> Self {
        Self {
            partitions: 1,
            gradual: false,
        }
    }
}

/// What all units of a partition share, except the run-time conditions on their rows, which may tighten from unit to
/// unit.
#[derive(Debug, Clone)]
pub struct ScanContext {
    /// The plan.
    pub plan: Arc<ScanPlan>,
    /// The ranges of coordinates to return: those of the plan, or some of them.
    pub subarray: Arc<Subarray>,
    /// The predicate that rows must also satisfy: that of the plan, or a stricter one.
    pub predicate: Option<Arc<dyn Predicate>>,
    /// The run-time filter that narrows the subarray and the predicate.
    pub(super) runtime: Option<Arc<dyn RuntimeFilter>>,
    /// The order in which units are read, if it differs from that of the plan.
    pub(super) order: Option<Arc<UnitOrder>>,
    /// The order that rows are promised in, if any; the units of the plan follow each other in it.
    pub(super) row_order: Option<Arc<RowOrder>>,
    /// Whether the place of each batch of a dense array is kept.
    pub(super) keeps_places: bool,
    /// How far to read ahead.
    pub(super) pace: ReadAhead,
    /// The schema of the batches.
    pub schema: SchemaRef,
    /// The budget that memory is reserved from.
    pub memory: Arc<TileMemory>,
    /// The storage of the plan, whose idle buffers are charged to the scan.
    storage: Storage,
    /// What the units of the partition read together; `None` for files of this machine.
    joint_fetch: Option<Arc<JointFetch>>,
    /// Columns of coordinates that dense units share.
    pub coordinates: Arc<CoordinateColumns>,
    /// The counters of the scan.
    pub metrics: Arc<ScanMetrics>,
    /// Units that were read; the partitions of a scan may share the count.
    pub(super) units_read: Arc<ScanCount>,
}

impl ScanContext {
    /// The context of one partition. Buffers that it leaves idle are charged to its budget, too.
    pub fn new(
        plan: Arc<ScanPlan>,
        memory: Arc<dyn MemoryBudget>,
        metrics: Arc<ScanMetrics>,
    ) -> Self {
        let idle = Arc::clone(&memory);
        Self::leaving(plan, memory, idle, metrics)
    }

    /// The context of one partition, which charges buffers that it leaves idle to `idle`.
    pub fn leaving(
        plan: Arc<ScanPlan>,
        memory: Arc<dyn MemoryBudget>,
        idle: Arc<dyn MemoryBudget>,
        metrics: Arc<ScanMetrics>,
    ) -> Self {
        let storage = plan.spec.table.snapshot.storage.clone().charging(&idle);
        let idle = storage.engine().tile_account(idle);
        Self {
            schema: plan.spec.output_schema(),
            subarray: Arc::clone(&plan.spec.subarray),
            predicate: plan.spec.predicate.clone(),
            runtime: None,
            order: None,
            row_order: None,
            keeps_places: false,
            pace: ReadAhead::default(),
            plan,
            memory: TileMemory::new(memory, idle),
            joint_fetch: storage.is_remote().then(Arc::default),
            storage,
            coordinates: Arc::default(),
            metrics,
            units_read: Arc::default(),
        }
    }

    /// Keeps the place of each batch, for [`read_placed`](super::stream::read_placed). The scan is of a dense array, without a
    /// predicate, and shows cells that were never written.
    #[must_use]
    pub fn keeping_places(mut self) -> Self {
        self.keeps_places = true;
        self
    }

    /// Counts the units that were read here, too.
    #[must_use]
    pub fn with_units_read(mut self, units_read: Arc<ScanCount>) -> Self {
        self.units_read = units_read;
        self
    }

    /// Adds a condition that may tighten while the scan runs.
    #[must_use]
    pub fn with_runtime_filter(mut self, filter: Option<Arc<dyn RuntimeFilter>>) -> Self {
        self.runtime = filter;
        self
    }

    /// Sets the order in which units are read.
    #[must_use]
    pub fn with_order(mut self, order: Option<Arc<UnitOrder>>) -> Self {
        self.order = order;
        self
    }

    /// Promises rows in an order; the units of the plan follow each other in it.
    #[must_use]
    pub fn with_row_order(mut self, order: Option<Arc<RowOrder>>, pace: ReadAhead) -> Self {
        self.row_order = order;
        self.pace = pace;
        self
    }

    /// The condition that the run-time filter has at this moment.
    pub fn condition(&self) -> Result<Option<Arc<RuntimeCondition>>> {
        match &self.runtime {
            Some(filter) => filter.current(),
            None => Ok(None),
        }
    }

    /// The pruner of the plan's predicate, if planning left its evaluation to the scan.
    pub fn late_pruner(&self) -> Option<Arc<dyn TilePruner>> {
        let predicate = self.plan.spec.predicate.as_ref();
        predicate.filter(|_| self.plan.prunes_late)?.pruner()
    }

    /// A copy of the context for one unit, with the predicate of a run-time condition and these ranges of coordinates.
    #[must_use]
    pub fn under(&self, condition: &RuntimeCondition, subarray: Arc<Subarray>) -> Arc<Self> {
        Arc::new(Self {
            subarray,
            predicate: condition.predicate.clone(),
            ..self.clone()
        })
    }

    /// The table columns that the predicate reads.
    pub fn predicate_columns(&self) -> &[usize] {
        self.predicate.as_ref().map_or(&[], |p| p.columns())
    }

    /// Whether the predicate reads a table column.
    pub fn tests(&self, column: usize) -> bool {
        self.predicate_columns().contains(&column)
    }

    /// Runs `work` on a thread that decodes, with that thread's scratch buffers. It ends at the next chunk of a tile if the
    /// caller stops waiting.
    pub async fn decode<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self, &mut DecodeScratch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let context = Arc::clone(self);
        let work = move |stop| {
            SCRATCH.with_borrow_mut(|scratch| {
                let mut scratch = scratch.serve(&context.memory, stop);
                let started = Instant::now();
                let done = work(&context, &mut scratch);
                let skipped = scratch.filters.take_skipped_chunks();
                context.metrics.chunks_skipped.add(skipped);
                context.metrics.decode_nanos.add_elapsed(started);
                done
            })
        };
        threads::decode_until_dropped(self.storage.engine(), work).await?
    }

    /// Reads the bytes that were asked for, and counts them.
    pub async fn fetch(&self, list: FetchList) -> Result<FetchedBytes> {
        let start = Instant::now();
        let fetched = if self.storage.is_remote() && self.storage.engine().disk_cache().is_some() {
            let reads = Arc::new(CacheReads::new());
            let storage = self.storage.clone().with_cache_reads(Arc::clone(&reads));
            let (fetched, volume) = self.fetch_jointly(list, &storage).await?;
            let [hits, kept, found] = [reads.hits(), reads.bytes(), reads.files()]
                .map(|count| usize::try_from(count).unwrap_or(usize::MAX));
            self.count_fetched(
                volume.files.saturating_sub(found),
                volume.bytes.saturating_sub(kept as u64),
            )?;
            self.metrics.disk_cache_hits.add(hits);
            self.metrics.bytes_from_disk_cache.add(kept);
            fetched
        } else {
            let (fetched, volume) = self.fetch_jointly(list, &self.storage).await?;
            self.count_fetched(volume.files, volume.bytes)?;
            fetched
        };
        self.metrics.fetch_nanos.add_elapsed(start);
        Ok(fetched)
    }

    /// Reads what was asked for, and perhaps what other units want at the same moment. Returns the volume of what was read here.
    async fn fetch_jointly(
        &self,
        list: FetchList,
        storage: &Storage,
    ) -> Result<(FetchedBytes, FetchVolume)> {
        let Some(joint) = &self.joint_fetch else {
            let volume = FetchVolume::of(&list);
            return Ok((list.fetch(storage).await?, volume));
        };
        let requests = list.files().max(1) as u64;
        let worthwhile = storage.round_trip_bytes().saturating_mul(requests);
        let most = worthwhile.min(self.memory.share() as u64 / JOINT_PART);
        // Its future would make those of all scans large.
        Box::pin(joint.fetch(list, most, storage)).await
    }

    fn count_fetched(&self, requests: usize, bytes: u64) -> Result<()> {
        self.metrics.requests.add(requests);
        self.metrics.bytes_fetched.add(usize::try_from(bytes)?);
        Ok(())
    }

    /// Whether reading `unit_bytes` of each unit in vain costs the scan less than a round trip.
    pub(super) fn is_worth_a_round_trip(&self, unit_bytes: u64) -> bool {
        let bytes = unit_bytes.saturating_mul(self.plan.unit_count());
        self.storage.is_remote() && bytes <= self.storage.round_trip_bytes()
    }

    /// The storage of the plan.
    pub(super) fn storage(&self) -> &Storage {
        &self.storage
    }
}

/// The part of a partition's share of memory that a joint fetch may take. Its bytes stay until all who share them are done.
const JOINT_PART: u64 = 4;

/// The most bytes of columns that are kept.
const MOST_KEPT_BYTES: usize = 24 << 20;

/// The columns that later clips may reuse, least recently used first.
#[derive(Debug, Default)]
pub struct CoordinateColumns(Mutex<VecDeque<KeptCoordinates>>);

/// A column of coordinates.
#[derive(Debug)]
pub struct KeptCoordinates {
    /// The dimension.
    pub dimension: usize,
    /// The cells that the column covers.
    pub coordinates: BoxCoordinates,
    /// Its values.
    pub column: ArrayRef,
    /// The size of the column.
    pub bytes: usize,
    /// The memory reserved for the column.
    pub grant: Grant,
}

impl CoordinateColumns {
    /// Drops all columns.
    pub fn clear(&self) {
        self.kept().clear();
    }

    /// The column of a dimension over the same cells, if it is there.
    pub fn get(&self, dimension: usize, coordinates: &BoxCoordinates) -> Option<ArrayRef> {
        let mut kept = self.kept();
        let found = kept
            .iter()
            .position(|k| k.dimension == dimension && k.coordinates == *coordinates)?;
        let found = kept.remove(found)?;
        let column = Arc::clone(&found.column);
        // The most recently used column is dropped last.
        kept.push_back(found);
        Some(column)
    }

    /// Keeps a column, and drops the least recently used ones beyond the limit.
    pub fn keep(&self, new: KeptCoordinates) {
        let mut kept = self.kept();
        kept.push_back(new);
        let mut bytes = kept.iter().map(|k| k.bytes).sum::<usize>();
        while bytes > MOST_KEPT_BYTES
            && let Some(oldest) = kept.pop_front()
        {
            bytes = bytes.saturating_sub(oldest.bytes);
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<KeptCoordinates>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
