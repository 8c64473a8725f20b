//! The files of an array on a disk of this machine.
//!
//! All ranges of a file, and several small files, are read in one step on one thread. What is written has survived a power
//! cut when a request returns; a file that grows is synced with others at the end.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::future::try_join_all;

use super::Storage;
use super::access::FileAccess;
use super::read::FileSuffix;
use super::requests::{RequestTicket, finish_ranges};
use super::upload::{UploadTarget, Uploaded};
use super::write::staging_name;
use crate::error::{Error, Result};
use crate::storage::coalesce::RequestPlan;
use crate::storage::file_read::{self, FileRead, WantedPart};
use crate::storage::file_write::{self, CreateOutcome};
use crate::storage::listing::{
    DatedListing, FolderStamp, FolderState, Listing, ListingReuse, LocalListing,
};
use crate::storage::request_log::RequestKind;

/// One thread reads requests to several files that have at most so many bytes together: waking another thread takes about as
/// long.
const TOGETHER_BYTES: u64 = 128 << 10;

/// The files of an array on a disk of this machine.
pub(super) struct DiskFiles<'a> {
    pub storage: &'a Storage,
}

impl FileAccess for DiskFiles<'_> {
    async fn read(&self, file: &str) -> Result<Bytes> {
        let ticket = self.storage.start(RequestKind::Get, file, None, None);
        let found = self.open(file, WantedPart::Whole).await?;
        let bytes = found.buffers.into_iter().next().unwrap_or_default();
        ticket.finish(bytes.len() as u64);
        Ok(bytes)
    }

    async fn read_suffix(&self, file: &str, len: u64) -> Result<FileSuffix> {
        let ticket = self
            .storage
            .start(RequestKind::Suffix, file, None, Some(len));
        let suffix = suffix_of(self.open(file, WantedPart::End(len)).await?);
        ticket.finish(suffix.bytes.len() as u64);
        Ok(suffix)
    }

    async fn read_suffixes(&self, files: &[String], len: u64) -> Vec<Result<FileSuffix>> {
        if files.is_empty() {
            return Vec::new();
        }
        let suffix = |file: &String, read: Result<FileRead>| {
            let ticket = self
                .storage
                .start(RequestKind::Suffix, file, None, Some(len));
            let suffix = suffix_of(read?);
            ticket.finish(suffix.bytes.len() as u64);
            Ok(suffix)
        };
        let paths = files.iter().map(|file| self.path(file));
        let paths = match paths.collect::<Result<Vec<_>>>() {
            Ok(paths) => paths,
            Err(_) => {
                // One of the files has no path, and its error belongs to it alone.
                let reads = files.iter().map(|file| self.read_suffix(file, len));
                return futures::future::join_all(reads).await;
            }
        };
        let ends = paths.into_iter().map(|path| (path, WantedPart::End(len)));
        match file_read::open_all(ends.collect(), self.storage.buffers()).await {
            Ok(ends) => {
                let files = files.iter().zip(ends);
                let read = |(file, end): (&String, io::Result<FileRead>)| {
                    suffix(
                        file,
                        end.map_err(|error| self.storage.io_failed(file, error)),
                    )
                };
                files.map(read).collect()
            }
            Err(error) => {
                let message = error.to_string();
                let failed = |file: &String| {
                    let error = io::Error::new(error.kind(), message.clone());
                    suffix(file, Err(self.storage.io_failed(file, error)))
                };
                files.iter().map(failed).collect()
            }
        }
    }

    async fn read_planned(
        &self,
        file: &str,
        ranges: &[Range<u64>],
        plan: &RequestPlan,
    ) -> Result<Vec<Bytes>> {
        if plan.requests.is_empty() {
            return plan.slices(&[]);
        }
        let tickets = self.storage.start_ranges(file, &plan.requests);
        let found = self
            .open(file, WantedPart::Ranges(plan.requests.clone()))
            .await?;
        let buffers = self.all_of(file, found, plan.requests.len(), ranges)?;
        finish_ranges(tickets, &buffers);
        plan.slices(&buffers)
    }

    async fn read_files(
        &self,
        files: &[(String, Vec<Range<u64>>)],
        plans: &[RequestPlan],
    ) -> Result<Vec<Vec<Bytes>>> {
        // Requests also hold what lies between near ranges.
        let requests = plans.iter().flat_map(|plan| &plan.requests);
        let bytes = requests.fold(0_u64, |sum, r| sum.saturating_add(r.end - r.start));
        if files.len() < 2 || bytes > TOGETHER_BYTES {
            let reads = files
                .iter()
                .zip(plans)
                .map(|((file, ranges), plan)| self.read_planned(file, ranges, plan));
            return try_join_all(reads).await;
        }
        let mut wanted = Vec::with_capacity(files.len());
        for ((file, _), plan) in files.iter().zip(plans) {
            if !plan.requests.is_empty() {
                wanted.push((self.path(file)?, WantedPart::Ranges(plan.requests.clone())));
            }
        }
        let mut reads = file_read::open_all(wanted, self.storage.buffers())
            .await
            .map_err(|e| self.storage.io_failed("", e))?
            .into_iter();
        let mut slices = Vec::with_capacity(files.len());
        for ((file, asked), plan) in files.iter().zip(plans) {
            let tickets = self.storage.start_ranges(file, &plan.requests);
            let buffers = if plan.requests.is_empty() {
                Vec::new()
            } else {
                let read = reads.next();
                let read = read.ok_or_else(|| Error::internal("a file was not read"))?;
                let found = read.map_err(|error| self.storage.io_failed(file, error))?;
                self.all_of(file, found, plan.requests.len(), asked)?
            };
            finish_ranges(tickets, &buffers);
            slices.push(plan.slices(&buffers)?);
        }
        Ok(slices)
    }

    async fn create(&self, file: &str, bytes: Bytes) -> Result<CreateOutcome> {
        let ticket = self.put_ticket(file, bytes.len());
        let len = bytes.len() as u64;
        let (path, staging) = (self.path(file)?, self.path(&staging_name(file))?);
        let created = file_write::create(path, staging, bytes)
            .await
            .map_err(|error| self.storage.write_failed(file, error))?;
        ticket.finish(len);
        Ok(created)
    }

    async fn replace(&self, file: &str, old: Bytes, new: Bytes) -> Result<bool> {
        let ticket = self.put_ticket(file, new.len());
        let len = new.len() as u64;
        let (path, staging) = (self.path(file)?, self.path(&staging_name(file))?);
        let replaced = file_write::replace(path, staging, old, new)
            .await
            .map_err(|error| self.storage.write_failed(file, error))?;
        ticket.finish(len);
        Ok(replaced)
    }

    fn upload_target(&self, file: &str) -> UploadTarget {
        match self.path(file) {
            Ok(path) => UploadTarget::Disk(path),
            // The store refuses the name when the file is written.
            Err(_) => UploadTarget::Object,
        }
    }

    async fn sync(&self, files: Vec<Uploaded>, folder: &str) -> Result<()> {
        let files = files.into_iter().filter_map(Uploaded::into_open);
        let synced = file_write::sync(files.collect(), vec![self.folder_path(folder)?]).await;
        synced.map_err(|error| self.storage.write_failed(folder, error))
    }

    async fn create_folders(&self, folders: &[&str]) -> Result<()> {
        let paths = folders.iter().map(|folder| self.folder_path(folder));
        let created = file_write::create_folders(paths.collect::<Result<_>>()?).await;
        created.map_err(|error| self.storage.write_failed("", error))
    }

    async fn remove_file(&self, file: &str) -> Result<()> {
        let ticket = self.storage.start(RequestKind::Delete, file, None, None);
        let removed = file_write::remove_file(self.path(file)?).await;
        removed.map_err(|error| self.storage.write_failed(file, error))?;
        ticket.finish(0);
        Ok(())
    }

    async fn remove_files(&self, files: &[String]) -> Result<()> {
        for file in files {
            self.remove_file(file).await?;
        }
        Ok(())
    }

    async fn remove_folder(&self, folder: &str) -> Result<()> {
        let ticket = self.storage.start(RequestKind::Delete, folder, None, None);
        let removed = file_write::remove_folder(self.folder_path(folder)?).await;
        removed.map_err(|error| self.storage.write_failed(folder, error))?;
        ticket.finish(0);
        Ok(())
    }

    async fn list(&self, folder: &str, keep: Option<ListingReuse>) -> Result<DatedListing> {
        let ticket = self.storage.start(RequestKind::List, folder, None, None);
        let local = LocalListing::of(self.folder_path(folder)?)
            .await
            .map_err(|error| self.storage.list_failed(folder, error))?;
        ticket.finish(0);
        if let Some(kept) = keep.and_then(|keep| local.kept(keep)) {
            self.storage.keep_listing(folder, kept);
        }
        Ok(local.listed)
    }

    async fn list_again(&self, folder: &str, _: &Listing) -> Result<DatedListing> {
        self.list(folder, None).await
    }

    async fn stamps<const N: usize>(&self, folders: [&str; N]) -> Vec<FolderState> {
        let paths = folders.iter().map(|folder| self.folder_path(folder).ok());
        match paths.collect::<Option<Vec<_>>>() {
            Some(paths) => FolderStamp::of_all(paths).await,
            None => Vec::new(),
        }
    }
}

