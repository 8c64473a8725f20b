//! The announcement of a change that writes no fragment. Other writers must see it before its commit, just as they see a
//! complete fragment.
//!
//! A statement writes its announcement before it looks for changes of others, and removes it at the end. The subtle part: if a
//! statement is cancelled, its file is removed in the background, and a file that stays counts for 20 seconds.

use std::mem;

use tokio::runtime::Handle;

use super::commit::FragmentRemoval;
use super::delete::NewDeleteFile;
use crate::array::window::TimestampMs;
use crate::error::Result;
use crate::format::commit::{STAGED_DELETE, STAGED_VACUUM};
use crate::format::names::TimestampedName;
use crate::storage::Storage;

/// The folder of commits.
const COMMITS_FOLDER: &str = "__commits";

/// An announced change.
#[derive(Debug)]
pub struct ChangeAnnouncement {
    storage: Storage,
    /// The path of the file, relative to the array; empty once the file is removed.
    file: String,
    /// The name of the change.
    pub(super) name: TimestampedName,
    /// When the change was announced.
    pub(super) since: TimestampMs,
}

impl ChangeAnnouncement {
    /// Announces a delete.
    ///
    /// # Errors
    /// The store fails.
    pub async fn of_delete(storage: &Storage, delete: &NewDeleteFile) -> Result<Self> {
        let key = storage.encryption_key().cloned();
        let bytes = delete.encode(key.as_ref())?;
        let announcement = Self::new(storage, &delete.path, STAGED_DELETE)?;
        storage.create_file(&announcement.file, bytes).await?;
        Ok(announcement)
    }

    /// Announces that fragments will be hidden.
    ///
    /// # Errors
    /// The store fails.
    pub async fn of_removal(storage: &Storage, removal: &FragmentRemoval) -> Result<Self> {
        let announcement = Self::new(storage, &removal.name, STAGED_VACUUM)?;
        let list = removal.list();
        storage.create_file(&announcement.file, list).await?;
        Ok(announcement)
    }

    fn new(storage: &Storage, name: &str, suffix: &str) -> Result<Self> {
        let name = TimestampedName::parse(name)?;
        Ok(Self {
            storage: storage.clone(),
            file: format!("{COMMITS_FOLDER}/{}{suffix}", name.name),
            name,
            since: TimestampMs::now(),
        })
    }

    /// The time of the change.
    pub fn time(&self) -> TimestampMs {
        TimestampMs(self.name.t1)
    }

    /// Removes the announcement of a change that was committed or won't be.
    pub async fn end(mut self) {
        let file = mem::take(&mut self.file);
        remove(&self.storage, &file).await;
    }
}

impl Drop for ChangeAnnouncement {
    fn drop(&mut self) {
        let file = mem::take(&mut self.file);
        if file.is_empty() {
            return;
        }
        let storage = self.storage.clone();
        match Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move { remove(&storage, &file).await });
            }
            Err(_) => log::warn!(
                "{}: the file {file} of a dropped statement stays",
                storage.uri()
            ),
        }
    }
}

async fn remove(storage: &Storage, file: &str) {
    if let Err(error) = storage.remove_file(file).await {
        let uri = storage.uri();
        log::warn!("{uri}: the file {file} of a statement that has ended stays: {error}");
    }
}
