//! Files that changed between two runs or under a running cache. Wrong bytes and panics fail these tests.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::*;

/// The files of all blocks that aren't empty.
fn block_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder.join("blocks"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| fs::read(path).unwrap().iter().any(|byte| *byte != 0))
        .collect();
    files.sort();
    files
}

fn flip_bit(path: &Path, offset: u64, bit: u32) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    byte[0] ^= 1 << bit;
    file.write_all_at(&byte, offset).unwrap();
}

/// Reads all ranges, stores those that are missing, and returns how many were held.
async fn reopen_and_repair(folder: &Path, ranges: &[CachedRange]) -> usize {
    let cache = small_cache(folder).await;
    let mut held = 0;
    for cached in ranges {
        if holds(&cache, cached).await {
            held += 1;
        } else {
            insert(&cache, cached);
        }
    }
    cache.close().await;
    held
}

#[tokio::test]
async fn any_flipped_bit_is_at_most_a_miss() {
    let (folder, ranges) = filled_folder(30, 5000).await;
    let file = block_files(folder.path()).remove(0);
    // The index of the block, the header and key of the first two entries, and places all over the rest.
    let index = (0..96).chain((96..4096).step_by(331));
    let first = (4096..4160)
        .chain((4096 + 5000..4096 + 5140).step_by(3))
        .chain((12288..12340).step_by(2));
    let rest = (12340..30 * 8192).step_by(1999);
    let mut missed = 0;
    for (round, offset) in index.chain(first).chain(rest).enumerate() {
        let bit = u32::try_from(round % 8).unwrap();
        flip_bit(&file, offset, bit);
        let cache = small_cache(folder.path()).await;
        missed += ranges.len() - count_held(&cache, &ranges).await;
        drop(cache);
        flip_bit(&file, offset, bit);
    }
    assert!(missed > 0);
    let cache = small_cache(folder.path()).await;
    assert_eq!(count_held(&cache, &ranges).await, ranges.len());
}

#[tokio::test]
async fn every_bit_of_an_entry_header_may_flip() {
    let (folder, ranges) = filled_folder(3, 5000).await;
    let file = block_files(folder.path()).remove(0);
    // The cache is open while the header changes.
    for offset in 4096..4096 + 44 {
        for bit in 0..8 {
            flip_bit(&file, offset, bit);
            let cache = small_cache(folder.path()).await;
            count_held(&cache, &ranges).await;
            flip_bit(&file, offset, bit);
            assert_eq!(count_held(&cache, &ranges[1..]).await, 2);
            drop(cache);
        }
    }
}

#[tokio::test]
async fn damaged_entries_are_replaced() {
    let (folder, ranges) = filled_folder(40, 30_000).await;
    for round in 0..20_u64 {
        for file in block_files(folder.path()) {
            let length = fs::metadata(&file).unwrap().len();
            for flip in 0..40 {
                flip_bit(
                    &file,
                    (round * 40_009 + flip * 50_021) % length,
                    u32::try_from(flip % 8).unwrap(),
                );
            }
        }
        reopen_and_repair(folder.path(), &ranges).await;
        assert_eq!(
            reopen_and_repair(folder.path(), &ranges).await,
            ranges.len()
        );
    }
}

#[tokio::test]
async fn files_may_shrink_and_vanish() {
    let (folder, ranges) = filled_folder(60, 100_000).await;
    for length in [
        0,
        1,
        4095,
        4096,
        5000,
        100_000,
        1_000_000,
        2 * MIB - 1,
        3 * MIB,
    ] {
        for file in block_files(folder.path()) {
            OpenOptions::new()
                .write(true)
                .open(file)
                .unwrap()
                .set_len(length)
                .unwrap();
        }
        reopen_and_repair(folder.path(), &ranges).await;
        assert_eq!(
            reopen_and_repair(folder.path(), &ranges).await,
            ranges.len()
        );
    }
    for file in block_files(folder.path()) {
        fs::remove_file(file).unwrap();
        reopen_and_repair(folder.path(), &ranges).await;
        assert_eq!(
            reopen_and_repair(folder.path(), &ranges).await,
            ranges.len()
        );
    }
    fs::remove_dir_all(folder.path().join("blocks")).unwrap();
    assert_eq!(reopen_and_repair(folder.path(), &ranges).await, 0);
    fs::remove_dir_all(folder.path().join("blocks")).unwrap();
    fs::write(folder.path().join("blocks"), "a file").unwrap();
    assert_eq!(reopen_and_repair(folder.path(), &ranges).await, 0);
    fs::remove_file(folder.path().join("identity")).unwrap();
    assert_eq!(reopen_and_repair(folder.path(), &ranges).await, 0);
    assert_eq!(
        reopen_and_repair(folder.path(), &ranges).await,
        ranges.len()
    );
}

