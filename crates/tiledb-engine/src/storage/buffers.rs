//! Buffers for what is read from files, used again and again.
//!
//! A fresh buffer of a megabyte is a fresh mapping: the kernel clears each of its pages when it is first touched, and the
//! allocator gives the pages back when it is dropped. Reading tiles that way costs half as much again as reading them
//! into memory that was touched before. So buffers return here when the last slice of them is gone.

use bytes::Bytes;

use crate::memory::idle::IdleBuffers;

/// Smaller ones are as cheap to make as to look for.
const SMALLEST_KEPT: usize = 64 << 10;
/// Bytes kept at most.
const KEPT_BYTES: usize = 32 << 20;

/// Buffers waiting to be used again.
static IDLE: IdleBuffers<Vec<u8>> = IdleBuffers::new(KEPT_BYTES);

/// Gives the buffers that wait to be used again back to the system.
pub fn release_buffers() {
    IDLE.release();
}

/// A buffer of a given length that is kept for others when dropped.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` bytes; what they are is left to chance.
    pub(super) fn new(len: usize) -> std::io::Result<Self> {
        let used = (len >= SMALLEST_KEPT).then(|| IDLE.take(len)).flatten();
        if let Some(bytes) = used {
            return Ok(Self { bytes, len });
        }
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(len)
            .map_err(|e| std::io::Error::new(std::io::ErrorKind::OutOfMemory, e))?;
        bytes.resize(len, 0);
        Ok(Self { bytes, len })
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.len).unwrap_or_default()
    }

    /// The bytes, which other threads may hold for as long as they like.
    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.len() >= SMALLEST_KEPT {
            IDLE.keep(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_its_last_slice_is_gone() {
        let mut buffer = Buffer::new(1 << 20).unwrap();
        buffer.as_mut_slice().fill(7);
        let bytes = buffer.freeze();
        let slice = bytes.slice(5..6);
        let address = bytes.as_ptr();
        drop(bytes);
        // Others test at the same time, and may take what this one gives back: a buffer in use is never given out.
        let other = Buffer::new(1 << 20).unwrap();
        assert_ne!(other.as_ref().as_ptr(), address);
        assert_eq!(slice, [7_u8][..]);
        assert_eq!(other.as_ref().len(), 1 << 20);
    }

    #[test]
    fn a_shorter_use_of_a_longer_buffer_shows_only_its_length() {
        drop(Buffer::new(100 << 10).unwrap());
        let mut shorter = Buffer::new(99 << 10).unwrap();
        shorter.as_mut_slice().fill(1);
        assert_eq!(shorter.as_ref().len(), 99 << 10);
        assert_eq!(shorter.freeze().len(), 99 << 10);
    }
}
