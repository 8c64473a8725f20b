//! The threads of the package, and how Python waits for them.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::errors::internal;
use crate::log_bridge;
use crate::panics::caught;
pub use crate::process::OwnerProcess;
use crate::process::check_process;
use crate::progress::ProgressReporter;

/// How often a waiting thread looks for Ctrl-C.
const PULSE: Duration = Duration::from_millis(50);

/// How long an interrupted statement may take to end, and then its threads to do something else. Ctrl-C is raised within 0.3 s.
const PATIENCE: Duration = Duration::from_millis(100);

/// The stack of each thread: chains of thousands of operators are deep. Only the used part of the address space takes memory.
pub const STACK_BYTES: usize = 256 << 20;

static RUNTIME: Mutex<Option<&'static Runtime>> = Mutex::new(None);

/// The runtime of this process. It is never dropped: a thread of it may still serve a stream when the interpreter ends.
pub fn handle() -> PyResult<Handle> {
    check_process()?;
    let mut runtime = locked();
    if let Some(runtime) = *runtime {
        return Ok(runtime.handle().clone());
    }
    let built = Builder::new_multi_thread()
        .enable_all()
        .thread_name("tiledb-sql")
        .thread_stack_size(STACK_BYTES)
        .build();
    let failed = |e| PyRuntimeError::new_err(format!("can't start threads: {e}"));
    let built: &'static Runtime = Box::leak(Box::new(built.map_err(failed)?));
    *runtime = Some(built);
    Ok(built.handle().clone())
}

fn locked() -> MutexGuard<'static, Option<&'static Runtime>> {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the runtime if its threads don't end what was interrupted, so that other work gets new ones.
///
/// An operator may compute for hours without a pause, for example a join with a condition that no pair of rows meets. Nothing can stop it,
/// and the thread that it runs on is lost.
fn leave_if_stuck(runtime: &Handle) {
    let (sender, receiver) = mpsc::sync_channel(1);
    for _ in 0..runtime.metrics().num_workers() {
        let sender = sender.clone();
        runtime.spawn(async move { sender.try_send(()) });
    }
    if receiver.recv_timeout(PATIENCE).is_ok() {
        return;
    }
    let mut known = locked();
    if known.is_some_and(|known| known.handle().id() == runtime.id()) {
        *known = None;
    }
}

/// Waits for work on the threads of the package, without the GIL. Ctrl-C ends the work and is raised.
pub fn wait<T: Send + 'static>(
    py: Python<'_>,
    work: impl Future<Output = T> + Send + 'static,
) -> PyResult<T> {
    wait_reporting(py, None, work)
}

/// Waits like [`wait`], and reports the progress of the work. An exception of the reporter ends the work, too.
pub fn wait_reporting<T: Send + 'static>(
    py: Python<'_>,
    reporter: Option<ProgressReporter<'_>>,
    work: impl Future<Output = T> + Send + 'static,
) -> PyResult<T> {
    check_process()?;
    log_bridge::look(py)?;
    let mut reporter = reporter;
    let waited = watch_over(py, &mut reporter, work);
    let ended = log_bridge::emit(py).and(match reporter {
        Some(mut reporter) => reporter.end(py),
        None => Ok(()),
    });
    // The first failure counts.
    match (waited, ended) {
        (Ok(_), Err(error)) => Err(error),
        (waited, _) => waited,
    }
}

fn watch_over<T: Send + 'static>(
    py: Python<'_>,
    reporter: &mut Option<ProgressReporter<'_>>,
    work: impl Future<Output = T> + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let runtime = handle()?;
    let watch = reporter.as_ref().map(ProgressReporter::watch);
    let task = runtime.spawn(async move {
        let work = caught(work);
        let done = match watch {
            Some(watch) => watch.over(work).await,
            None => work.await,
        };
        // Nobody waits any longer after Ctrl-C.
        let _ = sender.send(done);
    });
    loop {
        let received;
        (receiver, received) = py.detach(move || {
            let received = receiver.recv_timeout(PULSE);
            (receiver, received)
        });
        match received {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(panic)) => return Err(panic.exception(py)),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let goes_on = py.check_signals().and_then(|()| log_bridge::emit(py));
                let goes_on = goes_on.and_then(|()| match reporter {
                    Some(reporter) => reporter.report(py),
                    None => Ok(()),
                });
                if let Err(interrupt) = goes_on {
                    task.abort();
                    py.detach(move || end_work(&runtime, &receiver));
                    return Err(interrupt);
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(internal(
                    py,
                    "the threads of the engine have ended; please report it",
                ));
            }
        }
    }
}

/// Waits until aborted work has ended, so that it changes nothing afterwards.
fn end_work<T>(runtime: &Handle, receiver: &mpsc::Receiver<T>) {
    if let Err(mpsc::RecvTimeoutError::Timeout) = receiver.recv_timeout(PATIENCE) {
        leave_if_stuck(runtime);
    }
}
