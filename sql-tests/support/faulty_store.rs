//! A store in memory that fails, hangs or loses an answer at its n-th request, and what a reader finds in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{ErrorKind, Location, TileDbTable, register};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use libtest_mimic::Failed;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};

use crate::support::neutral_rows;

/// What happens at the n-th request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This request and all later ones fail.
    Dies,
    /// This request never ends; the statement is cancelled.
    Hangs,
    /// A write is done, but its answer is an error; later requests work.
    LosesTheAnswer,
    /// Something else happens before this request.
    Meets,
    /// Everything can be read, and nothing written or removed.
    IsReadOnly,
}

/// A session whose tables lie in the store.
pub fn session(store: &Arc<Faulty>) -> Result<SessionContext, Failed> {
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = SessionContext::new_with_config(config);
    register(&ctx)?;
    let url = url::Url::parse("crash://store")?;
    ctx.register_object_store(&url, Arc::clone(store) as Arc<dyn ObjectStore>);
    Ok(ctx)
}

/// Runs a statement to its end.
pub async fn execute(ctx: &SessionContext, sql: &str) -> Result<(), Failed> {
    datafusion_tiledb::execute(ctx, sql)
        .await?
        .collect()
        .await?;
    Ok(())
}

/// What a reader finds: columns, rows, values of enumerations and metadata of the array, members of the group; or that there is
/// neither.
pub async fn state(store: &InMemory) -> Result<Option<Vec<String>>, Failed> {
    let mut found = cells(store).await?;
    let quiet = Faulty::new(copy_of(store).await?, usize::MAX, Fault::Dies);
    let ctx = session(&quiet)?;
    for described in [
        "SELECT enumeration, index, value FROM tiledb_enumerations('crash://store/array')",
        "SELECT key, type, value FROM tiledb_metadata('crash://store/array')",
        "SELECT path, type, uri FROM tiledb_members('crash://store/group')",
        "SELECT key, type, value FROM tiledb_metadata('crash://store/group')",
    ] {
        let Ok(rows) = ctx.sql(described).await?.collect().await else {
            continue;
        };
        let rows = neutral_rows::rows(&rows);
        // A group without members is a group; an array that is not there has no metadata.
        if described.contains("/group") || !rows.is_empty() {
            let found = found.get_or_insert_default();
            found.push("described".to_owned());
            found.extend(rows);
        }
    }
    Ok(found)
}

async fn cells(store: &InMemory) -> Result<Option<Vec<String>>, Failed> {
    let store: Arc<dyn ObjectStore> = Arc::new(copy_of(store).await?);
    let location = Location::new(store, Path::from("array"), "crash://store/array");
    let opened = TileDbTable::open(location).await;
    let table = match opened {
        Ok(table) => table,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // Files of an enumeration without a schema aren't an array.
        Err(error) if error.kind() == ErrorKind::NotAnArray => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let ctx = SessionContext::new();
    let rows = ctx.read_table(Arc::new(table))?;
    let mut found = vec![neutral_rows::header(rows.schema().as_arrow())];
    found.extend(neutral_rows::rows(&rows.collect().await?));
    Ok(Some(found))
}

pub async fn copy_of(store: &InMemory) -> Result<InMemory, Failed> {
    let copy = InMemory::new();
    let mut objects = store.list(None);
    while let Some(object) = objects.next().await {
        let path = object?.location;
        let bytes = match store.get(&path).await {
            // A dropped statement removes its files in the background.
            Err(object_store::Error::NotFound { .. }) => continue,
            found => found?.bytes().await?,
        };
        copy.put(&path, bytes.into()).await?;
    }
    Ok(copy)
}

/// What happens before a request.
pub type Meeting = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The requests to a store, and what happens at one of them.
pub struct Requests {
    pub count: AtomicUsize,
    at: usize,
    fault: Fault,
    meeting: Option<Meeting>,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} at {}", self.fault, self.at)
    }
}

/// A store in memory with a fault at its n-th request.
#[derive(Debug)]
pub struct Faulty {
    pub inner: Arc<InMemory>,
    pub requests: Arc<Requests>,
}

/// What to do about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Answer,
    LoseTheAnswer,
}

