//! Waiting for storage where a planner cannot: planning is synchronous, but some of it needs the columns of arrays.

use std::thread;

use crate::error::{Error, Result};

/// Does the work on a thread of its own while the caller waits, whose runtime may have no other thread than the one
/// that waits here. `name` is that of the thread.
pub(super) fn wait_for<T, F>(name: &str, work: F) -> Result<T>
where
    T: Send + 'static,
    F: AsyncFnOnce() -> Result<T> + Send + 'static,
{
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::internal("no runtime to open the array with").with_source(e))?;
        runtime.block_on(work())
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    let thread =
        thread.map_err(|e| Error::internal("no thread to open the array with").with_source(e))?;
    thread
        .join()
        .map_err(|_| Error::internal("opening the array ended in a panic"))?
}
