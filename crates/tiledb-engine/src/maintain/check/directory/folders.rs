//! The files in the folders of an array or a group: their names, and their reading.

use std::sync::Arc;

use crate::array::directory::{ENUMERATIONS_FOLDER, SCHEMA_FOLDER};
use crate::array::group::{GROUP_FILE, GROUP_FOLDER};
use crate::array::metadata::METADATA_FOLDER;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::GenericTile;
use crate::format::commit::CommitKind;
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::format::names::TimestampedName;
use crate::maintain::check::report::FindingReporter;
use crate::maintain::check::rule::Rule;
use crate::storage::{FileInfo, Listing, STAGED_SUFFIX, Storage};
use crate::write::create::{CreationRemains, is_begun};

/// The folder of commit files.
pub const COMMITS_FOLDER: &str = "__commits";
/// The folder of fragments.
pub const FRAGMENTS_FOLDER: &str = "__fragments";
/// The folder of copies of footers.
pub const COPIES_FOLDER: &str = "__fragment_meta";
/// The folder of the arrays that hold dimension labels.
pub const LABELS_FOLDER: &str = "__labels";

/// The kind of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderKind {
    Array,
    Group,
    /// The remains of an interrupted creation.
    Remains,
}

/// The listings of all folders with a meaning.
#[derive(Debug)]
pub struct FolderListings {
    pub root: Arc<Listing>,
    pub schemas: Arc<Listing>,
    pub enumerations: Arc<Listing>,
    pub commits: Arc<Listing>,
    pub fragments: Arc<Listing>,
    pub copies: Arc<Listing>,
    pub metadata: Arc<Listing>,
    pub labels: Arc<Listing>,
    pub group: Arc<Listing>,
}

impl FolderListings {
    /// Lists them all.
    pub async fn list(storage: &Storage) -> Result<Self> {
        let (root, schemas, enumerations, commits, fragments, copies, metadata, labels, group) = futures::try_join!(
            storage.list(""),
            storage.list(SCHEMA_FOLDER),
            storage.list(ENUMERATIONS_FOLDER),
            storage.list(COMMITS_FOLDER),
            storage.list(FRAGMENTS_FOLDER),
            storage.list(COPIES_FOLDER),
            storage.list(METADATA_FOLDER),
            storage.list(LABELS_FOLDER),
            storage.list(GROUP_FOLDER),
        )?;
        Ok(Self {
            root,
            schemas,
            enumerations,
            commits,
            fragments,
            copies,
            metadata,
            labels,
            group,
        })
    }

    /// Whether there is an array or a group.
    ///
    /// # Errors
    /// There is neither.
    pub async fn kind(&self, storage: &Storage) -> Result<FolderKind> {
        let file = |name: &str| self.root.files.iter().any(|f| f.name == name);
        let folder = |name: &str| self.root.folders.iter().any(|f| f == name);
        let is_group = folder(GROUP_FOLDER) || file(GROUP_FILE);
        let is_begun = !is_group && is_begun(storage, &self.root).await?;
        // Commits that no creation has announced belong to an array that has lost its schema.
        if is_begun && CreationRemains::of(storage).await.is_ok() {
            Ok(FolderKind::Remains)
        } else if folder(SCHEMA_FOLDER) || file(OLD_SCHEMA_NAME) {
            Ok(FolderKind::Array)
        } else if is_group {
            Ok(FolderKind::Group)
        } else if self.root.files.is_empty() && self.root.folders.is_empty() {
            Err(Error::not_found(
                "neither an array nor a group is here: check the path",
            ))
        } else {
            Err(Error::not_an_array(
                "the folder is neither a TileDB array nor a TileDB group",
            ))
        }
    }

    /// The files of the array's own folder and of `folder`, with their paths, if their names may be TileDB's.
    pub fn in_root_and<'a>(
        &'a self,
        folder: &'static str,
        listing: &'a Listing,
    ) -> impl Iterator<Item = (String, &'a FileInfo)> {
        let root = self.root.named_files().map(|f| (f.name.clone(), f));
        let inside = listing.named_files();
        root.chain(inside.map(move |f| (format!("{folder}/{}", f.name), f)))
    }
}

const TIMESTAMPED: &str = "a name as __<time>_<time>_<uuid>_<version>";

/// Whether a writer had only begun a file: libtiledb's `.tmp`, a staged file of ours, or one of a local object store.
///
/// In the array's own folder, and in those of commits and copies, TileDB skips unknown files. Among the schemas and the
/// metadata it reads every file, so an unknown one there keeps libtiledb from opening the array.
pub fn is_staging(name: &str) -> bool {
    let staged = name.rsplit_once('#').map(|(_, number)| number);
    let numbered =
        staged.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
    numbered || name.ends_with(".tmp") || name.ends_with(STAGED_SUFFIX)
}

