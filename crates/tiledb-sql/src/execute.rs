//! Runs the plan of one statement and prints its rows.
//!
//! Rows are collected here and not by the DataFrame, because only the shown rows are kept, and the plan reports the choices
//! that its rows made.

use std::collections::VecDeque;
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

use crate::cooperation::has_multiplied_rows;
use crate::interrupt::Interruptible;
use crate::printing::{PrintedRows, Printing};
use crate::progress::ShownProgress;
use crate::watch::StatementWatch;

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
    /// The first rows, or all of them.
    head: Vec<RecordBatch>,
    /// The last rows, if some before them are hidden.
    tail: Vec<RecordBatch>,
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
            head: &[],
            tail: &[],
            count: 0,
            is_description: true,
        };
        let config = self.ctx.copied_config();
        let options = &config.options().format;
        self.printing
            .print(self.running, &rows, self.began, options)
    }

    /// Runs the plan of a statement and prints its rows, all of them or as many as the user wants to see.
    pub async fn run(&self, frame: DataFrame, is_description: bool) -> Result<()> {
        let (state, plan) = frame.into_parts();
        let task = state.task_ctx();
        let plan = state.create_physical_plan(&plan).await?;
        drop(state);
        self.run_plan(plan, task, is_description).await
    }

    async fn run_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
        is_description: bool,
    ) -> Result<()> {
        if plan.boundedness().is_unbounded() {
            if plan.pipeline_behavior() == EmissionType::Final {
                return plan_err!(
                    "The given query can generate a valid result only once the source finishes, but the source is unbounded"
                );
            }
            return self.print_forever(execute_stream(plan, task)?).await;
        }
        let most = if is_description {
            MaxRows::Unlimited
        } else {
            self.printing.most_rows()
        };
        let schema = plan.schema();
        let executed = Arc::clone(&plan);
        // One poll of a join may take as long as the whole query.
        let begins_here = !has_multiplied_rows(plan.as_ref());
        let mut collecting = Box::pin(collect(plan, Arc::clone(&task), most));
        let collected = if begins_here {
            timeout(HAND_OVER_AFTER, &mut collecting).await.ok()
        } else {
            None
        };
        let collected = match collected {
            Some(collected) => collected?,
            None => {
                let collected = SpawnedTask::spawn(collecting).join_unwind().await;
                collected.map_err(|e| DataFusionError::External(Box::new(e)))??
            }
        };
        self.stop_showing();
        let rows = PrintedRows {
            schema,
            head: &collected.head,
            tail: &collected.tail,
            count: collected.count,
            is_description,
        };
        let options = &task.session_config().options().format;
        self.printing.print_choices(&choices_of(&executed))?;
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
            self.printing.print_part(self.running, &batch, is_first)?;
        }
        self.printing.print_count(count, self.began.elapsed())
    }

    /// Shows no progress from now on, because other output follows.
    pub fn stop_showing(&self) {
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        showing.end();
    }
}

/// The rows of a plan: all of them, or at most a number, of which one half are the first ones and the other half the last ones.
/// The rows in the middle are only counted.
async fn collect(
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    most: MaxRows,
) -> Result<CollectedRows> {
    let reservation = MemoryConsumer::new("DataFusion-Cli").register(task.memory_pool());
    let mut rows = ShownRows::new(match most {
        MaxRows::Unlimited => usize::MAX,
        MaxRows::Limited(rows) => rows,
    });
    let mut stream = execute_stream(plan, task)?;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        reservation.try_grow(get_record_batch_memory_size(&batch))?;
        let unused = rows.push(batch);
        reservation.shrink(unused);
    }
    let (head, tail) = rows.ends();
    Ok(CollectedRows {
        head,
        tail,
        count: rows.count,
        _reservation: reservation,
    })
}

/// The rows to show, while they come.
struct ShownRows {
    most: usize,
    count: usize,
    /// The first rows, at most as many as are shown in all.
    first: Vec<RecordBatch>,
    /// The last rows after those, at least as many as are shown of them, with the memory that they take.
    last: VecDeque<(RecordBatch, usize)>,
    rows_of_last: usize,
    /// Whether rows between `first` and `last` were dropped.
    is_cut: bool,
}

impl ShownRows {
    fn new(most: usize) -> Self {
        Self {
            most,
            count: 0,
            first: Vec::new(),
            last: VecDeque::new(),
            rows_of_last: 0,
            is_cut: false,
        }
    }

    /// The number of rows that are shown of the end.
    fn most_of_tail(&self) -> usize {
        self.most / 2
    }

