//! The working memory of a thread that filters: buffers between two filters, and contexts of compressors.
//!
//! A [`Buffer`] keeps its length separate from the initialised part of its memory, so that taking one of a size used
//! before is free: no allocation and no zeroing.

use std::borrow::Cow;

use super::gzip::Inflater;
use super::zstd::{Compressor, Decompressor};

/// Larger buffers are freed instead of kept for the next tile.
const LARGEST_KEPT_BYTES: usize = 64 << 20;
/// The same for the memory of chunks that are written, which have 64 KiB and more only if one cell does.
const LARGEST_SPARE_BYTES: usize = 128 << 10;

/// The output of one filter and the input of the next.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// Sets the length to zero and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// The capacity of its memory.
    pub(super) fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.get(..self.len).unwrap_or_default()
    }

    /// Appends `additional` bytes of unspecified content and returns them for writing.
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

/// A chunk behind some of the filters.
#[derive(Debug)]
pub(super) struct Filtered<'a> {
    /// The metadata, those of the latest filter first.
    pub(super) metadata: Vec<Vec<u8>>,
    /// The data; they are borrowed until a filter changes them.
    pub(super) data: Cow<'a, [u8]>,
}

impl Filtered<'_> {
    /// The metadata, and then the data.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let data = std::iter::once(self.data.as_ref());
        self.metadata.iter().map(Vec::as_slice).chain(data)
    }
}

/// Reusable memory for encoding tiles. A thread needs it once, however many encoders it has.
#[derive(Default)]
pub struct Workspace {
    pub(super) zstd: Compressor,
    /// Memory of chunks that are done, with whatever is in it.
    spare: Vec<Vec<u8>>,
}

impl Workspace {
    /// Swaps memory and contexts for those of another. What was learnt of the tiles of a field stays.
    pub(super) fn swap(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.spare, &mut other.spare);
        self.zstd.swap_context(&mut other.zstd);
    }

    /// Memory to write a chunk to, with whatever is in it.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps the memory of a chunk, unless it is only borrowed, or large.
    pub(super) fn give(&mut self, data: Cow<'_, [u8]>) {
        if let Cow::Owned(data) = data
            && data.capacity() <= LARGEST_SPARE_BYTES
        {
            self.spare.push(data);
        }
    }
}
