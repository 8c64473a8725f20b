//! Commits and folders of fragments: neither occurs without the other.
//!
//! Fragments since version 12 lie in a folder of their own. Older ones lie in the array's folder, and those before version 5
//! are committed by their metadata. A commit of versions 5 to 11 without a folder has no effect.

use std::collections::{BTreeMap, BTreeSet};

use super::commits::CommitLists;
use super::folders::{FRAGMENTS_FOLDER, FolderListings};
use crate::array::directory::CommittedFragment;
use crate::array::fragment::METADATA_FILE;
use crate::array::window::{TimestampMs, WindowVisibility};
use crate::error::Result;
use crate::format::fragment::data_files::coords_file;
use crate::format::names::TimestampedName;
use crate::maintain::check::report::FindingReporter;
use crate::maintain::check::rule::Rule;
use crate::storage::{Listing, Storage};

/// Since this version, fragments lie in a folder of their own.
const FOLDER_SINCE: u32 = 12;

/// The folders of all fragments, by name.
pub fn folders_by_name(folders: &FolderListings) -> BTreeMap<String, String> {
    let parse = |name: &String| {
        TimestampedName::parse(name)
            .ok()
            .filter(|n| n.name == *name)
    };
    let mut paths = BTreeMap::new();
    for name in folders.root.folders.iter().filter_map(parse) {
        if name.version.is_none_or(|version| version < FOLDER_SINCE) {
            paths.insert(name.name.clone(), name.name);
        }
    }
    for name in &folders.fragments.folders {
        paths.insert(name.clone(), format!("{FRAGMENTS_FOLDER}/{name}"));
    }
    paths
}

/// Matches commits and folders, and returns the committed fragments, oldest first.
pub async fn check(
    storage: &Storage,
    folders: &FolderListings,
    lists: &CommitLists,
    report: &FindingReporter,
) -> Result<Vec<CommittedFragment>> {
    let mut unclaimed = folders_by_name(folders);
    let mut found = Vec::new();
    for (name, commit) in lists.committed() {
        let Ok(name) = TimestampedName::parse(name) else {
            continue;
        };
        let in_root = name.version.is_none_or(|version| version < FOLDER_SINCE);
        let Some(folder) = unclaimed.remove(&name.name) else {
            let rule = if in_root {
                Rule::IdleCommit
            } else {
                Rule::CommitWithoutFragment
            };
            let found = format!("there is no folder of the fragment {}", name.name);
            let expected = "the folder with the fragment's files";
            report.tell(rule, &commit.path, found, expected);
            continue;
        };
        found.push(CommittedFragment {
            folder,
            visibility: WindowVisibility::Whole,
            commit: commit.file.clone(),
            listed: false,
            has_coords_file: false,
            name,
        });
    }
    let replaced: BTreeSet<&str> = replaced(lists);
    for (name, folder) in unclaimed {
        let listing = storage.list(&folder).await?;
        match old_fragment(&name, &folder, &listing) {
            Some(fragment) => found.push(fragment),
            // Some object stores list the folders of removed objects for a while. Nothing is in them, and nobody can remove them.
            None if storage.is_remote() && is_empty(&listing) => {}
            None => orphan(&name, &folder, &listing, report),
        }
    }
    for fragment in &found {
        if replaced.contains(fragment.name.name.as_str()) {
            let expected = "fragments that no other replaces";
            let what = "a vacuum file says that another fragment replaces it";
            report.tell(Rule::ReplacedFragment, &fragment.folder, what, expected);
        }
    }
    found.sort_by(|a, b| (a.name.t1, &a.name.name).cmp(&(b.name.t1, &b.name.name)));
    Ok(found)
}

/// The names of fragments that others replace.
fn replaced(lists: &CommitLists) -> BTreeSet<&str> {
    let names = lists.vacuums.iter().flat_map(|vacuum| &vacuum.replaced);
    names.map(String::as_str).collect()
}

/// A fragment of the versions that are committed by their metadata.
fn old_fragment(name: &str, folder: &str, listing: &Listing) -> Option<CommittedFragment> {
    let name = TimestampedName::parse(name)
        .ok()
        .filter(|name| name.version.is_none())?;
    let find = |wanted: &str| listing.files.iter().find(|file| file.name == wanted);
    let metadata = find(METADATA_FILE)?;
    Some(CommittedFragment {
        folder: folder.to_owned(),
        visibility: WindowVisibility::Whole,
        commit: metadata.clone(),
        listed: false,
        has_coords_file: find(&coords_file()).is_some(),
        name,
    })
}

fn is_empty(listing: &Listing) -> bool {
    listing.files.is_empty() && listing.folders.is_empty()
}

/// The folder of a fragment that nothing commits.
fn orphan(name: &str, folder: &str, listing: &Listing, report: &FindingReporter) {
    let bytes = listing
        .files
        .iter()
        .fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
    let newest = listing.files.iter().map(|file| file.modified_us).max();
    let age = newest
        .and_then(|us| {
            let ms = u64::try_from(us / 1000).ok()?;
            Some(TimestampMs::now().0.saturating_sub(ms) / 1000)
        })
        .map_or_else(String::new, |seconds| {
            format!(", last written {seconds} s ago")
        });
    let count = listing.files.len();
    let found = format!("{count} files of {bytes} bytes{age}, and no commit");
    let expected = format!("a commit file of {name}");
    report.tell(Rule::FragmentWithoutCommit, folder, found, expected);
}
