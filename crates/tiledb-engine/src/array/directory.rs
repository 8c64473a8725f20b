//! The listing of an array folder: schemas, committed fragments, consolidated footers.
//!
//! Follows the specification's "Array format hierarchy" and "Commits": a fragment exists when a `.wrt` file of its name
//! lies in `__commits`, or a `.con` file there lists it and no `.ign` file removes it; a `.vac` file inside the window
//! hides the fragments it lists, if what replaces them is there. The fragment's folder is not checked: if it is missing, data are lost, and reading
//! fails. Fragments before version 12 lie in the array's own folder, with their `.ok` and `.vac` files; before version
//! 5 there is no such file, and a fragment is committed by its metadata. These are found by their folders, as libtiledb
//! does, so an `.ok` file without a folder commits nothing. An array may hold both kinds.

mod commit_files;
mod committed;
mod moment;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use futures::future::try_join;
use futures::{StreamExt, TryStreamExt, stream};

use self::commit_files::CommitFiles;
pub use self::committed::{ArrayFile, CommittedDelete, CommittedFragment};
pub(super) use self::moment::{DirectoryProof, MOST_LISTINGS, UnsettledListings};
use super::fragment::METADATA_FILE;
use super::window::{OpenWindow, TimestampMs, WindowVisibility};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::format::commit::{self, CommitKind};
use crate::format::fragment::data_files::coords_file;
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::format::names::TimestampedName;
use crate::storage::{DatedListing, FileInfo, Listing, ListingReuse, Storage};

/// The folder of schemas.
pub const SCHEMA_FOLDER: &str = "__schema";
/// The folder of enumerations, inside that of schemas.
pub const ENUMERATIONS_FOLDER: &str = "__schema/__enumerations";
const COMMITS_FOLDER: &str = "__commits";
const FRAGMENT_META_FOLDER: &str = "__fragment_meta";
/// The folders of an array, and when a listing of each may be reused.
const ROOT: (&str, ListingReuse) = ("", ListingReuse::WithoutFiles);
const SCHEMAS: (&str, ListingReuse) = (SCHEMA_FOLDER, ListingReuse::Always);
const COMMITS: (&str, ListingReuse) = (COMMITS_FOLDER, ListingReuse::Always);
const FOOTERS: (&str, ListingReuse) = (FRAGMENT_META_FOLDER, ListingReuse::Always);
/// Folders listed at the same time.
const LIST_CONCURRENCY: usize = 16;

/// What the window shows of the commits.
#[derive(Debug, Default)]
pub struct WindowCommits {
    /// The fragments, oldest first: by start time; then those of the old layout, those in `.con` files and the others;
    /// then by name.
    pub fragments: Vec<CommittedFragment>,
    /// The deletes and updates by time and name, each once; empty for a dense array, because libtiledb never applies
    /// deletes there.
    pub deletes: Vec<CommittedDelete>,
    /// A file that lists fragments as replaced, of whose replacement there is no trace. They are visible.
    pub unfounded: Option<String>,
    /// The fragments that each fragment replaces, as far as there still are lists of them.
    pub replaced: HashMap<String, Vec<String>>,
}

/// The listing of an array folder, before any schema is read.
#[derive(Debug)]
pub struct ArrayDirectory {
    listings: DirectoryListings,
    /// The schemas, oldest first.
    schemas: Vec<ArrayFile>,
    commits: Vec<ArrayFile>,
    /// Folders that are fragments before version 5 if they hold fragment metadata.
    old_fragments: Vec<TimestampedName>,
    /// Consolidated footers, `*.meta`.
    pub consolidated_footers: Vec<ArrayFile>,
    /// The latest time in any name, computed on first use; `None` if a name has no time.
    latest: OnceLock<Option<u64>>,
}

/// The listings of the array's own folder, and of those of schemas, commits and consolidated footers.
type DirectoryListings = [Arc<Listing>; 4];

impl ArrayDirectory {
    /// Lists the folder, all parts at once.
    pub async fn list(storage: &Storage) -> Result<Self> {
        let (directory, proof) = Self::list_unsettled(storage).await?;
        let changed = proof.changed(storage).await?;
        Ok(changed.unwrap_or(directory))
    }

    /// Lists the folder, all parts at once, as it may never have been unless the proof succeeds.
    pub(super) async fn list_unsettled(storage: &Storage) -> Result<(Self, DirectoryProof)> {
        let (schemas, others) = Self::parts(storage).await?;
        DirectoryProof::of_listings(storage, schemas, others)
    }

