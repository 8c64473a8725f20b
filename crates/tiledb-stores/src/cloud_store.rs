//! A store behind a network, which is opened at its first request.
//!
//! Making a store must not wait, and credentials and the region of a profile take time to find. So the store itself is made when
//! the first request needs it. If a bucket turns out to be in another region, the store is made once more for that region. Errors
//! come in words.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use tokio::sync::Mutex;

use crate::by_folders::list_by_folders;
use crate::explain::{FailedRequest, StoreOperation};
use crate::failure::StoreFailure;
use crate::store_address::StoreAddress;
use crate::store_url::{StoreService, StoreUrl};

/// How to make a store.
pub(crate) trait StorePlan: fmt::Debug + Send + Sync + 'static {
    /// Makes the store; in another region than planned if one is given.
    fn open<'a>(&'a self, region: Option<&'a str>) -> BoxFuture<'a, Result<OpenedStore>>;
}

/// A store, with what errors say about it.
#[derive(Debug, Clone)]
pub(crate) struct OpenedStore {
    pub store: Arc<dyn ObjectStore>,
    /// The source of the credentials, as the end of the sentence "the request was …".
    pub credentials: Arc<str>,
    /// The endpoint, without credentials. Other endpoints hold other buckets.
    pub endpoint: String,
}

/// A store that is made at its first request.
#[derive(Debug, Clone)]
pub(crate) struct CloudStore(Arc<CloudStoreState>);

#[derive(Debug)]
struct CloudStoreState {
    url: StoreUrl,
    address: StoreAddress,
    plan: Box<dyn StorePlan>,
    opened: RwLock<Option<OpenedStore>>,
    /// Held while the store is made, so that it is made once.
    opening: Mutex<()>,
}

impl CloudStore {
    pub fn new(url: StoreUrl, plan: impl StorePlan) -> Self {
        Self(Arc::new(CloudStoreState {
            address: StoreAddress::new(url.service()),
            url,
            plan: Box::new(plan),
            opened: RwLock::default(),
            opening: Mutex::default(),
        }))
    }

    /// The endpoint and the bucket, whose name is known after the first request.
    pub fn address(&self) -> &StoreAddress {
        &self.0.address
    }
}

impl CloudStoreState {
    fn known(&self) -> Option<OpenedStore> {
        let opened = self.opened.read();
        opened.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The store, which is made if it isn't yet.
    async fn opened(&self) -> Result<OpenedStore> {
        if let Some(opened) = self.known() {
            return Ok(opened);
        }
        let _opening = self.opening.lock().await;
        if let Some(opened) = self.known() {
            return Ok(opened);
        }
        self.open(None).await
    }

    /// The store in another region, if `error` says that the bucket is there, and the failed request was not sent there already.
    async fn in_other_region(
        &self,
        failed: &OpenedStore,
        error: &object_store::Error,
    ) -> Option<OpenedStore> {
        let region = StoreFailure::in_error(error)?.region()?;
        let _opening = self.opening.lock().await;
        match self.known() {
            // Another request has found the region.
            Some(opened) if !Arc::ptr_eq(&opened.store, &failed.store) => Some(opened),
            _ => self.open(Some(region)).await.ok(),
        }
    }

    async fn open(&self, region: Option<&str>) -> Result<OpenedStore> {
        let opened = self.plan.open(region).await?;
        self.address.learn(&opened.endpoint, self.url.container());
        let mut known = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        *known = Some(opened.clone());
        Ok(opened)
    }

    /// The error in words.
    fn explained(
        &self,
        opened: &OpenedStore,
        operation: StoreOperation,
        path: &Path,
        error: object_store::Error,
    ) -> object_store::Error {
        let request = FailedRequest {
            url: &self.url,
            operation,
            path,
            credentials: &opened.credentials,
        };
        request.explain(error)
    }

    /// Sends a request, again if the bucket is in another region.
    async fn request<T, F>(
        &self,
        operation: StoreOperation,
        path: &Path,
        send: impl Fn(Arc<dyn ObjectStore>) -> F,
    ) -> Result<(OpenedStore, T)>
    where
        F: Future<Output = Result<T>>,
    {
        let opened = self.opened().await?;
        let error = match send(Arc::clone(&opened.store)).await {
            Ok(answer) => return Ok((opened, answer)),
            Err(error) => self.explained(&opened, operation, path, error),
        };
        let Some(other) = self.in_other_region(&opened, &error).await else {
            return Err(error);
        };
        match send(Arc::clone(&other.store)).await {
            Ok(answer) => Ok((other, answer)),
            Err(error) => Err(self.explained(&other, operation, path, error)),
        }
    }

    /// Fails for stores that are only read.
    fn check_writable(&self, path: &Path) -> Result<()> {
        if self.url.service() != StoreService::Web {
            return Ok(());
        }
        Err(object_store::Error::NotSupported {
            source: format!(
                "cannot write {}: web servers are only read; write to a local folder or an object store",
                self.url.url_of(path)
            )
            .into(),
        })
    }
}

impl fmt::Display for CloudStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.url.root())
    }
}

