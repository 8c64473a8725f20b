//! The entries that wait for the disk.
//!
//! foyer drops what doesn't fit into its write buffer. So the entries wait here, and the writer passes on as many as the
//! buffer holds.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use super::cached_range::EntryKey;

/// Entries that arrive while so many bytes wait are dropped.
pub(super) const PENDING_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// The writer passes on at most so many bytes at once, or one larger entry. Only this part of foyer's buffers is touched.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// A queue of entries, with one reader.
#[derive(Debug)]
pub(super) struct PendingWrites {
    state: Mutex<PendingState>,
    changed: Notify,
    batch_bytes: usize,
}

#[derive(Debug, Default)]
struct PendingState {
    /// All entries that aren't on disk yet, with the space that each takes there.
    entries: HashMap<EntryKey, (Bytes, usize)>,
    /// The entries that the writer hasn't taken.
    order: VecDeque<EntryKey>,
    waiting_bytes: usize,
    phase: WritePhase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WritePhase {
    #[default]
    Accepting,
    /// The writer writes what waits, and then stops.
    Draining,
    /// The writer stops after the batch that it's writing.
    Abandoned,
}

/// The entries that are written together.
#[derive(Debug, Default)]
pub(super) struct WriteBatch {
    pub(super) entries: Vec<(EntryKey, Bytes)>,
    pub(super) total_bytes: usize,
}

impl PendingWrites {
    /// An empty queue for a writer with buffers of this size.
    pub(super) fn new(buffer_bytes: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            batch_bytes: BATCH_BYTES.min(buffer_bytes),
        }
    }

    fn state(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry that takes `entry_bytes` on disk. Returns `false` if the entry is dropped.
    pub(super) fn push(&self, key: EntryKey, bytes: Bytes, entry_bytes: usize) -> bool {
        let mut state = self.state();
        if state.phase != WritePhase::Accepting
            || state.waiting_bytes + entry_bytes > PENDING_LIMIT_BYTES
        {
            return false;
        }
        if !state.entries.contains_key(&key) {
            state.waiting_bytes += entry_bytes;
            state.order.push_back(key.clone());
            state.entries.insert(key, (bytes, entry_bytes));
            drop(state);
            self.changed.notify_one();
        }
        true
    }

    /// The bytes of an entry that isn't on disk yet.
    pub(super) fn get(&self, key: &EntryKey) -> Option<Bytes> {
        self.state()
            .entries
            .get(key)
            .map(|(bytes, _)| bytes.clone())
    }

    /// Whether the cache is open.
    pub(super) fn is_accepting(&self) -> bool {
        self.state().phase == WritePhase::Accepting
    }

    /// Lets the writer stop once everything is written.
    pub(super) fn drain(&self) {
        let mut state = self.state();
        if state.phase == WritePhase::Accepting {
            state.phase = WritePhase::Draining;
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Lets the writer stop now.
    pub(super) fn abandon(&self) {
        let mut state = self.state();
        state.phase = WritePhase::Abandoned;
        state.order.clear();
        state.entries.clear();
        drop(state);
        self.changed.notify_one();
    }

    /// Waits for entries and returns the oldest ones, or `None` once the writer has to stop.
    pub(super) async fn next_batch(&self) -> Option<WriteBatch> {
        loop {
            let (batch, phase) = {
                let mut state = self.state();
                (state.take_batch(self.batch_bytes), state.phase)
            };
            if !batch.entries.is_empty() {
                return Some(batch);
            }
            if phase != WritePhase::Accepting {
                return None;
            }
            self.changed.notified().await;
        }
    }

    /// Forgets the entries of a batch, which are on disk now or were dropped.
    pub(super) fn finish(&self, batch: &WriteBatch) {
        let mut state = self.state();
        for (key, _) in &batch.entries {
            state.entries.remove(key);
        }
        state.waiting_bytes = state.waiting_bytes.saturating_sub(batch.total_bytes);
    }
}

impl PendingState {
    fn take_batch(&mut self, limit_bytes: usize) -> WriteBatch {
        let mut batch = WriteBatch::default();
        while let Some(key) = self.order.front() {
            let Some((bytes, entry_bytes)) = self.entries.get(key) else {
                self.order.pop_front();
                continue;
            };
            if !batch.entries.is_empty() && batch.total_bytes + entry_bytes > limit_bytes {
                break;
            }
            batch.total_bytes += entry_bytes;
            batch.entries.push((key.clone(), bytes.clone()));
            self.order.pop_front();
        }
        batch
    }
}
