//! The working memory of a thread: buffers between two filters, and decompression contexts.

use super::buffer::Buffer;
use super::gzip::Inflater;
use super::zstd::Decompressor;

/// Larger buffers are freed instead of kept for the next tile.
const LARGEST_KEPT_BYTES: usize = 64 << 20;

/// Reusable memory for decoding tiles; one per worker.
#[derive(Default)]
pub struct Scratch {
    pub(super) contexts: Contexts,
    free: Vec<Buffer>,
    skipped_chunks: usize,
}

/// Decompression contexts, created when first needed.
#[derive(Default)]
pub(super) struct Contexts {
    pub(super) zstd: Decompressor,
    pub(super) gzip: Inflater,
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

impl Scratch {
    /// The number of chunks skipped because their cells were not wanted, since the last call.
    pub fn take_skipped_chunks(&mut self) -> usize {
        std::mem::take(&mut self.skipped_chunks)
    }

    pub(super) fn skip_chunk(&mut self) {
        self.skipped_chunks = self.skipped_chunks.saturating_add(1);
    }

    /// An empty buffer.
    pub(super) fn take(&mut self) -> Buffer {
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Keeps a buffer for later.
    pub(super) fn give(&mut self, buffer: Buffer) {
        if buffer.capacity() <= LARGEST_KEPT_BYTES {
            self.free.push(buffer);
        }
    }
}
