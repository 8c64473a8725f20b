//! Running a scan: units are fetched ahead while others are decoded, within the memory granted.
//!
//! Unfiltering and converting a tile takes milliseconds, so it happens on [threads](super::threads) of its own, never
//! while a stream is polled. Dropping the stream cancels its fetches; the result of a running decode is discarded.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::future::{BoxFuture, ready};
use futures::stream::{self, FuturesOrdered, Stream};
use futures::{StreamExt, TryStreamExt};

use super::context::ScanContext;
use super::order::{InSequence, RowOrder};
use super::parts::{UnitPart, halves};
use super::plan::PlanUnits;
use super::units::UnitQueue;
use super::{dense, sparse};
use crate::error::{Error, ErrorKind, Result};
use crate::geometry::domain::KeyBox;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::scan::narrow::narrow_unit;
use crate::tile::tile_memory::DecodeScratch;

/// Units in flight for each partition: while the rows of the first are consumed, the second is decoded and the third is
/// fetched. A remote store has more on the way, if it can.
const UNITS_IN_FLIGHT: usize = 3;

/// No further unit is started while the decoded size of those in flight is about this many bytes.
const BYTES_IN_FLIGHT: u64 = 96 << 20;

/// The most units in flight for each partition, where they fill the way to a store.
const MOST_UNITS_IN_FLIGHT: usize = 64;

/// Units in flight while the rows of one unit may prune the next.
const UNITS_AHEAD_BY_PROMISE: usize = 2;

impl ScanContext {
    async fn read(self: &Arc<Self>, work: StreamWork) -> Result<UnitBatches> {
        let (batches, places, grant) = match &self.plan.units {
            PlanUnits::Sparse(units) => {
                let index = usize::try_from(work.unit)?;
                let unit = units
                    .get(index)
                    .ok_or_else(|| Error::internal(format!("there is no unit {index}")))?;
                let unit = match &work.part {
                    Some(part) => &part.of_sparse(&self.plan, unit)?,
                    None => unit,
                };
                let (batches, grant) = match narrow_unit(Arc::clone(self), unit).await? {
                    Some((context, unit)) => sparse::read_unit(&context, unit).await?,
                    None => (Vec::new(), None),
                };
                (batches, Vec::new(), grant)
            }
            PlanUnits::Dense(dense) => {
                let condition = self.condition()?;
                let tiles = dense.unit_tiles(work.unit);
                let (tiles, within) = match &work.part {
                    Some(part) => part.of_dense(tiles),
                    None => (tiles, None),
                };
                let context = match &condition {
                    Some(condition) => {
                        let span = |d| dense.span(&tiles, d);
                        let cells = dense.grid.cells_per_tile();
                        self.under(condition, condition.subarray_of(cells, span)?)
                    }
                    None => Arc::clone(self),
                };
                let rows = dense::read_unit(&context, condition.as_deref(), tiles, within).await?;
                (rows.batches, rows.places, rows.grant)
            }
        };
        let (batches, mut grant) = match &self.row_order {
            Some(order) => self.in_order(Arc::clone(order), batches, grant).await?,
            None => (batches, grant),
        };
        // The rest of the memory that decoding took is released while the rows wait.
        if let Some(grant) = &mut grant {
            let bytes = batches.iter().map(RecordBatch::get_array_memory_size);
            grant.shrink_to(bytes.fold(0, usize::saturating_add));
        }
        Ok(UnitBatches {
            batches: batches.into(),
            places: places.into(),
            grant,
        })
    }

    /// Puts the rows of a unit in order.
    async fn in_order(
        self: &Arc<Self>,
        order: Arc<RowOrder>,
        batches: Vec<RecordBatch>,
        grant: Option<Grant>,
    ) -> Result<(Vec<RecordBatch>, Option<Grant>)> {
        let work = move |context: &Self, _: &mut DecodeScratch| {
            if order.is_kept_by(&batches)? {
                return Ok((batches, grant));
            }
            let bytes = batches.iter().map(RecordBatch::get_array_memory_size);
            let sorted = context.memory.reserve(bytes.sum())?;
            Ok((order.sort(&batches)?, Some(sorted)))
        };
        self.decode(work).await
    }

