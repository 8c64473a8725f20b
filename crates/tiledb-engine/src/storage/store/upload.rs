//! A file that grows piece by piece, in bounded memory.
//!
//! A local file is appended to; a store behind a network receives parts of one size. An upload belongs to a fragment, which
//! nobody reads before its commit, so it needs no name of its own while it is unfinished. While parts are on the way, the next ones
//! are collected, as far as the way to the store and the memory allow. The subtle thing: a store may lose
//! the answer to the completion of an upload, and then says that there is no such upload; the size of the object tells.
//! Parts of an upload that is never completed cost money until it is aborted, so dropping one aborts it.

use std::fs::File;
use std::path::PathBuf;
use std::{io, mem};

use bytes::{Bytes, BytesMut};
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};

use super::Storage;
use crate::error::{Error, Result};
use crate::storage::file_write::{self, CreateOutcome};
use crate::storage::request_log::RequestKind;

/// The size of the parts of an object; stores want at least 5 MiB.
const PART_BYTES: usize = 8 << 20;
/// The bytes of parts that may be on the way to a store, of all uploads, whatever is known of the way.
const SENDING_BYTES: u64 = 2 * PART_BYTES as u64;
/// Bytes of a local file that are written at a time.
const FILE_PIECE_BYTES: usize = 1 << 20;
/// After so many bytes, a local file begins to go to the disk.
const SYNC_BYTES: u64 = 4 << 20;

/// A file that grows.
#[derive(Debug)]
pub struct Upload {
    storage: Storage,
    file: String,
    written: u64,
    pieces: Vec<Bytes>,
    waiting_bytes: usize,
    target: UploadTarget,
    /// Bytes of a local file for which nobody has asked the disk yet.
    unsynced: u64,
    syncing: Option<JoinHandle<io::Result<()>>>,
    /// Parts of an object that are on the way.
    sending: JoinSet<Result<()>>,
}

/// Where the bytes go.
#[derive(Debug)]
pub(super) enum UploadTarget {
    /// A new file on a disk of this machine.
    Disk(PathBuf),
    /// An open file; `None` while a thread appends to it.
    File(Option<File>),
    /// An object, which is created in one request if it is small.
    Object,
    /// Parts of an object.
    Parts(Box<dyn MultipartUpload>),
    /// Nowhere any longer.
    Done,
}

/// A file that has all its bytes; a local one may still have to be synced.
#[derive(Debug)]
pub struct Uploaded {
    /// The size.
    pub bytes: u64,
    open: Option<File>,
}

impl Uploaded {
    /// The open file, if it still has to be synced.
    pub(super) fn into_open(self) -> Option<File> {
        self.open
    }
}

impl Upload {
    pub(super) fn new(storage: Storage, file: String) -> Self {
        let target = of_files!(storage, files => files.upload_target(&file));
        Self {
            storage,
            file,
            written: 0,
            pieces: Vec::new(),
            waiting_bytes: 0,
            target,
            unsynced: 0,
            syncing: None,
            sending: JoinSet::new(),
        }
    }

    /// Bytes appended so far.
    pub fn bytes(&self) -> u64 {
        self.written
    }

