//! Tests of the whole cache, on real files.

#[cfg(unix)]
mod damage;
mod eviction;
#[cfg(unix)]
mod folders;
mod lifetimes;

use std::path::Path;

use bytes::Bytes;
use tempfile::TempDir;

use super::{CachedRange, DiskCache, DiskCacheOptions, DiskCacheProblem};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

fn options(folder: &Path, capacity_bytes: u64) -> DiskCacheOptions {
    DiskCacheOptions {
        folder: folder.to_path_buf(),
        capacity_bytes,
    }
}

async fn try_small_cache(folder: &Path) -> Result<DiskCache, DiskCacheProblem> {
    DiskCache::open(&options(folder, 16 * MIB)).await
}

async fn small_cache(folder: &Path) -> DiskCache {
    try_small_cache(folder).await.unwrap()
}

/// The `index`-th range of `length` bytes of an object.
fn cached(index: u64, length: u64) -> CachedRange {
    CachedRange::new(
        "https://s3.example/bucket",
        format!("array/fragment-{}/a0.tdb", index % 7),
        range_of(index, length),
    )
}

fn range_of(index: u64, length: u64) -> std::ops::Range<u64> {
    index * 1_000_000..index * 1_000_000 + length
}

/// Bytes that no other range has.
fn content(cached: &CachedRange) -> Bytes {
    let range = cached.range().unwrap();
    let length = usize::try_from(range.end - range.start).unwrap();
    let mut pattern = cached.path().as_bytes().to_vec();
    pattern.extend(range.start.to_le_bytes());
    let mut bytes = pattern.repeat(length / pattern.len() + 1);
    bytes.truncate(length);
    Bytes::from(bytes)
}

fn insert(cache: &DiskCache, cached: &CachedRange) {
    cache.insert(cached.clone(), content(cached));
}

/// Whether the cache holds the range. Wrong bytes fail the test.
async fn holds(cache: &DiskCache, cached: &CachedRange) -> bool {
    match cache.get(cached).await {
        Some(bytes) => {
            assert!(bytes == content(cached), "wrong bytes of {cached:?}");
            true
        }
        None => false,
    }
}

async fn count_held(cache: &DiskCache, ranges: &[CachedRange]) -> usize {
    let mut held = 0;
    for cached in ranges {
        held += usize::from(holds(cache, cached).await);
    }
    held
}

/// A folder with a closed cache of `count` ranges.
async fn filled_folder(count: u64, length: u64) -> (TempDir, Vec<CachedRange>) {
    let folder = tempfile::tempdir().unwrap();
    let ranges: Vec<_> = (0..count).map(|index| cached(index, length)).collect();
    let cache = small_cache(folder.path()).await;
    ranges.iter().for_each(|cached| insert(&cache, cached));
    cache.close().await;
    assert_eq!(cache.stats().stored, count);
    (folder, ranges)
}

#[tokio::test]
async fn entries_are_found_at_once_and_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let ranges: Vec<_> = (0..100)
        .map(|index| cached(index, 1 + index * 977))
        .collect();
    let cache = small_cache(folder.path()).await;
    for cached in &ranges {
        assert!(!holds(&cache, cached).await);
        insert(&cache, cached);
        assert!(holds(&cache, cached).await);
    }
    cache.close().await;
    let stats = cache.stats();
    assert_eq!(
        (stats.hits, stats.misses, stats.stored, stats.dropped),
        (100, 100, 100, 0)
    );
    assert!(stats.written_bytes > 99 * 100 / 2 * 977);

    let reopened = small_cache(folder.path()).await;
    assert_eq!(count_held(&reopened, &ranges).await, 100);
    assert!(!holds(&reopened, &cached(100, 1)).await);
    assert!(!holds(&reopened, &cached(50, 1 + 50 * 977 - 1)).await);
}

#[tokio::test]
async fn keys_with_the_same_hash_never_share_bytes() {
    let folder = tempfile::tempdir().unwrap();
    // The hash runs over the store, a zero and the path.
    let one = CachedRange::new("a\0b", "c", 0..4);
    let other = CachedRange::new("a", "b\0c", 0..4);
    let cache = small_cache(folder.path()).await;
    cache.insert(one.clone(), Bytes::from_static(b"one!"));
    assert_eq!(cache.get(&other).await, None);
    cache.close().await;

    let cache = small_cache(folder.path()).await;
    assert_eq!(cache.get(&other).await, None);
    assert_eq!(cache.get(&one).await.unwrap(), "one!");
    cache.insert(other.clone(), Bytes::from_static(b"two!"));
    cache.close().await;

    let cache = small_cache(folder.path()).await;
    assert_ne!(cache.get(&other).await, Some(Bytes::from_static(b"one!")));
    assert_ne!(cache.get(&one).await, Some(Bytes::from_static(b"two!")));
}

#[tokio::test]
async fn bytes_that_do_not_fit_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small_cache(folder.path()).await;
    cache.insert(cached(0, 10), Bytes::from_static(b"too short"));
    cache.insert(cached(1, 0), Bytes::new());
    // The blocks of the smallest cache have 2 MiB.
    insert(&cache, &cached(2, 2 * MIB));
    insert(&cache, &cached(3, 2 * MIB - 16 * KIB));
    assert_eq!(cache.stats().dropped, 3);
    cache.close().await;

    let cache = small_cache(folder.path()).await;
    for (index, length) in [(0, 10), (1, 0), (2, 2 * MIB)] {
        assert!(!holds(&cache, &cached(index, length)).await);
    }
    assert!(holds(&cache, &cached(3, 2 * MIB - 16 * KIB)).await);
}

#[tokio::test]
async fn large_entries_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::open(&options(folder.path(), 256 * MIB))
        .await
        .unwrap();
    let ranges: Vec<_> = (0..4)
        .map(|index| cached(index, (16 + 5 * index) * MIB))
        .collect();
    for cached in &ranges {
        insert(&cache, cached);
    }
    // 16 + 21 + 26 MiB wait; 31 MiB more are too much, unless some are written by now.
    cache.close().await;
    let cache = DiskCache::open(&options(folder.path(), 256 * MIB))
        .await
        .unwrap();
    assert!(count_held(&cache, &ranges).await >= 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_share_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let cache = std::sync::Arc::new(
        DiskCache::open(&options(folder.path(), 32 * MIB))
            .await
            .unwrap(),
    );
    let tasks: Vec<_> = (0..64_u64)
        .map(|task| {
            let cache = std::sync::Arc::clone(&cache);
            tokio::spawn(async move {
                for step in 0..60 {
                    // Tasks overlap, and all ranges together exceed the capacity.
                    let cached = cached((task * 37 + step * 11) % 900, 40 * KIB + step);
                    if !holds(&cache, &cached).await {
                        insert(&cache, &cached);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    cache.close().await;
    let stats = cache.stats();
    assert_eq!(stats.hits + stats.misses, 64 * 60);
    assert!(stats.stored > 0);
}
