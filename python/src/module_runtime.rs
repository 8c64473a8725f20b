//! The threads of the package, and how Python waits for them.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, TryLockError, mpsc};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

/// How often a waiting thread looks for Ctrl-C.
const PULSE: Duration = Duration::from_millis(50);

/// How long an interrupted statement may take to end.
const PATIENCE: Duration = Duration::from_millis(200);

/// The stack of each thread: chains of thousands of operators are deep. Only the used part of the address space takes memory.
pub const STACK_BYTES: usize = 256 << 20;

/// A runtime, and the process that made it.
type ProcessRuntime = Option<(u32, &'static Runtime)>;

static RUNTIME: Mutex<ProcessRuntime> = Mutex::new(None);

/// The process that an object belongs to. After `fork`, the threads that serve it are those of the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerProcess(u32);

impl OwnerProcess {
    pub fn current() -> Self {
        Self(std::process::id())
    }

    /// Fails in a child of the process.
    pub fn check(self, what: &str) -> PyResult<()> {
        if self == Self::current() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(format!(
            "{what} belongs to the process that this one was forked from, and its threads aren't here: make a new one, or start \
             processes by \"spawn\" or \"forkserver\""
        )))
    }
}

/// The runtime of this process. It is never dropped: a thread of it may still serve a stream when the interpreter ends.
pub fn handle() -> PyResult<Handle> {
    let mut runtime = locked()?;
    let process = std::process::id();
    if let Some((owner, runtime)) = *runtime
        && owner == process
    {
        return Ok(runtime.handle().clone());
    }
    let built = Builder::new_multi_thread()
        .enable_all()
        .thread_name("tiledb-sql")
        .thread_stack_size(STACK_BYTES)
        .build();
    let failed = |e| PyRuntimeError::new_err(format!("can't start threads: {e}"));
    let built: &'static Runtime = Box::leak(Box::new(built.map_err(failed)?));
    *runtime = Some((process, built));
    Ok(built.handle().clone())
}

/// The runtime, locked. If another thread of the parent held the lock when this process was forked, nobody releases it here.
fn locked() -> PyResult<MutexGuard<'static, ProcessRuntime>> {
    for _ in 0..500 {
        match RUNTIME.try_lock() {
            Ok(runtime) => return Ok(runtime),
            Err(TryLockError::Poisoned(runtime)) => return Ok(runtime.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Err(PyRuntimeError::new_err(
        "this process was forked while another thread began to use tiledb_sql: start processes by \"spawn\" or \"forkserver\"",
    ))
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
    if let Ok(mut known) = locked()
        && known.is_some_and(|(_, known)| known.handle().id() == runtime.id())
    {
        *known = None;
    }
}

/// Waits for work on the threads of the package, without the GIL. Ctrl-C ends the work and is raised.
pub fn wait<T: Send + 'static>(
    py: Python<'_>,
    work: impl Future<Output = T> + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let runtime = handle()?;
    let task = runtime.spawn(async move {
        // Nobody waits any longer after Ctrl-C.
        let _ = sender.send(work.await);
    });
    loop {
        let received;
        (receiver, received) = py.detach(move || {
            let received = receiver.recv_timeout(PULSE);
            (receiver, received)
        });
        match received {
            Ok(done) => return Ok(done),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if let Err(interrupt) = py.check_signals() {
                    task.abort();
                    py.detach(|| leave_if_stuck(&runtime));
                    return Err(interrupt);
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "the engine failed; the log has the details. Please report it",
                ));
            }
        }
    }
}
