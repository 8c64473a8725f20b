//! The progress of statements: how much of arrays they have read, then how much they have written to one, or the progress of a
//! maintenance.
//!
//! A line shows the share of one thing, and is full only when that thing is complete. Rows are written after they are read, so
//! each of the two steps has a share of its own.
//!
//! Every plan that the session makes passes by [`StatementWatch`], including plans inside a statement, such as the query of
//! `CREATE TABLE … AS`. Progress is read from the counters of the plans' scans.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion_tiledb::progress::{
    MaintenanceWatch, RunningMaintenance, ScanProgress, WriteProgress, progress_of, writing_of,
};
use indicatif::{DecimalBytes, HumanCount};

/// The share of the work that must be done before the time left is estimated.
const ENOUGH_TO_ESTIMATE: f64 = 0.02;

tokio::task_local! {
    /// The watch of the statement that the task runs.
    static OF_THE_TASK: Arc<StatementWatch>;
}

/// The plans of the running statement, and the maintenance that it has begun.
#[derive(Debug, Default)]
pub struct StatementWatch {
    plans: Mutex<Vec<Arc<dyn ExecutionPlan>>>,
    maintenance: Arc<MaintenanceWatch>,
}

/// The progress of a statement.
#[derive(Default)]
struct BarState {
    scans: Option<ScanProgress>,
    writing: Option<WriteProgress>,
    maintenance: Option<RunningMaintenance>,
}

impl StatementWatch {
    /// A watch over one of many statements of a session. It sees the maintenance that statements begin whose session has `maintenance`
    /// as an extension.
    #[must_use]
    pub fn of_maintenance(maintenance: Arc<MaintenanceWatch>) -> Self {
        Self {
            plans: Mutex::default(),
            maintenance,
        }
    }

    /// Records the plans that a session of [`open_session`](crate::open_session) makes while it does the work.
    pub async fn over<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        OF_THE_TASK.scope(self, work).await
    }

    /// The progress of the statement, which began `elapsed` ago.
    pub fn line(&self, elapsed: Duration) -> ProgressLine {
        self.state().line(elapsed)
    }

    /// A planner that records the plans that it makes.
    pub(crate) fn planner(self: &Arc<Self>) -> Arc<dyn QueryPlanner + Send + Sync> {
        Arc::new(WatchedPlanner(Arc::clone(self)))
    }

    /// Records each maintenance that begins.
    pub(crate) fn maintenance(&self) -> &Arc<MaintenanceWatch> {
        &self.maintenance
    }

    /// The progress of the statement.
    fn state(&self) -> BarState {
        let plans = self.plans();
        let parts = plans.iter().filter_map(progress_of);
        let scans = parts.reduce(|a, b| ScanProgress {
            done: a.done.saturating_add(b.done),
            all: a.all.saturating_add(b.all),
        });
        BarState {
            scans,
            writing: plans.iter().find_map(writing_of),
            maintenance: self.maintenance.latest(),
        }
    }

    /// Forgets the plans and the maintenance.
    pub(crate) fn clear(&self) {
        self.plans().clear();
        self.maintenance.forget();
    }

    fn plans(&self) -> MutexGuard<'_, Vec<Arc<dyn ExecutionPlan>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// DataFusion's planner.
#[derive(Debug)]
struct WatchedPlanner(Arc<StatementWatch>);

#[async_trait]
impl QueryPlanner for WatchedPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::default();
        let plan = planner.create_physical_plan(plan, session).await?;
        self.0.plans().push(Arc::clone(&plan));
        Ok(plan)
    }
}

/// DataFusion's planner, for sessions whose statements each have a watch of their own.
#[derive(Debug)]
pub(crate) struct TaskWatchedPlanner;

#[async_trait]
impl QueryPlanner for TaskWatchedPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::default();
        let plan = planner.create_physical_plan(plan, session).await?;
        // A statement that nobody waits for has no watch.
        let _ = OF_THE_TASK.try_with(|watch| watch.plans().push(Arc::clone(&plan)));
        Ok(plan)
    }
}

