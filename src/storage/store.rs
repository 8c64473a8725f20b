//! Listing and reading the files of one array.
//!
//! Every read goes through the store's full `get`, because its answer tells the size of the object before any
//! buffer is made: a range beyond the end is found without allocating for it. A store of local files hands
//! out the open file, and all ranges of a call are then read in one go ([`super::file_read`]).
//!
//! The subtle thing: stores cut a range that ends beyond the object instead of refusing it, so every
//! answer is compared with what was asked.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use object_store::{
    GetOptions, GetRange, GetResult, GetResultPayload, ObjectStore, ObjectStoreExt,
};

use super::cache::{CacheKey, MetadataCache};
use super::coalesce;
use super::failures;
use super::file_read::{self, FileRead, Wanted};
use super::listing::{FileInfo, FolderStamp, Keep, KeptListing, Listing, Stamped};
use super::location::Location;
use super::request_log::{IoCounters, Request, RequestKind, RequestLog};
use crate::error::{Error, Result, ResultExt};
use crate::filter::{EncryptionKey, KeyFingerprint};

/// How ranges become requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoOptions {
    /// Ranges at most this far apart are read together.
    pub gap_bytes: u64,
    /// Joining stops where a request would become larger than this.
    pub request_bytes: u64,
    /// So many requests of one call run at a time.
    pub parallel_requests: usize,
}

impl IoOptions {
    /// For files of this machine, where a request costs as much as reading some kilobytes.
    pub const LOCAL: Self = Self {
        gap_bytes: 64 << 10,
        request_bytes: 16 << 20,
        parallel_requests: 4,
    };
    /// For stores behind a network, where a request costs as much as reading a megabyte.
    pub const REMOTE: Self = Self {
        gap_bytes: 1 << 20,
        request_bytes: 16 << 20,
        parallel_requests: 10,
    };
}

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

/// Reads the files of one array. Cheap to clone.
#[derive(Clone)]
pub struct Storage {
    location: Location,
    options: IoOptions,
    cache: Arc<MetadataCache>,
    counters: Arc<IoCounters>,
    log: Option<Arc<RequestLog>>,
    encryption: Encryption,
}

/// The key that the array's files are read with.
#[derive(Clone, Default)]
struct Encryption {
    key: Option<Arc<EncryptionKey>>,
    /// The key is for whatever is encrypted; what is not encrypted is read all the same.
    on_demand: bool,
}

impl Storage {
    /// Reads below `location`, with the cache that the process shares.
    pub fn new(location: Location) -> Self {
        let options = if location.is_files() {
            IoOptions::LOCAL
        } else {
            IoOptions::REMOTE
        };
        Self {
            location,
            options,
            cache: MetadataCache::shared(),
            counters: Arc::default(),
            log: None,
            encryption: Encryption::default(),
        }
    }

    /// Reads below another location, all else as here.
    #[must_use]
    pub fn at(&self, location: Location) -> Self {
        let options = if location.is_files() == self.location.is_files() {
            self.options
        } else {
            Self::new(location.clone()).options
        };
        Self {
            location,
            options,
            ..self.clone()
        }
    }

    /// Uses this cache.
    #[must_use]
    pub fn with_cache(mut self, cache: Arc<MetadataCache>) -> Self {
        self.cache = cache;
        self
    }

    /// Enters every request into this log.
    #[must_use]
    pub fn with_request_log(mut self, log: Arc<RequestLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// Reads an encrypted array with this key; that the array is not encrypted is then an error.
    #[must_use]
    pub fn with_encryption_key(mut self, key: Option<Arc<EncryptionKey>>) -> Self {
        self.encryption = Encryption {
            key,
            on_demand: false,
        };
        self
    }

    /// Reads with this key if the array is encrypted.
    #[must_use]
    pub fn with_encryption_key_on_demand(mut self, key: Option<Arc<EncryptionKey>>) -> Self {
        self.encryption = Encryption {
            key,
            on_demand: true,
        };
        self
    }

    /// The key to read encrypted files with.
    pub fn encryption_key(&self) -> Option<&Arc<EncryptionKey>> {
        self.encryption.key.as_ref()
    }

    /// Whether the key, if any, is there in case the array is encrypted.
    pub fn has_key_on_demand(&self) -> bool {
        self.encryption.on_demand
    }

    /// Counts with these counters, for example those of one query.
    #[must_use]
    pub fn with_counters(mut self, counters: Arc<IoCounters>) -> Self {
        self.counters = counters;
        self
    }

    /// Replaces the options that fit the kind of store.
    #[must_use]
    pub fn with_io_options(mut self, options: IoOptions) -> Self {
        self.options = options;
        self
    }

    /// The URI of the array, for messages.
    pub fn uri(&self) -> &str {
        self.location.uri()
    }

    /// Where the array lies.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The cache of parsed metadata.
    pub fn cache(&self) -> &Arc<MetadataCache> {
        &self.cache
    }

    /// The counters in use.
    pub fn counters(&self) -> &Arc<IoCounters> {
        &self.counters
    }

    /// The key of what is parsed from `part` of `file` (0, or an offset), valid as long as the file is the one `info` tells of.
    pub fn cache_key(&self, file: &str, part: u64, info: &FileInfo) -> CacheKey {
        CacheKey::new(&self.location, file, part, Some(info), self.fingerprint())
    }

    /// As [`cache_key`](Self::cache_key), without asking the store anything: only for files that are never
    /// rewritten under the same name, as those of a fragment, whose name holds a UUID.
    pub fn cache_key_immutable(&self, file: &str, part: u64) -> CacheKey {
        CacheKey::new(&self.location, file, part, None, self.fingerprint())
    }

    fn fingerprint(&self) -> Option<KeyFingerprint> {
        self.encryption_key().map(|key| key.fingerprint())
    }

    /// What is directly in `folder`, relative to the array (`""` is the array itself). A folder that does not exist is empty.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list(&self, folder: &str) -> Result<Arc<Listing>> {
        let ticket = self.start(RequestKind::List, folder, None, None);
        let path = self.location.path_of(folder);
        let listed = match self.store().list_with_delimiter(Some(&path)).await {
            Ok(listed) => Listing::new(listed, &path),
            Err(error) if failures::is_missing(&error) => Listing::default(),
            Err(error) => return Err(self.failed("list", folder, error)),
        };
        ticket.finish(0);
        Ok(Arc::new(listed))
    }

