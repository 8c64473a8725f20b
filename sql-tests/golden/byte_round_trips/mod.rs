//! What libtiledb wrote in the version that this crate writes, read and written again, has the same bytes: schemas,
//! enumerations, metadata, groups, delete conditions, commits and fragment metadata of all arrays that the tests have.

mod fragments;

use std::fs;
use std::path::{Path, PathBuf};

use datafusion_tiledb::Result;
use libtest_mimic::Failed;
use tiledb_engine::filter::generic_tile;
use tiledb_engine::format::commit::{
    CommitEntryKind, CommitKind, LIST_START, encode_commit_list, encode_consolidated_commits,
    encode_ignore, encode_vacuum, parse_consolidated_commits, parse_ignore, parse_vacuum,
};
use tiledb_engine::format::delete_condition::DeleteCondition;
use tiledb_engine::format::enumeration::Enumeration;
use tiledb_engine::format::fragment::consolidated;
use tiledb_engine::format::generic_tile::GenericTileHeader;
use tiledb_engine::format::group::GroupDetails;
use tiledb_engine::format::metadata::{decode_metadata, encode_metadata};
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::format::version::FormatVersion;

use crate::support::fixtures;
use crate::trial;

/// Writes what it has read from the contents of a tile; `None` if these have another version.
type Again = fn(&[u8]) -> Result<Option<Vec<u8>>>;

struct Kind {
    name: &'static str,
    /// Whether a file is of this kind, by the folder it lies in and its name.
    is: fn(folder: &str, name: &str) -> bool,
    again: Again,
    /// Fewer files than this were not all looked at.
    at_least: usize,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "schemas",
        is: |folder, _| folder == "__schema",
        again: |tile| {
            let schema = ArraySchema::decode(tile)?;
            let same = schema.version == FormatVersion::WRITTEN;
            same.then(|| schema.encode()).transpose()
        },
        at_least: 500,
    },
    Kind {
        name: "enumerations",
        is: |folder, _| folder == "__enumerations",
        again: |tile| Enumeration::decode(tile)?.encode().map(Some),
        at_least: 50,
    },
    Kind {
        name: "metadata",
        is: |folder, name| folder == "__meta" && !name.ends_with(".vac"),
        again: |tile| encode_metadata(&decode_metadata(tile)?).map(Some),
        at_least: 20,
    },
    Kind {
        name: "groups",
        is: |folder, name| folder == "__group" && !name.ends_with(".vac"),
        again: |tile| Ok(Some(GroupDetails::decode(tile)?.encode())),
        at_least: 20,
    },
    Kind {
        name: "deletes",
        is: |folder, name| folder == "__commits" && name.ends_with(".del"),
        again: |tile| {
            DeleteCondition::decode_delete(tile)?
                .encode_delete()
                .map(Some)
        },
        at_least: 50,
    },
    Kind {
        name: "consolidated_footers",
        is: |folder, name| folder == "__fragment_meta" && name.ends_with(".meta"),
        again: |tile| {
            let footers = consolidated::decode(tile)?
                .into_iter()
                .map(|(name, range)| (name, tile.get(range).unwrap_or_default()));
            consolidated::encode(&footers.collect::<Vec<_>>()).map(Some)
        },
        at_least: 5,
    },
];

trials!(KINDS.map(|kind| trial(kind.name, move || kind.is_written_as_it_was())));

/// The arrays of which something is written in another way, and why.
const DIFFERENT: [(&str, &str); 2] = [
    (
        "arrays/delete_always/",
        "a condition that is always true or false has a value all the same, which nobody uses; it is written empty",
    ),
    (
        "arrays/nan_",
        "which of two boxes is larger if one ends in NaN, libtiledb decides by the order in which it meets them",
    ),
];

/// What is written as it was, and what is not.
#[derive(Default)]
struct Written {
    same: usize,
    others: Vec<String>,
}

