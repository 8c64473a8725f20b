//! What the listing of an array folder says: schemas, committed fragments, consolidated footers.
//!
//! Follows the specification's "Array format hierarchy" and "Commits": a fragment exists when a `.wrt` file of its
//! name lies in `__commits`, or a `.con` file there lists it and no `.ign` file takes it back; a `.vac` file inside
//! the window hides the fragments it lists. The existence of a fragment's folder says nothing.

use std::collections::{BTreeMap, HashSet};

use futures::future::try_join_all;

use super::window::{OpenWindow, Visibility};
use crate::error::{Error, Result, ResultExt};
use crate::format::commit::{self, CommitEntryKind};
use crate::format::names::TimestampedName;
use crate::storage::{FileInfo, Listing, Storage};

/// The folder of schemas.
pub const SCHEMA_FOLDER: &str = "__schema";
/// The folder of enumerations, inside that of schemas.
pub const ENUMERATIONS_FOLDER: &str = "__schema/__enumerations";
const COMMITS_FOLDER: &str = "__commits";
const FRAGMENTS_FOLDER: &str = "__fragments";
const FRAGMENT_META_FOLDER: &str = "__fragment_meta";

/// A committed fragment.
#[derive(Debug, Clone)]
pub struct CommittedFragment {
    /// Its parsed name.
    pub name: TimestampedName,
    /// The folder that holds its files, relative to the array.
    pub folder: String,
    /// How much of it the window shows.
    pub visibility: Visibility,
    /// The commit file, whose identity stands for the fragment's in caches.
    pub commit: FileInfo,
}

/// The listing of an array folder, before any schema is read.
#[derive(Debug)]
pub struct ArrayDirectory {
    schemas: Vec<FileInfo>,
    commits: Vec<FileInfo>,
    /// Consolidated footers, `__fragment_meta/*.meta`.
    pub consolidated_footers: Vec<FileInfo>,
}

impl ArrayDirectory {
    /// Lists the folder, all parts at once.
    pub async fn list(storage: &Storage) -> Result<Self> {
        let folders = ["", SCHEMA_FOLDER, COMMITS_FOLDER, FRAGMENT_META_FOLDER];
        let listings = try_join_all(folders.map(|folder| storage.list(folder))).await?;
        let Ok([root, schema, commits, fragment_meta]) = <[Listing; 4]>::try_from(listings) else {
            return Err(Error::internal("four listings were asked for"));
        };
        Self::from_listings(root, schema, commits, fragment_meta)
            .map_err(|e| e.with("array", storage.uri()))
    }

    fn from_listings(
        root: Listing,
        schema: Listing,
        commits: Listing,
        fragment_meta: Listing,
    ) -> Result<Self> {
        if schema.files.is_empty() {
            return Err(not_an_array(&root));
        }
        if root.files.iter().any(|f| f.name.ends_with(".ok")) {
            return Err(Error::unsupported(
                "the array holds fragments older than format 12 (files ending in .ok), which this release does not read",
            ));
        }
        Ok(Self {
            schemas: schema.files,
            commits: commits.files,
            consolidated_footers: fragment_meta
                .files
                .into_iter()
                .filter(|f| f.name.ends_with(".meta"))
                .collect(),
        })
    }

    /// The schema a reader uses: of the names in *string* order, the last that ends inside the window, else the first.
    pub fn schema_at(&self, window: &OpenWindow) -> Result<&FileInfo> {
        let end = window.end_or_now().0;
        let mut chosen = None;
        for file in &self.schemas {
            let name = TimestampedName::parse(&file.name).context("file", || &file.name)?;
            if chosen.is_none() || name.t2 <= end {
                chosen = Some(file);
            }
        }
        chosen.ok_or_else(|| Error::corrupt(format!("the folder {SCHEMA_FOLDER} is empty")))
    }

    /// The files of all schemas, in the order of their names.
    pub fn schemas(&self) -> &[FileInfo] {
        &self.schemas
    }

    /// The file of the schema called `name`.
    pub fn schema_named(&self, name: &str) -> Result<&FileInfo> {
        self.schemas.iter().find(|f| f.name == name).ok_or_else(|| {
            Error::corrupt(format!(
                "the schema \"{name}\" named by a fragment is not in {SCHEMA_FOLDER}"
            ))
        })
    }

