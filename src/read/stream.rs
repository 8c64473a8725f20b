//! Running a scan: units are fetched ahead while others are decoded, within the memory granted.
//!
//! Unfiltering and converting a tile takes milliseconds, so it happens on [`threads`] of its own, never while a stream
//! is polled. Dropping the stream drops the fetches; a decode under way finishes into nothing.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, FuturesOrdered, Stream};

use super::dense::CoordinateColumns;
use super::memory::{Grant, MemoryBudget};
use super::metrics::ScanMetrics;
use super::order::{InSequence, RowOrder};
use super::plan::{ScanPlan, Units};
use super::prune::{RuntimeCondition, RuntimeFilter, TilePruner, UnitOrder, narrow_unit};
use super::scratch::Scratch;
use super::spec::Predicate;
use super::tile_memory::TileMemory;
use super::units::UnitQueue;
use super::{dense, sparse, threads};
use crate::error::{Error, ErrorKind, Result};
use crate::geometry::subarray::Subarray;

/// Units in flight for each partition: while the rows of the oldest wait to be taken, the next is decoded and the one after
/// it fetched.
const UNITS_IN_FLIGHT: usize = 3;

/// No further unit is begun while those in flight, decoded, are about so many bytes.
const BYTES_IN_FLIGHT: u64 = 96 << 20;

/// The same while what a unit brings may make the next one useless.
const UNITS_AHEAD_BY_PROMISE: usize = 2;

thread_local! {
    /// Decompression contexts are expensive to make; each decoding thread keeps its own.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// How far a partition reads ahead.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// It stands for so many partitions.
    pub partitions: usize,
    /// It may soon have enough: one unit first, then more and more.
    pub gradual: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            partitions: 1,
            gradual: false,
        }
    }
}

/// What all units of a partition share, but for what is asked of their rows: that may tighten from unit to unit.
#[derive(Debug, Clone)]
pub struct ScanContext {
    /// The plan.
    pub plan: Arc<ScanPlan>,
    /// The ranges of coordinates to return: those of the plan, or some of them.
    pub subarray: Arc<Subarray>,
    /// The condition that rows must meet besides: that of the plan, or a stricter one.
    pub predicate: Option<Arc<dyn Predicate>>,
    /// What tightens them.
    runtime: Option<Arc<dyn RuntimeFilter>>,
    /// The order in which units are read, if another than that of the plan is worth the while.
    order: Option<Arc<UnitOrder>>,
    /// The order in which rows come, where one is promised; the units of the plan follow each other in it.
    row_order: Option<Arc<RowOrder>>,
    /// How far to read ahead.
    pace: Pace,
    /// The schema of the batches.
    pub schema: SchemaRef,
    /// Where memory comes from.
    pub memory: Arc<TileMemory>,
    /// Columns of coordinates that dense units share.
    pub coordinates: Arc<CoordinateColumns>,
    /// What is counted.
    pub metrics: Arc<ScanMetrics>,
}

impl ScanContext {
    /// The context of one partition.
    pub fn new(
        plan: Arc<ScanPlan>,
        memory: Arc<dyn MemoryBudget>,
        metrics: Arc<ScanMetrics>,
    ) -> Self {
        Self {
            schema: plan.spec.output_schema(),
            subarray: Arc::clone(&plan.spec.subarray),
            predicate: plan.spec.predicate.clone(),
            runtime: None,
            order: None,
            row_order: None,
            pace: Pace::default(),
            plan,
            memory: TileMemory::new(memory),
            coordinates: Arc::default(),
            metrics,
        }
    }

    /// With a condition that may tighten while the scan runs.
    #[must_use]
    pub fn with_runtime_filter(mut self, filter: Option<Arc<dyn RuntimeFilter>>) -> Self {
        self.runtime = filter;
        self
    }

    /// With units in an order of their own.
    #[must_use]
    pub fn with_order(mut self, order: Option<Arc<UnitOrder>>) -> Self {
        self.order = order;
        self
    }

    /// With rows in an order; the units of the plan follow each other in it.
    #[must_use]
    pub fn with_row_order(mut self, order: Option<Arc<RowOrder>>, pace: Pace) -> Self {
        self.row_order = order;
        self.pace = pace;
        self
    }