#[async_trait]
impl ObjectStore for CloudStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.0.check_writable(location)?;
        let send = |store: Arc<dyn ObjectStore>| {
            let (payload, opts) = (payload.clone(), opts.clone());
            async move { store.put_opts(location, payload, opts).await }
        };
        let (_, put) = self
            .0
            .request(StoreOperation::Write, location, send)
            .await?;
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.check_writable(location)?;
        let send = |store: Arc<dyn ObjectStore>| {
            let opts = opts.clone();
            async move { store.put_multipart_opts(location, opts).await }
        };
        let (opened, upload) = self
            .0
            .request(StoreOperation::Write, location, send)
            .await?;
        Ok(Box::new(CloudUpload {
            state: Arc::clone(&self.0),
            opened,
            path: location.clone(),
            upload,
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let send = |store: Arc<dyn ObjectStore>| {
            let options = options.clone();
            async move { store.get_opts(location, options).await }
        };
        let (opened, mut answer) = self.0.request(StoreOperation::Read, location, send).await?;
        if let GetResultPayload::Stream(body) = answer.payload {
            let (state, path) = (Arc::clone(&self.0), location.clone());
            let body = body
                .map_err(move |error| state.explained(&opened, StoreOperation::Read, &path, error));
            answer.payload = GetResultPayload::Stream(body.boxed());
        }
        Ok(answer)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let send =
            |store: Arc<dyn ObjectStore>| async move { store.get_ranges(location, ranges).await };
        let (_, bytes) = self.0.request(StoreOperation::Read, location, send).await?;
        Ok(bytes)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let state = Arc::clone(&self.0);
        let removed = async move {
            state.check_writable(&Path::default())?;
            let opened = state.opened().await?;
            let removed = opened.store.delete_stream(locations);
            Ok::<_, object_store::Error>(removed.map_err(move |error| {
                // The error of an object that is missing names it.
                state.explained(&opened, StoreOperation::Remove, &Path::default(), error)
            }))
        };
        stream::once(removed).try_flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let is_web = self.0.url.service() == StoreService::Web;
        self.listed(prefix.cloned(), move |store, prefix| match is_web {
            true => list_by_folders(store, prefix.cloned()),
            false => store.list(prefix),
        })
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let offset = offset.clone();
        if self.0.url.service() == StoreService::Web {
            let listed = self.list(prefix);
            let is_behind = move |object: &ObjectMeta| ready(object.location > offset);
            return listed.try_filter(is_behind).boxed();
        }
        self.listed(prefix.cloned(), move |store, prefix| {
            store.list_with_offset(prefix, &offset)
        })
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.cloned().unwrap_or_default();
        let send =
            |store: Arc<dyn ObjectStore>| async move { store.list_with_delimiter(prefix).await };
        let (_, listed) = self.0.request(StoreOperation::List, &path, send).await?;
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.check_writable(to)?;
        let send = |store: Arc<dyn ObjectStore>| {
            let options = options.clone();
            async move { store.copy_opts(from, to, options).await }
        };
        self.0
            .request(StoreOperation::Write, to, send)
            .await
            .map(|_| ())
    }
}

impl CloudStore {
    /// The objects that `list` lists. The first answer shows whether the bucket is in another region.
    fn listed(
        &self,
        prefix: Option<Path>,
        list: impl Fn(Arc<dyn ObjectStore>, Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>>
        + Send
        + Sync
        + 'static,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let state = Arc::clone(&self.0);
        let listed =
            async move {
                let path = prefix.clone().unwrap_or_default();
                let send = |store: Arc<dyn ObjectStore>| {
                    let mut listed = list(store, prefix.as_ref()).fuse();
                    async move {
                        let first = listed.try_next().await?;
                        Ok(stream::iter(first.map(Ok)).chain(listed))
                    }
                };
                let (opened, listed) = state.request(StoreOperation::List, &path, send).await?;
                let state = Arc::clone(&state);
                Ok::<_, object_store::Error>(listed.map_err(move |error| {
                    state.explained(&opened, StoreOperation::List, &path, error)
                }))
            };
        stream::once(listed).try_flatten().boxed()
    }
}

/// An upload in parts, with errors in words.
#[derive(Debug)]
struct CloudUpload {
    state: Arc<CloudStoreState>,
    opened: OpenedStore,
    path: Path,
    upload: Box<dyn MultipartUpload>,
}

impl CloudUpload {
    fn explained(&self, error: object_store::Error) -> object_store::Error {
        self.state
            .explained(&self.opened, StoreOperation::Write, &self.path, error)
    }
}

#[async_trait]
impl MultipartUpload for CloudUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let part = self.upload.put_part(data);
        let (state, opened, path) = (
            Arc::clone(&self.state),
            self.opened.clone(),
            self.path.clone(),
        );
        Box::pin(async move {
            let put = part.await;
            put.map_err(|error| state.explained(&opened, StoreOperation::Write, &path, error))
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let completed = self.upload.complete().await;
        completed.map_err(|error| self.explained(error))
    }

    async fn abort(&mut self) -> Result<()> {
        let aborted = self.upload.abort().await;
        aborted.map_err(|error| self.explained(error))
    }
}
