//! Running a scan: units are fetched ahead while others are decoded, within the memory granted.
//!
//! Unfiltering and converting a tile takes milliseconds, so it happens on blocking threads, never while a stream is
//! polled. Dropping the stream drops the fetches; a decode under way finishes into nothing.

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
use super::plan::{ScanPlan, Units};
use super::scratch::Scratch;
use super::spec::Predicate;
use super::tile_memory::TileMemory;
use super::units::UnitQueue;
use super::{dense, sparse};
use crate::array::subarray::Subarray;
use crate::error::{Error, ErrorKind, Result};

/// Units in flight per partition: while the rows of the oldest wait to be taken, the next is decoded and the one after
/// it fetched.
const UNITS_IN_FLIGHT: usize = 3;

thread_local! {
    /// Decompression contexts are expensive to make; each decoding thread keeps its own.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
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
            plan,
            memory: TileMemory::new(memory),
            coordinates: Arc::default(),
            metrics,
        }
    }

    /// The columns the condition looks at.
    pub fn predicate_columns(&self) -> &[usize] {
        self.predicate.as_ref().map_or(&[], |p| p.columns())
    }

    /// Runs `work` on a thread made for work, with that thread's scratch buffers.
    pub async fn decode<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self, &mut Scratch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let context = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.memory = Arc::clone(&context.memory);
                let started = Instant::now();
                let done = work(&context, scratch);
                context.metrics.decode_nanos.add_elapsed(started);
                done
            })
        });
        task.await
            .map_err(|e| Error::internal("decoding stopped before it was done").with_source(e))?
    }

    async fn read(self: Arc<Self>, unit: u64) -> Result<UnitBatches> {
        let (batches, grant) = match &self.plan.units {
            Units::Sparse(units) => {
                let index = usize::try_from(unit)?;
                let unit = units
                    .get(index)
                    .ok_or_else(|| Error::internal(format!("there is no unit {index}")))?;
                sparse::read_unit(&self, Arc::clone(unit)).await?
            }
            Units::Dense(dense) => dense::read_unit(&self, dense.unit_tiles(unit)).await?,
        };
        Ok(UnitBatches {
            batches: batches.into(),
            grant,
        })
    }
}

/// The rows of a unit, with the memory they occupy.
struct UnitBatches {
    batches: VecDeque<RecordBatch>,
    grant: Option<Grant>,
}

struct Running {
    context: Arc<ScanContext>,
    units: UnitQueue,
    in_flight: FuturesOrdered<BoxFuture<'static, Result<UnitBatches>>>,
    /// The units in flight, in their order.
    reading: VecDeque<u64>,
    /// Units that were in flight when memory was short.
    again: VecDeque<u64>,
    /// Units to keep in flight.
    width: usize,
    current: Option<UnitBatches>,
}

/// The batches of units, in the order in which the queue gives them.
pub fn read_units(
    context: Arc<ScanContext>,
    units: UnitQueue,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let running = Running {
        context,
        units,
        in_flight: FuturesOrdered::new(),
        reading: VecDeque::new(),
        again: VecDeque::new(),
        width: UNITS_IN_FLIGHT,
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
                    self.context.metrics.rows_out.add(batch.num_rows());
                    return Ok(Some(batch));
                }
                drop(current.grant.take());
                self.current = None;
            }
            while self.in_flight.len() < self.width {
                let Some(unit) = self.next_unit() else { break };
                self.reading.push_back(unit);
                let read = Arc::clone(&self.context).read(unit);
                self.in_flight.push_back(Box::pin(read));
            }
            let Some(read) = self.in_flight.next().await else {
                return Ok(None);
            };
            match read {
                Ok(batches) => {
                    self.reading.pop_front();
                    self.current = Some(batches);
                }
                Err(e) if e.kind() == ErrorKind::OutOfMemory && self.width > 1 => {
                    // Reading ahead asked for too much: begin again at this unit, one at a time.
                    self.in_flight = FuturesOrdered::new();
                    self.again = std::mem::take(&mut self.reading);
                    self.width = 1;
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn next_unit(&mut self) -> Option<u64> {
        self.again.pop_front().or_else(|| self.units.take())
    }
}
