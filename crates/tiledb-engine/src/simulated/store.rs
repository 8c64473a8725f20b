//! The store of a simulated world as one process sees it.
//!
//! A folder is listed a page at a time. Each page shows what there is at its own moment, so what is put or removed while a
//! folder is listed is seen or not, depending on its place.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use super::World;

/// The order in which a folder is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By name, as object stores do.
    Sorted,
    /// By a number that each name has, as local file systems do.
    Scattered,
}

impl Order {
    fn place(self, path: &Path) -> (u64, Path) {
        let number = match self {
            Self::Sorted => 0,
            Self::Scattered => {
                let mut hasher = DefaultHasher::new();
                path.hash(&mut hasher);
                hasher.finish()
            }
        };
        (number, path.clone())
    }
}

/// What a listing shows.
enum Entry {
    Object(ObjectMeta),
    Folder(Path),
}

impl Entry {
    fn path(&self) -> &Path {
        match self {
            Self::Object(meta) => &meta.location,
            Self::Folder(path) => path,
        }
    }
}

pub(super) fn broken() -> object_store::Error {
    object_store::Error::Generic {
        store: "Simulated",
        source: "the connection broke".into(),
    }
}

/// The store as one process sees it.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) world: World,
    pub(super) process: Option<usize>,
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seat({:?})", self.process)
    }
}

#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    path: Path,
    world: World,
    process: Option<usize>,
}

#[async_trait::async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let put = self.inner.put_part(data);
        let (world, process, path) = (self.world.clone(), self.process, self.path.clone());
        let served = async move { world.request(process, "part", path.as_ref()).await };
        served.and_then(|_| put).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let path = self.path.as_ref();
        let fate = self.world.request(self.process, "put", path).await?;
        let done = self.inner.complete().await;
        let path = Some(&self.path);
        self.world.changed(self.process, fate, path, done).await
    }

    async fn abort(&mut self) -> Result<()> {
        let path = self.path.as_ref();
        self.world.request(self.process, "abort", path).await?;
        self.inner.abort().await
    }
}

#[async_trait::async_trait]
impl ObjectStore for Seat {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let (world, process) = (&self.world, self.process);
        let fate = world.request(process, "put", location.as_ref()).await?;
        let done = world.0.store.put_opts(location, payload, opts).await;
        world.changed(process, fate, Some(location), done).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let (world, process) = (&self.world, self.process);
        world.request(process, "begin", location.as_ref()).await?;
        Ok(Box::new(Upload {
            inner: world.0.store.put_multipart_opts(location, opts).await?,
            path: location.clone(),
            world: world.clone(),
            process,
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (world, process) = (&self.world, self.process);
        world.request(process, "get", location.as_ref()).await?;
        let mut found = world.0.store.get_opts(location, options).await?;
        found.meta = world.dated(found.meta);
        Ok(found)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (world, process) = (self.world.clone(), self.process);
        let deleted = locations.then(move |location| {
            let world = world.clone();
            async move {
                let location = location?;
                let fate = world.request(process, "delete", location.as_ref()).await?;
                let one = futures::stream::once(async move { Ok(location) }).boxed();
                let mut done = world.0.store.delete_stream(one);
                let done = done.next().await.unwrap();
                world.changed(process, fate, None, done).await
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (world, process) = (self.world.clone(), self.process);
        let prefix = prefix.cloned();
        let listed = async move {
            let path = prefix.clone().unwrap_or_default();
            world.request(process, "list", path.as_ref()).await?;
            let listed = world.0.store.list(prefix.as_ref());
            Ok(listed.map(move |meta| Ok(world.dated(meta?))))
        };
        listed.try_flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let world = &self.world;
        let path = prefix.cloned().unwrap_or_default();
        let (size, order) = world.pages();
        let mut listed = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
        };
        let mut last = None;
        loop {
            world.request(self.process, "list", path.as_ref()).await?;
            let now = world.0.store.list_with_delimiter(prefix).await?;
            let objects = now.objects.into_iter().map(Entry::Object);
            let folders = now.common_prefixes.into_iter().map(Entry::Folder);
            let mut rest: Vec<_> = objects
                .chain(folders)
                .map(|entry| (order.place(entry.path()), entry))
                .filter(|(place, _)| last.as_ref().is_none_or(|last| last < place))
                .collect();
            rest.sort_by(|(a, _), (b, _)| a.cmp(b));
            let is_last = rest.len() < size;
            for (place, entry) in rest.into_iter().take(size) {
                last = Some(place);
                match entry {
                    Entry::Object(meta) => listed.objects.push(world.dated(meta)),
                    Entry::Folder(path) => listed.common_prefixes.push(path),
                }
            }
            if is_last {
                return Ok(listed);
            }
        }
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (world, process) = (&self.world, self.process);
        let fate = world.request(process, "put", to.as_ref()).await?;
        let done = world.0.store.copy_opts(from, to, options).await;
        world.changed(process, fate, Some(to), done).await
    }
}
