//! The files of key-value metadata, of an array or a group, and of the members of a group: they decode.

use std::collections::HashSet;

use super::folders::Folders;
use super::names::is_staging;
use super::tile::{self, stored};
use crate::array::group::GROUP_FOLDER;
use crate::array::metadata::METADATA_FOLDER;
use crate::error::Result;
use crate::format::commit;
use crate::format::group::GroupDetails;
use crate::format::metadata::decode_metadata;
use crate::format::names::TimestampedName;
use crate::maintain::check::report::Reporter;
use crate::maintain::check::rule::Rule;
use crate::storage::Storage;

/// Checks all files of metadata.
pub async fn check(storage: &Storage, folders: &Folders, report: &Reporter) -> Result<()> {
    let there: HashSet<&str> = folders
        .metadata
        .files
        .iter()
        .map(|f| f.name.as_str())
        .collect();
    for file in &folders.metadata.files {
        let path = format!("{METADATA_FOLDER}/{}", file.name);
        // Bad names were told of already.
        let Ok(name) = TimestampedName::parse(&file.name) else {
            continue;
        };
        if is_staging(&file.name) {
            continue;
        }
        if file.name.ends_with(".vac") {
            vacuum(storage, &path, &name, &there, report).await?;
            continue;
        }
        let entries = match tile::read(storage, &path, "metadata").await? {
            Ok(tile) => decode_metadata(&tile.data),
            Err(e) => Err(e),
        };
        if let Err(e) = entries {
            let found = e.to_string();
            report.tell(Rule::UnreadableMetadata, path, found, "keys with values");
        }
    }
    Ok(())
}

/// A file that hides others, which one replaces.
async fn vacuum(
    storage: &Storage,
    path: &str,
    replacement: &TimestampedName,
    there: &HashSet<&str>,
    report: &Reporter,
) -> Result<()> {
    let bytes = match storage.read(path).await {
        Ok(bytes) => bytes,
        Err(e) => {
            let found = stored(e)?.to_string();
            report.tell(Rule::UnreadableList, path, found, "lines of names");
            return Ok(());
        }
    };
    let hidden = match commit::parse_vacuum(&bytes) {
        Ok(hidden) => hidden,
        Err(e) => {
            report.tell(Rule::UnreadableList, path, e.to_string(), "lines of names");
            return Ok(());
        }
    };
    let kept = hidden.iter().map(|path| commit::path_name(path));
    let kept = kept.filter(|name| there.contains(*name)).count();
    if kept == 0 {
        let found = format!("{} names, none of which exists", hidden.len());
        report.tell(
            Rule::VacuumOfNothing,
            path,
            found,
            "names of files that still exist",
        );
    } else if !there.contains(replacement.name.as_str()) {
        let found = format!("it hides {kept} files");
        let expected = format!("the file {}, which replaces them", replacement.name);
        report.tell(Rule::VacuumWithoutReplacement, path, found, expected);
    }
    Ok(())
}

/// Checks all files that list members; the members themselves are arrays and groups of their own.
pub async fn check_group(storage: &Storage, folders: &Folders, report: &Reporter) -> Result<()> {
    for file in &folders.group.files {
        // Names with a dot are vacuum files; bad names were told of already.
        if file.name.contains('.') || TimestampedName::parse(&file.name).is_err() {
            continue;
        }
        let path = format!("{GROUP_FOLDER}/{}", file.name);
        let details = match tile::read(storage, &path, "group details").await? {
            Ok(tile) => GroupDetails::decode(&tile.data).map(|_| ()),
            Err(e) => Err(e),
        };
        if let Err(e) = details {
            report.tell(
                Rule::UnreadableGroup,
                path,
                e.to_string(),
                "a list of members",
            );
        }
    }
    Ok(())
}
