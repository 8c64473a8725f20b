//! The folder of a fragment that isn't visible yet, and its removal if the fragment never becomes visible.
//!
//! A statement can fail, or its caller can drop it in the middle. Either way the folder is removed, unless the fragment was
//! offered for a commit: a store that fails then may have committed it, so the folder stays, and `vacuum` decides.

use std::mem;

use tokio::runtime::Handle;

use crate::storage::Storage;

/// The folder of a fragment from its first file until its commit; dropping it removes it in the background.
#[derive(Debug)]
pub(super) struct StagingFolder {
    storage: Storage,
    /// Relative to the array.
    path: String,
    /// There may be files in it, and no commit that names it.
    removable: bool,
}

impl StagingFolder {
    /// A folder that nothing has been written to.
    pub(super) fn new(storage: &Storage, path: String) -> Self {
        Self {
            storage: storage.clone(),
            path,
            removable: false,
        }
    }

    /// The path, relative to the array.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Records that the first file is about to be written.
    pub(super) fn begin(&mut self) {
        self.removable = true;
    }

    /// Records that the fragment may become visible from now on, so that its folder stays.
    pub(super) fn keep(&mut self) {
        self.removable = false;
    }

    /// Removes the folder, and waits for that. If the store refuses, the folder stays, and a warning is logged.
    pub(super) async fn remove(mut self) {
        if mem::take(&mut self.removable) {
            remove(&self.storage, &self.path).await;
        }
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        if !mem::take(&mut self.removable) {
            return;
        }
        let (storage, path) = (self.storage.clone(), mem::take(&mut self.path));
        match Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move { remove(&storage, &path).await });
            }
            Err(_) => log::warn!(
                "{}: the folder {path} of a dropped statement stays",
                storage.uri()
            ),
        }
    }
}

async fn remove(storage: &Storage, path: &str) {
    if let Err(error) = storage.remove_folder(path).await {
        let uri = storage.uri();
        log::warn!("{uri}: the folder {path} of a failed statement stays: {error}");
    }
}
