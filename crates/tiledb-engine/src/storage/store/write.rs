//! Creation and removal of files.
//!
//! No file is overwritten by one with another meaning: each has its own name, which nobody else can have chosen. So if a store
//! answers "already exists", it has received the file, and only the answer to an earlier attempt was lost. The bytes are
//! compared to be sure. [`Storage::replace_file`] changes the bytes but not the meaning.

use bytes::Bytes;
use object_store::{PutMode, PutOptions, PutPayload};

use super::{Storage, Upload};
use crate::error::{Error, Result};
use crate::storage::file_write::CreateOutcome;

/// The end of the name of a local file that waits for its own, in the folder of the array.
pub const STAGED_SUFFIX: &str = ".staged";

impl Storage {
    /// Creates a file with all its bytes at once: other readers see the whole file or none. On a local disk the file has
    /// survived a power cut when this returns.
    ///
    /// # Errors
    /// A file of this name with other bytes exists, or the store fails.
    pub async fn create_file(&self, file: &str, bytes: Bytes) -> Result<()> {
        let created = of_files!(self, files => files.create(file, bytes.clone()).await)?;
        if created == CreateOutcome::Exists
            && self.clone().without_disk_cache().read(file).await? != bytes
        {
            let uri = self.location.uri_of(file);
            return Err(Error::already_exists(format!(
                "{uri} exists with other contents"
            )));
        }
        Ok(())
    }

    /// Replaces a file's bytes atomically: readers see either the old bytes or the new ones. Both must have the same meaning,
    /// because readers cache what they have read. `false` if the file is gone or no longer holds `old`; then nothing changes.
    ///
    /// # Errors
    /// The store fails.
    pub async fn replace_file(&self, file: &str, old: Bytes, new: Bytes) -> Result<bool> {
        of_files!(self, files => files.replace(file, old, new).await)
    }

    /// Begins a file that grows; readers may see parts of it until it is finished.
    pub fn upload(&self, file: &str) -> Upload {
        Upload::new(self.clone(), file.to_owned())
    }

    /// Creates folders on a local disk, where libtiledb expects them; object stores have none.
    ///
    /// # Errors
    /// The file system fails.
    pub async fn create_folders(&self, folders: &[&str]) -> Result<()> {
        of_files!(self, files => files.create_folders(folders).await)
    }

    /// Removes a file; one that does not exist is removed already.
    ///
    /// # Errors
    /// The store fails.
    pub async fn remove_file(&self, file: &str) -> Result<()> {
        of_files!(self, files => files.remove_file(file).await)
    }

    /// Removes files, many in one request if the store can; one that does not exist is removed already. After an error, some of them
    /// may be left.
    ///
    /// # Errors
    /// The store fails.
    pub async fn remove_files(&self, files: &[String]) -> Result<()> {
        of_files!(self, place => place.remove_files(files).await)
    }

    /// Removes a folder and all that is in it; one that does not exist is removed already.
    ///
    /// # Errors
    /// The store fails.
    pub async fn remove_folder(&self, folder: &str) -> Result<()> {
        if folder.trim_matches('/').is_empty() {
            return Err(Error::internal(
                "an array is not removed by its own storage",
            ));
        }
        of_files!(self, files => files.remove_folder(folder).await)
    }

    /// Creates an object in one request.
    pub(super) async fn put(&self, file: &str, bytes: Bytes) -> Result<CreateOutcome> {
        let path = self.location.path_of(file);
        let options = |mode| PutOptions {
            mode,
            ..PutOptions::default()
        };
        let put = |mode| {
            let payload = PutPayload::from_bytes(bytes.clone());
            self.store().put_opts(&path, payload, options(mode))
        };
        let answer = match put(PutMode::Create).await {
            // Some stores cannot refuse to overwrite. No other writer has chosen this name.
            Err(
                object_store::Error::NotImplemented { .. }
                | object_store::Error::NotSupported { .. },
            ) => put(PutMode::Overwrite).await,
            answer => answer,
        };
        match answer {
            Ok(_) => Ok(CreateOutcome::New),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(CreateOutcome::Exists),
            Err(error) => Err(self.failed("write", file, error)),
        }
    }
}

/// The name under which a file waits for its own, in the folder of the array, where every reader ignores it. It holds the
/// whole path of the file, because files of different folders may have the same name.
pub(super) fn staging_name(file: &str) -> String {
    format!("{}{STAGED_SUFFIX}", file.replace('/', "."))
}
