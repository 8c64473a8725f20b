//! The files of an array in an object store, which may also be a store of files that a program registered.
//!
//! Every read uses the store's full `get`, because its answer has the size of the object before any buffer is allocated: a
//! range beyond the end is detected without allocating for it. A store of files returns the open file, and all ranges of a
//! call are then read together ([`file_read`]).
//!
//! The subtle thing: stores truncate a range that ends beyond the object instead of rejecting it, so the size of every answer
//! is compared with the request.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, GetResultPayload, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, UpdateVersion,
};

use super::Storage;
use super::access::FileAccess;
use super::ahead::SMALL_READS;
use super::read::FileSuffix;
use super::requests::finish_ranges;
use super::upload::{UploadTarget, Uploaded};
use crate::error::{Error, Result};
use crate::storage::coalesce::RequestPlan;
use crate::storage::failures;
use crate::storage::file_read;
use crate::storage::file_write::CreateOutcome;
use crate::storage::link::LinkRequest;
use crate::storage::listing::{DatedListing, FolderState, Listing, ListingReuse};
use crate::storage::request_log::RequestKind;
use crate::storage::request_timer::RequestTimer;

/// An answer, with the request that measures the way to the store.
struct TimedAnswer {
    result: GetResult,
    request: Option<LinkRequest>,
}

/// The files of an array in an object store.
pub(super) struct ObjectFiles<'a> {
    pub storage: &'a Storage,
}

