//! Opening of the partitions of a scan: their batches have labels, and the batch size of the session. Until the first of
//! them has come, the scan can still be another one.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::datasource::source::OpenArgs;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::ready;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};

use super::counters::Published;
use super::mode::Shared;
use super::runs::{Renewed, Siblings};
use super::{Renewal, TileDbSource};
use crate::memory::budget::MemoryBudget;
use crate::memory::idle::account_in;
use crate::scan::ScanPlan;
use crate::scan::context::ScanContext;
use crate::scan::metrics::ScanMetrics;
use crate::scan::stream::read_units;
use crate::scan::units::{UnitPool, UnitQueue};
use crate::sql::budget::PoolBudget;
use crate::sql::is_conflict;
use crate::sql::labels::LabelProjection;

impl TileDbSource {
    /// The rows of one partition.
    pub(super) fn open_partition(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let siblings = siblings_of(&args);
        if self.filters.tighten() && !self.runs.is_first(siblings.as_deref(), &args) {
            let again = self.trusting(&HashSet::new());
            return again.map_or_else(
                || internal_err!("a scan that runs again keeps no dynamic filter"),
                |again| again.open_partition(args),
            );
        }
        let pool = siblings
            .as_ref()
            .and_then(|siblings| siblings.units.as_ref());
        let planned = self.open_planned(&args, pool)?;
        // What metadata answer is planned anew where that is asked for.
        let is_fixed = self.renewal == Renewal::Never || self.remaining().is_some();
        let Some(siblings) = siblings.filter(|_| !is_fixed) else {
            return Ok(planned);
        };
        let opening = Opening {
            source: self.clone(),
            args,
            siblings,
            times: 0,
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.planned.schema),
            stream::once(opening.begin(planned)).try_flatten(),
        )))
    }

    /// The rows of one partition of the scan as it is planned; the units are taken from the pool, if there is one.
    fn open_planned(
        &self,
        args: &OpenArgs,
        pool: Option<&Arc<UnitPool>>,
    ) -> Result<SendableRecordBatchStream> {
        match &self.arrangement.shared {
            Shared::Remaining(_) | Shared::Ranges(_) => Ok(self.open_later(args.clone())),
            Shared::Nothing | Shared::Order(_) => {
                let units = self.arrangement.partitions.get(args.partition);
                let units = unit_queue(pool, args, units.cloned().unwrap_or(0..0));
                self.read(
                    Arc::clone(self.plan()),
                    units,
                    args.partition,
                    &args.context,
                )
            }
        }
    }

    /// The rows of a partition whose units are only determined when it is polled.
    fn open_later(&self, args: OpenArgs) -> SendableRecordBatchStream {
        let source = self.clone();
        let batches = async move {
            let (plan, units) = source
                .units_of(&args)
                .await
                .map_err(DataFusionError::from)?;
            source.read(plan, units, args.partition, &args.context)
        };
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.planned.schema),
            stream::once(batches).try_flatten(),
        ))
    }

    /// The plan and the units that a partition reads.
    async fn units_of(&self, args: &OpenArgs) -> crate::Result<(Arc<ScanPlan>, UnitQueue)> {
        if let Some(remaining) = self.remaining() {
            let runtime = args.context.runtime_env();
            let left = Arc::clone(&remaining.parted(&runtime).await?.left);
            let units = left.partitions(self.arrangement.partitions.len());
            let units = units.get(args.partition).cloned().unwrap_or(0..0);
            let siblings = siblings_of(args);
            let pool = siblings.as_ref().and_then(|s| s.units.as_ref());
            return Ok((left, unit_queue(pool, args, units)));
        }
        let Some(ranges) = self.arrangement.ranges() else {
            return Err(crate::Error::internal("a partition without units"));
        };
        let snapshot = &self.plan().spec.table.snapshot;
        let mut part = match ranges.part(self.plan(), args.partition).await {
            Ok(part) => part,
            Err(error) => return Err(snapshot.explain_missing(error).await),
        };
        if let Some(order) = self.arrangement.row_order() {
            let ordered = part.in_order(order, None).ok_or_else(|| {
                crate::Error::internal("a range of a scan cannot be put in its order")
            })?;
            part = Arc::new(ordered);
        }
        let units = UnitQueue::alone(0..part.unit_count());
        Ok((part, units))
    }

    /// Reads units of a plan.
    fn read(
        &self,
        plan: Arc<ScanPlan>,
        units: UnitQueue,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.record_plan(&plan, partition);
        let budget: Arc<dyn MemoryBudget> = Arc::new(PoolBudget::new(context, partition));
        let idle = PoolBudget::named("TileDbBuffers", context.memory_pool());
        account_in(Arc::new(idle));
        let counters = Arc::new(ScanMetrics::default());
        let filter = self
            .filters
            .at_run_time(&plan, self.planned.predicate.as_ref())?;
        let scan = ScanContext::new(plan, Arc::clone(&budget), Arc::clone(&counters))
            .with_units_read(Arc::clone(&self.units_read))
            .with_runtime_filter(filter)
            .with_order(self.worthwhile_order())
            .with_row_order(self.arrangement.row_order().cloned(), self.pace());
        let published = Published::new(&self.metrics, partition, counters);
        let batches = with_labels(read_units(scan, units), self.planned.labels.clone(), budget);
        let batch_size = context.session_config().batch_size();
        let schema = Arc::clone(&self.planned.schema);
        let batches = coalesce(batches, Arc::clone(&schema), batch_size, self.fetch);
        let batches = batches.inspect(move |_| published.update());
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// A partition that has given no rows yet.
struct Opening {
    source: TileDbSource,
    args: OpenArgs,
    siblings: Arc<Siblings>,
    /// How often the scan was planned anew.
    times: usize,
}

impl Opening {
    /// The rows of the partition, from its first batch on. If files are gone before any partition has given rows, all of them
    /// go on with a scan that was planned anew.
    async fn begin(
        mut self,
        mut batches: SendableRecordBatchStream,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        loop {
            let course = &self.siblings.course;
            let newer = match course.newer(self.times).await {
                Some(newer) => Some(newer),
                None => match batches.next().await {
                    Some(Err(error)) if is_conflict(&error) => {
                        let runtime = self.args.context.runtime_env();
                        let renewed = course.renew(self.times, self.source.renewed(&runtime));
                        match renewed.await {
                            Some(newer) => Some(newer),
                            None => return Err(error),
                        }
                    }
                    Some(Err(error)) => return Err(error),
                    Some(Ok(first)) => match course.settle(self.times).await {
                        Some(newer) => Some(newer),
                        None => return Ok(stream::once(ready(Ok(first))).chain(batches).boxed()),
                    },
                    // Nobody would read its part of another scan.
                    None => course.settle(self.times).await,
                },
            };
            let Some(newer) = newer else {
                return Ok(stream::empty().boxed());
            };
            // Its memory is released first.
            drop(batches);
            batches = self.reopen(newer)?;
        }
    }

    fn reopen(&mut self, renewed: Renewed) -> Result<SendableRecordBatchStream> {
        self.times = renewed.times;
        self.source = TileDbSource::clone(&renewed.source);
        let pool = self.siblings.units.as_ref().map(|_| &renewed.units);
        self.source.open_planned(&self.args, pool)
    }
}

fn siblings_of(args: &OpenArgs) -> Option<Arc<Siblings>> {
    let state = args.sibling_state.clone()?;
    state.downcast::<Siblings>().ok()
}

/// The units of a partition, and those it may take from others.
fn unit_queue(
    pool: Option<&Arc<UnitPool>>,
    args: &OpenArgs,
    units: std::ops::Range<u64>,
) -> UnitQueue {
    match pool {
        Some(pool) => pool.join(Arc::clone(&args.context) as _, args.partition, units),
        None => UnitQueue::alone(units),
    }
}

/// Adds the selected labels to the batches of a scan.
fn with_labels(
    batches: impl Stream<Item = crate::Result<RecordBatch>> + Send + 'static,
    labels: Option<Arc<LabelProjection>>,
    memory: Arc<dyn MemoryBudget>,
) -> BoxStream<'static, Result<RecordBatch>> {
    let Some(labels) = labels else {
        return batches.map_err(DataFusionError::from).boxed();
    };
    let labelled = batches.and_then(move |batch| {
        let (labels, memory) = (Arc::clone(&labels), Arc::clone(&memory));
        async move { labels.apply(batch, &memory).await }
    });
    labelled.map_err(DataFusionError::from).boxed()
}

