//! A cache on disk of immutable byte ranges of objects.
//!
//! The cache is a help and never a hindrance: a damaged, full or missing file is a miss. Each entry has a checksum, and
//! its whole key is compared, so bytes are either right or missing.
//!
//! The subtle thing is eviction. foyer evicts blocks, oldest first, and has no order of use for what is on disk. So an
//! entry that is read while its block is among the oldest is written again, into the newest block. Ranges that are read
//! repeatedly stay, as in an LRU cache, for one more write in each turn of the whole cache. No more bytes are written
//! again than new ones arrive, so reads alone write nothing.
//!
//! # Memory
//!
//! | Holds | Bytes |
//! |---|---|
//! | entries that wait for the disk | 64 MiB at most; more are dropped |
//! | foyer's two write buffers | 4 MiB each, or the size of the largest entry so far: 32 MiB at most |
//! | a read | twice the size of the entry, while it runs |
//! | foyer's index | about 60 bytes for each entry |
//!
//! Bytes that are inserted aren't copied. A slice keeps the whole buffer that it belongs to until it's on disk.

mod cached_range;
mod eviction;
mod folder;
mod layout;
mod pending;
mod problem;
mod rewrites;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use foyer::{Age, Load};
use tokio::sync::{oneshot, watch};

pub use crate::cache_options::DiskCacheOptions;
pub use cached_range::{CachedEnd, CachedRange};
pub use problem::{DiskCacheProblem, ProblemCause};

use crate::cache_options::SMALLEST_CACHE_BYTES;
use cached_range::{EntryKey, FolderIdentity};
use layout::BlockLayout;
use pending::PendingWrites;
use rewrites::RewriteCredit;
use writer::BlockStore;

/// What a cache has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCacheStats {
    /// Ranges that were found.
    pub hits: u64,
    /// Ranges that weren't found, or were damaged.
    pub misses: u64,
    /// Entries that were written.
    pub stored: u64,
    /// Entries that were dropped: they were too large, arrived too fast, or the disk was full.
    pub dropped: u64,
    /// Bytes that were written to the disk.
    pub written_bytes: u64,
    /// Bytes that were read from the disk.
    pub read_bytes: u64,
}

#[derive(Debug, Default)]
struct CacheCounters {
    hits: AtomicU64,
    misses: AtomicU64,
    stored: AtomicU64,
    dropped: AtomicU64,
}

/// A cache on disk of immutable byte ranges of objects. One process at a time uses its folder.
///
/// A cache that is dropped without [`close`](Self::close) loses the entries that still wait for the disk.
pub struct DiskCache {
    store: BlockStore,
    identity: FolderIdentity,
    layout: BlockLayout,
    pending: Arc<PendingWrites>,
    rewrites: RewriteCredit,
    counters: Arc<CacheCounters>,
    /// Ends when the thread of the cache has ended and released the lock.
    released: watch::Receiver<()>,
}

impl DiskCache {
    /// Opens the cache, and locks its folder.
    pub async fn open(options: &DiskCacheOptions) -> Result<Self, DiskCacheProblem> {
        let problem = |cause| DiskCacheProblem::new(&options.folder, cause);
        let layout = BlockLayout::of_capacity(options.capacity_bytes).ok_or_else(|| {
            problem(ProblemCause::CapacityTooSmall {
                capacity_bytes: options.capacity_bytes,
                minimum_bytes: SMALLEST_CACHE_BYTES,
            })
        })?;
        let pending = Arc::new(PendingWrites::new(layout.largest_entry_bytes));
        let counters = Arc::new(CacheCounters::default());
        let (opened, opening) = oneshot::channel();
        let (releasing, released) = watch::channel(());
        let (path, queue, counted) = (
            options.folder.clone(),
            Arc::clone(&pending),
            Arc::clone(&counters),
        );
        thread::Builder::new()
            .name("disk-cache".to_string())
            .spawn(move || {
                writer::serve_cache(&path, layout, &queue, &counted, opened);
                drop(releasing);
            })
            .map_err(|error| problem(error.into()))?;
        let opened = match opening.await {
            Ok(opened) => opened?,
            Err(_) => {
                return Err(problem(ProblemCause::Engine(
                    "its thread stopped".to_string(),
                )));
            }
        };
        Ok(Self {
            store: opened.store,
            identity: opened.identity,
            layout,
            pending,
            rewrites: RewriteCredit::new(layout.total_bytes() / 4),
            counters,
            released,
        })
    }

