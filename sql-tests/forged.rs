//! Sizes that agree with each other and with nothing else: an array that promises more than any machine holds is
//! refused by what its files really have, in no time and without asking for the memory.

use libtest_mimic::{Failed, Trial};

use crate::bad_input::{ALL, edit_schema, read_files, refused};
use crate::workshop::{Files, METADATA_FILE, join_footer, split_footer};
use crate::{block_on, trial};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("forged::capacity", || block_on(capacity())),
        trial("forged::extents", || block_on(extents())),
        trial("forged::non_empty_domain", || block_on(non_empty_domain())),
        trial("forged::sizes", || block_on(sizes())),
    ]
}

/// Replaces `from` by `to` wherever it stands.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    let places: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(from))
        .collect();
    assert!(!places.is_empty(), "nothing to replace");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
}

/// The schema promises tiles of 2^36 cells and the footer agrees: nothing of that size is asked of the machine.
async fn capacity() -> Result<(), Failed> {
    let mut files = Files::golden("rtree_three_levels").plain();
    edit_schema(&mut files, |schema| {
        schema[8..16].copy_from_slice(&(1_u64 << 36).to_le_bytes())
    });
    for sql in [
        ALL,
        "SELECT a FROM t WHERE x = 101 AND y = 525",
        "SELECT x FROM t WHERE a > 5",
    ] {
        refused(sql, read_files(&files, sql).await, &["tile", "array"])?;
    }
    Ok(())
}

/// A dense array whose schema and footer agree on tiles of 2^40 cells.
async fn extents() -> Result<(), Failed> {
    let mut files = Files::golden("quickstart_dense").plain();
    edit_schema(&mut files, |schema| {
        let dimension = |hi: i32, extent: i32| {
            [
                &1_i32.to_le_bytes()[..],
                &hi.to_le_bytes(),
                &[0],
                &extent.to_le_bytes(),
            ]
            .concat()
        };
        replace(schema, &dimension(4, 4), &dimension(1 << 30, 1 << 20));
    });
    let metadata = files.find(METADATA_FILE);
    refused(
        "cells per tile",
        read_files(&files, ALL).await,
        &["16 cells per tile", "1099511627776"],
    )?;
    files.edit(&metadata, |file| {
        let (body, footer) = split_footer(file);
        let mut footer = footer.to_vec();
        // Behind the box of 1 to 4 in both dimensions: no sparse tiles, sixteen cells in a tile.
        let head = [1, 4, 1, 4].map(i32::to_le_bytes).concat();
        let cells = |n: u64| [&head[..], &[0; 8], &n.to_le_bytes()].concat();
        replace(&mut footer, &cells(16), &cells(1 << 40));
        *file = join_footer(body, &footer);
    });
    refused("tiles", read_files(&files, ALL).await, &["tile"])?;
    refused(
        "tiles",
        read_files(&files, "SELECT a FROM t WHERE cols > 2").await,
        &["tile"],
    )
}

/// A dense fragment that claims more tiles than its file has room for, down to the box of the whole domain.
async fn non_empty_domain() -> Result<(), Failed> {
    let mut files = Files::golden("quickstart_dense").plain();
    let domain = |hi: i32| [1_i32.to_le_bytes(), hi.to_le_bytes()].concat();
    edit_schema(&mut files, |schema| {
        replace(schema, &domain(4), &domain(i32::MAX - 9))
    });
    let metadata = files.find(METADATA_FILE);
    files.edit(&metadata, |file| {
        let (body, footer) = split_footer(file);
        let mut footer = footer.to_vec();
        replace(&mut footer, &domain(4), &domain(i32::MAX - 9));
        *file = join_footer(body, &footer);
    });
    for sql in [
        ALL,
        "SELECT a FROM t WHERE \"rows\" > 2000000",
        "SELECT count(*), sum(\"rows\") FROM t",
        "SELECT count(*) FROM t",
    ] {
        refused(
            sql,
            read_files(&files, sql).await,
            &["tiles", "__1000_1000_"],
        )?;
    }
    Ok(())
}

/// Sections and chunks that claim sizes beyond the file, each a length checked before memory is asked for.
async fn sizes() -> Result<(), Failed> {
    for value in [1_u64 << 31, 1 << 40, u64::MAX - 7, u64::MAX] {
        for at in [4, 12, 34 + 8] {
            // Persisted size, tile size and number of chunks of the schema's tile.
            let mut files = Files::golden("quickstart_sparse").plain();
            let schema = files.find("__schema/");
            files.edit(&schema, |tile| {
                tile[at..at + 8].copy_from_slice(&value.to_le_bytes())
            });
            refused(
                &format!("{value} at {at}"),
                read_files(&files, ALL).await,
                &["__schema/"],
            )?;
        }
        // The number of chunks of the first data tile, and the length of the footer.
        let mut files = Files::golden("quickstart_sparse");
        let data = files.find("a0.tdb");
        files.edit(&data, |file| {
            file[..8].copy_from_slice(&value.to_le_bytes())
        });
        refused(
            "chunks",
            read_files(&files, ALL).await,
            &["chunks", "attribute a", "__1000_1000_"],
        )?;
        let mut files = Files::golden("quickstart_sparse");
        let metadata = files.find(METADATA_FILE);
        files.edit(&metadata, |file| {
            let at = file.len() - 8;
            file[at..].copy_from_slice(&value.to_le_bytes());
        });
        refused(
            "footer",
            read_files(&files, ALL).await,
            &["footer", "__1000_1000_", METADATA_FILE],
        )?;
    }
    Ok(())
}
