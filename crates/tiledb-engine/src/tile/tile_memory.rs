//! The memory that the tiles of a scan are decoded into, used again and again.
//!
//! Memory that the consumer of a scan has released serves the next tiles. Idle memory is accounted for like any other, and
//! it is the first to be given back: no reservation is refused while some memory is idle. A little stays for later scans,
//! because it is ready to be written to: the system clears new memory first, and for a scan of a few cells of large tiles
//! that is most of the work.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow::buffer::MutableBuffer;

use crate::arrow::{MemoryHome, TileBuffer, check_memory};
use crate::error::Result;
use crate::filter;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::memory::idle::{IdleAccount, best_fit};

/// Smaller allocations are cheap to make and to clear, and are not kept.
const SMALLEST_KEPT_BYTES: usize = 16 << 10;
/// The most bytes that are idle within one scan.
const MOST_IDLE_BYTES: usize = 32 << 20;

/// Memory that waits for the next tile.
#[derive(Debug)]
struct IdleTileMemory {
    memory: MutableBuffer,
    _grant: Grant,
}

/// Memory for the tiles of the scan of one partition.
#[derive(Debug)]
pub struct TileMemory {
    budget: Arc<dyn MemoryBudget>,
    /// Longest waiting first.
    idle: Mutex<VecDeque<IdleTileMemory>>,
    home: Arc<TileHome>,
}

/// Where the memory of a scan's tiles returns: to the scan, or to the engine if the scan has ended. A query may hold the last
/// batches of a scan longer than the scan.
#[derive(Debug)]
struct TileHome {
    scan: Weak<TileMemory>,
    engine: Arc<IdleAccount<MutableBuffer>>,
}

impl TileMemory {
    /// Memory from `budget`. What is idle at the end of the scan goes to `engine`, which also supplies memory.
    pub fn new(
        budget: Arc<dyn MemoryBudget>,
        engine: Arc<IdleAccount<MutableBuffer>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|scan| Self {
            budget,
            idle: Mutex::default(),
            home: Arc::new(TileHome {
                scan: Weak::clone(scan),
                engine,
            }),
        })
    }

    /// A buffer of `bytes` bytes of unspecified content, for which memory was reserved.
    pub fn buffer(&self, bytes: usize) -> Result<TileBuffer> {
        if bytes < SMALLEST_KEPT_BYTES {
            return TileBuffer::zeroed(bytes);
        }
        let memory = match self.take(bytes) {
            Some(memory) => memory,
            None => {
                let size = size_class(bytes);
                check_memory(size)?;
                MutableBuffer::from_len_zeroed(size)
            }
        };
        let home = Arc::clone(&self.home);
        TileBuffer::in_memory(memory, bytes, home).map_or_else(|| TileBuffer::zeroed(bytes), Ok)
    }

    /// Memory that was used before.
    fn take(&self, bytes: usize) -> Option<MutableBuffer> {
        let mut idle = self.idle();
        let best = best_fit(idle.iter().map(|m| m.memory.len()), bytes);
        if let Some(idle) = best.and_then(|best| idle.remove(best)) {
            return Some(idle.memory);
        }
        drop(idle);
        self.home.engine.take(bytes)
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<IdleTileMemory>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TileMemory {
    fn drop(&mut self) {
        let idle = std::mem::take(&mut *self.idle());
        for IdleTileMemory { memory, _grant } in idle {
            drop(_grant);
            self.home.engine.keep(memory);
        }
    }
}

/// Sizes that many tiles share: eight to a doubling.
fn size_class(bytes: usize) -> usize {
    let step = bytes.checked_next_power_of_two().map_or(1, |p| p / 16);
    bytes
        .checked_next_multiple_of(step.max(1))
        .unwrap_or(usize::MAX)
}

impl MemoryHome for TileHome {
    fn give(&self, memory: MutableBuffer) {
        match self.scan.upgrade() {
            Some(scan) => scan.keep(memory),
            None => self.engine.keep(memory),
        }
    }
}

impl TileMemory {
    /// Keeps memory for the next tiles.
    fn keep(&self, memory: MutableBuffer) {
        let bytes = memory.len();
        let kept = SMALLEST_KEPT_BYTES..=MOST_IDLE_BYTES;
        let Some(grant) = kept
            .contains(&bytes)
            .then(|| self.budget.reserve(bytes).ok())
            .flatten()
        else {
            return;
        };
        let mut idle = self.idle();
        idle.push_back(IdleTileMemory {
            memory,
            _grant: grant,
        });
        let mut waiting = idle.iter().map(|m| m.memory.len()).sum::<usize>();
        while waiting > MOST_IDLE_BYTES
            && let Some(oldest) = idle.pop_front()
        {
            waiting = waiting.saturating_sub(oldest.memory.len());
        }
    }
}

impl MemoryBudget for TileMemory {
    fn reserve(&self, bytes: usize) -> Result<Grant> {
        self.budget.reserve(bytes).or_else(|refused| {
            let idle = std::mem::take(&mut *self.idle());
            if idle.is_empty() {
                return Err(refused);
            }
            drop(idle);
            self.budget.reserve(bytes)
        })
    }

    fn share(&self) -> usize {
        self.budget.share()
    }
}

/// Buffers and contexts of one decoding thread.
#[derive(Debug, Default)]
pub struct DecodeScratch {
    /// Working memory of the filters.
    pub filters: filter::FilterScratch,
    /// The memory for results. It belongs to the scan whose tiles are decoded, if there is one.
    memory: Option<Arc<TileMemory>>,
}

impl DecodeScratch {
    /// Decodes for a scan until the guard is dropped: results go into `memory`, and decoding ends with an error once `stop` is
    /// set.
    pub fn serve(&mut self, memory: &Arc<TileMemory>, stop: Arc<AtomicBool>) -> ScratchGuard<'_> {
        self.filters.account_in(Arc::clone(memory) as _);
        self.filters.end_when(stop);
        self.memory = Some(Arc::clone(memory));
        ScratchGuard(self)
    }

    /// A buffer of `bytes` bytes of unspecified content.
    pub fn buffer(&self, bytes: usize) -> Result<TileBuffer> {
        match &self.memory {
            Some(memory) => memory.buffer(bytes),
            None => TileBuffer::zeroed(bytes),
        }
    }
}

