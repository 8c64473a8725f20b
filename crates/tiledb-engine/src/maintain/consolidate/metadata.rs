//! The key-value metadata of an array or a group become one file with the values as of now (specification: "Metadata"), and
//! the footers of all visible fragments are copied into one file (specification: "Consolidated Fragment Metadata File").
//!
//! The new file of values is read first, because it begins at the time of the oldest file. Until the list of the replaced files
//! exists, they are replayed over it and give the same values, so nothing is lost at any moment. A file that others date back
//! into the time between is a conflict.

use std::collections::HashSet;

use bytes::Bytes;

use super::options::{ConsolidateMode, ConsolidateOptions};
use crate::array::directory::ArrayDirectory;
use crate::array::inspect::ArrayInspection;
use crate::array::metadata::{METADATA_FOLDER, load, replayed_files, settled_group};
use crate::array::snapshot::Snapshot;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::generic_tile;
use crate::format::commit::encode_vacuum;
use crate::format::fragment::consolidated;
use crate::format::fragment::footer::Footer;
use crate::format::metadata::{MetadataEntry, encode_metadata};
use crate::format::names::TimestampedName;
use crate::maintain::report::{ReportRow, StepOutcome};
use crate::storage::{FileInfo, Storage};

pub(super) async fn consolidate(
    storage: &Storage,
    options: &ConsolidateOptions,
) -> Result<Vec<ReportRow>> {
    let now = OpenWindow::new(TimestampMs(0), Some(TimestampMs::now()))?;
    // An array's schemas show whether its files are encrypted.
    let storage = match ArrayInspection::open(storage, now).await {
        Ok(array) => array.storage().clone(),
        Err(e) if matches!(e.kind(), ErrorKind::IsAGroup) => settled_group(storage).await?,
        Err(e) => return Err(e),
    };
    let window = OpenWindow::new(
        TimestampMs(options.start.unwrap_or(0)),
        Some(options.end.map_or(TimestampMs::now(), TimestampMs)),
    )?;
    let files = replayed_files(&storage, &window).await?;
    let items = load(&storage, &window).await?;
    let (Some(t1), Some(t2)) = (
        files.iter().map(|(name, _)| name.t1).min(),
        files.iter().map(|(name, _)| name.t2).max(),
    ) else {
        return Ok(Vec::new());
    };
    if files.len() < 2 {
        return Ok(Vec::new());
    }
    let bytes_read = files
        .iter()
        .fold(0_u64, |sum, (_, f)| sum.saturating_add(f.bytes));
    let mut row = ReportRow {
        mode: ConsolidateMode::ArrayMetadata.name(),
        action: "merge",
        object: format!("{METADATA_FOLDER}/__{t1}_{t2}"),
        inputs: files.len() as u64,
        bytes_read,
        bytes_written: None,
        bytes_freed: bytes_read,
        gain: format!("{} files become 1, of {} keys", files.len(), items.len()),
        outcome: StepOutcome::Planned,
    };
    if items.is_empty() {
        row.outcome = StepOutcome::Skipped("no key is left to write".to_owned());
        return Ok(vec![row]);
    }
    if options.start.is_some_and(|start| start > 0) {
        // Removed keys are not written, so they would come back if an older file has them.
        let all = OpenWindow::new(TimestampMs(0), window.end)?;
        if replayed_files(&storage, &all).await?.len() != files.len() {
            let why = "older files may have keys that these remove: begin with the oldest";
            row.outcome = StepOutcome::Skipped(why.to_owned());
            return Ok(vec![row]);
        }
    }
    if options.dry_run {
        return Ok(vec![row]);
    }
    let entries = items.into_iter().map(|item| MetadataEntry {
        key: item.key,
        value: Some(item.value),
    });
    let tile = encode_metadata(&entries.collect::<Vec<_>>())?;
    let bytes = generic_tile::encode_with(&tile, storage.encryption_key())?;
    check_unchanged(&storage, &window, &files, t2).await?;
    let name = options.clock.fresh_name(TimestampMs(t1), TimestampMs(t2))?;
    let path = format!("{METADATA_FOLDER}/{name}");
    row.bytes_written = Some(bytes.len() as u64);
    storage.create_file(&path, Bytes::from(bytes)).await?;
    let replaced = files
        .iter()
        .map(|(_, file)| format!("{METADATA_FOLDER}/{}", file.name))
        .collect::<Vec<_>>();
    let list = encode_vacuum(replaced.iter().map(String::as_str));
    storage
        .create_file(&format!("{path}.vac"), Bytes::from(list))
        .await?;
    row.object = path;
    row.outcome = StepOutcome::Done;
    Ok(vec![row])
}

/// Fails if another writer has added a file within their times, or has replaced some of them.
async fn check_unchanged(
    storage: &Storage,
    window: &OpenWindow,
    files: &[(TimestampedName, FileInfo)],
    t2: u64,
) -> Result<()> {
    let mut now = replayed_files(storage, window).await?;
    now.retain(|(name, _)| name.t1 <= t2);
    let names = |files: &[(TimestampedName, FileInfo)]| {
        let names = files.iter().map(|(name, _)| name.name.clone());
        names.collect::<Vec<_>>()
    };
    if names(&now) == names(files) {
        Ok(())
    } else {
        Err(Error::conflict(
            "metadata of these times were written or consolidated by another writer meanwhile: run it again",
        ))
    }
}

const FOLDER: &str = "__fragment_meta";
const COPIED_SINCE: u32 = 12;

/// Opening an array then reads one file instead of the end of each fragment's metadata. Fragments before version 12
/// are left out: releases of their time looked for the copies in another place.
pub(super) async fn consolidate_footers(
    storage: &Storage,
    options: &ConsolidateOptions,
) -> Result<Vec<ReportRow>> {
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let snapshot = Snapshot::open(storage, window).await?;
    let storage = &snapshot.storage;
    let fragments = snapshot
        .fragments
        .iter()
        .filter(|f| f.footer.version.since(COPIED_SINCE))
        .collect::<Vec<_>>();
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
        mode: ConsolidateMode::FragmentMetadata.name(),
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
        outcome: StepOutcome::Planned,
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
    row.outcome = StepOutcome::Done;
    Ok(vec![row])
}

/// Whether one file has copies of all these footers already.
async fn are_copied(storage: &Storage, wanted: &HashSet<&str>) -> Result<bool> {
    let directory = ArrayDirectory::list(storage).await?;
    for file in &directory.consolidated_footers {
        let bytes = storage.read(&file.path()).await?;
        let tile = storage.decode_generic_tile(&bytes, "consolidated fragment metadata")?;
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