/// The line that shows the progress of a statement.
#[derive(Debug, PartialEq, Eq)]
pub struct ProgressLine {
    /// The finished work and the whole work; shown as a bar.
    pub share: Option<(u64, u64)>,
    /// What has been done, how long it took, and how long the rest may take.
    pub text: String,
}

impl ProgressLine {
    /// A line with a bar until all work is done, and then without a bar.
    fn until_all(done: u64, all: u64, text: String) -> Self {
        let share = (done < all).then_some((done, all));
        Self { share, text }
    }
}

impl BarState {
    fn line(&self, elapsed: Duration) -> ProgressLine {
        let so_far = seconds(elapsed);
        if let Some(maintenance) = &self.maintenance {
            return line_of_maintenance(maintenance, &so_far);
        }
        let scans = self.scans.filter(|scans| scans.all > 0);
        match (self.writing, scans) {
            (Some(writing), scans) if writing.rows_read > 0 => {
                line_of_writing(writing, scans, &so_far)
            }
            // Scans can't show how long a plan that writes takes after them.
            (Some(_), scans) => ProgressLine {
                share: scans.map(|scans| (scans.done, scans.all)),
                text: so_far,
            },
            (None, Some(scans)) => ProgressLine {
                share: Some((scans.done, scans.all)),
                text: told(scans, elapsed),
            },
            (None, None) => ProgressLine {
                share: None,
                text: so_far,
            },
        }
    }
}

/// The line of a statement whose rows are read, sorted, and written.
fn line_of_writing(
    writing: WriteProgress,
    scans: Option<ScanProgress>,
    so_far: &str,
) -> ProgressLine {
    let (read, written) = (writing.rows_read, writing.rows_written);
    let (rows_read, rows_written) = (HumanCount(read), HumanCount(written));
    let bytes = DecimalBytes(writing.bytes_written);
    let reads = scans.filter(|scans| scans.done < scans.all);
    let share = reads.map(|scans| (scans.done, scans.all));
    match (written, writing.sorts) {
        (0, true) if scans.is_some() && reads.is_none() => ProgressLine {
            share: None,
            text: format!("sorting {rows_read} rows, {so_far}"),
        },
        (0, _) => ProgressLine {
            share,
            text: format!("{rows_read} rows read, {so_far}"),
        },
        // All rows had been read when the first one came out of the sort.
        (_, true) if written < read => ProgressLine::until_all(
            written,
            read,
            format!("{rows_written} of {rows_read} rows written, {bytes}, {so_far}"),
        ),
        (_, true) => ProgressLine {
            share: None,
            text: format!("finishing {rows_written} rows, {bytes}, {so_far}"),
        },
        (_, false) => ProgressLine {
            share,
            text: format!("{rows_written} rows written, {bytes}, {so_far}"),
        },
    }
}

/// Until the amount of work is known, the line shows only the time.
fn line_of_maintenance(maintenance: &RunningMaintenance, so_far: &str) -> ProgressLine {
    let (done, all, text) = match maintenance {
        RunningMaintenance::Consolidation(progress) => {
            let (done, all, written) = (progress.done(), progress.total(), progress.written());
            let (merged, cells) = (HumanCount(done), HumanCount(all));
            let (tiles, bytes) = (HumanCount(written.tiles()), DecimalBytes(written.bytes()));
            let text = format!("{merged} of {cells} cells merged, {tiles} tiles, {bytes}");
            (done, all, text)
        }
        RunningMaintenance::Vacuum(progress) => {
            let (done, all) = (progress.done(), progress.total());
            let (gone, files) = (HumanCount(done), HumanCount(all));
            let bytes = DecimalBytes(progress.bytes());
            let text = format!("{gone} of {files} files and folders removed, {bytes}");
            (done, all, text)
        }
        RunningMaintenance::Check(progress) => {
            let counts = progress.counts();
            let (done, all) = (counts.fragments, counts.all_fragments);
            let (fragments, of) = (HumanCount(done), HumanCount(all));
            let (tiles, cells) = (HumanCount(counts.tiles), HumanCount(counts.cells));
            let text =
                format!("{fragments} of {of} fragments checked, {tiles} tiles, {cells} cells");
            // Fragments take different times, and are counted before their cells are checked: the line has numbers, but no
            // share.
            (all, all, text)
        }
        _ => (0, 0, String::new()),
    };
    match all {
        0 => ProgressLine::until_all(0, 0, so_far.to_owned()),
        _ => ProgressLine::until_all(done, all, format!("{text}, {so_far}")),
    }
}