    /// The bytes of a range, if the cache holds them undamaged.
    pub async fn get(&self, cached: &CachedRange) -> Option<Bytes> {
        let key = EntryKey::new(self.identity, cached.clone());
        let found = match self.pending.get(&key) {
            Some(bytes) => Some(bytes),
            None if self.pending.is_accepting() => self.load(&key).await,
            None => None,
        };
        let counter = if found.is_some() {
            &self.counters.hits
        } else {
            &self.counters.misses
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Stores the bytes of a range soon. It doesn't wait for the disk.
    ///
    /// Bytes that are on disk already are written once more, so a range should be inserted only after a miss.
    /// Bytes are dropped if they have another length than the range, don't fit into a block, or arrive faster than the
    /// disk stores them.
    pub fn insert(&self, cached: CachedRange, bytes: Bytes) {
        let key = EntryKey::new(self.identity, cached);
        let fitting = self.entry_bytes(&key, &bytes);
        match fitting {
            Some(entry_bytes) if self.pending.push(key, bytes, entry_bytes) => {
                self.rewrites.earn(entry_bytes);
            }
            _ => {
                self.counters.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The size of an object and its last bytes, if the cache holds them undamaged. `cached` is [`CachedRange::end`].
    pub async fn get_end(&self, cached: &CachedRange) -> Option<CachedEnd> {
        CachedEnd::decode(&self.get(cached).await?)
    }

    /// Stores the size of an object and its last bytes soon, as [`insert`](Self::insert). `cached` is [`CachedRange::end`].
    ///
    /// The bytes are copied. A later end of the same object replaces this one, unless this one still waits for the disk.
    pub fn insert_end(&self, cached: CachedRange, end: &CachedEnd) {
        self.insert(cached, end.encode());
    }

    /// Writes all that was inserted, and releases the folder for other processes. Later reads are misses.
    pub async fn close(&self) {
        self.pending.drain();
        // No value is ever sent: this is the end of the thread.
        let _ = self.released.clone().changed().await;
    }

    /// What the cache has done since it was opened.
    pub fn stats(&self) -> DiskCacheStats {
        let disk = self.store.statistics();
        DiskCacheStats {
            hits: self.counters.hits.load(Ordering::Relaxed),
            misses: self.counters.misses.load(Ordering::Relaxed),
            stored: self.counters.stored.load(Ordering::Relaxed),
            dropped: self.counters.dropped.load(Ordering::Relaxed),
            written_bytes: u64::try_from(disk.disk_write_bytes()).unwrap_or(u64::MAX),
            read_bytes: u64::try_from(disk.disk_read_bytes()).unwrap_or(u64::MAX),
        }
    }

    /// Reads an entry from disk. foyer compares the whole key.
    async fn load(&self, key: &EntryKey) -> Option<Bytes> {
        match self.store.storage().load(key).await {
            Ok(Load::Entry {
                value, populated, ..
            }) => {
                let entry_bytes = self.entry_bytes(key, &value)?;
                if populated.age == Age::Old && self.rewrites.spend(entry_bytes) {
                    // The entry may be missing later if the queue is full.
                    let _ = self.pending.push(key.clone(), value.clone(), entry_bytes);
                }
                Some(value)
            }
            Ok(Load::Piece { piece, .. }) => Some(piece.value().clone()),
            // What can't be read or decoded stays on disk until it's evicted, or inserted again.
            Ok(Load::Miss | Load::Throttled) | Err(_) => None,
        }
    }

    /// The space that bytes take on disk, or `None` if they can't be the entry of this key.
    fn entry_bytes(&self, key: &EntryKey, bytes: &Bytes) -> Option<usize> {
        let is_whole = key.cached().has_length(bytes.len());
        self.layout
            .entry_bytes(key, bytes.len())
            .filter(|_| is_whole)
    }
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        self.pending.abandon();
    }
}

impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskCache")
            .field("layout", &self.layout)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
