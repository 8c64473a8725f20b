//! Bytes between two filters.
//!
//! A [`Buffer`] separates its length from what its memory was ever initialised to, so that taking one of a size used
//! before costs nothing: no allocation and no zeroing.

/// Bytes on their way from one filter to the next.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// An empty buffer in the same memory.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// What its memory holds.
    pub(super) fn capacity(&self) -> usize {
        self.memory.capacity()
    }

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
