//! How far a consolidation has come.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of cells, which grow while a consolidation runs.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    before: AtomicU64,
    read: AtomicU64,
}

impl Progress {
    /// The cells of all inputs.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The cells that were merged so far.
    pub fn done(&self) -> u64 {
        let before = self.before.load(Ordering::Relaxed);
        before.saturating_add(self.read.load(Ordering::Relaxed))
    }

    pub(super) fn expect(&self, cells: u64) {
        self.total.fetch_add(cells, Ordering::Relaxed);
    }

    pub(super) fn set(&self, cells: u64) {
        self.read.store(cells, Ordering::Relaxed);
    }

    /// A step is over; all its cells were merged.
    pub(super) fn finish(&self, cells: u64) {
        self.read.store(0, Ordering::Relaxed);
        self.before.fetch_add(cells, Ordering::Relaxed);
    }
}
