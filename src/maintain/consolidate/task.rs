//! Work that goes on while nobody waits for it, and stops when nobody will.

use tokio::task::JoinHandle;

use crate::error::{Error, Result};

/// A task of the runtime, which is stopped when this is dropped.
#[derive(Debug)]
pub(super) struct Task<T>(JoinHandle<Result<T>>);

impl<T: Send + 'static> Task<T> {
    /// Begins.
    pub(super) fn new(work: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Waits for the result.
    pub(super) async fn join(mut self) -> Result<T> {
        let joined = (&mut self.0).await;
        joined.map_err(|e| Error::internal("reading a tile ended in a panic").with_source(e))?
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