impl Faulty {
    pub fn new(inner: InMemory, at: usize, fault: Fault) -> Arc<Self> {
        Self::with(Arc::new(inner), at, fault, None)
    }

    /// A store before whose n-th request something else happens.
    pub fn meeting(inner: Arc<InMemory>, at: usize, meeting: Meeting) -> Arc<Self> {
        Self::with(inner, at, Fault::Meets, Some(meeting))
    }

    fn with(inner: Arc<InMemory>, at: usize, fault: Fault, meeting: Option<Meeting>) -> Arc<Self> {
        let count = AtomicUsize::new(0);
        Arc::new(Self {
            inner,
            requests: Arc::new(Requests {
                count,
                at,
                fault,
                meeting,
            }),
        })
    }

    async fn request(&self) -> object_store::Result<Verdict> {
        request(&self.requests).await
    }

    /// Refuses to change anything in a store that can only be read.
    fn may_change(&self, path: &Path) -> object_store::Result<()> {
        may_change(&self.requests, path)
    }
}

/// What a store says that can only be read.
pub const READ_ONLY: &str = "this store can only be read";

fn may_change(requests: &Requests, path: &Path) -> object_store::Result<()> {
    match requests.fault {
        Fault::IsReadOnly => Err(object_store::Error::PermissionDenied {
            path: path.to_string(),
            source: READ_ONLY.into(),
        }),
        _ => Ok(()),
    }
}

async fn request(requests: &Requests) -> object_store::Result<Verdict> {
    let number = requests.count.fetch_add(1, Ordering::SeqCst);
    match requests.fault {
        Fault::Dies if number >= requests.at => Err(broken()),
        Fault::Hangs if number >= requests.at => futures::future::pending().await,
        Fault::LosesTheAnswer if number == requests.at => Ok(Verdict::LoseTheAnswer),
        Fault::Meets if number == requests.at => {
            if let Some(meeting) = &requests.meeting {
                meeting().await;
            }
            Ok(Verdict::Answer)
        }
        _ => Ok(Verdict::Answer),
    }
}

fn broken() -> object_store::Error {
    object_store::Error::Generic {
        store: "Faulty",
        source: "the connection broke".into(),
    }
}

fn answered<T>(verdict: Verdict, result: object_store::Result<T>) -> object_store::Result<T> {
    match verdict {
        Verdict::Answer => result,
        Verdict::LoseTheAnswer => Err(broken()),
    }
}

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Faulty({:?})", self.requests)
    }
}

/// An upload in parts whose every step is a request.
#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    requests: Arc<Requests>,
}

#[async_trait::async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let put = self.inner.put_part(data);
        let requests = Arc::clone(&self.requests);
        Box::pin(async move {
            let verdict = request(&requests).await?;
            answered(verdict, put.await)
        })
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let verdict = request(&self.requests).await?;
        answered(verdict, self.inner.complete().await)
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        request(&self.requests).await?;
        self.inner.abort().await
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.may_change(location)?;
        let verdict = self.request().await?;
        answered(verdict, self.inner.put_opts(location, payload, opts).await)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.may_change(location)?;
        self.request().await?;
        Ok(Box::new(FaultyUpload {
            inner: self.inner.put_multipart_opts(location, opts).await?,
            requests: Arc::clone(&self.requests),
        }))
    }

    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        let verdict = self.request().await?;
        answered(verdict, self.inner.get_opts(location, options).await)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        let requests = Arc::clone(&self.requests);
        let checked = locations.then(move |location| {
            let requests = Arc::clone(&requests);
            async move {
                request(&requests).await?;
                let location = location?;
                may_change(&requests, &location)?;
                Ok(location)
            }
        });
        self.inner.delete_stream(checked.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let requests = Arc::clone(&self.requests);
        let listed = self.inner.list(prefix);
        let first = futures::stream::once(async move {
            request(&requests).await?;
            Ok(())
        });
        first
            .flat_map(move |begun| match begun {
                Ok(()) => futures::stream::empty().boxed(),
                Err(error) => futures::stream::once(async move { Err(error) }).boxed(),
            })
            .chain(listed)
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let verdict = self.request().await?;
        answered(verdict, self.inner.list_with_delimiter(prefix).await)
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.may_change(to)?;
        self.request().await?;
        self.inner.copy_opts(from, to, options).await
    }
}
