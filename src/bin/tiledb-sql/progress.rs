//! How far a statement has come, shown below it while it runs.
//!
//! Every plan that the session makes passes by [`Watch`], so what a statement runs on the way is seen too, as the query of
//! `CREATE TABLE … AS` is. A thread asks the plans for their scans' counters; a thread, because the tasks of the runtime
//! may all be busy with rows. What takes less than a second is not disturbed.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use console::Term;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion_tiledb::sql::progress::{Progress, progress_of};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

/// A statement shows a bar when it has taken this long.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two looks at the counters.
const PERIOD: Duration = Duration::from_millis(100);
/// The bar is drawn at most so many times a second.
const DRAWN_PER_SECOND: u8 = 10;
/// The columns that the `^C` takes with which the terminal shows Ctrl-C, and the one behind it.
const ECHO: u16 = 3;
/// An estimate of the time left needs so much of the work behind it.
const ENOUGH_TO_ESTIMATE: f64 = 0.02;

/// The plans of the statement that runs.
#[derive(Debug, Default)]
pub struct Watch {
    plans: Mutex<Vec<Arc<dyn ExecutionPlan>>>,
}

impl Watch {
    /// A planner that shows the plans that it makes.
    pub fn planner(self: &Arc<Self>) -> Arc<dyn QueryPlanner + Send + Sync> {
        Arc::new(WatchedPlanner(Arc::clone(self)))
    }

    /// How far the scans of arrays have come; `None` if there is none.
    fn progress(&self) -> Option<Progress> {
        let plans = self.plans();
        let parts = plans.iter().filter_map(progress_of);
        parts.reduce(|a, b| Progress {
            done: a.done.saturating_add(b.done),
            all: a.all.saturating_add(b.all),
        })
    }

    fn plans(&self) -> MutexGuard<'_, Vec<Arc<dyn ExecutionPlan>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// DataFusion's planner.
#[derive(Debug)]
struct WatchedPlanner(Arc<Watch>);

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

/// Forgets the plans of a statement when it ends, and clears its bar away.
pub struct Showing {
    watch: Arc<Watch>,
    bar: Option<Bar>,
}

/// The thread that shows a bar.
struct Bar {
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: JoinHandle<()>,
}

impl Showing {
    /// Begins with a statement. Without a terminal, or where nothing but results is wanted, nothing is shown.
    pub fn begin(watch: &Arc<Watch>, quiet: bool) -> Self {
        watch.plans().clear();
        let shown = !quiet && std::io::stderr().is_terminal();
        Self {
            watch: Arc::clone(watch),
            bar: shown.then(|| Bar::begin(Arc::clone(watch))).flatten(),
        }
    }

    /// Clears the bar away, because something else is printed from now on.
    pub fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            let (ended, wakes) = &*bar.ended;
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
            wakes.notify_all();
            // A bar that could not be drawn is no reason to fail.
            let _ = bar.thread.join();
        }
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        self.end();
        self.watch.plans().clear();
    }
}

impl Bar {
    /// `None` if the system has no thread to spare.
    fn begin(watch: Arc<Watch>) -> Option<Self> {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = Arc::clone(&ended);
        let thread = std::thread::Builder::new().name("progress".to_owned());
        let thread = thread.spawn(move || show(&watch, &shared)).ok()?;
        Some(Self { ended, thread })
    }
}

/// Shows a bar until the statement has ended.
fn show(watch: &Watch, (ended, wakes): &(Mutex<bool>, Condvar)) {
    let began = Instant::now();
    let mut shown: Option<ProgressBar> = None;
    let mut pause = PATIENCE;
    let mut guard = ended.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let waited = wakes.wait_timeout_while(guard, pause, |ended| !*ended);
        guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        if *guard {
            break;
        }
        pause = PERIOD;
        let bar = shown.get_or_insert_with(|| {
            let narrow = Box::new(Narrow(Term::buffered_stderr()));
            let target = ProgressDrawTarget::term_like_with_hz(narrow, DRAWN_PER_SECOND);
            ProgressBar::with_draw_target(None, target)
        });
        draw(bar, watch.progress(), began.elapsed());
    }
    if let Some(bar) = shown {
        bar.finish_and_clear();
    }
}

/// The terminal, but narrower, so that a `^C` behind the bar stays in its line, and is cleared away with it.
#[derive(Debug)]
struct Narrow(Term);

impl TermLike for Narrow {
    fn width(&self) -> u16 {
        self.0.size().1.saturating_sub(ECHO).max(1)
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}

fn draw(bar: &ProgressBar, progress: Option<Progress>, elapsed: Duration) {
    let (line, text) = match progress.filter(|progress| progress.all > 0) {
        Some(progress) => {
            bar.set_length(progress.all);
            bar.set_position(progress.done);
            (" {bar:32} {percent:>3} %  {msg}", told(progress, elapsed))
        }
        None => (" {spinner} {msg}", seconds(elapsed)),
    };
    if let Ok(style) = ProgressStyle::with_template(line) {
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    }
    bar.set_message(text);
    bar.tick();
}

/// The text beside the bar.
fn told(progress: Progress, elapsed: Duration) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a share for the eye")]
    let share = progress.done as f64 / progress.all.max(1) as f64;
    let so_far = seconds(elapsed);
    if !(ENOUGH_TO_ESTIMATE..1.0).contains(&share) {
        return so_far;
    }
    let left = elapsed.mul_f64((1.0 - share) / share);
    format!("{so_far}, about {} left", seconds(left))
}

/// A time as one reads it: `7 s`, `3 min 20 s`, `2 h 5 min`.
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
        let told = |done, all| told(Progress { done, all }, Duration::from_secs(10));
        assert_eq!(told(1, 1000), "10 s");
        assert_eq!(told(250, 1000), "10 s, about 30 s left");
        assert_eq!(told(1000, 1000), "10 s");
    }
}