    /// Lists the folder again; `None` if nothing has changed.
    ///
    /// Pages of a large folder that all show what was there before prove that it still is.
    pub(super) async fn list_again(
        &self,
        storage: &Storage,
    ) -> Result<Option<(Self, DirectoryProof)>> {
        let (schemas, others) = if storage.is_remote() {
            let [root, _, commits, footers] = &self.listings;
            let before = [root, commits, footers].map(|listing| DatedListing {
                listing: Arc::clone(listing),
                at_once: false,
            });
            let names = [ROOT, COMMITS, FOOTERS].map(|(name, _)| name);
            let schemas = storage.list_tree(SCHEMA_FOLDER);
            try_join(schemas, storage.list_all_again(names, &before)).await?
        } else {
            Self::parts(storage).await?
        };
        let (listed, proof) = DirectoryProof::of_listings(storage, schemas, others)?;
        let changed = listed.listings != self.listings;
        Ok(changed.then_some((listed, proof)))
    }

    /// The listing of schemas, and those of the array's own folder, commits and consolidated footers.
    async fn parts(storage: &Storage) -> Result<(Arc<Listing>, [DatedListing; 3])> {
        if storage.is_remote() {
            // Enumerations come with the schemas.
            let schemas = storage.list_tree(SCHEMA_FOLDER);
            return try_join(schemas, storage.list_all([ROOT, COMMITS, FOOTERS])).await;
        }
        let listed = [SCHEMAS, ROOT, COMMITS, FOOTERS];
        let [schemas, others @ ..] = storage.list_all(listed).await?;
        Ok((schemas.listing, others))
    }

    /// Lists only the folder of schemas, from which the columns follow; `None` if that is not enough to find the schema
    /// that `window` shows.
    pub(super) async fn list_schemas(
        storage: &Storage,
        window: &OpenWindow,
    ) -> Result<Option<Self>> {
        let [schemas] = storage.list_all([SCHEMAS]).await?;
        let end = window.end_or_now().0;
        let schemas = schemas.listing;
        let in_time = |file: &FileInfo| {
            let name = TimestampedName::parse(&file.name);
            name.is_ok_and(|name| name.t2 <= end)
        };
        // The schema of old releases, in the array's own folder, is used only where there is no other.
        if !schemas.named_files().any(in_time) {
            return Ok(None);
        }
        let nothing = || Arc::new(Listing::default());
        let listings = [nothing(), schemas, nothing(), nothing()];
        let listed = Self::from_listings(listings);
        listed.map(Some).map_err(|e| e.with("array", storage.uri()))
    }

    /// Lists the folders that [`Self::list_schemas`] has left out.
    pub(super) async fn list_rest(&self, storage: &Storage) -> Result<(Self, DirectoryProof)> {
        let [_, schemas, ..] = &self.listings;
        let others = storage.list_all([ROOT, COMMITS, FOOTERS]).await?;
        DirectoryProof::of_listings(storage, Arc::clone(schemas), others)
    }

    /// Whether a window that ends at `end` shows every commit up to the latest.
    pub fn is_seen_whole(&self, end: TimestampMs) -> bool {
        let latest = self.latest.get_or_init(|| self.find_latest());
        latest.is_some_and(|latest| latest <= end.0)
    }

    /// The latest time in any name; `None` if a name has no time.
    fn find_latest(&self) -> Option<u64> {
        let commits = self
            .commits
            .iter()
            .filter(|file| CommitKind::of(&file.info.name).is_some());
        let files = self.schemas.iter().chain(commits);
        let names = files.map(|file| file.info.name.as_str());
        let ends = names.filter(|name| *name != OLD_SCHEMA_NAME).map(|name| {
            let name = TimestampedName::parse(commit::path_name(name)).ok()?;
            Some(name.t1.max(name.t2))
        });
        let old = self
            .old_fragments
            .iter()
            .map(|name| Some(name.t1.max(name.t2)));
        let mut ends = ends.chain(old);
        ends.try_fold(0, |latest, end| Some(end?.max(latest)))
    }