    /// The unit at a position of the queue.
    async fn unit_at(&self, position: u64) -> Result<u64> {
        match (&self.order, &self.row_order) {
            (_, Some(order)) if order.descends() => {
                let last = self.plan.unit_count().saturating_sub(1);
                Ok(last.saturating_sub(position))
            }
            (Some(order), None) => order.unit(&self.plan, position).await,
            _ => Ok(position),
        }
    }
}

/// The rows of a unit, with the memory they occupy.
struct UnitBatches {
    batches: VecDeque<RecordBatch>,
    /// The boxes of cells that the batches are, if these are kept.
    places: VecDeque<KeyBox>,
    grant: Option<Grant>,
}

/// A unit to read, or a part of it.
#[derive(Debug, Clone)]
struct StreamWork {
    unit: u64,
    /// The part of it that is read; `None` if all of it.
    part: Option<UnitPart>,
    /// Whether the unit has been read after it.
    completes_unit: bool,
}

impl StreamWork {
    fn whole(unit: u64) -> Self {
        Self {
            unit,
            part: None,
            completes_unit: true,
        }
    }
}

/// A batch, and the box of cells that it is, if that is kept.
type PlacedBatch = (RecordBatch, Option<KeyBox>);

struct RunningUnit {
    context: Arc<ScanContext>,
    /// The queue of units; where units have an order of their own, it gives positions in it.
    units: UnitQueue,
    in_flight: FuturesOrdered<BoxFuture<'static, Result<UnitBatches>>>,
    /// What is in flight, in its order.
    reading: VecDeque<StreamWork>,
    /// About how many bytes each unit in flight takes.
    bytes: VecDeque<u64>,
    /// What is to be read again, because it was in flight when memory ran out.
    again: VecDeque<StreamWork>,
    /// Units to keep in flight.
    width: usize,
    /// Whether `width` grows once the first rows have come.
    ramps_up: bool,
    /// Whether more units than `width` are in flight while a remote store can have more on the way.
    fills_link: bool,
    /// About how many bytes the units that were read took.
    read_bytes: u64,
    /// The most units to keep in flight.
    widest: usize,
    /// The check that rows come in the promised order.
    sequence: Option<InSequence>,
    current: Option<UnitBatches>,
}

/// Reads units, and gives their batches in the order of the queue.
pub fn read_units(
    context: ScanContext,
    units: UnitQueue,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    read(context, units).map_ok(|(batch, _)| batch)
}

/// Reads units of a dense array, and gives their batches with the boxes of cells that these are. The cells of a box are in the
/// cell order of the array.
pub fn read_placed(
    context: ScanContext,
    units: UnitQueue,
) -> impl Stream<Item = Result<(RecordBatch, KeyBox)>> + Send {
    read(context.keeping_places(), units).and_then(|(batch, place)| {
        let place = place.ok_or_else(|| Error::internal("a batch of cells has no place"));
        ready(place.map(|place| (batch, place)))
    })
}

fn read(context: ScanContext, units: UnitQueue) -> impl Stream<Item = Result<PlacedBatch>> + Send {
    let context = Arc::new(context);
    let widest = UNITS_IN_FLIGHT.saturating_mul(context.pace.partitions);
    let running = RunningUnit {
        // The rows of the first unit decide which other units are read.
        ramps_up: context.order.is_some(),
        fills_link: context.order.is_none() && !context.pace.gradual,
        read_bytes: 0,
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
        let batch = match running.next().await {
            Ok(batch) => batch,
            Err(error) => {
                let snapshot = &running.context.plan.spec.table.snapshot;
                let error = snapshot.explain_missing(error).await;
                return Err(error.with("array", snapshot.storage.uri()));
            }
        };
        Ok(batch.map(|batch| (batch, running)))
    })
}