impl DiskFiles<'_> {
    /// The path of a file.
    fn path(&self, file: &str) -> Result<PathBuf> {
        let path = self.storage.location.local_path(file);
        path.ok_or_else(|| self.no_path(file))
    }

    /// The path of a folder, whose name may be one that files can't have.
    fn folder_path(&self, folder: &str) -> Result<PathBuf> {
        if let Some(path) = self.storage.location.local_path(folder) {
            return Ok(path);
        }
        let inside = self.storage.location.local_path(&format!("{folder}/_"));
        let path = inside.as_deref().and_then(Path::parent);
        path.map(Path::to_owned).ok_or_else(|| self.no_path(folder))
    }

    fn no_path(&self, file: &str) -> Error {
        let uri = self.storage.location.uri_of(file);
        Error::invalid(format!("{uri} is not a usable path"))
    }

    fn put_ticket(&self, file: &str, bytes: usize) -> RequestTicket<'_> {
        let bytes = Some(bytes as u64);
        self.storage.start(RequestKind::Put, file, None, bytes)
    }

    async fn open(&self, file: &str, wanted: WantedPart) -> Result<FileRead> {
        let found = file_read::open(self.path(file)?, wanted, self.storage.buffers()).await;
        found.map_err(|error| self.storage.io_failed(file, error))
    }

    /// The buffers of so many requests to a file, which may be shorter than they ask.
    fn all_of(
        &self,
        file: &str,
        found: FileRead,
        requests: usize,
        asked: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        if found.buffers.len() == requests {
            Ok(found.buffers)
        } else {
            Err(self.storage.truncated(file, found.file_bytes, asked))
        }
    }
}

fn suffix_of(read: FileRead) -> FileSuffix {
    FileSuffix {
        bytes: read.buffers.into_iter().next().unwrap_or_default(),
        file_bytes: read.file_bytes,
    }
}
