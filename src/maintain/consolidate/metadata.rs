//! The key-value metadata of an array or a group become one file with the values as of now (specification: "Metadata").
//!
//! The new file is read first, as it begins at the time of the oldest; until the list of what it replaces is there, the old
//! ones are replayed over it and say the same. So nothing is lost at any moment. A file that others date back into the time
//! between is a conflict.

use bytes::Bytes;

use super::options::{ConsolidateOptions, Mode};
use crate::array::inspect::Inspection;
use crate::array::metadata::{METADATA_FOLDER, load, replayed_files};
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::generic_tile;
use crate::format::commit::encode_vacuum;
use crate::format::metadata::{MetadataEntry, encode_metadata};
use crate::format::names::TimestampedName;
use crate::maintain::report::{Outcome, ReportRow};
use crate::storage::{FileInfo, Storage};

pub(super) async fn consolidate(
    storage: &Storage,
    options: &ConsolidateOptions,
) -> Result<Vec<ReportRow>> {
    let now = OpenWindow::new(TimestampMs(0), Some(TimestampMs::now()))?;
    // An array tells whether its files are encrypted.
    let storage = match Inspection::open(storage, now).await {
        Ok(array) => array.storage().clone(),
        Err(e) if matches!(e.kind(), ErrorKind::IsAGroup) => storage.clone(),
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
        mode: Mode::ArrayMetadata.name(),
        action: "merge",
        object: format!("{METADATA_FOLDER}/__{t1}_{t2}"),
        inputs: files.len() as u64,
        bytes_read,
        bytes_written: None,
        bytes_freed: bytes_read,
        gain: format!("{} files become 1, of {} keys", files.len(), items.len()),
        outcome: Outcome::Planned,
    };
    if items.is_empty() {
        row.outcome = Outcome::Skipped("no key is left to write".to_owned());
        return Ok(vec![row]);
    }
    if options.start.is_some_and(|start| start > 0) {
        // Removed keys are not written, and so would come back if an older file has them.
        let all = OpenWindow::new(TimestampMs(0), window.end)?;
        if replayed_files(&storage, &all).await?.len() != files.len() {
            let why = "older files may have keys that these remove: begin with the oldest";
            row.outcome = Outcome::Skipped(why.to_owned());
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
        .map(|(_, file)| format!("{METADATA_FOLDER}/{}", file.name));
    let replaced = replaced.collect::<Vec<_>>();
    let list = encode_vacuum(replaced.iter().map(String::as_str));
    storage
        .create_file(&format!("{path}.vac"), Bytes::from(list))
        .await?;
    row.object = path;
    row.outcome = Outcome::Done;
    Ok(vec![row])
}

/// Fails if somebody has written a file into the time of these meanwhile, or replaced some of them.
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
    match names(&now) == names(files) {
        true => Ok(()),
        false => Err(Error::conflict(
            "metadata of these times were written or consolidated by somebody else meanwhile: run it again",
        )),
    }
}
