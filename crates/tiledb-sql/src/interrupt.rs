//! Ctrl-C: it interrupts the running statement, and not the shell.
//!
//! At the prompt the terminal hands Ctrl-C to the line editor as a key. While a statement runs it is a signal, for which one
//! task listens as long as the process lives. Anything that can be interrupted watches the count of signals: a statement while
//! it waits for rows, and its output while it is printed. If nothing runs and no line is being edited, as between the lines of
//! a pipe, the signal ends the process as usual.

use std::io::{self, Write};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::watch;

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
        if RUNNING.load(Ordering::Relaxed) == 0 {
            std::process::exit(STATUS.into());
        }
        signals.send_modify(|count| *count = count.wrapping_add(1));
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
    pub fn stdout(&self) -> InterruptibleOutput<'_> {
        InterruptibleOutput {
            stdout: io::BufWriter::new(io::stdout().lock()),
            running: self,
        }
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See [`Interruptible::stdout`].
pub struct InterruptibleOutput<'a> {
    stdout: io::BufWriter<io::StdoutLock<'static>>,
    running: &'a Interruptible,
}

impl Write for InterruptibleOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.running.is_interrupted() {
            return Err(io::Error::other("interrupted"));
        }
        self.stdout.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}