    /// What is asked of rows at run time, as of now.
    pub fn condition(&self) -> Result<Option<Arc<RuntimeCondition>>> {
        match &self.runtime {
            Some(filter) => filter.current(),
            None => Ok(None),
        }
    }

    /// What judges tiles for the plan's condition, if planning left it for later.
    pub fn judges_late(&self) -> Option<Arc<dyn TilePruner>> {
        let predicate = self.plan.spec.predicate.as_ref();
        predicate.filter(|_| self.plan.unjudged)?.pruner()
    }

    /// The same with what a condition asks of rows, and these ranges.
    #[must_use]
    pub fn under(&self, condition: &RuntimeCondition, subarray: Arc<Subarray>) -> Arc<Self> {
        Arc::new(Self {
            subarray,
            predicate: condition.predicate.clone(),
            ..self.clone()
        })
    }

    /// The columns the condition looks at.
    pub fn predicate_columns(&self) -> &[usize] {
        self.predicate.as_ref().map_or(&[], |p| p.columns())
    }

    /// Runs `work` on a thread that decodes, with that thread's scratch buffers.
    pub async fn decode<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self, &mut Scratch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let context = Arc::clone(self);
        let work = move || {
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.memory = Arc::clone(&context.memory);
                let started = Instant::now();
                let done = work(&context, scratch);
                let skipped = scratch.filters.take_skipped_chunks();
                context.metrics.chunks_skipped.add(skipped);
                context.metrics.decode_nanos.add_elapsed(started);
                done
            })
        };
        threads::decode(work).await?
    }

    async fn read(self: &Arc<Self>, unit: u64) -> Result<UnitBatches> {
        let (batches, grant) = match &self.plan.units {
            Units::Sparse(units) => {
                let index = usize::try_from(unit)?;
                let unit = units
                    .get(index)
                    .ok_or_else(|| Error::internal(format!("there is no unit {index}")))?;
                match narrow_unit(Arc::clone(self), unit).await? {
                    Some((context, unit)) => sparse::read_unit(&context, unit).await?,
                    None => (Vec::new(), None),
                }
            }
            Units::Dense(dense) => {
                let condition = self.condition()?;
                let tiles = dense.unit_tiles(unit);
                let context = match &condition {
                    Some(condition) => {
                        let span = |d| dense.span(&tiles, d);
                        let cells = dense.grid.cells_per_tile();
                        self.under(condition, condition.subarray_of(cells, span)?)
                    }
                    None => Arc::clone(self),
                };
                dense::read_unit(&context, condition.as_deref(), tiles).await?
            }
        };
        let (batches, mut grant) = match &self.row_order {
            Some(order) => self.in_order(Arc::clone(order), batches, grant).await?,
            None => (batches, grant),
        };
        // What it took to make the rows is free while they wait.
        if let Some(grant) = &mut grant {
            let bytes = batches.iter().map(RecordBatch::get_array_memory_size);
            grant.shrink_to(bytes.fold(0, usize::saturating_add));
        }
        Ok(UnitBatches {
            batches: batches.into(),
            grant,
        })
    }

    /// The rows of a unit in order.
    async fn in_order(
        self: &Arc<Self>,
        order: Arc<RowOrder>,
        batches: Vec<RecordBatch>,
        grant: Option<Grant>,
    ) -> Result<(Vec<RecordBatch>, Option<Grant>)> {
        let work = move |context: &Self, _: &mut Scratch| {
            if order.is_kept_by(&batches)? {
                return Ok((batches, grant));
            }
            let bytes = batches.iter().map(RecordBatch::get_array_memory_size);
            let sorted = context.memory.reserve(bytes.sum())?;
            Ok((order.sort(&batches)?, Some(sorted)))
        };
        self.decode(work).await
    }

    /// The unit that is read at a place of the queue.
    async fn unit_at(&self, place: u64) -> Result<u64> {
        match (&self.order, &self.row_order) {
            (_, Some(order)) if order.descends() => {
                let last = self.plan.unit_count().saturating_sub(1);
                Ok(last.saturating_sub(place))
            }
            (Some(order), None) => order.unit(&self.plan, place).await,
            _ => Ok(place),
        }
    }
}

