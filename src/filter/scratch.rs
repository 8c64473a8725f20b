//! What a worker keeps from tile to tile: buffers between two filters, and decompression contexts.
//!
//! A [`Buffer`] separates its length from what its memory was ever initialised to, so that taking one of a size used
//! before costs nothing: no allocation and no zeroing.

use super::gzip::Inflater;
use super::zstd::Decompressor;

/// Buffers larger than this are freed rather than kept for the next tile.
const LARGEST_KEPT_BYTES: usize = 64 << 20;

/// Reusable memory for decoding tiles; one per worker.
#[derive(Default)]
pub struct Scratch {
    pub(super) contexts: Contexts,
    free: Vec<Buffer>,
    skipped_chunks: usize,
}

/// Decompression contexts, made when first needed.
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
    /// How many chunks were left as they are, for nobody wanted their cells, since this was last asked.
    pub fn take_skipped_chunks(&mut self) -> usize {
        std::mem::take(&mut self.skipped_chunks)
    }

    pub(super) fn skip_chunk(&mut self) {
        self.skipped_chunks = self.skipped_chunks.saturating_add(1);
    }

    /// An empty buffer.
    pub(super) fn take(&mut self) -> Buffer {
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.len = 0;
        buffer
    }

    /// Keeps a buffer for later.
    pub(super) fn give(&mut self, buffer: Buffer) {
        if buffer.memory.capacity() <= LARGEST_KEPT_BYTES {
            self.free.push(buffer);
        }
    }
}

/// Bytes on their way from one filter to the next.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    len: usize,
}

impl Buffer {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.get(..self.len).unwrap_or_default()
    }

    /// Appends `additional` bytes of unspecified content and returns them to be written.
    pub(super) fn extend(&mut self, additional: usize) -> &mut [u8] {
        let start = self.len;
        self.len = start.saturating_add(additional);
        if self.memory.len() < self.len {
            self.memory.resize(self.len, 0);
        }
        self.memory.get_mut(start..self.len).unwrap_or_default()
    }

    /// Shortens the buffer to `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}
