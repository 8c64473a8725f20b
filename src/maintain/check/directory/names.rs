//! Names in the folders of an array: each file is of a known kind and has a name that parses.
//!
//! In the array's own folder, and in those of commits and copies, TileDB passes over files that it does not know; every
//! file among the schemas and the metadata is read, so an unknown one there keeps libtiledb from opening the array.

use super::folders::{COMMITS_FOLDER, COPIES_FOLDER, FRAGMENTS_FOLDER, Folders};
use crate::array::directory::SCHEMA_FOLDER;
use crate::array::group::GROUP_FOLDER;
use crate::array::metadata::METADATA_FOLDER;
use crate::format::commit::CommitKind;
use crate::format::names::TimestampedName;
use crate::maintain::check::report::Reporter;
use crate::maintain::check::rule::Rule;
use crate::storage::{FileInfo, Listing, STAGED_SUFFIX};

const TIMESTAMPED: &str = "a name as __<time>_<time>_<uuid>_<version>";

/// Whether a file is one that a writer had begun: libtiledb's `.tmp`, a staged file of ours, or one of a local object store.
pub fn is_staging(name: &str) -> bool {
    let staged = name.rsplit_once('#').map(|(_, number)| number);
    let numbered =
        staged.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
    numbered || name.ends_with(".tmp") || name.ends_with(STAGED_SUFFIX)
}

/// Looks at the names in all folders except those of schemas and fragments.
pub fn check(folders: &Folders, report: &Reporter) {
    for file in &folders.root.files {
        if is_staging(&file.name) {
            staging(&file.name, file, report);
        }
    }
    listed(FRAGMENTS_FOLDER, &folders.fragments, report, |_| false);
    listed(COMMITS_FOLDER, &folders.commits, report, |name| {
        CommitKind::of(name).is_some()
    });
    listed(COPIES_FOLDER, &folders.copies, report, |name| {
        name.ends_with(".meta")
    });
    every(METADATA_FOLDER, &folders.metadata, report);
    every(GROUP_FOLDER, &folders.group, report);
}

/// A folder in which files of other kinds are passed over.
fn listed(
    folder: &'static str,
    listing: &Listing,
    report: &Reporter,
    is_known: impl Fn(&str) -> bool,
) {
    for file in &listing.files {
        let path = format!("{folder}/{}", file.name);
        if is_staging(&file.name) {
            staging(&path, file, report);
        } else if !is_known(&file.name) {
            let found = format!("a file of {} bytes", file.bytes);
            let expected = "files that TileDB knows, only";
            report.tell(Rule::UnknownFile, path, found, expected);
        } else if let Err(e) = TimestampedName::parse(&file.name) {
            report.tell(Rule::BadName, path, e.message(), TIMESTAMPED);
        }
    }
}

/// A folder of which every file is read.
fn every(folder: &'static str, listing: &Listing, report: &Reporter) {
    for file in &listing.files {
        let path = format!("{folder}/{}", file.name);
        if is_staging(&file.name) {
            staging(&path, file, report);
        } else if let Err(e) = TimestampedName::parse(&file.name) {
            report.tell(Rule::BadName, path, e.message(), TIMESTAMPED);
        }
    }
}

/// The files among the schemas that have names of schemas.
pub fn schemas<'a>(listing: &'a Listing, report: &Reporter) -> Vec<&'a FileInfo> {
    let mut named = Vec::new();
    for file in &listing.files {
        let path = format!("{SCHEMA_FOLDER}/{}", file.name);
        match TimestampedName::parse(&file.name) {
            _ if is_staging(&file.name) => staging(&path, file, report),
            Ok(_) => named.push(file),
            Err(e) => report.tell(Rule::BadName, path, e.message(), TIMESTAMPED),
        }
    }
    named
}

/// A file that a writer had begun.
pub fn staging(path: &str, file: &FileInfo, report: &Reporter) {
    let found = format!("a file of {} bytes that was never completed", file.bytes);
    report.tell(Rule::StagingFile, path, found, "no unfinished files");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_are_known_by_their_ends() {
        for name in ["__1_1_x.tmp", "a0.tdb#1", "x#17", "__1_1_x_22.vac.staged"] {
            assert!(is_staging(name), "{name}");
        }
        for name in ["__1_1_x_22.wrt", "a#b", "a#", "tmp", "#x1"] {
            assert!(!is_staging(name), "{name}");
        }
    }
}