    /// The fragments the window shows, oldest first: by start time, then by name.
    pub async fn fragments(
        &self,
        storage: &Storage,
        window: &OpenWindow,
        sparse_array: bool,
    ) -> Result<Vec<CommittedFragment>> {
        let mut committed: BTreeMap<String, FileInfo> = BTreeMap::new();
        let mut ignored = HashSet::new();
        let mut listed: BTreeMap<String, FileInfo> = BTreeMap::new();
        let mut vacuumed = HashSet::new();
        for file in &self.commits {
            let Some((stem, extension)) = file.name.rsplit_once('.') else {
                continue;
            };
            let path = format!("{COMMITS_FOLDER}/{}", file.name);
            match extension {
                "wrt" => {
                    committed.insert(stem.to_owned(), file.clone());
                }
                "con" => {
                    let bytes = storage.read(&path).await?;
                    for entry in
                        commit::parse_consolidated_commits(&bytes).context("file", || &path)?
                    {
                        self.add_consolidated(entry, file, window, &mut listed)
                            .context("file", || &path)?;
                    }
                }
                "ign" => {
                    let bytes = storage.read(&path).await?;
                    let paths = commit::parse_ignore(&bytes).context("file", || &path)?;
                    ignored.extend(paths.iter().map(|p| commit::path_name(p).to_owned()));
                }
                "vac" => {
                    let name = TimestampedName::parse(stem).context("file", || &path)?;
                    if window.sees_fragment(&name, sparse_array) != Visibility::Hidden {
                        let bytes = storage.read(&path).await?;
                        let paths = commit::parse_vacuum(&bytes).context("file", || &path)?;
                        vacuumed.extend(paths.iter().map(|p| commit::path_name(p).to_owned()));
                    }
                }
                "del" | "upd" => refuse_delete(stem, window).context("file", || &path)?,
                _ => {}
            }
        }
        // `.ign` files subtract from what `.con` files list, never from a commit file of its own.
        listed.retain(|name, _| !ignored.contains(name));
        for (name, file) in listed {
            committed.entry(name).or_insert(file);
        }
        let mut fragments = Vec::with_capacity(committed.len());
        for (stem, commit) in committed {
            if vacuumed.contains(&stem) {
                continue;
            }
            let name = TimestampedName::parse(&stem)
                .context("file", || format!("{COMMITS_FOLDER}/{}", commit.name))?;
            let visibility = window.sees_fragment(&name, sparse_array);
            if visibility != Visibility::Hidden {
                let folder = format!("{FRAGMENTS_FOLDER}/{stem}");
                fragments.push(CommittedFragment {
                    name,
                    folder,
                    visibility,
                    commit,
                });
            }
        }
        fragments.sort_by(|a, b| (a.name.t1, &a.name.name).cmp(&(b.name.t1, &b.name.name)));
        Ok(fragments)
    }

    fn add_consolidated(
        &self,
        entry: commit::CommitEntry,
        file: &FileInfo,
        window: &OpenWindow,
        listed: &mut BTreeMap<String, FileInfo>,
    ) -> Result<()> {
        match entry.kind {
            CommitEntryKind::Write => {
                listed.insert(entry.name, file.clone());
                Ok(())
            }
            CommitEntryKind::Delete { .. } => refuse_delete(&entry.name, window),
            CommitEntryKind::Ok => Err(Error::unsupported(format!(
                "the fragment \"{}\" is older than format 12, which this release does not read",
                entry.name
            ))),
        }
    }
}

/// Delete conditions change what every later read returns, so an array with one in sight is refused, not misread.
fn refuse_delete(stem: &str, window: &OpenWindow) -> Result<()> {
    if window.contains(&TimestampedName::parse(stem)?) {
        return Err(Error::unsupported(
            "the array holds a delete or update commit inside the window, which this release does not apply; \
             open the array at an earlier time with the option 'tiledb.timestamp'",
        ));
    }
    Ok(())
}

/// Says what lies at the place instead of an array.
fn not_an_array(root: &Listing) -> Error {
    let has_file = |name: &str| root.files.iter().any(|f| f.name == name);
    let has_folder = |name: &str| root.folders.iter().any(|f| f == name);
    if has_folder("__group") || has_file("__tiledb_group.tdb") {
        Error::not_an_array("this is a TileDB group, not an array: name one of its members")
    } else if has_file("__array_schema.tdb") {
        Error::unsupported(
            "the array was written in a format older than 10, which this release does not read",
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