    /// Takes the next rows, and returns the memory of rows that are not kept any longer.
    fn push(&mut self, batch: RecordBatch) -> usize {
        let taken = self.most.saturating_sub(self.count).min(batch.num_rows());
        self.count = self.count.saturating_add(batch.num_rows());
        if taken > 0 {
            self.first.push(batch.slice(0, taken));
        }
        // The first rows keep the memory of a batch that is divided.
        let bytes = if taken == 0 {
            get_record_batch_memory_size(&batch)
        } else {
            0
        };
        let rest = batch.slice(taken, batch.num_rows() - taken);
        if rest.num_rows() == 0 {
            return bytes;
        }
        self.rows_of_last += rest.num_rows();
        self.last.push_back((rest, bytes));
        let most = self.most_of_tail();
        let mut unused = 0;
        while let Some((oldest, bytes)) = self.last.front()
            && self.rows_of_last - oldest.num_rows() >= most
        {
            self.is_cut = true;
            self.rows_of_last -= oldest.num_rows();
            unused += bytes;
            self.last.pop_front();
        }
        unused
    }

    /// All rows and nothing, or the first rows and the last ones.
    fn ends(&self) -> (Vec<RecordBatch>, Vec<RecordBatch>) {
        if self.count <= self.most {
            return (self.first.clone(), Vec::new());
        }
        let most = self.most_of_tail();
        let head = first_rows(&self.first, self.most - most);
        // Rows of the end may be among the first ones.
        let before = if self.is_cut { &[][..] } else { &self.first };
        let last = self.last.iter().map(|(batch, _)| batch);
        let all = before.iter().chain(last).cloned().collect::<Vec<_>>();
        (head, last_rows(&all, most))
    }
}

fn first_rows(batches: &[RecordBatch], mut most: usize) -> Vec<RecordBatch> {
    let mut taken = Vec::new();
    for batch in batches {
        let rows = batch.num_rows().min(most);
        taken.push(batch.slice(0, rows));
        most -= rows;
    }
    taken
}

fn last_rows(batches: &[RecordBatch], mut most: usize) -> Vec<RecordBatch> {
    let mut taken = Vec::new();
    for batch in batches.iter().rev() {
        let rows = batch.num_rows().min(most);
        taken.push(batch.slice(batch.num_rows() - rows, rows));
        most -= rows;
    }
    taken.reverse();
    taken
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{AsArray, Int64Array};
    use datafusion::arrow::datatypes::Int64Type;

    use super::*;

    fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
        let columns = batches.iter().map(|batch| batch.column(0));
        let numbers = columns.flat_map(|column| column.as_primitive::<Int64Type>().values());
        numbers.copied().collect()
    }

    #[test]
    fn the_first_and_the_last_rows_are_shown() {
        for most in [0, 1, 2, 3, 7, 10, usize::MAX] {
            for sizes in [
                vec![],
                vec![1; 11],
                vec![4, 0, 3, 8],
                vec![3],
                vec![20, 1],
                vec![1, 20],
            ] {
                let mut rows = ShownRows::new(most);
                let mut kept = 0_usize;
                let mut next = 0_i64;
                for size in &sizes {
                    let values = (next..next + size).collect::<Vec<_>>();
                    next += size;
                    let column = Arc::new(Int64Array::from(values)) as _;
                    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
                    kept += get_record_batch_memory_size(&batch);
                    kept = kept.checked_sub(rows.push(batch)).unwrap();
                }
                let all = (0..next).collect::<Vec<_>>();
                let (head, tail) = rows.ends();
                let most = most.min(all.len());
                let (first, last) = if most == all.len() {
                    (most, 0)
                } else {
                    (most - most / 2, most / 2)
                };
                assert_eq!(numbers(&head), all[..first], "{most} of {sizes:?}");
                assert_eq!(
                    numbers(&tail),
                    all[all.len() - last..],
                    "{most} of {sizes:?}"
                );
                assert_eq!(rows.count, all.len());
            }
        }
    }

    #[test]
    fn only_shown_rows_take_memory() {
        let column = Arc::new(Int64Array::from(vec![1; 1000])) as _;
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let bytes = get_record_batch_memory_size(&batch);
        let mut rows = ShownRows::new(4);
        let mut kept = 0_usize;
        for number in 0..100 {
            // Batches without rows have memory, too.
            let batch = batch.slice(0, if number % 3 == 0 { 1 } else { 0 });
            kept += get_record_batch_memory_size(&batch);
            kept -= rows.push(batch);
            assert!(kept <= 7 * bytes, "{kept} of {bytes} after {number}");
        }
    }
}
