//! The threads of an engine that decode tiles.
//!
//! More threads than processors would not be faster, and each takes memory: its own decompression contexts, and its own share
//! of what the allocator keeps. Other threads wait for files.

use std::io;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, Result};

/// Threads that start with the first work, and end with the engine or when they wait long.
#[derive(Debug)]
pub(super) struct DecodeThreads {
    most: usize,
    runtime: OnceLock<io::Result<Runtime>>,
}

impl DecodeThreads {
    /// So many threads at most, and at least one.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            runtime: OnceLock::new(),
        }
    }

    /// Where work is handed to the threads.
    pub(super) fn handle(&self) -> Result<&Handle> {
        let start = || {
            Builder::new_current_thread()
                .max_blocking_threads(self.most)
                .thread_name("tiledb-decode")
                .build()
        };
        match self.runtime.get_or_init(start) {
            Ok(runtime) => Ok(runtime.handle()),
            Err(e) => Err(Error::internal(format!(
                "there are no threads to decode: {e}"
            ))),
        }
    }
}

impl Drop for DecodeThreads {
    fn drop(&mut self) {
        // The last handle of an engine may be dropped where nothing may block: in a task, or on one of these threads.
        if let Some(Ok(runtime)) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