impl RunningUnit {
    async fn next(&mut self) -> Result<Option<PlacedBatch>> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(batch) = current.batches.pop_front() {
                    if let Some(sequence) = &mut self.sequence {
                        sequence.next(&batch)?;
                    }
                    self.context.metrics.rows_out.add(batch.num_rows());
                    return Ok(Some((batch, current.places.pop_front())));
                }
                drop(current.grant.take());
                self.current = None;
            }
            let mut started_bytes = 0;
            while self.has_room(started_bytes) {
                let Some(work) = self.next_work().await? else {
                    break;
                };
                let bytes = self.context.plan.unit_bytes(work.unit);
                started_bytes += bytes;
                self.bytes.push_back(bytes);
                self.reading.push_back(work.clone());
                let context = Arc::clone(&self.context);
                let read = async move { context.read(work).await };
                self.in_flight.push_back(Box::pin(read));
            }
            let Some(read) = self.in_flight.next().await else {
                return Ok(None);
            };
            match read {
                Ok(unit) => {
                    let done = self
                        .reading
                        .pop_front()
                        .is_some_and(|work| work.completes_unit);
                    self.context.units_read.add(usize::from(done));
                    let bytes = self.bytes.pop_front().unwrap_or_default();
                    self.read_bytes = self.read_bytes.saturating_add(bytes);
                    if self.ramps_up && !unit.batches.is_empty() {
                        self.ramps_up = false;
                        self.width = UNITS_AHEAD_BY_PROMISE;
                    }
                    self.width = self.width.max((self.width * 2).min(self.widest));
                    self.current = Some(unit);
                }
                Err(e) if e.kind() == ErrorKind::OutOfMemory => {
                    if !self.read_less_at_once() {
                        return Err(e);
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// After memory ran out: reads what is in flight again, one unit at a time, and the halves of a unit that does not fit
    /// alone. `false` if it cannot be halved.
    fn read_less_at_once(&mut self) -> bool {
        self.in_flight = FuturesOrdered::new();
        self.bytes.clear();
        let mut again = std::mem::take(&mut self.reading);
        if self.width > 1 || self.fills_link {
            self.width = 1;
            self.widest = 1;
            self.ramps_up = false;
            self.fills_link = false;
        } else {
            let halves = again.pop_front().and_then(|work| self.halves(&work));
            let Some([first, second]) = halves else {
                return false;
            };
            again.push_front(second);
            again.push_front(first);
        }
        again.append(&mut self.again);
        self.again = again;
        true
    }

    /// Whether another unit may be started. The units that were started last take `started_bytes`; their requests aren't sent yet.
    fn has_room(&self, started_bytes: u64) -> bool {
        let few = self.in_flight.len() < self.width || self.link_has_room(started_bytes);
        let most = BYTES_IN_FLIGHT
            .min(self.context.memory.share() as u64)
            .saturating_mul(self.context.pace.partitions as u64);
        let bytes = self.bytes.iter().copied().fold(0, u64::saturating_add);
        // However small the share is, something is read.
        self.in_flight.is_empty() || (few && bytes < most)
    }

    /// Whether a remote store can have more on the way.
    fn link_has_room(&self, started_bytes: u64) -> bool {
        if !self.fills_link || self.in_flight.len() >= MOST_UNITS_IN_FLIGHT {
            return false;
        }
        let Some(room) = self.context.storage().link_room_bytes() else {
            return false;
        };
        // What is fetched is smaller than what is decoded, by as much as it was so far.
        let fetched = self.context.metrics.bytes_fetched.get();
        let wanted = match self.read_bytes {
            0 => started_bytes,
            read => {
                let part = u128::from(started_bytes) * u128::from(fetched) / u128::from(read);
                u64::try_from(part).unwrap_or(u64::MAX)
            }
        };
        wanted < room
    }

    async fn next_work(&mut self) -> Result<Option<StreamWork>> {
        if let Some(work) = self.again.pop_front() {
            return Ok(Some(work));
        }
        let Some(position) = self.units.take() else {
            return Ok(None);
        };
        Ok(Some(StreamWork::whole(
            self.context.unit_at(position).await?,
        )))
    }

    /// The halves of what does not fit into memory; `None` if it cannot be halved.
    fn halves(&self, work: &StreamWork) -> Option<[StreamWork; 2]> {
        if self.context.row_order.is_some() {
            // The rows of a unit are sorted together.
            return None;
        }
        let context = &self.context;
        let [first, second] = halves(
            &context.plan,
            &context.subarray,
            work.unit,
            work.part.as_ref(),
        )?;
        let half = |part, completes_unit| StreamWork {
            unit: work.unit,
            part: Some(part),
            completes_unit,
        };
        Some([half(first, false), half(second, work.completes_unit)])
    }
}