    /// Bytes that wait in memory.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The store fails.
    pub async fn append(&mut self, bytes: Bytes) -> Result<()> {
        self.written += bytes.len() as u64;
        self.waiting_bytes += bytes.len();
        self.pieces.push(bytes);
        match &self.target {
            UploadTarget::Disk(_) | UploadTarget::File(_) => {
                if self.waiting_bytes >= FILE_PIECE_BYTES {
                    self.write_pieces().await?;
                }
            }
            UploadTarget::Object | UploadTarget::Parts(_) | UploadTarget::Done => {
                if self.waiting_bytes >= PART_BYTES {
                    self.put_parts().await?;
                }
            }
        }
        Ok(())
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The store fails.
    pub async fn finish(mut self) -> Result<Uploaded> {
        let bytes = self.written;
        if let UploadTarget::Disk(_) | UploadTarget::File(_) = self.target {
            self.write_pieces().await?;
            self.end_sync().await?;
            let UploadTarget::File(open) = mem::replace(&mut self.target, UploadTarget::Done)
            else {
                return Err(Error::internal("a written file is not open"));
            };
            return Ok(Uploaded { bytes, open });
        }
        if matches!(self.target, UploadTarget::Parts(_)) {
            if self.waiting_bytes > 0 {
                self.put_part(self.waiting_bytes).await?;
            }
            self.complete().await?;
        } else {
            let whole = self.take_waiting(self.waiting_bytes);
            let ticket = self
                .storage
                .start(RequestKind::Put, &self.file, None, Some(bytes));
            let created = self.storage.put(&self.file, whole).await?;
            ticket.finish(bytes);
            if created == CreateOutcome::Exists {
                self.check_size().await?;
            }
        }
        Ok(Uploaded { bytes, open: None })
    }

    /// Gives up what the store holds of an unfinished object.
    ///
    /// # Errors
    /// The store fails.
    pub async fn abort(mut self) -> Result<()> {
        self.sending.shutdown().await;
        if let UploadTarget::Parts(mut parts) = mem::replace(&mut self.target, UploadTarget::Done) {
            let aborted = parts.abort().await;
            aborted.map_err(|error| self.storage.failed("abort", &self.file, error))?;
        }
        Ok(())
    }

    async fn write_pieces(&mut self) -> Result<()> {
        let (storage, name) = (self.storage.clone(), self.file.clone());
        let failed = |error| storage.write_failed(&name, error);
        let file = match &mut self.target {
            UploadTarget::Disk(path) => {
                let begun = file_write::begin(mem::take(path)).await;
                Some(begun.map_err(failed)?)
            }
            UploadTarget::File(file) => file.take(),
            UploadTarget::Object | UploadTarget::Parts(_) | UploadTarget::Done => None,
        };
        let file = file.ok_or_else(|| Error::internal("a file is written to after a failure"))?;
        let ticket = storage.start(
            RequestKind::Put,
            &name,
            None,
            Some(self.waiting_bytes as u64),
        );
        let pieces = mem::take(&mut self.pieces);
        let written = file_write::append(file, pieces).await.map_err(failed);
        self.target = UploadTarget::File(None);
        let written = written?;
        ticket.finish(self.waiting_bytes as u64);
        self.unsynced = self.unsynced.saturating_add(self.waiting_bytes as u64);
        self.waiting_bytes = 0;
        let is_busy = self
            .syncing
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if self.unsynced >= SYNC_BYTES && !is_busy {
            self.end_sync().await?;
            self.syncing = file_write::begin_sync(&written).map_err(failed)?;
            self.unsynced = 0;
        }
        self.target = UploadTarget::File(Some(written));
        Ok(())
    }

    /// Waits for the disk, which may tell of an error only once.
    async fn end_sync(&mut self) -> Result<()> {
        let Some(syncing) = self.syncing.take() else {
            return Ok(());
        };
        let synced = match syncing.await {
            Ok(synced) => synced,
            Err(error) => Err(io::Error::from(error)),
        };
        synced.map_err(|error| self.storage.write_failed(&self.file, error))
    }

    /// Sends all whole parts that wait.
    async fn put_parts(&mut self) -> Result<()> {
        if !matches!(self.target, UploadTarget::Parts(_)) {
            let path = self.storage.location.path_of(&self.file);
            let begun = self
                .storage
                .store()
                .put_multipart(&path)
                .await
                .map_err(|error| self.storage.failed("write", &self.file, error))?;
            self.target = UploadTarget::Parts(begun);
        }
        while self.waiting_bytes >= PART_BYTES {
            self.put_part(PART_BYTES).await?;
        }
        Ok(())
    }

    /// Sends a part, and doesn't wait for the answer while more can be on the way.
    async fn put_part(&mut self, bytes: usize) -> Result<()> {
        while !self.room_for_another() {
            self.one_sent().await?;
        }
        let memory = self.storage.memory.as_ref();
        let grant = memory.map(|memory| memory.reserve(bytes)).transpose();
        let goes_alone = grant.is_err();
        let part = self.take_waiting(bytes);
        let UploadTarget::Parts(parts) = &mut self.target else {
            return Err(Error::internal("a part belongs to an upload of parts"));
        };
        let put = parts.put_part(PutPayload::from_bytes(part));
        let (storage, file, bytes) = (self.storage.clone(), self.file.clone(), bytes as u64);
        let on_the_way = storage.location.link().map(|link| link.begin(bytes));
        self.sending.spawn(async move {
            let _until_sent = (grant.ok(), on_the_way);
            let ticket = storage.start(RequestKind::Put, &file, None, Some(bytes));
            put.await
                .map_err(|error| storage.failed("write", &file, error))?;
            ticket.finish(bytes);
            Ok(())
        });
        if goes_alone {
            // The next part can only wait in the memory of this one.
            self.all_sent().await?;
        }
        Ok(())
    }

    /// Whether another part may go although the answers to others are missing.
    fn room_for_another(&self) -> bool {
        if self.sending.is_empty() {
            return true;
        }
        let asked = self.storage.location.link().map(|link| link.asked_bytes());
        let room = self.storage.link_room_bytes().unwrap_or_default();
        room > 0 || asked.is_some_and(|asked| asked < SENDING_BYTES)
    }

    /// Waits for the answers to all parts that were sent.
    async fn all_sent(&mut self) -> Result<()> {
        while !self.sending.is_empty() {
            self.one_sent().await?;
        }
        Ok(())
    }

    /// Waits for the answer to a part.
    async fn one_sent(&mut self) -> Result<()> {
        let Some(sent) = self.sending.join_next().await else {
            return Ok(());
        };
        sent.map_err(|error| Error::internal(format!("a part was not sent: {error}")))?
    }

    async fn complete(&mut self) -> Result<()> {
        self.all_sent().await?;
        let UploadTarget::Parts(parts) = &mut self.target else {
            return Err(Error::internal("only an upload of parts is completed"));
        };
        let completed = parts.complete().await;
        if let Err(error) = completed
            && self.check_size().await.is_err()
        {
            return Err(self.storage.failed("write", &self.file, error));
        }
        self.target = UploadTarget::Done;
        Ok(())
    }

    /// Fails unless the object has all bytes.
    async fn check_size(&mut self) -> Result<()> {
        let (file, bytes) = (&self.file, self.written);
        let found = self.storage.head(file).await?.map(|info| info.bytes);
        if found == Some(bytes) {
            return Ok(());
        }
        Err(self.storage.storage_error(format!(
            "{file} has {found:?} bytes after {bytes} were written"
        )))
    }

    /// The first bytes that wait, in one piece.
    fn take_waiting(&mut self, bytes: usize) -> Bytes {
        self.waiting_bytes -= bytes;
        if let [_] = self.pieces.as_slice()
            && self.waiting_bytes == 0
        {
            return self.pieces.pop().unwrap_or_default();
        }
        let mut taken = BytesMut::with_capacity(bytes);
        let mut rest = Vec::new();
        for mut piece in mem::take(&mut self.pieces) {
            let wanted = piece.len().min(bytes - taken.len());
            taken.extend_from_slice(&piece.split_to(wanted));
            if !piece.is_empty() {
                rest.push(piece);
            }
        }
        self.pieces = rest;
        taken.freeze()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.sending.abort_all();
        let UploadTarget::Parts(mut parts) = mem::replace(&mut self.target, UploadTarget::Done)
        else {
            return;
        };
        let uri = self.storage.location.uri_of(&self.file);
        let Ok(runtime) = Handle::try_current() else {
            log::warn!("{uri}: the parts of an unfinished upload stay in the store");
            return;
        };
        runtime.spawn(async move {
            if let Err(error) = parts.abort().await {
                log::warn!("{uri}: the parts of an unfinished upload stay in the store: {error}");
            }
        });
    }
}

impl Storage {
    /// Waits until finished files in `folder` are safe from a power cut; stores behind a network are when they answer.
    ///
    /// # Errors
    /// The file system fails.
    pub async fn sync(&self, files: Vec<Uploaded>, folder: &str) -> Result<()> {
        of_files!(self, place => place.sync(files, folder).await)
    }
}
