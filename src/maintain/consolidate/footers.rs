//! The footers of all visible fragments are copied into one file (specification: "Consolidated Fragment Metadata File").
//!
//! Opening an array then reads one file instead of the end of each fragment's metadata. Fragments before version 12 are left
//! out: releases of their time looked for the copies in another place.

use std::collections::HashSet;

use bytes::Bytes;

use super::options::{ConsolidateOptions, Mode};
use crate::array::directory::ArrayDirectory;
use crate::array::snapshot::Snapshot;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, Result};
use crate::filter::generic_tile;
use crate::format::fragment::consolidated;
use crate::format::fragment::footer::Footer;
use crate::maintain::report::{Outcome, ReportRow};
use crate::storage::Storage;

const FOLDER: &str = "__fragment_meta";
const COPIED_SINCE: u32 = 12;

pub(super) async fn consolidate(
    storage: &Storage,
    options: &ConsolidateOptions,
) -> Result<Vec<ReportRow>> {
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let snapshot = Snapshot::open(storage, window).await?;
    let storage = &snapshot.storage;
    let fragments = snapshot.fragments.iter();
    let fragments = fragments.filter(|f| f.footer.version.since(COPIED_SINCE));
    let fragments = fragments.collect::<Vec<_>>();
    let wanted = fragments
        .iter()
        .map(|f| f.name.name.as_str())
        .collect::<HashSet<_>>();
    if fragments.len() < 2 || are_copied(storage, &wanted).await? {
        return Ok(Vec::new());
    }
    let mut copies = Vec::with_capacity(fragments.len());
    for fragment in &fragments {
        let footer = fragment.footer.encode(&fragment.schema);
        if Footer::decode(&footer, &fragment.schema)? != *fragment.footer {
            return Err(Error::internal("the copy of a footer says something else")
                .with("fragment", &fragment.name.name));
        }
        copies.push((fragment.name.name.clone(), footer));
    }
    let copied = copies
        .iter()
        .map(|(name, footer)| (name.clone(), footer.as_slice()));
    let tile = consolidated::encode(&copied.collect::<Vec<_>>())?;
    let bytes = generic_tile::encode_with(&tile, storage.encryption_key())?;
    let t1 = fragments.iter().map(|f| f.name.t1).min().unwrap_or(0);
    let t2 = fragments.iter().map(|f| f.name.t2).max().unwrap_or(0);
    let mut row = ReportRow {
        mode: Mode::FragmentMetadata.name(),
        action: "copy",
        object: format!("{FOLDER}/__{t1}_{t2}"),
        inputs: fragments.len() as u64,
        bytes_read: copies.iter().map(|(_, footer)| footer.len() as u64).sum(),
        bytes_written: None,
        bytes_freed: 0,
        gain: format!(
            "opening reads 1 file instead of {} footers",
            fragments.len()
        ),
        outcome: Outcome::Planned,
    };
    if options.dry_run {
        return Ok(vec![row]);
    }
    storage.create_folders(&[FOLDER]).await?;
    let name = options
        .clock
        .fresh_fragment_name(TimestampMs(t1), TimestampMs(t2))?;
    let path = format!("{FOLDER}/{name}.meta");
    row.bytes_written = Some(bytes.len() as u64);
    storage.create_file(&path, Bytes::from(bytes)).await?;
    row.object = path;
    row.outcome = Outcome::Done;
    Ok(vec![row])
}

/// Whether one file has copies of all these footers already.
async fn are_copied(storage: &Storage, wanted: &HashSet<&str>) -> Result<bool> {
    let directory = ArrayDirectory::list(storage).await?;
    for file in &directory.consolidated_footers {
        let bytes = storage.read(&file.path()).await?;
        let key = storage.encryption_key();
        let tile = generic_tile::decode(&bytes, "consolidated fragment metadata", key)?;
        let entries = consolidated::decode(&tile.data)?;
        let there = entries
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<HashSet<_>>();
        if wanted.is_subset(&there) {
            return Ok(true);
        }
    }
    Ok(false)
}
