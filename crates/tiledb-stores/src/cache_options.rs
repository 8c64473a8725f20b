//! Where a cache on disk is, and how large it becomes.

use std::path::PathBuf;

/// The smallest capacity of a cache on disk: 16 MiB.
pub const SMALLEST_CACHE_BYTES: u64 = 16 << 20;

/// Where a cache on disk is, and how large it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCacheOptions {
    /// The folder of the cache, which only the current user can open. It's created if it doesn't exist.
    pub folder: PathBuf,
    /// The disk space that the cache may fill: at least [`SMALLEST_CACHE_BYTES`], and at most 256 GiB are used. Entries of 16 MiB
    /// need a capacity of 256 MiB.
    pub capacity_bytes: u64,
}
