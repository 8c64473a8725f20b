//! Ctrl-C: it interrupts the running statement, and not the shell.
//!
//! At the prompt the terminal hands Ctrl-C to the line editor as a key. While a statement runs it is a signal, for which one
//! task listens as long as the process lives. Anything that can be interrupted watches the count of signals: a statement while
//! it waits for rows, and its output while it is printed. If nothing runs and no line is being edited, as between the lines of
//! a pipe, the signal ends the process as usual.
//!
//! A statement may need a while to stop, because an operator computes without a pause. The user then reads that it is being
//! cancelled, and a second signal ends the shell.

use std::io::{self, Write};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::watch;

use crate::report;

/// The exit status of programs that Ctrl-C ended.
const STATUS: u8 = 130;

/// How long, and how often, to look for a signal that has reached the process but not yet the listening task.
const ON_ITS_WAY: Duration = Duration::from_secs(2);
const LOOKS: Duration = Duration::from_millis(1);

/// Counts the signals.
static SIGNALS: LazyLock<watch::Sender<u64>> = LazyLock::new(|| {
    let (sender, _) = watch::channel(0);
    if let Some(next) = next_signal() {
        tokio::spawn(listen(next, sender.clone()));
    }
    sender
});

/// The state of the current statement: one of the three values below.
static STATEMENT: AtomicU8 = AtomicU8::new(NO_STATEMENT);
const NO_STATEMENT: u8 = 0;
const STATEMENT_RUNS: u8 = 1;
/// A signal has interrupted the statement, but it is still running.
const STATEMENT_STOPS: u8 = 2;

/// A statement that stops within this time stops silently.
const STOPS_AT_ONCE: Duration = Duration::from_millis(300);

type NextSignal = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// The number of running things that can be interrupted.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The next signal, which counts from now on; `None` if the system reports none.
///
/// The first poll installs the handler. Until then, a signal ends the process.
fn next_signal() -> Option<NextSignal> {
    let mut next: NextSignal = Box::pin(tokio::signal::ctrl_c());
    match next.as_mut().now_or_never() {
        None => Some(next),
        Some(_) => None,
    }
}

async fn listen(mut next: NextSignal, signals: watch::Sender<u64>) {
    while next.await.is_ok() {
        let Some(after) = next_signal() else { return };
        next = after;
        let statement = STATEMENT.compare_exchange(
            STATEMENT_RUNS,
            STATEMENT_STOPS,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if RUNNING.load(Ordering::Relaxed) == 0 || statement == Err(STATEMENT_STOPS) {
            std::process::exit(STATUS.into());
        }
        signals.send_modify(|count| *count = count.wrapping_add(1));
        if statement.is_ok() {
            tokio::spawn(report_slow_stop());
        }
    }
}

async fn report_slow_stop() {
    tokio::time::sleep(STOPS_AT_ONCE).await;
    if STATEMENT.load(Ordering::Relaxed) == STATEMENT_STOPS {
        report::print_cancelling();
    }
}

/// The exit code of a shell that was interrupted and has no prompt to return to.
pub fn exit_code() -> ExitCode {
    STATUS.into()
}

/// Something that runs and can be interrupted.
pub struct Interruptible {
    signals: watch::Receiver<u64>,
}

impl Interruptible {
    /// Signals count from now on, until this is dropped.
    pub fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self {
            signals: SIGNALS.subscribe(),
        }
    }

    /// Marks the time in which a statement runs.
    pub fn statement(&self) -> RunningStatement {
        STATEMENT.store(STATEMENT_RUNS, Ordering::Relaxed);
        RunningStatement
    }

    /// Whether there was a signal.
    pub fn is_interrupted(&self) -> bool {
        self.signals.has_changed().unwrap_or(false)
    }

    /// Waits for a signal that another program on the same terminal has already got. Without this wait, the signal would
    /// interrupt the work that begins next.
    pub fn take_signal_on_its_way(&self) {
        let began = Instant::now();
        while !self.is_interrupted() && began.elapsed() < ON_ITS_WAY {
            std::thread::sleep(LOOKS);
        }
    }

    /// Runs a future to its end; `None` if a signal comes first.
    pub async fn run<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut signals = self.signals.clone();
        tokio::select! {
            result = future => Some(result),
            Ok(()) = signals.changed() => None,
        }
    }

    /// Stdout, which refuses output after a signal.
    pub fn stdout(&self) -> InterruptibleOutput<'_, io::BufWriter<io::StdoutLock<'static>>> {
        self.output(io::BufWriter::new(io::stdout().lock()))
    }

    /// A writer that refuses output after a signal.
    pub fn output<W: Write>(&self, output: W) -> InterruptibleOutput<'_, W> {
        InterruptibleOutput {
            output,
            running: self,
        }
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A statement runs until this is dropped.
pub struct RunningStatement;

impl Drop for RunningStatement {
    fn drop(&mut self) {
        STATEMENT.store(NO_STATEMENT, Ordering::Relaxed);
    }
}

/// See [`Interruptible::output`].
pub struct InterruptibleOutput<'a, W> {
    output: W,
    running: &'a Interruptible,
}

impl<W: Write> Write for InterruptibleOutput<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.running.is_interrupted() {
            return Err(io::Error::other("interrupted"));
        }
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