    fn from_listings(listings: DirectoryListings) -> Result<Self> {
        let [root, schema, commits, fragment_meta] = &listings;
        let is_old_schema = |file: &FileInfo| file.name == OLD_SCHEMA_NAME;
        let is_old_commit = |file: &FileInfo| {
            let kind = CommitKind::of(&file.name);
            matches!(kind, Some(CommitKind::Ok | CommitKind::Vacuum))
        };
        let is_meta = |file: &FileInfo| file.name.ends_with(".meta");
        let mut schemas = files("", root, is_old_schema);
        // Where enumerations are listed, too, their names begin with their folder.
        schemas.extend(files(SCHEMA_FOLDER, schema, |file| {
            !file.name.contains('/')
        }));
        if schemas.is_empty() {
            return Err(not_an_array(root));
        }
        let mut all_commits = files("", root, is_old_commit);
        all_commits.extend(files(COMMITS_FOLDER, commits, |_| true));
        let mut consolidated_footers = files("", root, is_meta);
        consolidated_footers.extend(files(FRAGMENT_META_FOLDER, fragment_meta, is_meta));
        Ok(Self {
            schemas,
            commits: all_commits,
            old_fragments: root
                .folders
                .iter()
                .filter_map(|f| old_fragment(f))
                .collect(),
            consolidated_footers,
            latest: OnceLock::new(),
            listings,
        })
    }

    /// The schema that readers use: in *string* order of the names, the last one that ends inside the window, else the
    /// first.
    pub fn schema_at(&self, window: &OpenWindow) -> Result<&ArrayFile> {
        let end = window.end_or_now().0;
        let mut chosen = None;
        for file in &self.schemas {
            let since = match file.folder {
                // The schema of old releases has no time; it is older than all others.
                "" => 0,
                _ => {
                    let name = TimestampedName::parse(&file.info.name);
                    name.context("file", || file.path())?.t2
                }
            };
            if chosen.is_none() || since <= end {
                chosen = Some(file);
            }
        }
        chosen.ok_or_else(|| Error::corrupt(format!("the folder {SCHEMA_FOLDER} is empty")))
    }

    /// The directory of an array of which only the files of schemas and of consolidated footers are known.
    pub(super) fn of_files(schemas: Vec<ArrayFile>, footers: Vec<ArrayFile>) -> Result<Self> {
        let in_folder = |files: &[ArrayFile], folder: &str| {
            let files = files.iter().filter(|file| file.folder == folder);
            Listing {
                files: files.map(|file| file.info.clone()).collect(),
                folders: Vec::new(),
            }
        };
        let mut root = in_folder(&schemas, "");
        root.files.extend(in_folder(&footers, "").files);
        let schemas = in_folder(&schemas, SCHEMA_FOLDER);
        let footers = in_folder(&footers, FRAGMENT_META_FOLDER);
        Self::from_listings([root, schemas, Listing::default(), footers].map(Arc::new))
    }

    /// The files of commits, relative to the array, with the information from the listing.
    pub(super) fn commit_files(&self) -> impl Iterator<Item = (String, &FileInfo)> {
        self.commits.iter().map(|file| (file.path(), &file.info))
    }

    /// The files of enumerations, if they were listed, with paths relative to the array.
    pub(super) fn listed_enumerations(&self) -> impl Iterator<Item = (String, u64)> {
        let [_, schemas, ..] = &self.listings;
        let files = schemas.files.iter().filter(|file| file.name.contains('/'));
        files.map(|file| (format!("{SCHEMA_FOLDER}/{}", file.name), file.bytes))
    }

    /// The files of all schemas, in the order of their names.
    pub fn schemas(&self) -> &[ArrayFile] {
        &self.schemas
    }

    /// The file of the schema called `name`.
    pub fn schema_named(&self, name: &str) -> Result<&ArrayFile> {
        let mut schemas = self.schemas.iter();
        schemas.find(|f| f.info.name == name).ok_or_else(|| {
            let folder = match name {
                OLD_SCHEMA_NAME => "the array's folder",
                _ => SCHEMA_FOLDER,
            };
            // It may have been put after the schemas were listed, and before the fragment was.
            Error::not_found(format!(
                "the schema \"{name}\" named by a fragment is not in {folder}"
            ))
        })
    }

    /// Whether the folder of a fragment in the array's own folder is missing, so that its commit has no effect. For
    /// other fragments this is not known.
    pub(super) fn lacks(&self, fragment: &CommittedFragment) -> bool {
        let (name, [root, ..]) = (fragment.folder.as_str(), &self.listings);
        // Both are sorted by name. A file instead of the folder is damage, which reading reports.
        let folder = root
            .folders
            .binary_search_by(|folder| folder.as_str().cmp(name));
        let file = root
            .files
            .binary_search_by(|file| file.name.as_str().cmp(name));
        fragment.is_in_root() && folder.is_err() && file.is_err()
    }