/// Combines small batches; large ones are passed on. Ends after `fetch` rows.
pub(super) fn coalesce(
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    schema: SchemaRef,
    batch_size: usize,
    fetch: Option<usize>,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    // Batches need not be larger than the limit.
    let batch_size = fetch.map_or(batch_size, |fetch| batch_size.min(fetch.max(1)));
    let coalescer = BatchCoalescer::new(schema, batch_size)
        .with_biggest_coalesce_batch_size(Some(batch_size / 2));
    let state = (
        Box::pin(batches),
        coalescer,
        fetch.unwrap_or(usize::MAX),
        false,
    );
    futures::stream::try_unfold(
        state,
        |(mut batches, mut coalescer, mut left, mut ended)| async move {
            loop {
                if left == 0 {
                    return Ok(None);
                }
                if let Some(batch) = coalescer.next_completed_batch() {
                    let batch = if batch.num_rows() > left {
                        batch.slice(0, left)
                    } else {
                        batch
                    };
                    left -= batch.num_rows();
                    return Ok(Some((batch, (batches, coalescer, left, ended))));
                }
                if ended {
                    return Ok(None);
                }
                match batches.next().await {
                    Some(batch) => coalescer.push_batch(batch?)?,
                    None => {
                        coalescer.finish_buffered_batch()?;
                        ended = true;
                    }
                }
            }
        },
    )
}
