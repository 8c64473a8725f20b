//! Runs the plan of one statement and prints its rows.
//!
//! Rows are collected here and not by the DataFrame, because only the shown rows are kept, and the plan reports the choices
//! that its rows made.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::plan_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_cli::print_options::MaxRows;
use datafusion_tiledb::progress::choices_of;
use futures::StreamExt;
use tokio::time::timeout;

use crate::interrupt::Interruptible;
use crate::printing::{PrintedRows, Printing};
use crate::progress::{ShownProgress, StatementWatch};

/// A query that takes longer continues in a task of its own, so that an interrupt need not wait for the current batch. The wait
/// for another task takes a tenth of the time of a small query.
const HAND_OVER_AFTER: Duration = Duration::from_millis(20);

/// A running statement.
pub struct StatementExecution<'a> {
    ctx: &'a SessionContext,
    printing: &'a Printing,
    running: &'a Interruptible,
    began: Instant,
    showing: Mutex<ShownProgress>,
}

/// The rows of a query.
struct CollectedRows {
    batches: Vec<RecordBatch>,
    /// The number of rows; hidden rows are counted, but not kept.
    count: usize,
    /// The memory that the rows take.
    _reservation: MemoryReservation,
}

impl<'a> StatementExecution<'a> {
    pub fn new(
        ctx: &'a SessionContext,
        printing: &'a Printing,
        watch: &Arc<StatementWatch>,
        running: &'a Interruptible,
    ) -> Self {
        Self {
            ctx,
            printing,
            running,
            began: Instant::now(),
            showing: Mutex::new(ShownProgress::begin(watch, printing.quiet)),
        }
    }

    /// Prints that a statement without rows is done.
    pub fn print_nothing(&self) -> Result<()> {
        let rows = PrintedRows {
            schema: Arc::new(Schema::empty()),
            batches: &[],
            count: 0,
            most: MaxRows::Unlimited,
        };
        let config = self.ctx.copied_config();
        let options = &config.options().format;
        self.printing
            .print(self.running, &rows, self.began, options)
    }

    /// Runs the plan of a statement and prints its rows, all of them or as many as the user wants to see.
    pub async fn run(&self, frame: DataFrame, shows_all: bool) -> Result<()> {
        let (state, plan) = frame.into_parts();
        let task = state.task_ctx();
        let plan = state.create_physical_plan(&plan).await?;
        drop(state);
        self.run_plan(plan, task, shows_all).await
    }

    async fn run_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
        shows_all: bool,
    ) -> Result<()> {
        if plan.boundedness().is_unbounded() {
            if plan.pipeline_behavior() == EmissionType::Final {
                return plan_err!(
                    "The given query can generate a valid result only once the source finishes, but the source is unbounded"
                );
            }
            return self.print_forever(execute_stream(plan, task)?).await;
        }
        let most = if shows_all {
            MaxRows::Unlimited
        } else {
            self.printing.most_rows()
        };
        let schema = plan.schema();
        let executed = Arc::clone(&plan);
        let mut collecting = Box::pin(collect(plan, Arc::clone(&task), most));
        let collected = match timeout(HAND_OVER_AFTER, &mut collecting).await {
            Ok(collected) => collected?,
            Err(_) => {
                let collected = SpawnedTask::spawn(collecting).join_unwind().await;
                collected.map_err(|e| DataFusionError::External(Box::new(e)))??
            }
        };
        self.stop_showing();
        let rows = PrintedRows {
            schema,
            batches: &collected.batches,
            count: collected.count,
            most,
        };
        let options = &task.session_config().options().format;
        let mut out = self.running.stdout();
        self.printing
            .print_choices(&mut out, &choices_of(&executed))?;
        drop(out);
        self.printing
            .print(self.running, &rows, self.began, options)
    }

    /// Prints rows as they come, from a source that does not end.
    async fn print_forever(&self, mut stream: SendableRecordBatchStream) -> Result<()> {
        let mut count = 0_usize;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            self.stop_showing();
            let is_first = count == 0;
            count = count.saturating_add(batch.num_rows());
            let mut out = self.running.stdout();
            self.printing.print_part(&mut out, &batch, is_first)?;
        }
        let mut out = self.running.stdout();
        let all = MaxRows::Unlimited;
        self.printing
            .print_details(&mut out, count, all, self.began.elapsed())
    }

    /// Shows no progress from now on, because other output follows.
    pub fn stop_showing(&self) {
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        showing.end();
    }
}

/// The rows of a plan; rows after the last shown one are only counted.
async fn collect(
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    most: MaxRows,
) -> Result<CollectedRows> {
    let reservation = MemoryConsumer::new("DataFusion-Cli").register(task.memory_pool());
    let most = match most {
        MaxRows::Unlimited => usize::MAX,
        MaxRows::Limited(rows) => rows,
    };
    let mut stream = execute_stream(plan, task)?;
    let (mut batches, mut count) = (Vec::new(), 0_usize);
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        // One row more than the shown ones makes the printer report that there are more.
        let wanted = most.saturating_add(1).saturating_sub(count);
        count = count.saturating_add(batch.num_rows());
        if wanted > 0 {
            reservation.try_grow(get_record_batch_memory_size(&batch))?;
            batches.push(batch.slice(0, wanted.min(batch.num_rows())));
        }
    }
    Ok(CollectedRows {
        batches,
        count,
        _reservation: reservation,
    })
}