    /// As [`list`](Self::list) of several folders, all at once: as long as a local folder tells that nothing was added or
    /// removed, an earlier listing serves.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list_all<const N: usize>(
        &self,
        folders: [(&str, Keep); N],
    ) -> Result<[Arc<Listing>; N]> {
        let paths = folders.map(|(folder, _)| self.location.local_path(folder));
        let paths: Option<Vec<_>> = paths.into_iter().collect();
        let stamps = match paths {
            Some(paths) => FolderStamp::of_all(paths).await,
            None => Vec::new(),
        };
        let mut stamps = stamps.into_iter();
        let listings = folders.map(|(folder, keep)| {
            let stamp = stamps.next().unwrap_or(Stamped::Unknown);
            self.list_unless_kept(folder, keep, stamp)
        });
        let listings = try_join_all(listings).await?;
        let count = |listings: Vec<_>| {
            Error::internal(format!("{} listings of {N} folders", listings.len()))
        };
        listings.try_into().map_err(count)
    }

    async fn list_unless_kept(
        &self,
        folder: &str,
        keep: Keep,
        stamp: Stamped,
    ) -> Result<Arc<Listing>> {
        let stamp = match stamp {
            Stamped::Known(stamp) => stamp,
            Stamped::Unknown => return self.list(folder).await,
            Stamped::Missing => {
                self.start(RequestKind::List, folder, None, None).finish(0);
                return Ok(Arc::default());
            }
        };
        let key = self.cache_key_immutable(folder, u64::MAX);
        if let Some(kept) = self.cache.get::<KeptListing>(key.clone())
            && kept.holds(&stamp)
        {
            self.start(RequestKind::List, folder, None, None).finish(0);
            return Ok(Arc::clone(&kept.listing));
        }
        let listing = self.list(folder).await?;
        if stamp.is_settled() && (keep == Keep::Always || listing.files.is_empty()) {
            let bytes = listing.memory_bytes();
            let listing = Arc::clone(&listing);
            self.cache
                .insert(key, KeptListing { stamp, listing }, bytes);
        }
        Ok(listing)
    }

    /// A whole file.
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

    /// One range of a file; all of it, or an error.
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

    /// The last `len` bytes of a file, or all if it is shorter, in one request where the store can.
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

    /// As [`read_suffix`](Self::read_suffix) of each file, those of this machine in one go.
    pub async fn read_suffixes(&self, files: &[String], len: u64) -> Vec<Result<Suffix>> {
        let paths = files.iter().map(|file| self.location.local_path(file));
        let Some(paths) = paths.collect::<Option<Vec<_>>>() else {
            let reads = files.iter().map(|file| self.read_suffix(file, len));
            return futures::future::join_all(reads).await;
        };
        let suffix = |file: &String, read: io::Result<FileRead>| {
            let ticket = self.start(RequestKind::Suffix, file, None, Some(len));
            let suffix = Suffix::of_file(read.map_err(|error| self.io_failed(file, error))?);
            ticket.finish(suffix.bytes.len() as u64);
            Ok(suffix)
        };
        match file_read::open_ends(paths, len).await {
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

    /// Ranges of a file, in the order asked, which may be unsorted, overlapping and empty. Near ranges are fetched
    /// together, and the answers are slices of what was fetched, so one kept slice keeps all of its request.
    ///
    /// # Errors
    /// The file does not exist or is too short (`Corrupt`), or the store fails.
    pub async fn read_ranges(&self, file: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let IoOptions {
            gap_bytes,
            request_bytes,
            parallel_requests,
        } = self.options;
        let plan =
            coalesce::plan(ranges, gap_bytes, request_bytes).context("file", || file.to_owned())?;
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
            .buffered(parallel_requests.max(1))
            .try_collect()
            .await?;
        plan.slices(&buffers)
    }

    /// What the store tells about a file, or `None` if there is no such file.
    ///
    /// # Errors
    /// The store fails.
    pub async fn head(&self, file: &str) -> Result<Option<FileInfo>> {
        let ticket = self.start(RequestKind::Head, file, None, None);
        let head = self.store().head(&self.location.path_of(file)).await;
        match head {
            Ok(meta) => {
                ticket.finish(0);
                Ok(Some(FileInfo::new(meta)))
            }
            Err(error) if failures::is_missing(&error) => {
                ticket.finish(0);
                Ok(None)
            }
            Err(error) => Err(self.failed("look up", file, error)),
        }
    }

    fn store(&self) -> &Arc<dyn ObjectStore> {
        self.location.store()
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

    /// One request. `asked` are the ranges it serves, for the message of an error.
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

    /// All requests from a file of this machine.
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
        if found.buffers.len() != requests.len() {
            return Err(self.truncated(file, found.file_bytes, asked));
        }
        finish_ranges(tickets, &found.buffers);
        Ok(found.buffers)
    }

    fn start_ranges(&self, file: &str, requests: &[Range<u64>]) -> Vec<Ticket<'_>> {
        let start = |r: &Range<u64>| {
            let len = Some(r.end - r.start);
            self.start(RequestKind::Range, file, Some(r.start), len)
        };
        requests.iter().map(start).collect()
    }

    /// All requests from one opened local file, or `None` if the store does not hand out files after all.
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

    /// The end of a file for stores that cannot read it without knowing the size.
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

    /// An HTTP server refuses any range of an empty object, so "the end of nothing" must be told from a failure.
    async fn suffix_failed(&self, file: &str, error: object_store::Error) -> Error {
        match self.size_after(file, &error).await {
            Some(0) => self
                .corrupt(format!("file {file} is empty"))
                .with_source(error),
            _ => self.failed("read", file, error),
        }
    }

    /// Whether a failed range read failed for the reason that the file is too short; stores tell it in many ways.
    async fn range_failed(
        &self,
        file: &str,
        error: object_store::Error,
        asked: &[Range<u64>],
    ) -> Error {
        match self.size_after(file, &error).await {
            Some(size) if asked.iter().any(|r| r.end > size) => self.truncated(file, size, asked),
            _ => self.failed("read", file, error),
        }
    }

    /// The size of a file whose read failed, unless the failure is already clear.
    async fn size_after(&self, file: &str, error: &object_store::Error) -> Option<u64> {
        if !matches!(error, object_store::Error::Generic { .. }) {
            return None;
        }
        self.head(file).await.ok().flatten().map(|info| info.bytes)
    }

    fn check_len(&self, file: &str, bytes: &Bytes, asked: u64) -> Result<()> {
        if bytes.len() as u64 == asked {
            return Ok(());
        }
        Err(self.storage_error(format!(
            "the store returned {} bytes of {file} where {asked} were asked for and announced",
            bytes.len()
        )))
    }

    fn truncated(&self, file: &str, size: u64, asked: &[Range<u64>]) -> Error {
        let needed = asked.iter().find(|r| r.end > size && !r.is_empty());
        let Range { start, end } = needed.cloned().unwrap_or_default();
        self.corrupt(format!(
            "file {file} has {size} bytes but bytes {start}..{end} are needed: the file is truncated"
        ))
    }

    fn corrupt(&self, message: String) -> Error {
        Error::corrupt(message).with("array", self.uri())
    }

    fn storage_error(&self, message: String) -> Error {
        Error::storage(message).with("array", self.uri())
    }

    fn missing(&self, file: &str) -> Error {
        failures::missing(&self.location.uri_of(file))
    }

    fn failed(&self, verb: &str, file: &str, error: object_store::Error) -> Error {
        failures::of_store(verb, &self.location.uri_of(file), error)
    }

    fn io_failed(&self, file: &str, error: io::Error) -> Error {
        failures::of_file(&self.location.uri_of(file), error)
    }

    fn start(
        &self,
        kind: RequestKind,
        file: &str,
        offset: Option<u64>,
        bytes_asked: Option<u64>,
    ) -> Ticket<'_> {
        self.counters.add_request();
        let entry = self.log.as_deref().map(|log| {
            let number = log.start(Request {
                kind,
                file: file.to_owned(),
                offset,
                bytes_asked,
                bytes_returned: None,
            });
            (log, number)
        });
        Ticket {
            counters: &self.counters,
            entry,
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Storage").field(&self.uri()).finish()
    }
}

/// A request under way.
struct Ticket<'a> {
    counters: &'a IoCounters,
    entry: Option<(&'a RequestLog, usize)>,
}

impl Ticket<'_> {
    fn finish(self, bytes: u64) {
        self.counters.add_bytes(bytes);
        if let Some((log, number)) = self.entry {
            log.finish(number, bytes);
        }
    }
}

fn finish_ranges(tickets: Vec<Ticket<'_>>, buffers: &[Bytes]) {
    for (ticket, buffer) in tickets.into_iter().zip(buffers) {
        ticket.finish(buffer.len() as u64);
    }
}
