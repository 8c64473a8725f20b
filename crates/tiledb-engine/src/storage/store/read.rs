//! Reading of files: whole, by their ends, and by ranges.
//!
//! Every read uses the store's full `get`, because its answer has the size of the object before any buffer is
//! allocated: a range beyond the end is detected without allocating for it. A store of local files gives the open file,
//! and all ranges of a call are then read together ([`file_read`]).
//!
//! The subtle thing: stores truncate a range that ends beyond the object instead of rejecting it, so the size of every
//! answer is compared with the request.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload};

use super::requests::{Ticket, finish_ranges};
use super::{IoOptions, Storage};
use crate::error::{Error, Result, ResultExt};
use crate::storage::coalesce::{self, Plan};
use crate::storage::file_read::{self, FileRead, Wanted};
use crate::storage::request_log::RequestKind;

/// One thread reads requests to several local files that have at most so many bytes together: waking another thread takes about
/// as long.
const TOGETHER_BYTES: u64 = 128 << 10;

/// The end of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suffix {
    /// The last bytes.
    pub bytes: Bytes,
    /// The size of the whole file.
    pub file_bytes: u64,
}

impl Suffix {
    fn of_file(read: FileRead) -> Self {
        Self {
            bytes: read.buffers.into_iter().next().unwrap_or_default(),
            file_bytes: read.file_bytes,
        }
    }
}

impl Storage {
    /// Reads a whole file.
    ///
    /// # Errors
    /// The file does not exist, or the store fails.
    pub async fn read(&self, file: &str) -> Result<Bytes> {
        let ticket = self.start(RequestKind::Get, file, None, None);
        if let Some(path) = self.location.local_path(file) {
            let found = self.open_file(file, path, Wanted::Whole).await?;
            let bytes = found.buffers.into_iter().next().unwrap_or_default();
            ticket.finish(bytes.len() as u64);
            return Ok(bytes);
        }
        let result = self
            .get(file, None)
            .await
            .map_err(|error| self.failed("read", file, error))?;
        let asked = result.meta.size;
        let bytes = self.body(file, result).await?;
        ticket.finish(bytes.len() as u64);
        self.check_len(file, &bytes, asked)?;
        Ok(bytes)
    }

    /// Reads one range of a file; all of it, or an error.
    ///
    /// # Errors
    /// As [`read_ranges`](Self::read_ranges).
    pub async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Bytes> {
        let slices = self.read_ranges(file, &[range]).await?;
        slices
            .into_iter()
            .next()
            .ok_or_else(|| Error::internal("one range was asked and none returned"))
    }

    /// Reads the last `len` bytes of a file, or all if it is shorter, in one request if the store can.
    ///
    /// # Errors
    /// The file does not exist, or the store fails.
    pub async fn read_suffix(&self, file: &str, len: u64) -> Result<Suffix> {
        if len == 0 {
            return self.suffix_by_size(file, len).await;
        }
        let ticket = self.start(RequestKind::Suffix, file, None, Some(len));
        if let Some(path) = self.location.local_path(file) {
            let found = self.open_file(file, path, Wanted::End(len)).await?;
            let suffix = Suffix::of_file(found);
            ticket.finish(suffix.bytes.len() as u64);
            return Ok(suffix);
        }
        let result = match self.get(file, Some(GetRange::Suffix(len))).await {
            Ok(result) => result,
            // Azure has no suffix ranges.
            Err(
                object_store::Error::NotSupported { .. }
                | object_store::Error::NotImplemented { .. },
            ) => return self.suffix_by_size(file, len).await,
            Err(error) => {
                return Err(self.suffix_failed(file, error).await);
            }
        };
        let file_bytes = result.meta.size;
        let bytes = self.body(file, result).await?;
        ticket.finish(bytes.len() as u64);
        self.check_len(file, &bytes, len.min(file_bytes))?;
        Ok(Suffix { bytes, file_bytes })
    }

