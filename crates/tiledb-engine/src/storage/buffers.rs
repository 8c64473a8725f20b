//! Buffers for what is read from files, used again and again.
//!
//! A fresh buffer of a megabyte is a fresh mapping: the kernel clears each of its pages when it is first touched, and the
//! allocator gives the pages back when it is dropped. Reading tiles that way costs half as much again as reading them
//! into memory that was touched before. So buffers return here when the last slice of them is gone.

use std::sync::Arc;

use bytes::Bytes;

use crate::memory::idle::IdleAccount;

/// Smaller ones are as cheap to make as to look for.
const SMALLEST_KEPT: usize = 64 << 10;

/// Where buffers come from and return to.
pub(super) type FileBuffers = Arc<IdleAccount<Vec<u8>>>;

/// A buffer of a given length that is kept for others when dropped.
#[derive(Debug)]
pub(super) struct RecycledBytes {
    bytes: Vec<u8>,
    len: usize,
    /// The account that the bytes return to; `None` if they are too few to keep.
    home: Option<FileBuffers>,
}

impl RecycledBytes {
    /// A buffer of `len` bytes; what they are is left to chance.
    pub(super) fn new(len: usize, buffers: &FileBuffers) -> std::io::Result<Self> {
        let home = (len >= SMALLEST_KEPT).then(|| Arc::clone(buffers));
        if let Some(bytes) = home.as_ref().and_then(|home| home.take(len)) {
            return Ok(Self { bytes, len, home });
        }
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(len)
            .map_err(|e| std::io::Error::new(std::io::ErrorKind::OutOfMemory, e))?;
        bytes.resize(len, 0);
        Ok(Self { bytes, len, home })
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.len).unwrap_or_default()
    }

    /// The bytes, which other threads may hold for as long as they like.
    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for RecycledBytes {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Drop for RecycledBytes {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.keep(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::engine::{Engine, EngineOptions};

    #[test]
    fn a_buffer_is_used_again_when_its_last_slice_is_gone() {
        let engine = Engine::new(EngineOptions::default());
        let buffers = engine.file_account(None);
        let mut buffer = RecycledBytes::new(1 << 20, &buffers).unwrap();
        buffer.as_mut_slice().fill(7);
        let bytes = buffer.freeze();
        let slice = bytes.slice(5..6);
        let address = bytes.as_ptr();
        drop(bytes);
        let other = RecycledBytes::new(1 << 20, &buffers).unwrap();
        assert_ne!(other.as_ref().as_ptr(), address, "it is still in use");
        assert_eq!(slice, [7_u8][..]);
        drop(slice);
        assert_eq!(engine.idle_bytes(), 1 << 20);
        let again = RecycledBytes::new(1 << 20, &buffers).unwrap();
        assert_eq!(again.as_ref().as_ptr(), address);
        assert_eq!((again.as_ref().len(), engine.idle_bytes()), (1 << 20, 0));
    }

    #[test]
    fn a_shorter_use_of_a_longer_buffer_shows_only_its_length() {
        let engine = Engine::new(EngineOptions::default());
        let buffers = engine.file_account(None);
        drop(RecycledBytes::new(100 << 10, &buffers).unwrap());
        let mut shorter = RecycledBytes::new(99 << 10, &buffers).unwrap();
        shorter.as_mut_slice().fill(1);
        assert_eq!(shorter.as_ref().len(), 99 << 10);
        assert_eq!(shorter.freeze().len(), 99 << 10);
    }
}
