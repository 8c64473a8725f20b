//! The progress of a statement, shown below it while it runs.
//!
//! A thread reads the counters of [`StatementWatch`] and draws the bar. It isn't a task of the runtime, because the runtime's threads may
//! all be busy with rows. Statements of less than a second show nothing.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::watch::{ProgressLine, StatementWatch};

/// A statement shows a bar when it has taken this long.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two looks at the counters.
const PERIOD: Duration = Duration::from_millis(100);
/// How often the bar is drawn per second, at most.
const DRAWN_PER_SECOND: u8 = 10;
/// The columns of the `^C` that the terminal shows for Ctrl-C, and the one behind it.
const ECHO: u16 = 3;

/// Forgets the plans of a statement when it ends, and clears its bar.
pub struct ShownProgress {
    watch: Arc<StatementWatch>,
    began: Instant,
    is_shown: bool,
    bar: Option<ProgressBarThread>,
}

/// The thread that shows a bar.
struct ProgressBarThread {
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: JoinHandle<()>,
}

impl ShownProgress {
    /// Begins with a statement. Without a terminal, or if only results are wanted, nothing is shown.
    pub fn begin(watch: &Arc<StatementWatch>, quiet: bool) -> Self {
        watch.clear();
        let mut showing = Self {
            watch: Arc::clone(watch),
            began: Instant::now(),
            is_shown: !quiet && std::io::stderr().is_terminal(),
            bar: None,
        };
        showing.go_on();
        showing
    }

    /// Shows a bar, or shows it again after something else was printed.
    pub fn go_on(&mut self) {
        if self.is_shown && self.bar.is_none() {
            self.bar = ProgressBarThread::begin(Arc::clone(&self.watch), self.began);
        }
    }

    /// Clears the bar, because other output follows.
    pub fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            let (ended, wakes) = &*bar.ended;
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
            wakes.notify_all();
            // A statement doesn't fail because its bar can't be drawn.
            let _ = bar.thread.join();
        }
    }
}

impl Drop for ShownProgress {
    fn drop(&mut self) {
        self.end();
        self.watch.clear();
    }
}

impl ProgressBarThread {
    /// `None` if the system can't start a thread.
    fn begin(watch: Arc<StatementWatch>, began: Instant) -> Option<Self> {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = Arc::clone(&ended);
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || show(&watch, began, &shared))
            .ok()?;
        Some(Self { ended, thread })
    }
}

/// Shows a bar until the statement has ended.
fn show(watch: &StatementWatch, began: Instant, (ended, wakes): &(Mutex<bool>, Condvar)) {
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
            let narrow = Box::new(NarrowTerminal(Term::buffered_stderr()));
            let target = ProgressDrawTarget::term_like_with_hz(narrow, DRAWN_PER_SECOND);
            ProgressBar::with_draw_target(None, target)
        });
        draw(bar, watch.line(began.elapsed()));
    }
    if let Some(bar) = shown {
        bar.finish_and_clear();
    }
}

/// The terminal, but narrower, so that a `^C` behind the bar stays in its line and is cleared together with it.
#[derive(Debug)]
struct NarrowTerminal(Term);

impl TermLike for NarrowTerminal {
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

fn draw(bar: &ProgressBar, ProgressLine { share, text }: ProgressLine) {
    let line = match share {
        Some((done, all)) => {
            bar.set_length(all);
            bar.set_position(done);
            " {bar:32} {percent:>3} %  {msg}"
        }
        None => " {spinner} {msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(line) {
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    }
    bar.set_message(text);
    bar.tick();
}
