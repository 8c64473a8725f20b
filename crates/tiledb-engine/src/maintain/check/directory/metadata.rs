//! The files of metadata: key-value metadata of an array or a group, the members of a group, and copies of footers
//! decode.

use std::collections::{BTreeMap, HashSet};

use super::folders::{self, COPIES_FOLDER, FolderListings, about_stored, is_staging};
use crate::array::fragment::Fragment;
use crate::array::group::GROUP_FOLDER;
use crate::array::metadata::METADATA_FOLDER;
use crate::error::Result;
use crate::format::commit;
use crate::format::fragment::consolidated;
use crate::format::fragment::footer::Footer;
use crate::format::group::GroupDetails;
use crate::format::metadata::decode_metadata;
use crate::format::names::TimestampedName;
use crate::maintain::check::report::FindingReporter;
use crate::maintain::check::rule::Rule;
use crate::storage::Storage;

/// Checks all files of metadata.
pub async fn check(
    storage: &Storage,
    folders: &FolderListings,
    report: &FindingReporter,
) -> Result<()> {
    let there: HashSet<&str> = folders
        .metadata
        .files
        .iter()
        .map(|f| f.name.as_str())
        .collect();
    for file in &folders.metadata.files {
        let path = format!("{METADATA_FOLDER}/{}", file.name);
        // Bad names have been reported already.
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
        let entries = match folders::read_tile(storage, &path, "metadata").await? {
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

/// Checks a file that hides others, because a new file replaces them.
async fn vacuum(
    storage: &Storage,
    path: &str,
    replacement: &TimestampedName,
    there: &HashSet<&str>,
    report: &FindingReporter,
) -> Result<()> {
    let bytes = match storage.read(path).await {
        Ok(bytes) => bytes,
        Err(e) => {
            let found = about_stored(e)?.to_string();
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
    let kept = hidden
        .iter()
        .map(|path| commit::path_name(path))
        .filter(|name| there.contains(*name))
        .count();
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
pub async fn check_group(
    storage: &Storage,
    folders: &FolderListings,
    report: &FindingReporter,
) -> Result<()> {
    for file in &folders.group.files {
        // Names with a dot are vacuum files; bad names have been reported already.
        if file.name.contains('.') || TimestampedName::parse(&file.name).is_err() {
            continue;
        }
        let path = format!("{GROUP_FOLDER}/{}", file.name);
        let details = match folders::read_tile(storage, &path, "group details").await? {
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

/// Copies of footers before this version are cut.
const COPIED_SINCE: u32 = 12;

/// Checks all files of copies. `fragments` are the ones that could be opened, and `is_there` returns whether a fragment exists.
///
/// Copies only save requests. Releases up to 2.18 cut the copies of footers before version 12, so these are not
/// compared.
pub async fn check_copies(
    storage: &Storage,
    folders: &FolderListings,
    fragments: &BTreeMap<String, Fragment>,
    is_there: impl Fn(&str) -> bool,
    report: &FindingReporter,
) -> Result<()> {
    for (path, file) in folders.in_root_and(COPIES_FOLDER, &folders.copies) {
        if !file.name.ends_with(".meta") {
            continue;
        }
        let tile =
            match folders::read_tile(storage, &path, "consolidated fragment metadata").await? {
                Ok(tile) => tile,
                Err(e) => {
                    report.tell(
                        Rule::UnreadableCopies,
                        path,
                        e.to_string(),
                        "copies of footers",
                    );
                    continue;
                }
            };
        let copies = match consolidated::decode(&tile.data) {
            Ok(copies) => copies,
            Err(e) => {
                report.tell(
                    Rule::UnreadableCopies,
                    path,
                    e.to_string(),
                    "copies of footers",
                );
                continue;
            }
        };
        let count = copies.len();
        let mut gone = 0_usize;
        for (name, range) in copies {
            let copy = tile.data.get(range).unwrap_or_default();
            match fragments.get(&name) {
                Some(fragment) => compare(fragment, copy, &path, report),
                None if is_there(&name) => {}
                None => gone = gone.saturating_add(1),
            }
        }
        if gone > 0 {
            let found = format!("{gone} of {count} copies are of fragments that are gone");
            report.tell(
                Rule::StaleCopy,
                path,
                found,
                "copies of fragments that exist",
            );
        }
    }
    Ok(())
}

fn compare(fragment: &Fragment, copy: &[u8], path: &str, report: &FindingReporter) {
    if !fragment.footer.version.since(COPIED_SINCE) {
        return;
    }
    let named = Footer::peek_schema_name(copy);
    let same_schema = named.map(|(_, name)| name == fragment.footer.schema_name);
    let copied = match same_schema {
        Ok(true) => Footer::decode(copy, &fragment.schema),
        Ok(false) => {
            let found = format!("the copy of {} names another schema", fragment.name.name);
            report.tell(
                Rule::FooterCopy,
                path,
                found,
                "the schema of the fragment's own footer",
            );
            return;
        }
        Err(e) => Err(e),
    };
    match copied {
        Ok(copied) if copied == *fragment.footer => {}
        Ok(_) => {
            let found = format!("the copy of {} is another", fragment.name.name);
            report.tell(Rule::FooterCopy, path, found, "the fragment's own footer");
        }
        Err(e) => {
            let found = format!("the copy of {}: {e}", fragment.name.name);
            report.tell(Rule::FooterCopy, path, found, "the fragment's own footer");
        }
    }
}
