//! A store whose objects were all changed an hour ago. Young files that can't be decoded are read again for a while, because
//! another program may still be writing them, so tests of damage wait for nothing without it.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

/// The store.
#[derive(Debug)]
pub struct AgedStore(pub InMemory);

fn aged(object: ObjectMeta) -> ObjectMeta {
    let last_modified = object.last_modified - Duration::from_secs(3600);
    ObjectMeta {
        last_modified,
        ..object
    }
}

impl fmt::Display for AgedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for AgedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.0.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, opts).await
    }

    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        let found = self.0.get_opts(location, options).await?;
        let meta = aged(found.meta);
        Ok(GetResult {
            meta,
            payload: found.payload,
            range: found.range,
            attributes: found.attributes,
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let listed = self.0.list(prefix);
        listed.map(|object| Ok(aged(object?))).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let listed = self.0.list_with_delimiter(prefix).await?;
        Ok(ListResult {
            objects: listed.objects.into_iter().map(aged).collect(),
            ..listed
        })
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}
