//! Processes. A child that was forked has the memory of its parent, but none of its threads, and its locks as they were.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

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
            "{what} belongs to the process that this one was forked from, and its threads aren't here: start processes by \"spawn\" or \
             \"forkserver\", and pickle it"
        )))
    }
}

/// The process that first used the package; 0 before that.
static USED_BY: AtomicU32 = AtomicU32::new(0);

/// Fails in a process that was forked from one that had used the package. Even new threads wouldn't work there: a queue of all parked threads
/// of the process, which tokio's locks share, still has those of the parent, whose stacks the new ones get.
pub fn check_process() -> PyResult<()> {
    let process = std::process::id();
    let user = USED_BY.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
    if user.is_ok() || user == Err(process) {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(
        "this process was forked from one that had used tiledb_sql, and has none of its threads: start processes by \"spawn\" or \
         \"forkserver\", or use tiledb_sql only in the children",
    ))
}
