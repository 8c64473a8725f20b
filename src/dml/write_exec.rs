//! The step that writes rows and returns their number.
//!
//! A statement that fails or is cancelled leaves the array as it was; the files it has written are removed if that is still
//! possible.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::stream;

use super::again::settled;
use super::change::RowChange;
use super::new_values::settled_values;
use super::node::{ChangeStep, StepExec, count_schema, puts_out_count};
use super::target::PlannedTarget;
use super::write::{WriteCounters, WriteExecution};
use crate::stores::budget::with_fair_pool;

/// Writes the rows of its input to an array.
#[derive(Debug)]
pub struct WriteExec {
    pub(super) target: PlannedTarget,
    /// The column of the numbers by which the rows are sorted, if they are sorted by nothing else.
    pub(super) numbers: Option<usize>,
    /// Whether rows come before all have been read, as far as this is known.
    pub(super) is_early: Arc<AtomicBool>,
    /// The changes of the statement besides new rows.
    pub(super) change: Option<Arc<RowChange>>,
}

/// The plan node.
pub type TileDbWriteExec = StepExec<WriteExec>;

impl WriteExec {
    /// The plan of the statement's latest run; `None` if the first run is the only one.
    pub(crate) fn latest_run(&self) -> Option<Arc<dyn ExecutionPlan>> {
        self.target.again.as_ref()?.latest()
    }
}

impl ChangeStep for WriteExec {
    const NAME: &'static str = "TileDbWriteExec";

    fn properties(&self, _input: &Arc<dyn ExecutionPlan>) -> PlanProperties {
        puts_out_count()
    }

    fn describe(&self) -> String {
        format!("array={}", self.target.storage.uri())
    }

    fn execute(
        self: &Arc<Self>,
        input: &Arc<dyn ExecutionPlan>,
        _partition: usize,
        context: Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        if let Some(change) = &self.change {
            change.reset();
        }
        let context = with_fair_pool(&context);
        let rows = input.execute(0, Arc::clone(&context))?;
        let statement = WriteExecution {
            target: self.target.clone(),
            change: self.change.clone(),
            numbers: self.numbers,
            is_early: Arc::clone(&self.is_early),
            counters: WriteCounters::new(metrics),
            metrics: metrics.clone(),
            context: Arc::clone(&context),
        };
        let again = self.target.again.clone();
        let (target, within) = (self.target.clone(), Arc::clone(&context));
        let written = Box::pin(async move {
            match statement.write(rows).await {
                Err(refused) => Err(settled_values(&target, &within, refused).await),
                written => written,
            }
        });
        Ok(counted(settled(written, again, context, metrics.clone())))
    }
}

/// A stream of one row: the number of changed rows.
pub(super) fn counted(
    changed: impl Future<Output = Result<u64>> + Send + 'static,
) -> SendableRecordBatchStream {
    let row = async move {
        let count: ArrayRef = Arc::new(UInt64Array::from(vec![changed.await?]));
        Ok(RecordBatch::try_new(count_schema(), vec![count])?)
    };
    let row = RecordBatchStreamAdapter::new(count_schema(), stream::once(row));
    Box::pin(row)
}
