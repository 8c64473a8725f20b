//! The rows of a COPY, kept until all have been seen: in memory as long as the pool allows, then on disk.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, SpillMetrics,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, SpillManager};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use tiledb_engine::write::create::ArrayBuilder;

use super::profile::RowProfile;
use crate::dml::again::streams;
use crate::dml::global_order::bytes;

/// Rows take at most this part of a limited pool, which leaves room to produce and sort them.
const MEMORY_PART: usize = 4;

/// The metric of the rows that were read for the choices.
pub(crate) const ROWS_READ: &str = "rows_read";

/// Reads all rows of a plan, and returns a plan that returns them, once, with their profile.
///
/// # Errors
/// The plan fails, or neither memory nor disk has room for the rows.
pub(super) async fn spool(
    input: Arc<dyn ExecutionPlan>,
    builder: &ArrayBuilder,
    context: &Arc<TaskContext>,
    metrics: &ExecutionPlanMetricsSet,
) -> Result<(Arc<dyn ExecutionPlan>, RowProfile)> {
    let schema = input.schema();
    let partitions = input.output_partitioning().partition_count();
    let most_bytes = match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(bytes) => bytes / MEMORY_PART / partitions.max(1),
        // A pool without a known limit refuses memory itself.
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
    };
    let tasks = (0..partitions).map(|partition| {
        let rows = input.execute(partition, Arc::clone(context))?;
        let profile = RowProfile::new(&schema, builder)?;
        let name = format!("TileDbCopy[{partition}]");
        let memory = MemoryConsumer::new(name).with_can_spill(true);
        let rows_read = MetricBuilder::new(metrics).counter(ROWS_READ, partition);
        let metrics = SpillMetrics::new(metrics, partition);
        let kept = SpooledRows {
            disk: SpillManager::new(context.runtime_env(), metrics, Arc::clone(&schema)),
            memory: memory.register(context.memory_pool()),
            most_bytes,
            batches: VecDeque::new(),
            files: VecDeque::new(),
            rows_read,
        };
        Ok(SpawnedTask::spawn(keep(rows, kept, profile)))
    });
    let tasks = tasks.collect::<Result<Vec<_>>>()?;
    let parts = try_join_all(tasks.into_iter().map(SpawnedTask::join_unwind))
        .await
        .map_err(|e| DataFusionError::External(Box::new(e)))?;
    let mut profile = RowProfile::new(&schema, builder)?;
    let mut partitions = Vec::new();
    for part in parts {
        let (kept, known) = part?;
        profile.merge(known)?;
        partitions.push(kept.read_back());
    }
    Ok((streams(schema, partitions)?, profile))
}

/// Rows of one partition.
struct SpooledRows {
    disk: SpillManager,
    memory: MemoryReservation,
    /// Rows go to disk when they would take more than this.
    most_bytes: usize,
    batches: VecDeque<RecordBatch>,
    files: VecDeque<Arc<dyn SpillFile>>,
    rows_read: Count,
}

async fn keep(
    mut rows: SendableRecordBatchStream,
    mut kept: SpooledRows,
    mut profile: RowProfile,
) -> Result<(SpooledRows, RowProfile)> {
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        kept.rows_read.add(batch.num_rows());
        profile.add(&batch)?;
        kept.add(batch)?;
    }
    kept.finish()?;
    Ok((kept, profile))
}

impl SpooledRows {
    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let bytes = bytes(&batch);
        let fits = self.memory.size().saturating_add(bytes) <= self.most_bytes;
        let fits = fits && self.memory.try_grow(bytes).is_ok();
        self.batches.push_back(batch);
        if fits { Ok(()) } else { self.spill() }
    }

    /// Frees the memory for the sort that follows, if there was too little for all rows.
    fn finish(&mut self) -> Result<()> {
        if self.files.is_empty() {
            Ok(())
        } else {
            self.spill()
        }
    }

    fn spill(&mut self) -> Result<()> {
        let batches = self.batches.make_contiguous();
        let file = self
            .disk
            .spill_record_batch_and_finish(batches, "rows of a COPY")?;
        self.files.extend(file);
        self.batches.clear();
        self.memory.free();
        Ok(())
    }

    /// Returns the rows. Each batch frees its memory as it leaves.
    fn read_back(self) -> SendableRecordBatchStream {
        let Self {
            disk,
            memory,
            batches,
            files,
            most_bytes: _,
            rows_read: _,
        } = self;
        let schema = Arc::clone(disk.schema());
        let on_disk = stream::iter(files)
            .map(move |file| disk.read_spill_as_stream(file, None))
            .try_flatten();
        let in_memory = stream::iter(batches).map(move |batch| {
            memory.shrink(bytes(&batch).min(memory.size()));
            Ok(batch)
        });
        let rows = on_disk.chain(in_memory);
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}