/// The text beside the bar.
fn told(progress: ScanProgress, elapsed: Duration) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a share for the eye")]
    let share = progress.done as f64 / progress.all.max(1) as f64;
    let so_far = seconds(elapsed);
    if !(ENOUGH_TO_ESTIMATE..1.0).contains(&share) {
        return so_far;
    }
    let left = elapsed.mul_f64((1.0 - share) / share);
    format!("{so_far}, about {} left", seconds(left))
}

/// A time in words: `7 s`, `3 min 20 s`, `2 h 5 min`.
fn seconds(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_one_reads_them() {
        for (time, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (200, "3 min 20 s"),
            (7500, "2 h 5 min"),
        ] {
            assert_eq!(seconds(Duration::from_secs(time)), text);
        }
    }

    #[test]
    fn the_time_left_is_estimated_once_there_is_something_to_go_by() {
        let told = |done, all| told(ScanProgress { done, all }, Duration::from_secs(10));
        assert_eq!(told(1, 1000), "10 s");
        assert_eq!(told(250, 1000), "10 s, about 30 s left");
        assert_eq!(told(1000, 1000), "10 s");
    }

    fn line(scans: Option<(u64, u64)>, writing: WriteProgress) -> (Option<(u64, u64)>, String) {
        let state = BarState {
            scans: scans.map(|(done, all)| ScanProgress { done, all }),
            writing: Some(writing),
            maintenance: None,
        };
        let line = state.line(Duration::from_secs(5));
        (line.share, line.text)
    }

    #[test]
    fn a_bar_is_never_full_before_all_is_written() {
        let at = |rows_read, rows_written| WriteProgress {
            rows_read,
            sorts: true,
            rows_written,
            bytes_written: rows_written * 1000,
        };
        let shown = |scans, writing, share, text: &str| {
            assert_eq!(line(scans, writing), (share, text.to_owned()));
        };
        let half = Some((1, 2));
        let read = Some((2, 2));
        shown(half, at(0, 0), half, "5 s");
        shown(half, at(1000, 0), half, "1,000 rows read, 5 s");
        shown(read, at(2000, 0), None, "sorting 2,000 rows, 5 s");
        let text = "500 of 2,000 rows written, 500.00 kB, 5 s";
        shown(read, at(2000, 500), Some((500, 2000)), text);
        let text = "finishing 2,000 rows, 2.00 MB, 5 s";
        shown(read, at(2000, 2000), None, text);
        // The amount of data is known only for arrays.
        shown(None, at(1000, 0), None, "1,000 rows read, 5 s");
        // Rows that come in order are read and written at the same time.
        let sorted = |writing: WriteProgress| WriteProgress {
            sorts: false,
            ..writing
        };
        let text = "900 rows written, 900.00 kB, 5 s";
        shown(half, sorted(at(1000, 900)), half, text);
        shown(read, sorted(at(900, 900)), None, text);
    }

    #[test]
    fn maintenance_tells_the_time_until_there_is_something_to_do() {
        for maintenance in [
            RunningMaintenance::Consolidation(Arc::default()),
            RunningMaintenance::Vacuum(Arc::default()),
            RunningMaintenance::Check(Arc::default()),
        ] {
            let line = line_of_maintenance(&maintenance, "5 s");
            assert_eq!(
                (line.share, line.text.as_str()),
                (None, "5 s"),
                "{maintenance:?}"
            );
        }
    }
}
