//! The order in which blocks are evicted.
//!
//! foyer has such an order, too. But it forgets the ages of blocks when it's reopened, and marks a block as old only when
//! an older one is evicted, which is too late for entries of the first one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foyer::{EvictionInfo, EvictionPicker};

/// One of so many blocks is old. An entry that is read from an old block is written again.
const BLOCKS_PER_OLD_BLOCK: usize = 4;

/// The smallest number of old blocks. It makes each block old while at least one other block is filled.
const FEWEST_OLD_BLOCKS: usize = 3;

/// Picks the block that was filled first.
#[derive(Debug)]
pub(super) struct OldestBlockPicker {
    /// Blocks that were filled earlier have smaller numbers.
    ages: HashMap<u32, u64>,
    next_age: u64,
    old_blocks: usize,
    /// Whether foyer still reports blocks of an earlier run.
    recovering: Arc<AtomicBool>,
}

impl OldestBlockPicker {
    /// A picker that knows the blocks of an earlier run, oldest first. The caller ends the recovery.
    pub(super) fn new(recovered: Vec<u32>, recovering: Arc<AtomicBool>) -> Self {
        let ages: HashMap<_, _> = recovered.into_iter().zip(0..).collect();
        let next_age = ages.values().max().map_or(0, |age| age + 1);
        Self {
            ages,
            next_age,
            old_blocks: 0,
            recovering,
        }
    }

    fn oldest_first(&self, info: &EvictionInfo<'_>) -> Vec<u32> {
        let mut blocks: Vec<u32> = info.evictable.iter().copied().collect();
        blocks.sort_unstable_by_key(|block| self.ages.get(block));
        blocks
    }

    /// Marks the blocks that are evicted next. Empty blocks postpone evictions.
    fn mark_old_blocks(&self, info: &EvictionInfo<'_>) {
        let count = self.old_blocks.saturating_sub(info.clean);
        for (rank, block) in self.oldest_first(info).into_iter().enumerate() {
            let found = usize::try_from(block)
                .ok()
                .and_then(|block| info.blocks.get(block));
            if let Some(block) = found {
                let is_old = &block.statistics().probation;
                is_old.store(rank < count, Ordering::Relaxed);
            }
        }
    }
}

impl EvictionPicker for OldestBlockPicker {
    fn init(&mut self, blocks: &[u32], _block_bytes: usize) {
        self.old_blocks = (blocks.len() / BLOCKS_PER_OLD_BLOCK).max(FEWEST_OLD_BLOCKS);
    }

    fn pick(&mut self, info: EvictionInfo<'_>) -> Option<u32> {
        self.oldest_first(&info).first().copied()
    }

    fn on_block_evictable(&mut self, info: EvictionInfo<'_>, block: u32) {
        // A block with a damaged index is empty for foyer. It's new once it's filled, whatever its file seemed to hold.
        let is_recovered =
            self.recovering.load(Ordering::Relaxed) && self.ages.contains_key(&block);
        if !is_recovered {
            self.ages.insert(block, self.next_age);
            self.next_age += 1;
        }
        self.mark_old_blocks(&info);
    }

    fn on_block_evict(&mut self, info: EvictionInfo<'_>, block: u32) {
        self.ages.remove(&block);
        self.mark_old_blocks(&info);
    }
}
