//! What a [`Storage`](super::Storage) needs of the place where the files of an array are.
//!
//! There are two places: a disk of this machine ([`DiskFiles`](super::disk::DiskFiles)), and an object store
//! ([`ObjectFiles`](super::objects::ObjectFiles)). A disk reads several files in one step, syncs what it writes, and
//! records when a folder changed. All names are relative to the array's folder.

use std::ops::Range;

use bytes::Bytes;

use super::read::FileSuffix;
use super::upload::{UploadTarget, Uploaded};
use crate::error::Result;
use crate::storage::coalesce::RequestPlan;
use crate::storage::file_write::CreateOutcome;
use crate::storage::listing::{DatedListing, FolderState, Listing, ListingReuse};

/// Reads, writes and lists the files of an array.
pub(super) trait FileAccess {
    /// Reads a whole file.
    fn read(&self, file: &str) -> impl Future<Output = Result<Bytes>> + Send;

    /// Reads the last `len` bytes of a file, at least one, or all if it is shorter.
    fn read_suffix(&self, file: &str, len: u64) -> impl Future<Output = Result<FileSuffix>> + Send;

    /// Reads the last `len` bytes of each file.
    fn read_suffixes(
        &self,
        files: &[String],
        len: u64,
    ) -> impl Future<Output = Vec<Result<FileSuffix>>> + Send;

    /// Reads the ranges of a file by a plan.
    fn read_planned(
        &self,
        file: &str,
        ranges: &[Range<u64>],
        plan: &RequestPlan,
    ) -> impl Future<Output = Result<Vec<Bytes>>> + Send;

    /// Reads the ranges of several files, each by its plan.
    fn read_files(
        &self,
        files: &[(String, Vec<Range<u64>>)],
        plans: &[RequestPlan],
    ) -> impl Future<Output = Result<Vec<Vec<Bytes>>>> + Send;

    /// Creates a file with all its bytes at once.
    fn create(
        &self,
        file: &str,
        bytes: Bytes,
    ) -> impl Future<Output = Result<CreateOutcome>> + Send;

    /// Replaces the bytes of a file atomically; `false` if the file is gone or doesn't hold `old`.
    fn replace(
        &self,
        file: &str,
        old: Bytes,
        new: Bytes,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Where the bytes of a growing file go.
    fn upload_target(&self, file: &str) -> UploadTarget;

    /// Waits until finished files in a folder are safe from a power cut.
    fn sync(&self, files: Vec<Uploaded>, folder: &str) -> impl Future<Output = Result<()>> + Send;

    /// Creates folders, if there are any in this place.
    fn create_folders(&self, folders: &[&str]) -> impl Future<Output = Result<()>> + Send;

    /// Removes a file.
    fn remove_file(&self, file: &str) -> impl Future<Output = Result<()>> + Send;

    /// Removes files. Those that don't exist are removed already.
    fn remove_files(&self, files: &[String]) -> impl Future<Output = Result<()>> + Send;

    /// Removes a folder and all that is in it.
    fn remove_folder(&self, folder: &str) -> impl Future<Output = Result<()>> + Send;

    /// Lists a folder, and keeps the listing if it may be reused.
    fn list(
        &self,
        folder: &str,
        keep: Option<ListingReuse>,
    ) -> impl Future<Output = Result<DatedListing>> + Send;

    /// Lists a folder that was listed before. An earlier listing shows how to ask for all pages at once.
    fn list_again(
        &self,
        folder: &str,
        before: &Listing,
    ) -> impl Future<Output = Result<DatedListing>> + Send;

    /// The current states of folders.
    fn stamps<const N: usize>(
        &self,
        folders: [&str; N],
    ) -> impl Future<Output = Vec<FolderState>> + Send;
}