    /// As [`read_suffix`](Self::read_suffix) for each file; local files are read together.
    pub async fn read_suffixes(&self, files: &[String], len: u64) -> Vec<Result<Suffix>> {
        let paths = files.iter().map(|file| self.location.local_path(file));
        let Some(paths) = paths.collect::<Option<Vec<_>>>().filter(|p| !p.is_empty()) else {
            let reads = files.iter().map(|file| self.read_suffix(file, len));
            return futures::future::join_all(reads).await;
        };
        let suffix = |file: &String, read: io::Result<FileRead>| {
            let ticket = self.start(RequestKind::Suffix, file, None, Some(len));
            let suffix = Suffix::of_file(read.map_err(|error| self.io_failed(file, error))?);
            ticket.finish(suffix.bytes.len() as u64);
            Ok(suffix)
        };
        let ends = paths.into_iter().map(|path| (path, Wanted::End(len)));
        match file_read::open_all(ends.collect()).await {
            Ok(ends) => files
                .iter()
                .zip(ends)
                .map(|(file, end)| suffix(file, end))
                .collect(),
            Err(error) => {
                let message = error.to_string();
                let failed =
                    |file| suffix(file, Err(io::Error::new(error.kind(), message.clone())));
                files.iter().map(failed).collect()
            }
        }
    }

    /// Reads ranges of a file, which may be unsorted, overlapping and empty; the result has their order. Near ranges
    /// are fetched together, and the results are slices of what was fetched, so keeping one slice keeps all of its
    /// request.
    ///
    /// # Errors
    /// The file does not exist or is too short (`Corrupt`), or the store fails.
    pub async fn read_ranges(&self, file: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let plan = self.plan(file, ranges)?;
        self.read_planned(file, ranges, &plan).await
    }

    /// As [`read_ranges`](Self::read_ranges) for each of several files, which are read side by side. If they are local and their
    /// requests are small, one thread reads them all.
    ///
    /// # Errors
    /// As [`read_ranges`](Self::read_ranges).
    pub async fn read_files(&self, files: &[(String, Vec<Range<u64>>)]) -> Result<Vec<Vec<Bytes>>> {
        let plans = files.iter().map(|(file, ranges)| self.plan(file, ranges));
        let plans = plans.collect::<Result<Vec<_>>>()?;
        // Requests also hold what lies between near ranges.
        let requests = plans.iter().flat_map(|plan| &plan.requests);
        let bytes = requests.fold(0_u64, |sum, r| sum.saturating_add(r.end - r.start));
        let paths = files.iter().map(|(file, _)| self.location.local_path(file));
        let paths = paths.collect::<Option<Vec<_>>>();
        let paths = paths.filter(|paths| paths.len() > 1 && bytes <= TOGETHER_BYTES);
        let Some(paths) = paths else {
            let reads = files.iter().zip(&plans);
            let reads = reads.map(|((file, ranges), plan)| self.read_planned(file, ranges, plan));
            return try_join_all(reads).await;
        };
        let wanted = paths.into_iter().zip(&plans);
        let wanted = wanted.filter(|(_, plan)| !plan.requests.is_empty());
        let wanted = wanted.map(|(path, plan)| (path, Wanted::Ranges(plan.requests.clone())));
        let reads = file_read::open_all(wanted.collect()).await;
        let mut reads = reads.map_err(|e| self.io_failed("", e))?.into_iter();
        let mut slices = Vec::with_capacity(files.len());
        for ((file, asked), plan) in files.iter().zip(plans) {
            let tickets = self.start_ranges(file, &plan.requests);
            let buffers = match plan.requests.is_empty() {
                true => Vec::new(),
                false => {
                    let read = reads.next();
                    let read = read.ok_or_else(|| Error::internal("a file was not read"))?;
                    let found = read.map_err(|error| self.io_failed(file, error))?;
                    self.all_of(file, found, plan.requests.len(), asked)?
                }
            };
            finish_ranges(tickets, &buffers);
            slices.push(plan.slices(&buffers)?);
        }
        Ok(slices)
    }

    fn plan(&self, file: &str, ranges: &[Range<u64>]) -> Result<Plan> {
        let IoOptions {
            gap_bytes,
            request_bytes,
            ..
        } = self.options;
        coalesce::plan(ranges, gap_bytes, request_bytes).context("file", || file.to_owned())
    }

    async fn read_planned(
        &self,
        file: &str,
        ranges: &[Range<u64>],
        plan: &Plan,
    ) -> Result<Vec<Bytes>> {
        if let Some(path) = self.location.local_path(file) {
            let buffers = self.fetch_local(file, path, &plan.requests, ranges).await?;
            return plan.slices(&buffers);
        }
        if plan.requests.len() > 1
            && self.location.is_files()
            && let Some(buffers) = self.fetch_from_file(file, &plan.requests, ranges).await?
        {
            return plan.slices(&buffers);
        }
        let requests: Vec<_> = plan
            .requests
            .iter()
            .map(|request| self.fetch(file, request.clone(), ranges))
            .collect();
        let buffers: Vec<Bytes> = futures::stream::iter(requests)
            .buffered(self.options.parallel_requests.max(1))
            .try_collect()
            .await?;
        plan.slices(&buffers)
    }

