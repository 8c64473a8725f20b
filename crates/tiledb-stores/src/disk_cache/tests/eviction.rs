//! What a cache keeps once it's full.

use std::fs;
use std::time::Duration;

use super::*;

const LENGTH: u64 = 100_000;

/// Inserts ranges no faster than they are stored.
async fn insert_all(cache: &DiskCache, ranges: &[CachedRange]) {
    for chunk in ranges.chunks(20) {
        let before = cache.stats().stored;
        chunk.iter().for_each(|cached| insert(cache, cached));
        for _ in 0..1000 {
            if cache.stats().stored >= before + chunk.len() as u64 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn disk_bytes(folder: &std::path::Path) -> u64 {
    fs::read_dir(folder.join("blocks"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

#[tokio::test]
async fn new_entries_replace_old_ones() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small_cache(folder.path()).await;
    let ranges: Vec<_> = (0..1000).map(|index| cached(index, LENGTH)).collect();
    insert_all(&cache, &ranges).await;
    assert_eq!(cache.stats().stored, 1000);
    assert_eq!(count_held(&cache, &ranges[..700]).await, 0);
    assert_eq!(count_held(&cache, &ranges[920..]).await, 80);
    assert!(disk_bytes(folder.path()) <= 16 * MIB);
    cache.close().await;

    let cache = small_cache(folder.path()).await;
    assert_eq!(count_held(&cache, &ranges[920..]).await, 80);
}

#[tokio::test]
async fn ranges_that_are_read_stay() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small_cache(folder.path()).await;
    let favourites: Vec<_> = (0..10).map(|index| cached(index, LENGTH)).collect();
    insert_all(&cache, &favourites).await;
    let mut held = 0;
    let passing: Vec<_> = (10..1010).map(|index| cached(index, LENGTH)).collect();
    for chunk in passing.chunks(10) {
        insert_all(&cache, chunk).await;
        held = count_held(&cache, &favourites).await;
    }
    assert_eq!(held, 10);
    assert!(cache.stats().stored > 1020, "{:?}", cache.stats());
}

#[tokio::test]
async fn reads_alone_write_nothing() {
    let (folder, ranges) = filled_folder(140, LENGTH).await;
    let cache = small_cache(folder.path()).await;
    for _ in 0..5 {
        assert_eq!(count_held(&cache, &ranges).await, 140);
    }
    cache.close().await;
    assert_eq!(cache.stats().stored, 0);
}

#[tokio::test]
async fn reopening_keeps_the_order_of_age() {
    let folder = tempfile::tempdir().unwrap();
    let ranges: Vec<_> = (0..400).map(|index| cached(index, LENGTH)).collect();
    for chunk in ranges.chunks(100) {
        let cache = small_cache(folder.path()).await;
        insert_all(&cache, chunk).await;
        cache.close().await;
    }
    let cache = small_cache(folder.path()).await;
    let first_held = count_held(&cache, &ranges[..260]).await;
    let last_held = count_held(&cache, &ranges[300..]).await;
    assert_eq!((first_held, last_held), (0, 100));
}

#[tokio::test]
async fn a_full_cache_stores_again_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..6 {
        let cache = small_cache(folder.path()).await;
        let ranges: Vec<_> = (0..170)
            .map(|index| cached(round * 1000 + index, LENGTH))
            .collect();
        insert_all(&cache, &ranges).await;
        assert_eq!(count_held(&cache, &ranges[150..]).await, 20);
        assert_eq!(cache.stats().stored, 170);
        cache.close().await;
    }
}

#[tokio::test]
async fn a_cache_without_an_empty_block_stores_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small_cache(folder.path()).await;
    let ranges: Vec<_> = (0..200).map(|index| cached(index, LENGTH)).collect();
    insert_all(&cache, &ranges).await;
    cache.close().await;
    let path = |index: usize| {
        folder
            .path()
            .join(format!("blocks/foyer-storage-direct-fs-{index:08}"))
    };
    let full = (0..8)
        .find(|index| {
            fs::read(path(*index)).unwrap()[..4096]
                .iter()
                .any(|byte| *byte != 0)
        })
        .unwrap();
    for index in 0..8 {
        if fs::read(path(index)).unwrap()[..4096]
            .iter()
            .all(|byte| *byte == 0)
        {
            fs::copy(path(full), path(index)).unwrap();
        }
    }
    let cache = small_cache(folder.path()).await;
    let more: Vec<_> = (200..400).map(|index| cached(index, LENGTH)).collect();
    insert_all(&cache, &more).await;
    assert_eq!(count_held(&cache, &more[150..]).await, 50);
    tokio::time::timeout(Duration::from_secs(20), cache.close())
        .await
        .unwrap();
}

#[tokio::test]
async fn capacities_may_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut next = 0;
    for capacity in [64 * MIB, 16 * MIB, 300 * MIB, 40 * MIB, 16 * MIB] {
        let cache = DiskCache::open(&options(folder.path(), capacity))
            .await
            .unwrap();
        assert!(disk_bytes(folder.path()) <= capacity);
        let before: Vec<_> = (0..next).map(|index| cached(index, LENGTH)).collect();
        count_held(&cache, &before).await;
        let ranges: Vec<_> = (next..next + 800)
            .map(|index| cached(index, LENGTH))
            .collect();
        next += 800;
        insert_all(&cache, &ranges).await;
        assert_eq!(count_held(&cache, &ranges[750..]).await, 50);
        tokio::time::timeout(Duration::from_secs(20), cache.close())
            .await
            .unwrap();
    }
}
