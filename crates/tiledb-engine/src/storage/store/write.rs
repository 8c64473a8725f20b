//! Creation and removal of files.
//!
//! No file is overwritten by one with another meaning: each has its own name, which nobody else can have chosen. So if a store
//! answers "already exists", it has received the file, and only the answer to an earlier attempt was lost. The bytes are
//! compared to be sure. [`Storage::replace_file`] changes the bytes but not the meaning.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};

use super::{Storage, Upload};
use crate::error::{Error, Result};
use crate::storage::failures;
use crate::storage::file_write::{self, Created};
use crate::storage::request_log::RequestKind;

/// The end of the name of a local file that waits for its own, in the folder of the array.
pub const STAGED_SUFFIX: &str = ".staged";

impl Storage {
    /// Creates a file with all its bytes at once: other readers see the whole file or none. On a local disk the file has
    /// survived a power cut when this returns.
    ///
    /// # Errors
    /// A file of this name with other bytes exists, or the store fails.
    pub async fn create_file(&self, file: &str, bytes: Bytes) -> Result<()> {
        let ticket = self.start(RequestKind::Put, file, None, Some(bytes.len() as u64));
        let created = match self.location.local_path(file) {
            Some(path) => {
                let staging = staging_name(file);
                let staging = self
                    .location
                    .local_path(&staging)
                    .ok_or_else(|| self.no_path(file))?;
                let created = file_write::create(path, staging, bytes.clone()).await;
                created.map_err(|error| self.write_failed(file, error))?
            }
            None => self.put(file, bytes.clone()).await?,
        };
        ticket.finish(bytes.len() as u64);
        if created == Created::Exists && self.read(file).await? != bytes {
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
        let Some(path) = self.location.local_path(file) else {
            return self.replace_object(file, &old, new).await;
        };
        let ticket = self.start(RequestKind::Put, file, None, Some(new.len() as u64));
        let staging = self
            .location
            .local_path(&staging_name(file))
            .ok_or_else(|| self.no_path(file))?;
        let bytes = new.len() as u64;
        let replaced = file_write::replace(path, staging, old, new).await;
        let replaced = replaced.map_err(|error| self.write_failed(file, error))?;
        ticket.finish(bytes);
        Ok(replaced)
    }

    async fn replace_object(&self, file: &str, old: &Bytes, new: Bytes) -> Result<bool> {
        let path = self.location.path_of(file);
        let ticket = self.start(RequestKind::Head, file, None, None);
        let found = match self.store().head(&path).await {
            Ok(found) => found,
            Err(error) if failures::is_missing(&error) => return Ok(false),
            Err(error) => return Err(self.failed("look up", file, error)),
        };
        ticket.finish(0);
        if self.read(file).await? != *old {
            return Ok(false);
        }
        let ticket = self.start(RequestKind::Put, file, None, Some(new.len() as u64));
        let put = |mode| {
            let options = PutOptions {
                mode,
                ..PutOptions::default()
            };
            let payload = PutPayload::from_bytes(new.clone());
            self.store().put_opts(&path, payload, options)
        };
        let unchanged = PutMode::Update(UpdateVersion {
            e_tag: found.e_tag,
            version: found.version,
        });
        let answer = match put(unchanged).await {
            // Some stores can't compare. If someone removes the file in between, it reappears.
            Err(
                object_store::Error::NotImplemented { .. }
                | object_store::Error::NotSupported { .. },
            ) => put(PutMode::Overwrite).await,
            answer => answer,
        };
        match answer {
            Ok(_) => {
                ticket.finish(new.len() as u64);
                Ok(true)
            }
            Err(object_store::Error::Precondition { .. }) => Ok(false),
            Err(error) if failures::is_missing(&error) => Ok(false),
            Err(error) => Err(self.failed("write", file, error)),
        }
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
        let paths = folders
            .iter()
            .map(|folder| self.location.local_path(folder));
        let Some(paths) = paths.collect::<Option<Vec<_>>>() else {
            return Ok(());
        };
        let created = file_write::create_folders(paths).await;
        created.map_err(|error| self.write_failed("", error))
    }

    /// Removes a file; one that does not exist is removed already.
    ///
    /// # Errors
    /// The store fails.
    pub async fn remove_file(&self, file: &str) -> Result<()> {
        let ticket = self.start(RequestKind::Delete, file, None, None);
        match self.location.local_path(file) {
            Some(path) => {
                let removed = file_write::remove_file(path).await;
                removed.map_err(|error| self.write_failed(file, error))?;
            }
            None => match self.store().delete(&self.location.path_of(file)).await {
                Err(error) if failures::is_missing(&error) => {}
                removed => removed.map_err(|error| self.failed("remove", file, error))?,
            },
        }
        ticket.finish(0);
        Ok(())
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
        let ticket = self.start(RequestKind::Delete, folder, None, None);
        let failed = |error| self.failed("remove", folder, error);
        match self.location.local_path(folder) {
            Some(path) => {
                let removed = file_write::remove_folder(path).await;
                removed.map_err(|error| self.write_failed(folder, error))?;
            }
            None => {
                let path = self.location.path_of(folder);
                let listed = self.store().list(Some(&path)).map_ok(|meta| meta.location);
                let removed = self.store().delete_stream(listed.boxed());
                let mut removed = removed.filter(|removed| {
                    let gone = removed.as_ref().is_err_and(failures::is_missing);
                    futures::future::ready(!gone)
                });
                while removed.try_next().await.map_err(failed)?.is_some() {}
            }
        }
        ticket.finish(0);
        Ok(())
    }

    /// Creates an object in one request.
    pub(super) async fn put(&self, file: &str, bytes: Bytes) -> Result<Created> {
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
            Ok(_) => Ok(Created::New),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Created::Exists),
            Err(error) => Err(self.failed("write", file, error)),
        }
    }

    fn no_path(&self, file: &str) -> Error {
        Error::invalid(format!(
            "{} is not a usable path",
            self.location.uri_of(file)
        ))
    }
}

/// The name under which a file waits for its own, in the folder of the array, where every reader ignores it. It holds the
/// whole path of the file, because files of different folders may have the same name.
fn staging_name(file: &str) -> String {
    format!("{}{STAGED_SUFFIX}", file.replace('/', "."))
}
