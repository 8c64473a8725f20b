//! How the capacity of a cache is divided into blocks.
//!
//! foyer keeps each block in a file that stays open, and evicts whole blocks. An entry never spans two blocks. Few large
//! blocks save file descriptors and allow large entries; many small blocks evict less at once.

use foyer::Code;

use super::cached_range::EntryKey;
use crate::cache_options::SMALLEST_CACHE_BYTES;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// The number of blocks of a large cache. Each takes one file descriptor; many systems allow a process 1024, or even 256.
const MANY_BLOCKS: u64 = 128;

/// The number of blocks of a small cache.
const FEW_BLOCKS: u64 = 8;

/// The size of blocks between the two. One more MiB than 32 lets a block hold two entries of 16 MiB, with their headers.
const USUAL_BLOCK_BYTES: u64 = 33 * MIB;

/// foyer keeps offsets in blocks in 32 bits.
const LARGEST_BLOCK_BYTES: u64 = 2048 * MIB;

/// The largest entry. Two write buffers have this size.
const LARGEST_ENTRY_BYTES: u64 = 32 * MIB;

/// foyer begins each entry at a multiple of this, on disk and in its buffers.
pub(super) const PAGE_BYTES: usize = 4096;

/// The space of the index at the beginning of a block.
pub(super) const BLOCK_INDEX_BYTES: usize = PAGE_BYTES;

/// What foyer writes before the key and value of an entry, and before the bytes of a value.
const ENTRY_HEADER_BYTES: usize = 36 + 8;

/// The sizes of a cache's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockLayout {
    pub(super) block_bytes: usize,
    pub(super) block_count: u32,
    /// The largest entry, with its key and header.
    pub(super) largest_entry_bytes: usize,
}

impl BlockLayout {
    /// The layout for a capacity, or `None` if the capacity is less than [`SMALLEST_CACHE_BYTES`].
    pub(super) fn of_capacity(capacity_bytes: u64) -> Option<Self> {
        if capacity_bytes < SMALLEST_CACHE_BYTES {
            return None;
        }
        let usual = USUAL_BLOCK_BYTES.min(capacity_bytes / FEW_BLOCKS);
        let block = (capacity_bytes / MANY_BLOCKS).clamp(usual, LARGEST_BLOCK_BYTES);
        let block = block - block % MIB;
        let page = u64::try_from(PAGE_BYTES).ok()?;
        Some(Self {
            block_bytes: usize::try_from(block).ok()?,
            block_count: u32::try_from((capacity_bytes / block).min(MANY_BLOCKS)).ok()?,
            largest_entry_bytes: usize::try_from(LARGEST_ENTRY_BYTES.min(block - page)).ok()?,
        })
    }

    /// The space of all blocks.
    pub(super) fn total_bytes(&self) -> usize {
        usize::try_from(self.block_count)
            .map_or(usize::MAX, |count| count.saturating_mul(self.block_bytes))
    }

    /// The space that an entry takes, or `None` if it's too large for a block.
    pub(super) fn entry_bytes(&self, key: &EntryKey, value_bytes: usize) -> Option<usize> {
        let entry = value_bytes
            .checked_add(key.estimated_size())?
            .checked_add(ENTRY_HEADER_BYTES)?;
        let aligned = entry.checked_next_multiple_of(PAGE_BYTES)?;
        (aligned <= self.largest_entry_bytes).then_some(aligned)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cached_range::CachedRange;
    use super::*;

    #[test]
    fn layouts_fit_their_capacity() {
        for shift in 24..46 {
            for capacity in [
                1_u64 << shift,
                (1 << shift) + 1_234_567,
                (3 << (shift - 1)) - 1,
            ] {
                let layout = BlockLayout::of_capacity(capacity).unwrap();
                let total = layout.block_bytes as u64 * u64::from(layout.block_count);
                assert!(total <= capacity);
                assert!(
                    capacity > 1 << 38 || total * 4 >= capacity * 3,
                    "{capacity} {layout:?}"
                );
                assert!(
                    (8..=128).contains(&layout.block_count),
                    "{capacity} {layout:?}"
                );
                assert_eq!(layout.largest_entry_bytes % PAGE_BYTES, 0);
            }
        }
        assert_eq!(BlockLayout::of_capacity(SMALLEST_CACHE_BYTES - 1), None);
    }

    #[test]
    fn sixteen_mebibytes_fit_from_256_mebibytes_on() {
        let key = EntryKey::new([0; 16], CachedRange::new("s", "p", 0..16 << 20));
        let layout = BlockLayout::of_capacity(256 << 20).unwrap();
        assert!(layout.entry_bytes(&key, 16 << 20).is_some());
        assert!(layout.entry_bytes(&key, 32 << 20).is_none());
        assert!(layout.entry_bytes(&key, usize::MAX).is_none());
    }
}
