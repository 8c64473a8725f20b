//! The remains of interrupted creations in a folder without a schema.
//!
//! COPY commits its fragments, and then puts the schema, which makes the array visible. A crash in between leaves commits,
//! which would become part of the next array in the folder. So COPY first announces its commit in a file beside it, and removes
//! the file at the end. The remains of a creation are the commits that an announcement lists, and fragments that nothing
//! commits. Other commits belong to an array that has lost its schema, and stay.

use crate::array::directory::{ENUMERATIONS_FOLDER, SCHEMA_FOLDER};
use crate::array::snapshot::DEAD_AFTER_MS;
use crate::array::window::TimestampMs;
use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::{parse_ignore, staged_array};
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::storage::{Listing, STAGED_SUFFIX, Storage};

const COMMITS_FOLDER: &str = "__commits";
/// The folders that mark the place of an array without a schema.
const BEGUN: [&str; 3] = [SCHEMA_FOLDER, COMMITS_FOLDER, "__fragments"];

/// The announcement of a commit in an array that has no schema yet.
#[derive(Debug)]
pub(crate) struct CreationAnnouncement {
    /// The path of the announcement's file, relative to the array.
    pub path: String,
    /// When the announcement was put, in ms.
    pub time: u64,
    /// The listed commit files that exist, with their sizes in bytes.
    pub commits: Vec<(String, u64)>,
}

/// The remains of interrupted creations.
#[derive(Debug, Default)]
pub(crate) struct CreationRemains {
    /// The announcements. Each one is the last file of its creation to be removed.
    pub announcements: Vec<CreationAnnouncement>,
}

impl CreationRemains {
    /// The remains in a folder without a schema.
    ///
    /// # Errors
    /// The folder has commits that no creation has announced, or the store fails.
    pub(crate) async fn of(storage: &Storage) -> Result<Self> {
        let listing = storage.list(COMMITS_FOLDER).await?;
        let mut announcements = Vec::new();
        for file in listing.named_files() {
            if staged_array(&file.name).is_none() {
                continue;
            }
            let path = format!("{COMMITS_FOLDER}/{}", file.name);
            let listed = match storage.read(&path).await {
                Ok(bytes) => parse_ignore(&bytes)?,
                // The creation of the announcement has ended.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let there = |file: &&crate::storage::FileInfo| {
                let path = format!("{COMMITS_FOLDER}/{}", file.name);
                listed.contains(&path)
            };
            let commits = listing.files.iter().filter(there);
            let commits =
                commits.map(|file| (format!("{COMMITS_FOLDER}/{}", file.name), file.bytes));
            announcements.push(CreationAnnouncement {
                path,
                time: u64::try_from(file.modified_us / 1000).unwrap_or(0),
                commits: commits.collect(),
            });
        }
        let is_announced = |path: &String| {
            let mut commits = announcements.iter().flat_map(|a| &a.commits);
            commits.any(|(commit, _)| commit == path)
        };
        let mut others = listing
            .named_files()
            .filter(|file| !file.name.ends_with(STAGED_SUFFIX))
            .map(|file| format!("{COMMITS_FOLDER}/{}", file.name));
        match others.find(|path| !is_announced(path)) {
            None => Ok(Self { announcements }),
            Some(commit) => Err(Error::not_an_array(format!(
                "the folder holds no schema, but {commit}: these are the remains of an array, which a new one must not mix with; \
                 choose another folder"
            ))),
        }
    }

    /// Fails if one of the creations may still be running.
    pub(super) fn check_dead(&self) -> Result<()> {
        let now = TimestampMs::now().0;
        let is_young = |a: &&CreationAnnouncement| now.saturating_sub(a.time) <= DEAD_AFTER_MS;
        match self.announcements.iter().find(is_young) {
            None => Ok(()),
            Some(young) => Err(Error::conflict(format!(
                "another writer is creating an array here, or was interrupted less than {} seconds ago ({}): run the statement \
                 again later",
                DEAD_AFTER_MS / 1000,
                young.path
            ))),
        }
    }

    /// Removes the commits, and then their announcements. Their fragments stay, but nothing commits them any longer.
    pub(super) async fn remove(&self, storage: &Storage) -> Result<()> {
        for announcement in &self.announcements {
            for (commit, _) in &announcement.commits {
                storage.remove_file(commit).await?;
            }
            storage.remove_file(&announcement.path).await?;
        }
        Ok(())
    }
}

/// Whether a creation of an array has begun in a folder, and hasn't put a schema.
///
/// # Errors
/// The store fails.
pub(crate) async fn is_begun(storage: &Storage, root: &Listing) -> Result<bool> {
    let is_there = |name: &&str| root.folders.iter().any(|folder| folder == name);
    let is_old = root.files.iter().any(|file| file.name == OLD_SCHEMA_NAME);
    Ok(BEGUN.iter().any(is_there) && !is_old && !has_schema(storage, root).await?)
}

/// Whether the folder of schemas holds anything besides enumerations.
pub(super) async fn has_schema(storage: &Storage, root: &Listing) -> Result<bool> {
    if !root.folders.iter().any(|name| name == SCHEMA_FOLDER) {
        return Ok(false);
    }
    let listing = storage.list(SCHEMA_FOLDER).await?;
    let mut folders = listing.folders.iter();
    let other = folders.any(|name| !ENUMERATIONS_FOLDER.ends_with(name.as_str()));
    Ok(listing.named_files().next().is_some() || other)
}
