//! How many bytes may be written again, so that entries in use aren't evicted.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A credit of bytes that new entries earn, and that rewritten entries spend.
///
/// A rewritten entry fills the newest block, which evicts the oldest one. Without this limit, reads alone would rewrite
/// the whole cache again and again.
#[derive(Debug)]
pub(super) struct RewriteCredit {
    bytes: AtomicUsize,
    limit_bytes: usize,
}

impl RewriteCredit {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            limit_bytes,
        }
    }

    pub(super) fn earn(&self, entry_bytes: usize) {
        let earned = |bytes: usize| Some(bytes.saturating_add(entry_bytes).min(self.limit_bytes));
        // It can't fail: there is always a new value.
        let _ = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, earned);
    }

    /// Spends the bytes of an entry. Returns `false` if there's too little credit.
    pub(super) fn spend(&self, entry_bytes: usize) -> bool {
        let spent = |bytes: usize| bytes.checked_sub(entry_bytes);
        self.bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewrites_never_exceed_what_new_entries_earned() {
        let credit = RewriteCredit::new(10);
        assert!(!credit.spend(1));
        credit.earn(7);
        assert!(credit.spend(4) && !credit.spend(4) && credit.spend(3));
        credit.earn(7);
        credit.earn(7);
        assert!(credit.spend(10) && !credit.spend(1));
    }
}
