//! The progress of plans and of the maintenance of arrays, and what plans chose from their rows, for programs that show it.
//!
//! Progress is read from counters, so a program can look at it often while a statement runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::MetricsSet;

use crate::dml::{
    BYTES_WRITTEN, ROWS_READ, ROWS_WRITTEN, TileDbCopyExec, TileDbOrderExec, TileDbWriteExec,
    copy_choices,
};
use crate::scan::source::TileDbSource;
pub use crate::scan::source::counters::ScanProgress;
use tiledb_engine::maintain::{check, consolidate, vacuum};

/// The progress of all scans of arrays in a plan together; `None` if there are none.
pub fn progress_of(plan: &Arc<dyn ExecutionPlan>) -> Option<ScanProgress> {
    let scan = plan.downcast_ref::<DataSourceExec>();
    let scan = scan.and_then(|scan| scan.data_source().downcast_ref::<TileDbSource>());
    let below = below(plan);
    let below = below.iter().filter_map(progress_of);
    let parts = scan.map(TileDbSource::progress).into_iter().chain(below);
    parts.reduce(|a, b| ScanProgress {
        done: a.done.saturating_add(b.done),
        all: a.all.saturating_add(b.all),
    })
}

/// The choices that the rows of an executed `COPY … STORED AS TILEDB` made for the new array: options with their values, such
/// as `capacity = 100000`. Other plans, and those that have not ended, make no choices.
pub fn choices_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let below = plan.children().into_iter().flat_map(choices_of);
    copy_choices(plan).into_iter().chain(below).collect()
}

/// The progress of writing rows.
///
/// Rows are mostly sorted before they are written: then none is written before all were read, and the number of rows to write
/// is known from the first one on. If a statement was retried after a conflict, all numbers are those of its latest run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteProgress {
    /// The rows that were read so far.
    pub rows_read: u64,
    /// Whether rows are sorted between reading and writing.
    pub sorts: bool,
    /// The rows that were taken to be written so far.
    pub rows_written: u64,
    /// The bytes that were handed to the store so far.
    pub bytes_written: u64,
}

/// The progress of a plan that writes rows to an array; `None` if it writes none, or has not begun to.
pub fn writing_of(plan: &Arc<dyn ExecutionPlan>) -> Option<WriteProgress> {
    if let Some(copying) = copying_of(plan) {
        return Some(copying);
    }
    let runs_anew = rerun(plan).is_some();
    if runs_anew || plan.downcast_ref::<TileDbWriteExec>().is_none() {
        return below(plan).iter().find_map(writing_of);
    }
    let metrics = plan.metrics()?;
    let (rows_read, sorts) = rows_below(plan);
    Some(WriteProgress {
        rows_read,
        sorts,
        rows_written: value(&metrics, ROWS_WRITTEN),
        bytes_written: value(&metrics, BYTES_WRITTEN),
    })
}

/// The progress of a COPY that makes choices from its rows: it reads and sorts them itself, before the plan that writes them
/// exists.
fn copying_of(plan: &Arc<dyn ExecutionPlan>) -> Option<WriteProgress> {
    plan.downcast_ref::<TileDbCopyExec>()?;
    let metrics = plan.metrics()?;
    metrics.sum_by_name(ROWS_READ)?;
    Some(WriteProgress {
        rows_read: value(&metrics, ROWS_READ),
        sorts: true,
        rows_written: value(&metrics, ROWS_WRITTEN),
        bytes_written: value(&metrics, BYTES_WRITTEN),
    })
}

/// The plan of the latest run of a statement that was retried after a conflict; `None` unless this is the plan of its first
/// run.
fn rerun(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    plan.downcast_ref::<TileDbWriteExec>()?.step().latest_run()
}

/// The plans that run below a node. COPY makes its plan when it begins to run, and so does a statement that runs again.
fn below(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    let copy = plan.downcast_ref::<TileDbCopyExec>();
    let running = copy.and_then(|copy| copy.step().running());
    match running.or_else(|| rerun(plan)) {
        Some(running) => vec![running],
        None => plan.children().into_iter().map(Arc::clone).collect(),
    }
}

/// The rows that have reached the sort below a node, and whether there is one; without a sort, the rows that have reached the
/// node.
fn rows_below(plan: &Arc<dyn ExecutionPlan>) -> (u64, bool) {
    let (mut plan, mut sorts) = (Arc::clone(plan), false);
    loop {
        let children = plan.children();
        let [input] = children.as_slice() else {
            return (0, sorts);
        };
        let input = Arc::clone(input);
        let order = input.downcast_ref::<TileDbOrderExec>();
        sorts |= order.is_some_and(|order| order.step().sorts());
        let passes_rows_on =
            order.is_some() || input.downcast_ref::<CoalescePartitionsExec>().is_some();
        if !passes_rows_on {
            let rows = input.metrics().and_then(|metrics| metrics.output_rows());
            let rows = rows.and_then(|rows| u64::try_from(rows).ok());
            return (rows.unwrap_or(0), sorts);
        }
        plan = input;
    }
}

fn value(metrics: &MetricsSet, name: &str) -> u64 {
    let value = metrics.sum_by_name(name).map(|value| value.as_usize());
    value
        .and_then(|value| u64::try_from(value).ok())
        .unwrap_or(0)
}

/// A running maintenance of an array.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RunningMaintenance {
    /// `tiledb_consolidate`.
    Consolidation(Arc<consolidate::ConsolidateProgress>),
    /// `tiledb_vacuum`.
    Vacuum(Arc<vacuum::VacuumProgress>),
    /// `tiledb_check`.
    Check(Arc<check::CheckProgress>),
}

/// Receives each maintenance that statements of a session begin, if it is an extension of the session's configuration.
#[derive(Debug, Default)]
pub struct MaintenanceWatch {
    latest: Mutex<Option<RunningMaintenance>>,
}

impl MaintenanceWatch {
    /// Records a maintenance that begins.
    pub fn begin(&self, maintenance: RunningMaintenance) {
        *self.lock() = Some(maintenance);
    }

    /// The maintenance that began last; `None` if none has begun since the last call of `forget`.
    pub fn latest(&self) -> Option<RunningMaintenance> {
        self.lock().clone()
    }

    /// Forgets the maintenance that has begun.
    pub fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<RunningMaintenance>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