    /// Whether the fragment of this name replaces others, or is about to; files that vacuum has removed no longer show it.
    pub fn replaces(&self, fragment: &str) -> bool {
        self.commits.iter().any(|file| {
            let name = commit::path_name(&file.info.name);
            let is_list = CommitKind::of(&file.info.name) == Some(CommitKind::Vacuum);
            let list = is_list.then_some(name);
            list.or_else(|| commit::staged_vacuum(&file.info.name)) == Some(fragment)
        })
    }

    /// What the window shows of the commits.
    pub async fn commits(
        &self,
        storage: &Storage,
        window: &OpenWindow,
        sparse_array: bool,
    ) -> Result<WindowCommits> {
        let mut commits = CommitFiles::read(storage, &self.commits, window, sparse_array).await?;
        let sees = |name: &TimestampedName| {
            let visibility = window.sees_fragment(name, sparse_array);
            let visible =
                visibility != WindowVisibility::Hidden && !commits.vacuumed.contains(&name.name);
            visible.then_some(visibility)
        };
        let mut fragments = Vec::with_capacity(commits.committed.len());
        for (stem, commit) in &commits.committed {
            let name = TimestampedName::parse(stem).context("file", || commit.path())?;
            let Some(visibility) = sees(&name) else {
                continue;
            };
            let fragment = CommittedFragment::committed(name, visibility, commit.info.clone());
            if self.lacks(&fragment) {
                continue;
            }
            fragments.push(CommittedFragment {
                listed: commits.listed.contains(stem),
                ..fragment
            });
        }
        let mut lookups = Vec::new();
        for name in &self.old_fragments {
            lookups.extend(sees(name).map(|visibility| look_at(storage, name, visibility)));
        }
        let lookups = stream::iter(lookups).buffered(storage.reads_at_once(LIST_CONCURRENCY));
        let old: Vec<_> = lookups.try_collect().await?;
        fragments.extend(old.into_iter().flatten());
        fragments.sort_by(|a, b| a.age().cmp(&b.age()));
        Ok(WindowCommits {
            fragments,
            unfounded: commits.unfounded.take(),
            replaced: std::mem::take(&mut commits.replaced),
            deletes: commits.deletes_in_order(),
        })
    }
}

/// The files in the folder of commits, as they were at one moment.
///
/// # Errors
/// The store fails, or the files change again and again.
pub async fn list_commits(storage: &Storage) -> Result<Arc<Listing>> {
    let listed = storage.list_all([COMMITS]).await?;
    let listed = UnsettledListings::new([COMMITS], listed);
    let [commits] = listed.settled(storage).await?;
    Ok(commits)
}

/// The files of a listing that may be TileDB's and are `wanted`.
fn files(
    folder: &'static str,
    listing: &Listing,
    wanted: impl Fn(&FileInfo) -> bool,
) -> Vec<ArrayFile> {
    let wanted = listing.named_files().filter(|file| wanted(file)).cloned();
    wanted.map(|info| ArrayFile { folder, info }).collect()
}

/// The name of a folder in the array's, if it may be a fragment without a commit file.
fn old_fragment(folder: &str) -> Option<TimestampedName> {
    let name = TimestampedName::parse(folder).ok()?;
    (name.version.is_none() && name.name == folder).then_some(name)
}

/// Lists a folder that is a fragment before version 5 if it holds fragment metadata.
async fn look_at(
    storage: &Storage,
    name: &TimestampedName,
    visibility: WindowVisibility,
) -> Result<Option<CommittedFragment>> {
    let listing = storage.list(&name.name).await?;
    let coords = coords_file();
    let find = |wanted: &str| listing.files.iter().find(|file| file.name == wanted);
    Ok(find(METADATA_FILE).map(|metadata| CommittedFragment {
        name: name.clone(),
        folder: name.name.clone(),
        visibility,
        commit: metadata.clone(),
        listed: false,
        has_coords_file: find(&coords).is_some(),
    }))
}

/// The error for a folder that is not an array; it says what the folder is instead.
fn not_an_array(root: &Listing) -> Error {
    let has_file = |name: &str| root.files.iter().any(|f| f.name == name);
    let has_folder = |name: &str| root.folders.iter().any(|f| f == name);
    if has_folder("__group") || has_file("__tiledb_group.tdb") {
        Error::new(
            ErrorKind::IsAGroup,
            "this is a TileDB group, not an array: name one of its members",
        )
    } else if root.files.is_empty() && root.folders.is_empty() {
        Error::not_found(
            "no array is here: there is nothing, an empty folder, or a file where an array is a folder; check the path",
        )
    } else {
        Error::not_an_array(format!(
            "the folder holds no {SCHEMA_FOLDER} with a schema in it, so it is not a TileDB array"
        ))
    }
}