impl Written {
    fn compare(&mut self, file: &Path, what: &str, was: &[u8], is: &[u8]) {
        let path = file.to_string_lossy().replace('\\', "/");
        match was == is {
            true => self.same += 1,
            false if DIFFERENT.iter().any(|(place, _)| path.contains(place)) => {}
            false => self.others.push(format!("{what} of {path}")),
        }
    }

    /// Fails if something is written in another way, or if there was less than expected.
    fn end(self, at_least: usize) -> std::result::Result<(), Failed> {
        let Self { same, others } = self;
        match (others.is_empty(), same >= at_least) {
            (true, true) => Ok(()),
            (true, false) => Err(format!("{same} things, expected {at_least} at least").into()),
            (false, _) => {
                let shown = others
                    .iter()
                    .take(20)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join("\n");
                let message = format!(
                    "{same} are as they were, {} are not:\n{shown}",
                    others.len()
                );
                Err(message.into())
            }
        }
    }
}

impl Kind {
    fn is_written_as_it_was(&self) -> std::result::Result<(), Failed> {
        let mut written = Written::default();
        for file in files(self.is)? {
            let bytes = fs::read(&file)?;
            // Encrypted and damaged ones, and those of versions that cannot be read, have their own tests.
            let Ok(header) = GenericTileHeader::decode(&bytes, self.name) else {
                continue;
            };
            if header.version == FormatVersion::WRITTEN {
                let was = bytes.get(..header.header_bytes).unwrap_or_default();
                written.compare(&file, "the header", was, &header.encode()?);
            }
            let Ok(tile) = generic_tile::decode(&bytes, self.name, None) else {
                continue;
            };
            if let Ok(Some(again)) = (self.again)(&tile.data) {
                written.compare(&file, "the contents", &tile.data, &again);
                // What gzip makes of it is a matter of the library.
                let whole = generic_tile::encode(&again)?;
                let read = generic_tile::decode(&whole, self.name, None)?;
                written.compare(&file, "the tile", &read.data, &again);
                assert_eq!(read.consumed, whole.len());
            }
        }
        written.end(self.at_least)
    }
}

trial!(commits);
fn commits() -> std::result::Result<(), Failed> {
    let mut written = Written::default();
    let is = |folder: &str, _: &str| folder == "__commits";
    for file in files(is)? {
        let bytes = fs::read(&file)?;
        let again = match CommitKind::of(&file.to_string_lossy()) {
            Some(CommitKind::Consolidated) => parse_consolidated_commits(&bytes).map(|entries| {
                let entries = entries.iter().map(|entry| match &entry.kind {
                    CommitEntryKind::Delete { range } => {
                        (entry.path.as_str(), bytes.get(range.clone()))
                    }
                    _ => (entry.path.as_str(), None),
                });
                if bytes.starts_with(LIST_START.as_bytes()) {
                    encode_commit_list(entries)
                } else {
                    encode_consolidated_commits(entries)
                }
            }),
            Some(CommitKind::Ignore) => {
                parse_ignore(&bytes).map(|paths| encode_ignore(paths.iter().map(String::as_str)))
            }
            // Until version 19 these were whole addresses.
            Some(CommitKind::Vacuum) if bytes.starts_with(b"/__") => {
                parse_vacuum(&bytes).map(|paths| encode_vacuum(paths.iter().map(String::as_str)))
            }
            _ => continue,
        };
        if let Ok(again) = again {
            written.compare(&file, "the contents", &bytes, &again);
        }
    }
    written.end(20)
}

/// The files of arrays and groups that are wanted, by the folder they lie in and their names.
fn files(is: fn(&str, &str) -> bool) -> std::io::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![fixtures::root().to_owned()]);
    while let Some(folder) = folders.pop() {
        let folder_name = folder.file_name().unwrap_or_default().to_string_lossy();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if is(&folder_name, &entry.file_name().to_string_lossy()) {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}
