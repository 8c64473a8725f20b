//! What opening an array will read, as far as its listing shows, so that a store behind a network is asked for all of it at once.
//!
//! Listings name the schemas, the enumerations, the lists of commits, and the fragments with the times of their cells. What copies
//! of footers cover, and what other fragments replace, follows from these times: a fragment whose times lie within those of such a
//! file is likely in it. If it isn't, opening reads its footer later, and takes one round trip more.

use crate::array::directory::{ArrayDirectory, CommittedFragment};
use crate::array::window::{OpenWindow, WindowVisibility};
use crate::format::commit::{self, CommitKind};
use crate::format::names::TimestampedName;
use crate::storage::{ExpectedFiles, Storage};

use super::footers::end_bytes;
use super::{footers, schemas};

/// The most bytes of enumerations, and of schemas, that are read before it is known which of them are needed.
const MOST_SCHEMA_BYTES: u64 = 1 << 20;
/// The most bytes of other files that are read whole. Files that don't fit are read when they are needed.
const MOST_WHOLE_BYTES: u64 = 32 << 20;
/// The most ends of metadata files. The others are read in chunks, so that the memory of an open array doesn't grow with its
/// fragments.
const MOST_ENDS: usize = 2048;

/// The storage with the files in memory that opening the array will read, unless they are cached. A store of files is asked for
/// each file when it is needed.
pub(super) async fn read_ahead(
    storage: &Storage,
    window: &OpenWindow,
    directory: &ArrayDirectory,
) -> Storage {
    if !storage.is_remote() {
        return storage.clone();
    }
    let mut whole = schemas::unread(storage, directory, window, MOST_SCHEMA_BYTES);
    let others = lists(directory, window).chain(footers::unread_copies(storage, directory));
    whole.extend(fitting(others, MOST_WHOLE_BYTES));
    let mut ends = unread_ends(storage, window, directory);
    ends.truncate(MOST_ENDS);
    storage
        .with_read_ahead(ExpectedFiles {
            end_bytes: end_bytes(storage, ends.len()),
            whole,
            ends,
        })
        .await
}

/// The files that fit into `most_bytes` together. Their sizes come from the store and may be wrong.
fn fitting(files: impl Iterator<Item = (String, u64)>, most_bytes: u64) -> Vec<String> {
    let mut left = most_bytes;
    let fits = files.filter_map(|(file, bytes)| {
        left = left.checked_sub(bytes)?;
        Some(file)
    });
    fits.collect()
}

/// The files of commits whose contents count, with their bytes.
fn lists<'a>(
    directory: &'a ArrayDirectory,
    window: &'a OpenWindow,
) -> impl Iterator<Item = (String, u64)> + 'a {
    let is_needed = |path: &str| match CommitKind::of(path) {
        Some(CommitKind::Consolidated | CommitKind::Ignore | CommitKind::Vacuum) => true,
        Some(CommitKind::Delete | CommitKind::Update) => {
            let name = TimestampedName::parse(commit::path_name(path));
            name.is_ok_and(|name| window.contains(&name))
        }
        _ => commit::staged_vacuum(path).is_some(),
    };
    let files = directory.commit_files();
    files
        .filter(move |(path, _)| is_needed(path))
        .map(|(path, info)| (path, info.bytes))
}

/// The metadata files of fragments whose footers are neither cached nor, as it seems, copied or replaced.
fn unread_ends(storage: &Storage, window: &OpenWindow, directory: &ArrayDirectory) -> Vec<String> {
    let mut spans = Vec::new();
    let mut committed = Vec::new();
    for (path, info) in directory.commit_files() {
        let stem = commit::path_name(&path);
        let replacing = match CommitKind::of(&path) {
            Some(CommitKind::Write | CommitKind::Ok) => {
                committed.extend(TimestampedName::parse(stem).ok().map(|name| (name, info)));
                continue;
            }
            Some(CommitKind::Vacuum) => Some(stem),
            _ => commit::staged_vacuum(&path),
        };
        spans.extend(replacing.and_then(|name| TimestampedName::parse(name).ok()));
    }
    let copies = directory.consolidated_footers.iter();
    spans.extend(copies.filter_map(|file| TimestampedName::parse(&file.info.name).ok()));
    let is_covered = |name: &TimestampedName| {
        let mut spans = spans.iter();
        spans.any(|span| span.name != name.name && span.t1 <= name.t1 && name.t2 <= span.t2)
    };
    let mut ends = Vec::new();
    for (name, info) in committed {
        // Whether the array is sparse isn't known yet. What is hidden in a dense array is hidden in a sparse one, or seen in part.
        let visibility = window.sees_fragment(&name, true);
        if visibility == WindowVisibility::Hidden || is_covered(&name) {
            continue;
        }
        let fragment = CommittedFragment::committed(name, visibility, info.clone());
        ends.extend(footers::unread_end(storage, &fragment));
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_any_length_are_left_out_if_they_do_not_fit() {
        let files = [
            ("a", 5),
            ("b", u64::MAX),
            ("c", 3),
            ("d", 3),
            ("e", u64::MAX),
            ("f", 0),
        ];
        let files = files.map(|(name, bytes)| (name.to_owned(), bytes));
        assert_eq!(fitting(files.into_iter(), 10), ["a", "c", "f"]);
    }
}
