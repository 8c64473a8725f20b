//! Counters of a running scan.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A counter or a sum of nanoseconds.
#[derive(Debug, Default)]
pub struct ScanCount(AtomicU64);

impl ScanCount {
    /// Adds `n`.
    pub fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds the time since `start`, in nanoseconds.
    pub fn add_elapsed(&self, start: Instant) {
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The counters of one partition of a scan.
        #[derive(Debug, Default)]
        pub struct ScanMetrics { $($(#[$doc])* pub $name: ScanCount,)* }

        impl ScanMetrics {
            /// Every counter with its name, in the order of the work.
            pub fn all(&self) -> Vec<(&'static str, &ScanCount)> {
                vec![$((stringify!($name), &self.$name),)*]
            }
        }
    };
}

metrics! {
    /// Tiles pruned because their statistics prove that no cell satisfies the predicate.
    tiles_pruned_statistics,
    /// Tiles pruned by conditions that arrived while the scan ran.
    tiles_pruned_runtime,
    /// Tiles pruned because the text that the predicate searches for does not occur in them.
    tiles_pruned_text,
    /// Tiles whose statistics prove that every cell satisfies the predicate.
    tiles_proven,
    /// Tiles whose bytes were decoded, each counted once per unit that needs it.
    tiles_decoded,
    /// Chunks of decoded tiles that were skipped because none of their cells was needed any more.
    chunks_skipped,
    /// Ranged reads requested from the storage.
    requests,
    /// Bytes received from the storage.
    bytes_fetched,
    /// Ranges found in the cache on disk.
    disk_cache_hits,
    /// Bytes that came from the cache on disk instead of the storage.
    bytes_from_disk_cache,
    /// Bytes of decoded columns.
    bytes_decoded,
    /// Cells in the decoded tiles.
    cells_decoded,
    /// Cells hidden by newer writes to the same coordinates.
    cells_hidden,
    /// Cells hidden by deletes.
    cells_deleted,
    /// Rows handed on.
    rows_out,
    /// Nanoseconds spent waiting for the storage.
    fetch_nanos,
    /// Nanoseconds spent unfiltering and converting to Arrow.
    decode_nanos,
}