impl FileAccess for ObjectFiles<'_> {
    async fn read(&self, file: &str) -> Result<Bytes> {
        Box::pin(self.read_whole(file)).await
    }

    async fn read_suffix(&self, file: &str, len: u64) -> Result<FileSuffix> {
        Box::pin(self.read_end(file, len)).await
    }

    async fn read_suffixes(&self, files: &[String], len: u64) -> Vec<Result<FileSuffix>> {
        let mut reads = Vec::with_capacity(files.len());
        for file in files {
            reads.push(self.storage.read_suffix(file, len));
        }
        stream::iter(reads).buffered(SMALL_READS).collect().await
    }

    async fn read_planned(
        &self,
        file: &str,
        ranges: &[Range<u64>],
        plan: &RequestPlan,
    ) -> Result<Vec<Bytes>> {
        Box::pin(self.read_ranges(file, ranges, plan)).await
    }

    async fn read_files(
        &self,
        files: &[(String, Vec<Range<u64>>)],
        plans: &[RequestPlan],
    ) -> Result<Vec<Vec<Bytes>>> {
        let reads = files
            .iter()
            .zip(plans)
            .map(|((file, ranges), plan)| self.read_planned(file, ranges, plan));
        try_join_all(reads).await
    }

    async fn create(&self, file: &str, bytes: Bytes) -> Result<CreateOutcome> {
        let len = bytes.len() as u64;
        let ticket = self.storage.start(RequestKind::Put, file, None, Some(len));
        let created = self.storage.put(file, bytes).await?;
        ticket.finish(len);
        Ok(created)
    }

    async fn replace(&self, file: &str, old: Bytes, new: Bytes) -> Result<bool> {
        let path = self.storage.location.path_of(file);
        let ticket = self.storage.start(RequestKind::Head, file, None, None);
        let found = match self.storage.store().head(&path).await {
            Ok(found) => found,
            Err(error) if failures::is_missing(&error) => return Ok(false),
            Err(error) => return Err(self.storage.failed("look up", file, error)),
        };
        ticket.finish(0);
        // What is kept on disk may be of an earlier moment.
        if self.fetch_whole(file).await?.0 != old {
            return Ok(false);
        }
        let len = new.len() as u64;
        let ticket = self.storage.start(RequestKind::Put, file, None, Some(len));
        let put = |mode| {
            let options = PutOptions {
                mode,
                ..PutOptions::default()
            };
            let payload = PutPayload::from_bytes(new.clone());
            self.storage.store().put_opts(&path, payload, options)
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
        self.storage.listed.forget(file);
        match answer {
            Ok(_) => {
                ticket.finish(len);
                Ok(true)
            }
            Err(object_store::Error::Precondition { .. }) => Ok(false),
            Err(error) if failures::is_missing(&error) => Ok(false),
            Err(error) => Err(self.storage.failed("write", file, error)),
        }
    }

    fn upload_target(&self, _: &str) -> UploadTarget {
        UploadTarget::Object
    }

    /// Stores behind a network are durable when they answer.
    async fn sync(&self, _: Vec<Uploaded>, _: &str) -> Result<()> {
        Ok(())
    }

    /// Object stores have no folders.
    async fn create_folders(&self, _: &[&str]) -> Result<()> {
        Ok(())
    }

    async fn remove_file(&self, file: &str) -> Result<()> {
        let ticket = self.storage.start(RequestKind::Delete, file, None, None);
        self.storage.listed.forget(file);
        let path = self.storage.location.path_of(file);
        match self.storage.store().delete(&path).await {
            Err(error) if failures::is_missing(&error) => {}
            removed => removed.map_err(|error| self.storage.failed("remove", file, error))?,
        }
        ticket.finish(0);
        Ok(())
    }

    async fn remove_files(&self, files: &[String]) -> Result<()> {
        let Some(first) = files.first() else {
            return Ok(());
        };
        let paths = files.iter().map(|file| self.storage.location.path_of(file));
        let paths = paths.map(Ok).collect::<Vec<_>>();
        // The store doesn't say which of them it refused.
        let what = match files.len() {
            1 => first.clone(),
            count => format!("{first} or one of {} other files", count - 1),
        };
        self.remove(&what, stream::iter(paths).boxed()).await
    }

    async fn remove_folder(&self, folder: &str) -> Result<()> {
        let path = self.storage.location.path_of(folder);
        let listed = self.storage.store().list(Some(&path));
        self.remove(folder, listed.map_ok(|meta| meta.location).boxed())
            .await
    }

    async fn list(&self, folder: &str, _: Option<ListingReuse>) -> Result<DatedListing> {
        let ticket = self.storage.start(RequestKind::List, folder, None, None);
        let path = self.storage.location.path_of(folder);
        let watch = RequestTimer::start();
        let listed = self.storage.store().list_with_delimiter(Some(&path)).await;
        let took = watch.elapsed();
        let (listing, entries) = match listed {
            Ok(listed) => {
                let entries = listed.objects.len() + listed.common_prefixes.len();
                (Listing::new(listed, &path), entries)
            }
            Err(error) if failures::is_missing(&error) => (Listing::default(), 0),
            Err(error) => return Err(self.storage.failed("list", folder, error)),
        };
        ticket.finish(0);
        self.storage.listed.add(folder, &listing);
        Ok(DatedListing {
            listing: Arc::new(listing),
            // A store of files reads the entries of a folder one by one.
            at_once: !self.storage.location.is_files() && Listing::is_one_page(entries, took),
        })
    }

    async fn list_again(&self, folder: &str, before: &Listing) -> Result<DatedListing> {
        match Box::pin(self.list_pages_of(folder, before)).await {
            Some(listed) => Ok(listed),
            None => self.list(folder, None).await,
        }
    }

    /// Object stores don't record when a folder changed.
    async fn stamps<const N: usize>(&self, _: [&str; N]) -> Vec<FolderState> {
        Vec::new()
    }
}

