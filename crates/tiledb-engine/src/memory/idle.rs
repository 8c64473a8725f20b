//! Buffers that wait for the next query.
//!
//! Memory that was touched before is cheaper than fresh memory, whose pages the kernel clears first: for a small query that
//! is a tenth of the work. So a few buffers stay when a scan is over. They count in the memory pool of the scan that came
//! last, where they take a small part at most ([`MemoryBudget::idle_limit`]), and they go when a scan needs the memory.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::budget::{Grant, MemoryBudget};

/// The two grants of an idle buffer: one of the memory pool, and one of all idle bytes of the process.
type Accounts = [Grant; 2];

/// The number of idle bytes in the process, and the budget that accounts for buffers that become idle.
#[derive(Debug)]
struct Ledger {
    budget: RwLock<Option<Arc<dyn MemoryBudget>>>,
    bytes: AtomicUsize,
}

static LEDGER: Ledger = Ledger::new();

/// From now on, what becomes idle is accounted for in `budget`.
pub fn account_in(budget: Arc<dyn MemoryBudget>) {
    LEDGER.account_in(budget);
}

impl Ledger {
    const fn new() -> Self {
        Self {
            budget: RwLock::new(None),
            bytes: AtomicUsize::new(0),
        }
    }

    fn account_in(&self, budget: Arc<dyn MemoryBudget>) {
        *self.budget.write().unwrap_or_else(PoisonError::into_inner) = Some(budget);
    }

    /// Accounts for bytes that become idle; `None` if no scan was there yet, or if they would be too many.
    fn account(&'static self, bytes: usize) -> Option<Accounts> {
        let budget = self.budget.read().unwrap_or_else(PoisonError::into_inner);
        let budget = budget.as_ref()?;
        let most = budget.idle_limit();
        let add = |idle: usize| idle.checked_add(bytes).filter(|idle| *idle <= most);
        let added = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.ok()?;
        let counted = Grant::new(bytes, |bytes| {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        });
        Some([budget.reserve(bytes).ok()?, counted])
    }
}

/// A list of idle buffers of one kind.
#[derive(Debug)]
pub struct IdleBuffers<M> {
    /// At most so many bytes.
    most_bytes: usize,
    /// Longest waiting first.
    buffers: Mutex<VecDeque<(M, Accounts)>>,
}

impl<M: Deref<Target = [u8]>> IdleBuffers<M> {
    /// No buffers yet, and never more than so many bytes of them.
    pub const fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            buffers: Mutex::new(VecDeque::new()),
        }
    }

    /// Keeps a buffer as far as the memory pool lets it; those that wait longest make room.
    pub fn keep(&self, buffer: M) {
        if let Some(accounts) = LEDGER.account(buffer.len()) {
            self.push(buffer, accounts);
        }
    }

    fn push(&self, buffer: M, accounts: Accounts) {
        let mut buffers = self.buffers();
        buffers.push_back((buffer, accounts));
        let mut bytes = buffers.iter().map(|(idle, _)| idle.len()).sum::<usize>();
        while bytes > self.most_bytes
            && let Some((oldest, _)) = buffers.pop_front()
        {
            bytes = bytes.saturating_sub(oldest.len());
        }
    }

    /// The shortest buffer that holds `bytes` bytes and is not far too long, the one used last if there are several.
    pub fn take(&self, bytes: usize) -> Option<M> {
        let mut buffers = self.buffers();
        let best = best_fit(buffers.iter().map(|(idle, _)| idle.len()), bytes)?;
        buffers.remove(best).map(|(idle, _)| idle)
    }

    /// Gives all of them back to the system.
    pub fn release(&self) {
        // The buffers are dropped after the lock is released.
        let _released = std::mem::take(&mut *self.buffers());
    }

    fn buffers(&self) -> MutexGuard<'_, VecDeque<(M, Accounts)>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which of these sizes is the smallest that holds `bytes` and is not far too large; the last of several.
pub fn best_fit(sizes: impl Iterator<Item = usize>, bytes: usize) -> Option<usize> {
    let fitting = sizes
        .enumerate()
        .filter(|(_, size)| (bytes..=bytes.saturating_mul(2)).contains(size));
    let best = fitting.min_by_key(|(index, size)| (*size, std::cmp::Reverse(*index)));
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::budget::Unlimited;

    fn kept(buffers: &IdleBuffers<Vec<u8>>, bytes: usize) {
        let accounts = [0, bytes].map(|bytes| Unlimited.reserve(bytes).unwrap());
        buffers.push(vec![0; bytes], accounts);
    }

    #[test]
    fn the_shortest_buffer_that_fits_is_taken() {
        let buffers = IdleBuffers::new(1 << 20);
        kept(&buffers, 30 << 10);
        kept(&buffers, 20 << 10);
        assert!(buffers.take(40 << 10).is_none());
        assert!(buffers.take(5 << 10).is_none(), "far too large");
        assert_eq!(buffers.take(15 << 10).unwrap().len(), 20 << 10);
        assert_eq!(buffers.take(15 << 10).unwrap().len(), 30 << 10);
        assert!(buffers.take(15 << 10).is_none());
    }

    #[test]
    fn the_longest_waiting_make_room() {
        let buffers = IdleBuffers::new(16 << 20);
        kept(&buffers, 30 << 10);
        for _ in 0..20 {
            kept(&buffers, 1 << 20);
        }
        assert_eq!(buffers.buffers().len(), 16);
        assert!(buffers.take(30 << 10).is_none(), "it waited longest");
        kept(&buffers, (16 << 20) + 1);
        assert!(buffers.buffers().is_empty());
        kept(&buffers, 1 << 20);
        buffers.release();
        assert!(buffers.take(1 << 20).is_none());
    }

    /// Grants everything, and lets so many bytes be idle.
    #[derive(Debug)]
    struct Limited {
        idle: usize,
        reserved: Arc<AtomicUsize>,
    }

    impl MemoryBudget for Limited {
        fn reserve(&self, bytes: usize) -> crate::Result<Grant> {
            self.reserved.fetch_add(bytes, Ordering::Relaxed);
            let reserved = Arc::clone(&self.reserved);
            Ok(Grant::new(bytes, move |bytes| {
                reserved.fetch_sub(bytes, Ordering::Relaxed);
            }))
        }

        fn idle_limit(&self) -> usize {
            self.idle
        }
    }

    #[test]
    fn idle_bytes_count_in_the_pool_of_the_last_scan() {
        static LEDGER: Ledger = Ledger::new();
        let reserved = Arc::new(AtomicUsize::new(0));
        let last = |idle| {
            let reserved = Arc::clone(&reserved);
            LEDGER.account_in(Arc::new(Limited { idle, reserved }));
        };
        assert!(LEDGER.account(1).is_none(), "there was no scan yet");
        last(100);
        let most = LEDGER.account(100).unwrap();
        assert!(LEDGER.account(1).is_none());
        last(150);
        let more = LEDGER.account(50).unwrap();
        assert_eq!(reserved.load(Ordering::Relaxed), 150);
        drop(most);
        assert_eq!(reserved.load(Ordering::Relaxed), 50);
        drop(more);
        assert_eq!(LEDGER.bytes.load(Ordering::Relaxed), 0);
    }
}
