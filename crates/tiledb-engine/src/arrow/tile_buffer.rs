//! The memory that a tile is unfiltered into, which becomes the memory of an Arrow array.
//!
//! Fresh memory is expensive: the system clears each page when it is first touched, although the last filter writes
//! every byte anyway. So the memory of a buffer can have a home, to which it returns when the last array over it is
//! dropped, and a scan reuses the memory of its first tiles.

use std::fmt;
use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::ArrowNativeType;
use bytes::Bytes;

use crate::error::{Error, Result};

/// Smaller allocations are not checked in advance.
const SMALL_BYTES: usize = 1 << 20;
/// Sizes are rounded up to this, so that memory can be read as numbers of any width.
const GRAIN_BYTES: usize = 64;

/// Receives memory that no array uses any longer.
pub trait MemoryHome: fmt::Debug + Send + Sync {
    /// Takes memory back.
    fn give(&self, memory: MutableBuffer);
}

/// Memory for the cells of a tile, aligned for numbers of any width.
pub struct TileBuffer {
    /// The allocation; its length is the part that was ever initialised.
    memory: MutableBuffer,
    len: usize,
    /// Where the memory goes when the buffer is dropped.
    home: Option<Arc<dyn MemoryHome>>,
}

impl TileBuffer {
    /// `bytes` zeros; an error instead of an abort if they cannot be allocated.
    pub fn zeroed(bytes: usize) -> Result<Self> {
        check_memory(bytes)?;
        let rounded = bytes
            .checked_next_multiple_of(GRAIN_BYTES)
            .ok_or_else(|| Error::out_of_memory(format!("{bytes} bytes")))?;
        Ok(Self {
            memory: MutableBuffer::from_len_zeroed(rounded),
            len: bytes,
            home: None,
        })
    }

    /// A copy of some bytes.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        let mut copy = Self::zeroed(bytes.len())?;
        copy.as_slice_mut().copy_from_slice(bytes);
        Ok(copy)
    }

    /// `bytes` bytes of unspecified content in `memory`, which returns to `home`; `None` if it is shorter.
    pub fn in_memory(
        memory: MutableBuffer,
        bytes: usize,
        home: Arc<dyn MemoryHome>,
    ) -> Option<Self> {
        (bytes <= memory.len()).then_some(Self {
            memory,
            len: bytes,
            home: Some(home),
        })
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.memory.get(..self.len).unwrap_or_default()
    }

    /// The bytes, writable.
    pub fn as_slice_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(..self.len).unwrap_or_default()
    }

    /// The buffer as integers.
    pub fn typed_data<T: ArrowNativeType>(&self) -> &[T] {
        let numbers = self.memory.typed_data::<T>();
        numbers.get(..self.len / size_of::<T>()).unwrap_or_default()
    }

    /// The buffer as integers, writable.
    pub fn typed_data_mut<T: ArrowNativeType>(&mut self) -> &mut [T] {
        let len = self.len / size_of::<T>();
        let numbers = self.memory.typed_data_mut::<T>();
        numbers.get_mut(..len).unwrap_or_default()
    }
}

impl fmt::Debug for TileBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TileBuffer")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl AsRef<[u8]> for TileBuffer {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<TileBuffer> for Buffer {
    /// Converts without copying.
    fn from(mut buffer: TileBuffer) -> Self {
        if buffer.home.is_some() {
            return Buffer::from(Bytes::from_owner(buffer));
        }
        let memory = std::mem::take(&mut buffer.memory);
        Buffer::from(memory).slice_with_length(0, buffer.len)
    }
}

impl Drop for TileBuffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give(std::mem::take(&mut self.memory));
        }
    }
}

/// Fails if `bytes` bytes cannot be allocated. Called before allocations that would abort instead of failing.
pub fn check_memory(bytes: usize) -> Result<()> {
    if bytes > SMALL_BYTES {
        let probe = Vec::<u8>::new().try_reserve_exact(bytes.saturating_add(64));
        probe.map_err(|e| {
            Error::out_of_memory(format!("{bytes} bytes for one tile were refused")).with_source(e)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct Shelf(Mutex<Vec<MutableBuffer>>);

    impl MemoryHome for Shelf {
        fn give(&self, memory: MutableBuffer) {
            self.0.lock().unwrap().push(memory);
        }
    }

    #[test]
    fn memory_comes_home_with_the_last_array_over_it() {
        let shelf = Arc::new(Shelf::default());
        let memory = MutableBuffer::from_len_zeroed(128);
        let address = memory.as_ptr();
        let home = Arc::clone(&shelf) as _;
        let mut buffer = TileBuffer::in_memory(memory, 100, home).unwrap();
        buffer.typed_data_mut::<u64>().fill(7);
        assert_eq!(buffer.typed_data::<u64>().len(), 12);
        let whole = Buffer::from(buffer);
        assert_eq!((whole.as_ptr(), whole.len()), (address, 100));
        let part = whole.slice_with_length(8, 8);
        drop(whole);
        assert!(shelf.0.lock().unwrap().is_empty());
        assert_eq!(part.typed_data::<u64>(), [7]);
        drop(part);
        let returned = shelf.0.lock().unwrap().pop().unwrap();
        assert_eq!((returned.as_ptr(), returned.len()), (address, 128));
    }

    #[test]
    fn memory_without_a_home_is_freed() {
        let zeros = Buffer::from(TileBuffer::zeroed(3).unwrap());
        assert_eq!(zeros.as_slice(), [0; 3]);
        assert_eq!(Buffer::from(TileBuffer::zeroed(0).unwrap()).len(), 0);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(TileBuffer::zeroed(usize::MAX).is_err());
        assert!(TileBuffer::zeroed(usize::MAX / 2).is_err());
        let shelf = Arc::new(Shelf::default());
        assert!(TileBuffer::in_memory(MutableBuffer::from_len_zeroed(64), 65, shelf).is_none());
    }
}