/// The rows of a unit, with the memory they occupy.
struct UnitBatches {
    batches: VecDeque<RecordBatch>,
    grant: Option<Grant>,
}

struct Running {
    context: Arc<ScanContext>,
    /// Gives units, or, where there is an order of units, places in it.
    units: UnitQueue,
    in_flight: FuturesOrdered<BoxFuture<'static, Result<UnitBatches>>>,
    /// What the queue gave for those in flight, in their order.
    reading: VecDeque<u64>,
    /// About how many bytes each of those takes.
    bytes: VecDeque<u64>,
    /// The same of those that were in flight when memory was short.
    again: VecDeque<u64>,
    /// Units to keep in flight.
    width: usize,
    /// Whether there are to be more of them when the first rows are there.
    ramps_up: bool,
    /// As many as there may be in the end.
    widest: usize,
    /// Whether rows come in the order that is promised.
    sequence: Option<InSequence>,
    current: Option<UnitBatches>,
}

/// The batches of units, in the order in which the queue gives them.
pub fn read_units(
    context: ScanContext,
    units: UnitQueue,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let context = Arc::new(context);
    let widest = UNITS_IN_FLIGHT.saturating_mul(context.pace.partitions);
    let running = Running {
        // What the first unit brings decides which others are read.
        ramps_up: context.order.is_some(),
        width: match context.order {
            Some(_) => 1,
            None if context.pace.gradual => 1,
            None => widest,
        },
        widest: if context.pace.gradual { widest } else { 1 },
        sequence: context.row_order.as_deref().cloned().map(InSequence::new),
        context,
        units,
        in_flight: FuturesOrdered::new(),
        reading: VecDeque::new(),
        bytes: VecDeque::new(),
        again: VecDeque::new(),
        current: None,
    };
    stream::try_unfold(running, |mut running| async move {
        let uri = running
            .context
            .plan
            .spec
            .table
            .snapshot
            .storage
            .uri()
            .to_owned();
        let batch = running.next().await.map_err(|e| e.with("array", uri))?;
        Ok(batch.map(|batch| (batch, running)))
    })
}

impl Running {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(batch) = current.batches.pop_front() {
                    if let Some(sequence) = &mut self.sequence {
                        sequence.next(&batch)?;
                    }
                    self.context.metrics.rows_out.add(batch.num_rows());
                    return Ok(Some(batch));
                }
                drop(current.grant.take());
                self.current = None;
            }
            while self.has_room() {
                let Some(place) = self.next_place() else {
                    break;
                };
                let unit = self.context.unit_at(place).await?;
                self.reading.push_back(place);
                self.bytes.push_back(self.context.plan.unit_bytes(unit));
                let context = Arc::clone(&self.context);
                let read = async move { context.read(unit).await };
                self.in_flight.push_back(Box::pin(read));
            }
            let Some(read) = self.in_flight.next().await else {
                return Ok(None);
            };
            match read {
                Ok(unit) => {
                    self.reading.pop_front();
                    self.bytes.pop_front();
                    if self.ramps_up && !unit.batches.is_empty() {
                        self.ramps_up = false;
                        self.width = UNITS_AHEAD_BY_PROMISE;
                    }
                    self.width = self.width.max((self.width * 2).min(self.widest));
                    self.current = Some(unit);
                }
                Err(e) if e.kind() == ErrorKind::OutOfMemory && self.width > 1 => {
                    // Reading ahead asked for too much: begin again at this unit, one at a time.
                    self.in_flight = FuturesOrdered::new();
                    self.again = std::mem::take(&mut self.reading);
                    self.bytes.clear();
                    self.width = 1;
                    self.widest = 1;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether another unit may be begun.
    fn has_room(&self) -> bool {
        let few = self.in_flight.len() < self.width;
        let most = BYTES_IN_FLIGHT.saturating_mul(self.context.pace.partitions as u64);
        few && self.bytes.iter().sum::<u64>() < most
    }

    fn next_place(&mut self) -> Option<u64> {
        self.again.pop_front().or_else(|| self.units.take())
    }
}