/// Checks the names in all folders except folders of fragments.
pub fn check_names(folders: &FolderListings, kind: FolderKind, report: &FindingReporter) {
    for file in folders.root.named_files() {
        if is_staging(&file.name) {
            report_staging(&file.name, file, report);
        }
    }
    if kind != FolderKind::Group {
        foreign("", &folders.root, report);
    }
    foreign(SCHEMA_FOLDER, &folders.schemas, report);
    foreign(ENUMERATIONS_FOLDER, &folders.enumerations, report);
    listed(LABELS_FOLDER, &folders.labels, report, |_| false);
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

/// Checks a folder in which TileDB skips files of other kinds.
fn listed(
    folder: &'static str,
    listing: &Listing,
    report: &FindingReporter,
    is_known: impl Fn(&str) -> bool,
) {
    foreign(folder, listing, report);
    for file in listing.named_files() {
        let path = format!("{folder}/{}", file.name);
        if is_staging(&file.name) {
            report_staging(&path, file, report);
        } else if !is_known(&file.name) {
            let found = format!("a file of {} bytes", file.bytes);
            let expected = "files that TileDB knows, only";
            report.tell(Rule::UnknownFile, path, found, expected);
        } else if let Err(e) = TimestampedName::parse(&file.name) {
            report.tell(Rule::BadName, path, e.message(), TIMESTAMPED);
        }
    }
}

/// Reports files that are not TileDB's.
fn foreign(folder: &'static str, listing: &Listing, report: &FindingReporter) {
    for file in listing.files.iter().filter(|file| !file.is_named()) {
        let path = format!("{folder}/{}", file.name);
        let found = format!("a file of {} bytes", file.bytes);
        let expected = "names that begin with two underscores, only";
        report.tell(
            Rule::ForeignFile,
            path.trim_start_matches('/'),
            found,
            expected,
        );
    }
}

/// Checks a folder in which TileDB reads all of its files.
fn every(folder: &'static str, listing: &Listing, report: &FindingReporter) {
    foreign(folder, listing, report);
    for file in listing.named_files() {
        let path = format!("{folder}/{}", file.name);
        if is_staging(&file.name) {
            report_staging(&path, file, report);
        } else if let Err(e) = TimestampedName::parse(&file.name) {
            report.tell(Rule::BadName, path, e.message(), TIMESTAMPED);
        }
    }
}

/// The files among the schemas that have names of schemas.
pub fn schema_files<'a>(listing: &'a Listing, report: &FindingReporter) -> Vec<&'a FileInfo> {
    let mut named = Vec::new();
    for file in listing.named_files() {
        let path = format!("{SCHEMA_FOLDER}/{}", file.name);
        match TimestampedName::parse(&file.name) {
            _ if is_staging(&file.name) => report_staging(&path, file, report),
            Ok(_) => named.push(file),
            Err(e) => report.tell(Rule::BadName, path, e.message(), TIMESTAMPED),
        }
    }
    named
}

/// A file that a writer had begun.
pub fn report_staging(path: &str, file: &FileInfo, report: &FindingReporter) {
    let found = format!("a file of {} bytes that was never completed", file.bytes);
    report.tell(Rule::StagingFile, path, found, "no unfinished files");
}

/// How a generic tile is decoded.
type DecodeTile = fn(&Storage, &[u8], &'static str) -> Result<GenericTile>;

/// Reads a file of one generic tile: `Err` if the storage failed or a key is missing, and `Ok(Err(…))` if the file is damaged.
pub async fn read_tile(
    storage: &Storage,
    path: &str,
    what: &'static str,
) -> Result<Result<GenericTile, Error>> {
    read_with(Storage::decode_generic_tile, storage, path, what).await
}

/// As [`read_tile`]; plain files in an encrypted array aren't a fault.
pub async fn read_tile_or_plain(
    storage: &Storage,
    path: &str,
    what: &'static str,
) -> Result<Result<GenericTile, Error>> {
    read_with(Storage::decode_generic_tile_or_plain, storage, path, what).await
}

async fn read_with(
    decode: DecodeTile,
    storage: &Storage,
    path: &str,
    what: &'static str,
) -> Result<Result<GenericTile, Error>> {
    let bytes = match storage.read(path).await {
        Ok(bytes) => bytes,
        Err(e) => return about_stored(e).map(Err),
    };
    match decode(storage, &bytes, what) {
        Ok(tile) if tile.consumed < bytes.len() => {
            let more = bytes.len() - tile.consumed;
            let message = format!("{more} bytes follow the tile, expected none");
            Ok(Err(Error::corrupt(message)))
        }
        Ok(tile) => Ok(Ok(tile)),
        Err(e) => about_stored(e).map(Err),
    }
}

/// Returns an error about a stored file; `Err` for any other error.
pub fn about_stored(error: Error) -> Result<Error> {
    match error.kind() {
        ErrorKind::Corrupt
        | ErrorKind::Unsupported
        | ErrorKind::NotFound
        | ErrorKind::NotEncrypted => Ok(error),
        _ => Err(error),
    }
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
