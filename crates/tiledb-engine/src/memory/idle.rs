//! Buffers that wait for the next query.
//!
//! Memory that was touched before is cheaper than fresh memory, whose pages the kernel clears first: for a small query that
//! is a tenth of the work. So a few buffers stay when a scan is over. They count in the memory pool of that scan, where they
//! take a small part at most ([`MemoryBudget::idle_limit`]), and they go when a scan needs the memory.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::budget::{Grant, MemoryBudget, UnlimitedBudget};

/// The two grants of an idle buffer: one of a memory pool, and one of all idle bytes of the engine.
type IdleGrants = [Grant; 2];

/// Counts the idle bytes of one engine, in all of its lists.
///
/// An idle buffer is charged twice until it is used again or freed: to the engine, by this count, and to the budget of the
/// reader that used it last ([`IdleAccount`]). That reader is the scan whose tiles it held, or the storage whose files were
/// read into it. A reader without a budget charges the engine alone.
///
/// The count includes what other readers of the engine left idle, and a buffer is freed if the count would exceed the idle
/// limit of its reader's budget. So a small pool never holds more idle bytes than its limit. After a scan in a large pool of
/// the same engine, it may hold fewer.
#[derive(Debug)]
pub struct IdleLedger {
    bytes: Arc<AtomicUsize>,
}

impl IdleLedger {
    /// A ledger of no bytes.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            bytes: Arc::default(),
        })
    }

    /// The bytes that are idle now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Charges bytes that become idle; `None` if they would be too many for the budget.
    fn charge(&self, bytes: usize, budget: &dyn MemoryBudget) -> Option<IdleGrants> {
        let most = budget.idle_limit();
        let add = |idle: usize| idle.checked_add(bytes).filter(|idle| *idle <= most);
        let added = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.ok()?;
        let count = Arc::clone(&self.bytes);
        let counted = Grant::new(bytes, move |bytes| {
            count.fetch_sub(bytes, Ordering::Relaxed);
        });
        Some([budget.reserve(bytes).ok()?, counted])
    }
}

/// A list of idle buffers of one kind.
#[derive(Debug)]
pub struct IdleBuffers<M> {
    /// At most so many bytes.
    most_bytes: usize,
    ledger: Arc<IdleLedger>,
    /// Longest waiting first.
    buffers: Mutex<VecDeque<(M, IdleGrants)>>,
}

impl<M: Deref<Target = [u8]>> IdleBuffers<M> {
    /// No buffers yet, and never more than so many bytes of them.
    pub fn new(most_bytes: usize, ledger: Arc<IdleLedger>) -> Arc<Self> {
        Arc::new(Self {
            most_bytes,
            ledger,
            buffers: Mutex::new(VecDeque::new()),
        })
    }

    /// The account of a reader, whose buffers wait here and are charged to `budget`.
    pub fn account(self: &Arc<Self>, budget: Arc<dyn MemoryBudget>) -> Arc<IdleAccount<M>> {
        Arc::new(IdleAccount {
            buffers: Arc::downgrade(self),
            budget,
        })
    }

    /// Keeps a buffer as far as the budget lets it; those that wait longest make room.
    fn keep(&self, buffer: M, budget: &dyn MemoryBudget) {
        // A buffer that is larger than the list would only drive out the others.
        if buffer.len() > self.most_bytes {
            return;
        }
        if let Some(accounts) = self.ledger.charge(buffer.len(), budget) {
            self.push(buffer, accounts);
        }
    }

    fn push(&self, buffer: M, accounts: IdleGrants) {
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
    fn take(&self, bytes: usize) -> Option<M> {
        let mut buffers = self.buffers();
        let best = best_fit(buffers.iter().map(|(idle, _)| idle.len()), bytes)?;
        buffers.remove(best).map(|(idle, _)| idle)
    }

    /// Gives all of them back to the system.
    pub fn release(&self) {
        // The buffers are dropped after the lock is released.
        let _released = std::mem::take(&mut *self.buffers());
    }

    fn buffers(&self) -> MutexGuard<'_, VecDeque<(M, IdleGrants)>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader of an engine: where its buffers wait, and the budget that they are charged to meanwhile.
///
/// Buffers in use hold the account. So it holds the list weakly, and a query that keeps its last batches doesn't keep the
/// engine's idle memory with them.
#[derive(Debug)]
pub struct IdleAccount<M> {
    buffers: Weak<IdleBuffers<M>>,
    budget: Arc<dyn MemoryBudget>,
}

impl<M: Deref<Target = [u8]>> IdleAccount<M> {
    /// An account without a list: its buffers are freed.
    pub fn closed() -> Arc<Self> {
        Arc::new(Self {
            buffers: Weak::new(),
            budget: Arc::new(UnlimitedBudget),
        })
    }

    /// Keeps a buffer for later readers, as far as the engine and the budget let it.
    pub fn keep(&self, buffer: M) {
        if let Some(buffers) = self.buffers.upgrade() {
            buffers.keep(buffer, self.budget.as_ref());
        }
    }

    /// An idle buffer of `bytes` bytes, or somewhat longer.
    pub fn take(&self, bytes: usize) -> Option<M> {
        self.buffers.upgrade()?.take(bytes)
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

    fn list(most_bytes: usize) -> Arc<IdleBuffers<Vec<u8>>> {
        IdleBuffers::new(most_bytes, IdleLedger::new())
    }

    fn kept(buffers: &IdleBuffers<Vec<u8>>, bytes: usize) {
        buffers.keep(vec![0; bytes], &UnlimitedBudget);
    }

    #[test]
    fn the_shortest_buffer_that_fits_is_taken() {
        let buffers = list(1 << 20);
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
        let buffers = list(16 << 20);
        kept(&buffers, 30 << 10);
        for _ in 0..20 {
            kept(&buffers, 1 << 20);
        }
        assert_eq!(buffers.buffers().len(), 16);
        assert!(buffers.take(30 << 10).is_none(), "it waited longest");
        assert_eq!(buffers.ledger.bytes(), 16 << 20);
        kept(&buffers, (16 << 20) + 1);
        assert_eq!(buffers.buffers().len(), 16, "it never fits");
        buffers.release();
        assert!(buffers.take(1 << 20).is_none());
        assert_eq!(buffers.ledger.bytes(), 0);
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
    fn idle_bytes_are_charged_to_the_reader_that_used_them() {
        let buffers = list(1 << 20);
        let reader = |idle| {
            let reserved = Arc::new(AtomicUsize::new(0));
            let budget = Limited {
                idle,
                reserved: Arc::clone(&reserved),
            };
            (buffers.account(Arc::new(budget)), reserved)
        };
        let charged = |reserved: &AtomicUsize| reserved.load(Ordering::Relaxed);
        let (one, of_one) = reader(100);
        let (other, of_other) = reader(150);
        one.keep(vec![0; 100]);
        one.keep(vec![0; 1]);
        assert_eq!(charged(&of_one), 100, "no more than its limit");
        other.keep(vec![0; 50]);
        other.keep(vec![0; 1]);
        assert_eq!((charged(&of_one), charged(&of_other)), (100, 50));
        assert_eq!(buffers.ledger.bytes(), 150);
        // Whoever takes a buffer, its last user no longer pays.
        assert_eq!(other.take(100).unwrap().len(), 100);
        assert_eq!((charged(&of_one), charged(&of_other)), (0, 50));
        drop(buffers);
        assert_eq!(charged(&of_other), 0);
        other.keep(vec![0; 50]);
        assert!(other.take(50).is_none(), "its list is gone");
    }
}