impl ObjectFiles<'_> {
    /// The whole file, from the cache or the store. The future of a read is large, and those of its callers would hold it in
    /// several places of their stacks, so [`FileAccess`] boxes it.
    async fn read_whole(&self, file: &str) -> Result<Bytes> {
        let cached = self.storage.cached_file(file).await;
        if let Some(cached) = &cached
            && let Some(kept) = cached.whole().await
        {
            return Ok(kept);
        }
        let (bytes, tag) = self.fetch_whole(file).await?;
        if let Some(cached) = cached {
            cached.insert_whole(&bytes, tag.as_deref());
        }
        Ok(bytes)
    }

    /// The end of a file, from the cache or the store.
    async fn read_end(&self, file: &str, len: u64) -> Result<FileSuffix> {
        let cached = self.storage.cached_file(file).await;
        if let Some(cached) = &cached
            && let Some(kept) = cached.end(len).await
        {
            return Ok(kept);
        }
        let end = self.fetch_suffix(file, len).await?;
        if let Some(cached) = cached {
            cached.insert_end(&end);
        }
        Ok(end)
    }

    /// The ranges of a file, each from the cache or the store.
    async fn read_ranges(
        &self,
        file: &str,
        ranges: &[Range<u64>],
        plan: &RequestPlan,
    ) -> Result<Vec<Bytes>> {
        let Some(cached) = self.storage.cached_file(file).await else {
            return self.fetch_planned(file, ranges, plan).await;
        };
        let mut found = cached.ranges(ranges).await;
        let missing = ranges.iter().zip(&found);
        let missing: Vec<_> = missing
            .filter(|(_, found)| found.is_none())
            .map(|(range, _)| range.clone())
            .collect();
        if !missing.is_empty() {
            let plan = self.storage.plan(file, &missing)?;
            let fetched = self.fetch_planned(file, &missing, &plan).await?;
            cached.insert_ranges(&missing, &plan, &fetched);
            let mut fetched = fetched.into_iter();
            for found in found.iter_mut().filter(|found| found.is_none()) {
                *found = fetched.next();
            }
        }
        found
            .into_iter()
            .collect::<Option<_>>()
            .ok_or_else(|| Error::internal("fewer ranges came back than were asked for"))
    }

    async fn get(
        &self,
        file: &str,
        range: Option<GetRange>,
    ) -> Result<TimedAnswer, object_store::Error> {
        let asked = match &range {
            Some(GetRange::Bounded(range)) => range.end.saturating_sub(range.start),
            Some(GetRange::Suffix(bytes)) => *bytes,
            _ => 0,
        };
        let options = GetOptions {
            range,
            ..GetOptions::default()
        };
        let path = self.storage.location.path_of(file);
        let mut request = self.storage.location.link().map(|link| link.begin(asked));
        let result = self.storage.store().get_opts(&path, options).await?;
        // Times of a store that a program made aren't taken: it may be in memory, or simulate a network, and what a scan asks for
        // would change from run to run.
        if let Some(request) = &mut request
            && self.storage.location.address().is_some()
        {
            request.answered();
        }
        Ok(TimedAnswer { result, request })
    }

    /// Removes objects. `what` stands for them in errors.
    async fn remove(
        &self,
        what: &str,
        paths: BoxStream<'static, Result<Path, object_store::Error>>,
    ) -> Result<()> {
        let ticket = self.storage.start(RequestKind::Delete, what, None, None);
        let removed = self.storage.store().delete_stream(paths);
        let mut removed = removed.filter(|removed| {
            let gone = removed.as_ref().is_err_and(failures::is_missing);
            futures::future::ready(!gone)
        });
        let failed = |error| self.storage.failed("remove", what, error);
        while removed.try_next().await.map_err(failed)?.is_some() {}
        ticket.finish(0);
        Ok(())
    }

    /// Asks the store for a whole file. Returns its bytes and its entity tag.
    async fn fetch_whole(&self, file: &str) -> Result<(Bytes, Option<String>)> {
        let ticket = self.storage.start(RequestKind::Get, file, None, None);
        let mut answer = self
            .get(file, None)
            .await
            .map_err(|error| self.storage.failed("read", file, error))?;
        let meta = &mut answer.result.meta;
        let (asked, tag) = (meta.size, meta.e_tag.take());
        let bytes = self.body(file, answer).await?;
        ticket.finish(bytes.len() as u64);
        self.storage.check_len(file, &bytes, asked)?;
        Ok((bytes, tag))
    }

    /// Asks the store for the end of a file.
    async fn fetch_suffix(&self, file: &str, len: u64) -> Result<FileSuffix> {
        let ticket = self
            .storage
            .start(RequestKind::Suffix, file, None, Some(len));
        let answer = match self.get(file, Some(GetRange::Suffix(len))).await {
            Ok(answer) => answer,
            // Azure has no suffix ranges.
            Err(
                object_store::Error::NotSupported { .. }
                | object_store::Error::NotImplemented { .. },
            ) => return self.storage.suffix_by_size(file, len).await,
            Err(error) => return Err(self.storage.suffix_failed(file, error).await),
        };
        let file_bytes = answer.result.meta.size;
        let bytes = self.body(file, answer).await?;
        ticket.finish(bytes.len() as u64);
        self.storage.check_len(file, &bytes, len.min(file_bytes))?;
        Ok(FileSuffix { bytes, file_bytes })
    }

    /// Asks the store for ranges, in the requests of a plan.
    async fn fetch_planned(
        &self,
        file: &str,
        ranges: &[Range<u64>],
        plan: &RequestPlan,
    ) -> Result<Vec<Bytes>> {
        if plan.requests.len() > 1
            && self.storage.location.is_files()
            && let Some(buffers) = self.fetch_from_file(file, &plan.requests, ranges).await?
        {
            return plan.slices(&buffers);
        }
        let requests: Vec<_> = plan
            .requests
            .iter()
            .map(|request| self.fetch(file, request.clone(), ranges))
            .collect();
        let buffers: Vec<Bytes> = stream::iter(requests)
            .buffered(self.storage.io_options().parallel_requests.max(1))
            .try_collect()
            .await?;
        plan.slices(&buffers)
    }

    /// Sends one request. `asked` are the ranges it serves, for error messages.
    async fn fetch(&self, file: &str, request: Range<u64>, asked: &[Range<u64>]) -> Result<Bytes> {
        let len = request.end - request.start;
        let (kind, start) = (RequestKind::Range, Some(request.start));
        let ticket = self.storage.start(kind, file, start, Some(len));
        let range = Some(GetRange::Bounded(request.clone()));
        let answer = match self.get(file, range).await {
            Ok(answer) => answer,
            Err(error) => return Err(self.storage.range_failed(file, error, asked).await),
        };
        let GetResult { meta, range, .. } = &answer.result;
        if meta.size < request.end {
            return Err(self.storage.truncated(file, meta.size, asked));
        }
        if *range != request {
            return Err(self.storage.storage_error(format!(
                "the store answered with bytes {range:?} of {file} instead of {request:?}"
            )));
        }
        let bytes = self.body(file, answer).await?;
        ticket.finish(bytes.len() as u64);
        self.storage.check_len(file, &bytes, len)?;
        Ok(bytes)
    }

    /// Reads all requests from an open file, or returns `None` if the store returns no files after all.
    async fn fetch_from_file(
        &self,
        file: &str,
        requests: &[Range<u64>],
        asked: &[Range<u64>],
    ) -> Result<Option<Vec<Bytes>>> {
        let TimedAnswer { result, .. } = self
            .get(file, None)
            .await
            .map_err(|error| self.storage.failed("read", file, error))?;
        let GetResultPayload::File(opened, _) = result.payload else {
            return Ok(None);
        };
        if requests.iter().any(|r| r.end > result.meta.size) {
            return Err(self.storage.truncated(file, result.meta.size, asked));
        }
        let tickets = self.storage.start_ranges(file, requests);
        let buffers = file_read::read(opened, requests.to_vec(), self.storage.buffers())
            .await
            .map_err(|error| self.storage.io_failed(file, error))?;
        finish_ranges(tickets, &buffers);
        Ok(Some(buffers))
    }

    /// The bytes of an answer.
    async fn body(&self, file: &str, answer: TimedAnswer) -> Result<Bytes> {
        let TimedAnswer { result, request } = answer;
        let GetResultPayload::File(opened, _) = result.payload else {
            let bytes = result.bytes().await;
            let bytes = bytes.map_err(|error| self.storage.failed("read", file, error))?;
            if let Some(request) = request {
                request.received(bytes.len() as u64);
            }
            return Ok(bytes);
        };
        let buffers = file_read::read(opened, vec![result.range], self.storage.buffers())
            .await
            .map_err(|error| self.storage.io_failed(file, error))?;
        Ok(buffers.into_iter().next().unwrap_or_default())
    }
}