/// The scratch memory of a thread while it decodes for a scan. A thread may wait long for its next scan, so it releases the
/// scan's memory and reservations afterwards.
#[derive(Debug)]
pub struct ScratchGuard<'a>(&'a mut DecodeScratch);

impl Deref for ScratchGuard<'_> {
    type Target = DecodeScratch;

    fn deref(&self) -> &DecodeScratch {
        self.0
    }
}

impl DerefMut for ScratchGuard<'_> {
    fn deref_mut(&mut self) -> &mut DecodeScratch {
        self.0
    }
}

impl Drop for ScratchGuard<'_> {
    fn drop(&mut self) {
        self.filters.settle();
        self.memory = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::buffer::Buffer;

    use super::*;
    use crate::error::Error;
    use crate::memory::budget::UnlimitedBudget;
    use crate::storage::{Engine, EngineOptions};

    /// Grants up to a limit.
    #[derive(Debug)]
    struct Limited(Arc<AtomicUsize>);

    impl MemoryBudget for Limited {
        fn reserve(&self, bytes: usize) -> Result<Grant> {
            let left = Arc::clone(&self.0);
            let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes)
            });
            taken.map_err(|_| Error::out_of_memory("too much"))?;
            Ok(Grant::new(bytes, move |bytes| {
                left.fetch_add(bytes, Ordering::Relaxed);
            }))
        }
    }

    #[test]
    fn memory_is_used_again() {
        let memory = TileMemory::new(Arc::new(UnlimitedBudget), IdleAccount::closed());
        let first = Buffer::from(memory.buffer(100_000).unwrap());
        let address = first.as_ptr();
        drop(first);
        let smaller = memory.buffer(70_000).unwrap();
        assert_eq!(
            (smaller.as_slice().as_ptr(), smaller.len()),
            (address, 70_000)
        );
        let second = Buffer::from(memory.buffer(100_000).unwrap());
        assert_ne!(second.as_ptr(), address);
        drop(Buffer::from(smaller));
        // Far too large for this one.
        assert_ne!(memory.buffer(20_000).unwrap().as_slice().as_ptr(), address);
    }

    #[test]
    fn memory_that_outlives_its_scan_waits_for_others() {
        let engine = Engine::new(EngineOptions::default());
        let scan = || {
            let budget: Arc<dyn MemoryBudget> = Arc::new(UnlimitedBudget);
            TileMemory::new(Arc::clone(&budget), engine.tile_account(budget))
        };
        let memory = scan();
        let [waiting, used] = [100_000, 300_000].map(|bytes| memory.buffer(bytes).unwrap());
        let used = Buffer::from(used);
        drop(waiting);
        assert_eq!(engine.idle_bytes(), 0, "it waits for the scan's next tile");
        drop(memory);
        let after_scan = engine.idle_bytes();
        assert!(after_scan >= 100_000);
        let address = used.as_ptr();
        drop(used);
        assert!(engine.idle_bytes() >= after_scan + 300_000);
        let again = scan().buffer(300_000).unwrap();
        assert_eq!(again.as_slice().as_ptr(), address);
    }

    #[test]
    fn what_waits_is_bounded_accounted_for_and_given_up_first() {
        let limit = 100 << 20;
        let left = Arc::new(AtomicUsize::new(limit));
        let memory = TileMemory::new(Arc::new(Limited(Arc::clone(&left))), IdleAccount::closed());
        let used: Vec<_> = (0..100)
            .map(|_| Buffer::from(memory.buffer(1 << 20).unwrap()))
            .collect();
        drop(used);
        assert_eq!(left.load(Ordering::Relaxed), limit - MOST_IDLE_BYTES);
        let grant = memory.reserve(limit).unwrap();
        assert!(memory.idle().is_empty());
        drop(Buffer::from(memory.buffer(1 << 20).unwrap()));
        assert!(memory.idle().is_empty(), "there is nothing left to wait in");
        drop(grant);
        assert!(memory.reserve(limit + 1).is_err());
        assert_eq!(left.load(Ordering::Relaxed), limit);
    }

    #[test]
    fn a_thread_keeps_nothing_of_a_scan() {
        let mut scratch = DecodeScratch::default();
        for panics in [false, true] {
            let left = Arc::new(AtomicUsize::new(1 << 20));
            let memory =
                TileMemory::new(Arc::new(Limited(Arc::clone(&left))), IdleAccount::closed());
            let serve = || {
                let serving = scratch.serve(&memory, Arc::default());
                drop(Buffer::from(serving.buffer(100_000).unwrap()));
                assert!(left.load(Ordering::Relaxed) < 1 << 20);
                if panics {
                    std::panic::resume_unwind(Box::new("decoding failed"));
                }
            };
            let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(serve));
            assert_eq!(served.is_err(), panics);
            drop(memory);
            assert_eq!(left.load(Ordering::Relaxed), 1 << 20);
        }
    }

    #[test]
    fn sizes_are_rounded_a_little() {
        for bytes in [16 << 10, 777_600, 1_555_200, (1 << 20) + 1] {
            let class = size_class(bytes);
            assert!(
                (bytes..=bytes + bytes / 8).contains(&class),
                "{bytes} {class}"
            );
            assert!(class.is_multiple_of(64));
        }
    }
}