    async fn get(
        &self,
        file: &str,
        range: Option<GetRange>,
    ) -> Result<GetResult, object_store::Error> {
        let options = GetOptions {
            range,
            ..GetOptions::default()
        };
        let path = self.location.path_of(file);
        self.store().get_opts(&path, options).await
    }

    /// Sends one request. `asked` are the ranges it serves, for error messages.
    async fn fetch(&self, file: &str, request: Range<u64>, asked: &[Range<u64>]) -> Result<Bytes> {
        let len = request.end - request.start;
        let ticket = self.start(RequestKind::Range, file, Some(request.start), Some(len));
        let range = Some(GetRange::Bounded(request.clone()));
        let result = match self.get(file, range).await {
            Ok(result) => result,
            Err(error) => return Err(self.range_failed(file, error, asked).await),
        };
        if result.meta.size < request.end {
            return Err(self.truncated(file, result.meta.size, asked));
        }
        if result.range != request {
            return Err(self.storage_error(format!(
                "the store answered with bytes {:?} of {file} instead of {request:?}",
                result.range
            )));
        }
        let bytes = self.body(file, result).await?;
        ticket.finish(bytes.len() as u64);
        self.check_len(file, &bytes, len)?;
        Ok(bytes)
    }

    async fn open_file(&self, file: &str, path: PathBuf, wanted: Wanted) -> Result<FileRead> {
        let found = file_read::open(path, wanted).await;
        found.map_err(|error| self.io_failed(file, error))
    }

    /// Reads all requests from a local file.
    async fn fetch_local(
        &self,
        file: &str,
        path: PathBuf,
        requests: &[Range<u64>],
        asked: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let tickets = self.start_ranges(file, requests);
        let wanted = Wanted::Ranges(requests.to_vec());
        let found = self.open_file(file, path, wanted).await?;
        let buffers = self.all_of(file, found, requests.len(), asked)?;
        finish_ranges(tickets, &buffers);
        Ok(buffers)
    }

    /// The buffers of so many requests to a local file, which may be shorter than they ask.
    fn all_of(
        &self,
        file: &str,
        found: FileRead,
        requests: usize,
        asked: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        match found.buffers.len() == requests {
            true => Ok(found.buffers),
            false => Err(self.truncated(file, found.file_bytes, asked)),
        }
    }

    fn start_ranges(&self, file: &str, requests: &[Range<u64>]) -> Vec<Ticket<'_>> {
        let start = |r: &Range<u64>| {
            let len = Some(r.end - r.start);
            self.start(RequestKind::Range, file, Some(r.start), len)
        };
        requests.iter().map(start).collect()
    }

    /// Reads all requests from an open local file, or gives `None` if the store gives no files after all.
    async fn fetch_from_file(
        &self,
        file: &str,
        requests: &[Range<u64>],
        asked: &[Range<u64>],
    ) -> Result<Option<Vec<Bytes>>> {
        let result = self
            .get(file, None)
            .await
            .map_err(|error| self.failed("read", file, error))?;
        let GetResultPayload::File(opened, _) = result.payload else {
            return Ok(None);
        };
        if requests.iter().any(|r| r.end > result.meta.size) {
            return Err(self.truncated(file, result.meta.size, asked));
        }
        let tickets = self.start_ranges(file, requests);
        let buffers = file_read::read(opened, requests.to_vec())
            .await
            .map_err(|error| self.io_failed(file, error))?;
        finish_ranges(tickets, &buffers);
        Ok(Some(buffers))
    }

    /// The bytes of an answer.
    async fn body(&self, file: &str, result: GetResult) -> Result<Bytes> {
        let GetResultPayload::File(opened, _) = result.payload else {
            let bytes = result.bytes().await;
            return bytes.map_err(|error| self.failed("read", file, error));
        };
        let buffers = file_read::read(opened, vec![result.range])
            .await
            .map_err(|error| self.io_failed(file, error))?;
        Ok(buffers.into_iter().next().unwrap_or_default())
    }

    /// Reads the end of a file from stores that must know its size first.
    async fn suffix_by_size(&self, file: &str, len: u64) -> Result<Suffix> {
        let Some(info) = self.head(file).await? else {
            return Err(self.missing(file));
        };
        let start = info.bytes.saturating_sub(len);
        let bytes = self.read_range(file, start..info.bytes).await?;
        Ok(Suffix {
            bytes,
            file_bytes: info.bytes,
        })
    }
}