#[tokio::test]
async fn files_may_change_under_an_open_cache() {
    let (folder, ranges) = filled_folder(60, 100_000).await;
    let cache = small_cache(folder.path()).await;
    for file in block_files(folder.path()) {
        OpenOptions::new()
            .write(true)
            .open(file)
            .unwrap()
            .set_len(50_000)
            .unwrap();
    }
    assert!(count_held(&cache, &ranges).await < 10);
    ranges.iter().for_each(|cached| insert(&cache, cached));
    assert!(count_held(&cache, &ranges).await > 50);
    fs::remove_dir_all(folder.path()).unwrap();
    count_held(&cache, &ranges).await;
    cache.close().await;
    assert_eq!(reopen_and_repair(folder.path(), &ranges).await, 0);
}

#[tokio::test]
async fn blocks_with_damaged_indexes_are_filled_again() {
    let (folder, _) = filled_folder(120, 100_000).await;
    for file in block_files(folder.path()) {
        flip_bit(&file, 20, 3);
    }
    let cache = small_cache(folder.path()).await;
    let ranges: Vec<_> = (1000..1140).map(|index| cached(index, 100_000)).collect();
    ranges.iter().for_each(|cached| insert(&cache, cached));
    cache.close().await;
    assert_eq!((cache.stats().stored, cache.stats().dropped), (140, 0));
    let cache = small_cache(folder.path()).await;
    assert!(count_held(&cache, &ranges).await >= 120);
}

#[tokio::test]
async fn blocks_may_be_swapped() {
    let (folder, ranges) = filled_folder(100, 100_000).await;
    let files = block_files(folder.path());
    let (first, last) = (&files[0], &files[files.len() - 1]);
    fs::rename(first, folder.path().join("kept")).unwrap();
    fs::rename(last, first).unwrap();
    fs::rename(folder.path().join("kept"), last).unwrap();
    reopen_and_repair(folder.path(), &ranges).await;
    // Two blocks with the same entries.
    fs::copy(&files[1], &files[2]).unwrap();
    reopen_and_repair(folder.path(), &ranges).await;
}

#[tokio::test]
async fn garbage_is_ignored() {
    let (folder, ranges) = filled_folder(10, 10_000).await;
    let blocks = folder.path().join("blocks");
    fs::write(folder.path().join("notes"), "mine").unwrap();
    fs::write(blocks.join("notes"), "whose?").unwrap();
    fs::write(
        blocks.join("foyer-storage-direct-fs-00000099"),
        vec![7; 10_000],
    )
    .unwrap();
    fs::write(
        blocks.join("foyer-storage-direct-fs-00000007"),
        vec![7; 10_000],
    )
    .unwrap();
    fs::remove_file(blocks.join("foyer-storage-direct-fs-00000006")).unwrap();
    fs::create_dir(blocks.join("foyer-storage-direct-fs-00000006")).unwrap();
    assert_eq!(reopen_and_repair(folder.path(), &ranges).await, 10);
    assert_eq!(
        fs::read_to_string(folder.path().join("notes")).unwrap(),
        "mine"
    );
    assert_eq!(fs::read_dir(&blocks).unwrap().count(), 8);
}

/// An index of a block that counts far too many entries, with the right checksum.
fn forged_index() -> Vec<u8> {
    let mut index = vec![0; 4096];
    index[8..12].fill(0xff);
    let mut checksum = twox_hash::XxHash64::oneshot(0, &index[8..]).to_le_bytes();
    // foyer writes numbers in the other order.
    checksum.reverse();
    index[..8].copy_from_slice(&checksum);
    index
}

#[tokio::test]
async fn a_file_that_makes_foyer_panic_is_deleted() {
    let (folder, ranges) = filled_folder(10, 10_000).await;
    let file = folder
        .path()
        .join("blocks/foyer-storage-direct-fs-00000007");
    fs::write(&file, forged_index()).unwrap();
    assert_eq!(reopen_and_repair(folder.path(), &ranges).await, 0);
    assert_eq!(reopen_and_repair(folder.path(), &ranges).await, 10);
}

#[tokio::test]
async fn entries_of_another_folder_are_misses() {
    let (folder, ranges) = filled_folder(10, 10_000).await;
    let (other, _) = filled_folder(1, 10_000).await;
    for file in block_files(folder.path()) {
        fs::copy(
            &file,
            other.path().join("blocks").join(file.file_name().unwrap()),
        )
        .unwrap();
    }
    assert_eq!(reopen_and_repair(other.path(), &ranges).await, 0);
}
