//! What passes from filter to filter: buffers when a tile is read, chunks with their metadata when it is written.
//!
//! A [`FilterBuffer`] keeps its length separate from the initialised part of its memory, so that taking one of a size used
//! before is free: no allocation and no zeroing.

use std::borrow::Cow;

use crate::error::{Error, Result};

/// The limit of a buffer between two filters.
#[derive(Debug, Clone, Copy)]
pub(super) struct BufferLimit {
    /// Memory up to this size is allocated on a claim.
    pub(super) trusted_bytes: usize,
    /// The largest size.
    pub(super) limit_bytes: usize,
}

/// The limits of a chunk at one step of its pipeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepLimits {
    pub(super) data: BufferLimit,
    pub(super) metadata: BufferLimit,
}

/// The output of one filter and the input of the next.
#[derive(Debug, Default)]
pub(super) struct FilterBuffer {
    memory: Vec<u8>,
    len: usize,
}

impl FilterBuffer {
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
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn extend(&mut self, additional: usize) -> Result<&mut [u8]> {
        let start = self.len;
        let end = start.saturating_add(additional);
        let missing = end.saturating_sub(self.memory.len());
        if missing > 0 {
            self.memory.try_reserve(missing).map_err(|e| {
                Error::out_of_memory(format!("{end} bytes between two filters were refused"))
                    .with_source(e)
            })?;
            self.memory.resize(end, 0);
        }
        self.len = end;
        Ok(self.memory.get_mut(start..end).unwrap_or_default())
    }

    /// Shortens the buffer to `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

/// A chunk behind some of the filters.
#[derive(Debug)]
pub(super) struct FilteredChunk<'a> {
    /// The metadata, those of the latest filter first.
    pub(super) metadata: Vec<Vec<u8>>,
    /// The data; they are borrowed until a filter changes them.
    pub(super) data: Cow<'a, [u8]>,
}

impl FilteredChunk<'_> {
    /// The metadata, and then the data.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let data = std::iter::once(self.data.as_ref());
        self.metadata.iter().map(Vec::as_slice).chain(data)
    }
}

/// What decoding takes besides moving bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecodeWork {
    /// Bytes that an entropy coder has coded.
    pub literals: u64,
    /// Parts that are copied from what is there, with the bytes before them.
    pub sequences: u64,
}
