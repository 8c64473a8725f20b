//! Opening of the partitions of a scan: their batches have labels, and the batch size of the session.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::datasource::source::OpenArgs;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use tiledb_engine::memory::budget::MemoryBudget;
use tiledb_engine::scan::ScanPlan;
use tiledb_engine::scan::coalesce::coalesce;
use tiledb_engine::scan::context::ScanContext;
use tiledb_engine::scan::metrics::ScanMetrics;
use tiledb_engine::scan::stream::read_units;
use tiledb_engine::scan::units::{UnitPool, UnitQueue};

use super::TileDbSource;
use super::counters::PublishedCounters;
use super::mode::{ANSWERING_PARTITION, UnitsState};
use super::runs::SiblingPartitions;
use crate::error::to_datafusion_error;
use crate::labels::LabelProjection;
use crate::stores::budget::PoolBudget;

impl TileDbSource {
    /// The rows of one partition.
    pub(super) fn open_partition(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let siblings = args
            .sibling_state
            .as_ref()
            .and_then(|state| state.downcast_ref::<SiblingPartitions>());
        if self.filters.tighten() && !self.runs.is_first(siblings, &args) {
            let again = self.trusting(&HashSet::new());
            return again.map_or_else(
                || internal_err!("a scan that runs again keeps no dynamic filter"),
                |again| again.open_partition(args),
            );
        }
        self.open_renewable(args)
    }

    /// The rows of one partition of the scan as it is planned, and of partitions that `ended` before they had any; units are
    /// taken from the pool, if there is one.
    pub(super) fn open_planned(
        &self,
        args: &OpenArgs,
        pool: Option<Arc<UnitPool>>,
        ended: &[usize],
    ) -> Result<SendableRecordBatchStream> {
        match &self.arrangement.shared {
            UnitsState::Remaining(_) | UnitsState::Ranges(_) => {
                Ok(self.open_later(args.clone(), pool, ended.to_vec()))
            }
            UnitsState::Nothing | UnitsState::Order(_) => {
                let units = |partition: usize| {
                    let units = self
                        .arrangement
                        .partitions
                        .get(partition)
                        .cloned()
                        .unwrap_or(0..0);
                    unit_queue(pool.as_ref(), &args.context, partition, units)
                };
                let others = ended.iter().map(|partition| units(*partition));
                let units = units(args.partition).followed_by(others.collect());
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
    fn open_later(
        &self,
        args: OpenArgs,
        pool: Option<Arc<UnitPool>>,
        ended: Vec<usize>,
    ) -> SendableRecordBatchStream {
        let source = self.clone();
        let batches = async move {
            let (plan, units) = source
                .units_of(&args, pool, &ended)
                .await
                .map_err(to_datafusion_error)?;
            source.read(plan, units, args.partition, &args.context)
        };
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.planned.schema),
            stream::once(batches).try_flatten(),
        ))
    }

    /// The plan and the units that a partition reads, with those of partitions that `ended` before they had rows.
    async fn units_of(
        &self,
        args: &OpenArgs,
        pool: Option<Arc<UnitPool>>,
        ended: &[usize],
    ) -> tiledb_engine::Result<(Arc<ScanPlan>, UnitQueue)> {
        if let Some(remaining) = self.remaining() {
            let left = Arc::clone(&remaining.split().await?.left);
            let partitions = left.partitions(self.arrangement.partitions.len());
            let queue = |partition: usize, skipped: u64| {
                let units = partitions.get(partition).cloned().unwrap_or(0..0);
                let rest = (units.start + skipped).min(units.end)..units.end;
                unit_queue(pool.as_ref(), &args.context, partition, rest)
            };
            let mut others = ended
                .iter()
                .map(|partition| queue(*partition, 0))
                .collect::<Vec<_>>();
            let units = if args.partition == ANSWERING_PARTITION {
                // Nobody takes its first unit. Otherwise it could answer while the files of all other units are gone, and they
                // couldn't be planned again.
                let own = partitions.first().cloned().unwrap_or(0..0);
                let first = own.start..own.end.min(own.start + 1);
                others.insert(0, queue(args.partition, 1));
                UnitQueue::alone(first)
            } else {
                queue(args.partition, 0)
            };
            return Ok((left, units.followed_by(others)));
        }
        let Some(ranges) = self.arrangement.ranges() else {
            return Err(tiledb_engine::Error::internal("a partition without units"));
        };
        let snapshot = &self.plan().spec.table.snapshot;
        let mut part = match ranges.part(self.plan(), args.partition).await {
            Ok(part) => part,
            Err(error) => return Err(snapshot.explain_missing(error).await),
        };
        if let Some(order) = self.arrangement.row_order() {
            let ordered = part.in_order(order, None).ok_or_else(|| {
                tiledb_engine::Error::internal("a range of a scan cannot be put in its order")
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
        let engine = plan.spec.table.snapshot.storage.engine();
        let budget: Arc<dyn MemoryBudget> = Arc::new(PoolBudget::new(context, partition, engine));
        let idle = PoolBudget::named("TileDbBuffers", context.memory_pool(), engine);
        let counters = Arc::new(ScanMetrics::default());
        let filter = self
            .filters
            .at_run_time(&plan, self.planned.predicate.as_ref())?;
        let idle = Arc::new(idle);
        let scan = ScanContext::leaving(plan, Arc::clone(&budget), idle, Arc::clone(&counters))
            .with_units_read(Arc::clone(&self.units_read))
            .with_runtime_filter(filter)
            .with_order(self.worthwhile_order())
            .with_row_order(self.arrangement.row_order().cloned(), self.pace());
        let mut published = PublishedCounters::new(&self.metrics, partition, counters);
        let batches = with_labels(read_units(scan, units), self.planned.labels.clone(), budget);
        let batch_size = context.session_config().batch_size();
        let schema = Arc::clone(&self.planned.schema);
        let batches = coalesce(
            batches,
            Arc::clone(&schema),
            batch_size,
            self.fetch,
            DataFusionError::from,
        )
        .inspect(move |_| published.update());
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// The units of a partition, and those it may take from others.
fn unit_queue(
    pool: Option<&Arc<UnitPool>>,
    context: &Arc<TaskContext>,
    partition: usize,
    units: std::ops::Range<u64>,
) -> UnitQueue {
    match pool {
        Some(pool) => pool.join(Arc::clone(context) as _, partition, units),
        None => UnitQueue::alone(units),
    }
}

/// Adds the selected labels to the batches of a scan.
fn with_labels(
    batches: impl Stream<Item = tiledb_engine::Result<RecordBatch>> + Send + 'static,
    labels: Option<Arc<LabelProjection>>,
    memory: Arc<dyn MemoryBudget>,
) -> BoxStream<'static, Result<RecordBatch>> {
    let Some(labels) = labels else {
        return batches.map_err(to_datafusion_error).boxed();
    };
    let labelled = batches.and_then(move |batch| {
        let (labels, memory) = (Arc::clone(&labels), Arc::clone(&memory));
        async move { labels.apply(batch, &memory).await }
    });
    labelled.map_err(to_datafusion_error).boxed()
}
