//! Opening of the partitions of a scan.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::datasource::source::OpenArgs;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

use super::TileDbSource;
use super::batches::{coalesce, with_labels};
use super::mode::Shared;
use super::published::Published;
use super::runs::Siblings;
use crate::memory::budget::MemoryBudget;
use crate::memory::idle::account_in;
use crate::scan::ScanPlan;
use crate::scan::context::ScanContext;
use crate::scan::metrics::ScanMetrics;
use crate::scan::stream::read_units;
use crate::scan::units::UnitQueue;
use crate::sql::budget::PoolBudget;

impl TileDbSource {
    /// The rows of one partition.
    pub(super) fn open_partition(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let siblings = args.sibling_state.as_ref();
        let siblings = siblings.and_then(|state| state.downcast_ref::<Siblings>());
        if self.filters.tighten() && !self.runs.is_first(siblings, &args) {
            let again = self.trusting(&HashSet::new());
            return again.map_or_else(
                || internal_err!("a scan that runs again keeps no dynamic filter"),
                |again| again.open_partition(args),
            );
        }
        match &self.arrangement.shared {
            Shared::Remaining(_) | Shared::Ranges(_) => Ok(self.open_later(args)),
            Shared::Nothing | Shared::Order(_) => {
                let units = self.arrangement.partitions.get(args.partition);
                let units = unit_queue(siblings, &args, units.cloned().unwrap_or(0..0));
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
            let left = Arc::clone(&remaining.parted().await?.left);
            let units = left.partitions(self.arrangement.partitions.len());
            let units = units.get(args.partition).cloned().unwrap_or(0..0);
            let siblings = args.sibling_state.as_ref();
            let siblings = siblings.and_then(|state| state.downcast_ref::<Siblings>());
            return Ok((left, unit_queue(siblings, args, units)));
        }
        let Some(ranges) = self.arrangement.ranges() else {
            return Err(crate::Error::internal("a partition without units"));
        };
        let mut part = ranges.part(self.plan(), args.partition).await?;
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

/// The units of a partition, and those it may take from others.
fn unit_queue(
    siblings: Option<&Siblings>,
    args: &OpenArgs,
    units: std::ops::Range<u64>,
) -> UnitQueue {
    match siblings.and_then(|siblings| siblings.units.as_ref()) {
        Some(pool) => pool.join(Arc::clone(&args.context) as _, args.partition, units),
        None => UnitQueue::alone(units),
    }
}
