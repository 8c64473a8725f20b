//! The working memory of a thread that filters: buffers between two filters, and contexts of compressors.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::buffer::{DecodeWork, FilterBuffer};
use super::gzip::Inflater;
use super::zstd::{Compressor, ZstdDecompressor};
use crate::error::{Error, Result};
use crate::memory::budget::{Grant, MemoryBudget};

/// Larger buffers are freed instead of kept for the next tile.
const LARGEST_KEPT_BYTES: usize = 1 << 20;
/// Working memory that is kept without a reservation: chunks have 64 KiB.
const UNASKED_BYTES: usize = 2 << 20;
/// Larger memory of written chunks is freed, too. A chunk has 64 KiB, and more only if a single cell does.
const LARGEST_SPARE_BYTES: usize = 128 << 10;

/// Reusable memory for decoding tiles; one per worker.
#[derive(Default)]
pub struct FilterScratch {
    pub(super) contexts: DecompressionContexts,
    free: Vec<FilterBuffer>,
    skipped_chunks: usize,
    /// Grants what large chunks need; without it, they take what they need.
    budget: Option<Arc<dyn MemoryBudget>>,
    granted: Grant,
    /// This flag is set when nobody waits for the tiles any longer.
    stop: Option<Arc<AtomicBool>>,
}

/// Decompression contexts, created when first needed.
#[derive(Default)]
pub(super) struct DecompressionContexts {
    pub(super) zstd: ZstdDecompressor,
    pub(super) gzip: Inflater,
}

impl std::fmt::Debug for FilterScratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

impl FilterScratch {
    /// The number of chunks skipped because their cells were not wanted, since the last call.
    pub fn take_skipped_chunks(&mut self) -> usize {
        std::mem::take(&mut self.skipped_chunks)
    }

    pub(super) fn skip_chunk(&mut self) {
        self.skipped_chunks = self.skipped_chunks.saturating_add(1);
    }

    /// From now on, what chunks need beyond the usual is granted by `budget`.
    pub fn account_in(&mut self, budget: Arc<dyn MemoryBudget>) {
        self.settle();
        self.budget = Some(budget);
    }

    /// From now on, decoding ends with an error at the next chunk once `stop` is set.
    pub fn end_when(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
    }

    /// Gives back what large chunks have needed, and forgets who waits.
    pub fn settle(&mut self) {
        self.granted = Grant::default();
        self.budget = None;
        self.stop = None;
    }

    /// Makes sure that a chunk may take `bytes` bytes between its filters.
    ///
    /// # Errors
    /// The budget refuses them, or nobody waits for the chunk any longer.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<()> {
        if let Some(stop) = &self.stop
            && stop.load(Ordering::Relaxed)
        {
            return Err(Error::internal("nobody waits for the tile any longer"));
        }
        let known = self.granted.bytes().saturating_add(UNASKED_BYTES);
        if let Some(more) = bytes.checked_sub(known).filter(|more| *more > 0)
            && let Some(budget) = &self.budget
        {
            self.granted.absorb(budget.reserve(more)?);
        }
        Ok(())
    }

    /// An empty buffer.
    pub(super) fn take(&mut self) -> FilterBuffer {
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Keeps a buffer for later.
    pub(super) fn give(&mut self, buffer: FilterBuffer) {
        if buffer.capacity() <= LARGEST_KEPT_BYTES {
            self.free.push(buffer);
        }
    }
}

/// Reusable memory for encoding tiles. A thread needs it once, however many encoders it has.
#[derive(Default)]
pub struct EncodeWorkspace {
    pub(super) zstd: Compressor,
    /// Memory of chunks that are done, with whatever is in it.
    spare: Vec<Vec<u8>>,
    /// The work of decoding what was encoded, if that is measured.
    pub(super) work: Option<DecodeWork>,
}

impl EncodeWorkspace {
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
