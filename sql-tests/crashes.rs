//! A store that fails, hangs or loses an answer at its n-th request, for every n of every statement that writes: afterwards
//! the array opens and holds the state before the statement or the one after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{Location, TileDbTable, register};
use futures::StreamExt;
use futures::stream::BoxStream;
use libtest_mimic::{Failed, Trial};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};

use crate::{block_on, neutral, trial};

/// What happens at the n-th request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// This request and all later ones fail.
    Dies,
    /// This request never ends; the statement is cancelled.
    Hangs,
    /// A write is done, but its answer is an error; later requests work.
    LosesTheAnswer,
}

/// A statement, and the array it starts from.
struct Case {
    name: &'static str,
    create: &'static str,
    before: &'static [&'static str],
    statement: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        name: "insert_sparse",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array' OPTIONS ('tiledb.capacity' '4')",
        before: &["INSERT INTO t VALUES (1, 'a'), (2, 'b')"],
        statement: "INSERT INTO t SELECT i, 'new' || i FROM unnest(range(2, 12)) AS u(i)",
    },
    Case {
        name: "insert_dense",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, v INT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array' OPTIONS \
                 ('tiledb.array_type' 'dense', 'tiledb.dim.x.domain' '[0, 99]', 'tiledb.dim.x.tile' '10')",
        before: &["INSERT INTO t SELECT i, i * 10 FROM unnest(range(0, 30)) AS u(i)"],
        // Several fragments: one box is filled up, the others are full.
        statement: "INSERT INTO t VALUES (3, -3), (7, -7), (55, -55), (91, -91)",
    },
    Case {
        name: "create",
        create: "",
        before: &[],
        statement: "CREATE EXTERNAL TABLE t (x INT NOT NULL, c VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                    LOCATION 'crash://store/array' OPTIONS ('tiledb.attr.c.enumeration' '[\"a\", \"b\"]')",
    },
];

pub fn trials() -> Vec<Trial> {
    let faults = [Fault::Dies, Fault::Hangs, Fault::LosesTheAnswer];
    let all = CASES
        .iter()
        .flat_map(|case| faults.map(|fault| (case, fault)));
    all.map(|(case, fault)| {
        let name = format!("crashes::{}_{fault:?}", case.name);
        trial(name, move || block_on(every_point(case, fault)))
    })
    .collect()
}

async fn every_point(case: &Case, fault: Fault) -> Result<(), Failed> {
    let base = InMemory::new();
    let quiet = Faulty::new(copy_of(&base).await?, usize::MAX, fault);
    let ctx = session(&quiet)?;
    if !case.create.is_empty() {
        ctx.sql(case.create).await?.collect().await?;
    }
    for statement in case.before {
        ctx.sql(statement).await?.collect().await?;
    }
    let base = copy_of(&quiet.inner).await?;
    let before = state(&base).await?;
    // How many requests the statement takes, and what it leaves.
    let counting = Faulty::new(copy_of(&base).await?, usize::MAX, fault);
    run(&counting, case).await?;
    let after = state(&counting.inner).await?;
    if before == after {
        return Err(format!("{} changes nothing", case.name).into());
    }
    let requests = counting.requests.load(Ordering::SeqCst);
    let (mut kept, mut changed) = (0, 0);
    for n in 0..requests {
        let faulty = Faulty::new(copy_of(&base).await?, n, fault);
        let ended = tokio::time::timeout(Duration::from_millis(500), run(&faulty, case)).await;
        let found = state(&faulty.inner).await?;
        let expected = match (&ended, found == after) {
            // Success is only reported for what is there.
            (Ok(Ok(())), _) => found == after,
            (_, true) => true,
            _ => found == before,
        };
        if !expected {
            return Err(format!("{fault:?} at {n} of {requests}: {ended:?} left {found:?}").into());
        }
        match found == after {
            true => changed += 1,
            false => kept += 1,
        }
    }
    let some_kept = kept > 0 || fault == Fault::LosesTheAnswer;
    match some_kept && requests > 3 {
        true => Ok(()),
        false => Err(format!("{requests} requests, {kept} kept, {changed} changed").into()),
    }
}

/// A session whose tables lie in the store.
fn session(store: &Arc<Faulty>) -> Result<SessionContext, Failed> {
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = SessionContext::new_with_config(config);
    register(&ctx)?;
    let url = url::Url::parse("crash://store")?;
    ctx.register_object_store(&url, Arc::clone(store) as Arc<dyn ObjectStore>);
    Ok(ctx)
}

async fn run(store: &Arc<Faulty>, case: &Case) -> Result<(), String> {
    let ctx = session(store).map_err(|e| format!("{e:?}"))?;
    if !case.create.is_empty() {
        let open = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'crash://store/array'";
        let opened = ctx.sql(open).await.map_err(|e| e.to_string())?;
        opened.collect().await.map_err(|e| e.to_string())?;
    }
    let statement = ctx.sql(case.statement).await.map_err(|e| e.to_string())?;
    statement.collect().await.map_err(|e| e.to_string())?;
    Ok(())
}

/// What a reader finds: columns and rows, or that there is no array.
async fn state(store: &InMemory) -> Result<Option<Vec<String>>, Failed> {
    let store: Arc<dyn ObjectStore> = Arc::new(copy_of(store).await?);
    let location = Location::new(store, Path::from("array"), "crash://store/array");
    let opened = TileDbTable::builder("crash://store/array")
        .location(location)
        .open()
        .await;
    let table = match opened {
        Ok(table) => table,
        Err(error) if error.kind() == datafusion_tiledb::ErrorKind::NotFound => return Ok(None),
        // Files of an enumeration without a schema are no array.
        Err(error) if error.kind() == datafusion_tiledb::ErrorKind::NotAnArray => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let ctx = SessionContext::new();
    let rows = ctx.read_table(Arc::new(table))?;
    let mut found = vec![neutral::header(rows.schema().as_arrow())];
    found.extend(neutral::rows(&rows.collect().await?));
    Ok(Some(found))
}

async fn copy_of(store: &InMemory) -> Result<InMemory, Failed> {
    let copy = InMemory::new();
    let mut objects = store.list(None);
    while let Some(object) = objects.next().await {
        let path = object?.location;
        let bytes = store.get(&path).await?.bytes().await?;
        copy.put(&path, bytes.into()).await?;
    }
    Ok(copy)
}

/// A store in memory with a fault at its n-th request.
#[derive(Debug)]
struct Faulty {
    inner: InMemory,
    requests: Arc<AtomicUsize>,
    at: usize,
    fault: Fault,
}

/// What to do about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Answer,
    LoseTheAnswer,
}

impl Faulty {
    fn new(inner: InMemory, at: usize, fault: Fault) -> Arc<Self> {
        let requests = Arc::default();
        Arc::new(Self {
            inner,
            requests,
            at,
            fault,
        })
    }

    async fn request(&self) -> object_store::Result<Verdict> {
        request(&self.requests, self.at, self.fault).await
    }
}

async fn request(requests: &AtomicUsize, at: usize, fault: Fault) -> object_store::Result<Verdict> {
    let number = requests.fetch_add(1, Ordering::SeqCst);
    match fault {
        Fault::Dies if number >= at => Err(broken()),
        Fault::Hangs if number >= at => futures::future::pending().await,
        Fault::LosesTheAnswer if number == at => Ok(Verdict::LoseTheAnswer),
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
        write!(f, "Faulty({:?} at {})", self.fault, self.at)
    }
}

/// An upload in parts whose every step is a request.
#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    requests: Arc<AtomicUsize>,
    at: usize,
    fault: Fault,
}

#[async_trait::async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let put = self.inner.put_part(data);
        let (requests, at, fault) = (Arc::clone(&self.requests), self.at, self.fault);
        Box::pin(async move {
            let verdict = request(&requests, at, fault).await?;
            answered(verdict, put.await)
        })
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let verdict = request(&self.requests, self.at, self.fault).await?;
        answered(verdict, self.inner.complete().await)
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        request(&self.requests, self.at, self.fault).await?;
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
        let verdict = self.request().await?;
        answered(verdict, self.inner.put_opts(location, payload, opts).await)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.request().await?;
        Ok(Box::new(FaultyUpload {
            inner: self.inner.put_multipart_opts(location, opts).await?,
            requests: Arc::clone(&self.requests),
            at: self.at,
            fault: self.fault,
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
        let (requests, at, fault) = (Arc::clone(&self.requests), self.at, self.fault);
        let checked = locations.then(move |location| {
            let requests = Arc::clone(&requests);
            async move {
                request(&requests, at, fault).await?;
                location
            }
        });
        self.inner.delete_stream(checked.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let (requests, at, fault) = (Arc::clone(&self.requests), self.at, self.fault);
        let listed = self.inner.list(prefix);
        let first = futures::stream::once(async move {
            request(&requests, at, fault).await?;
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
        self.request().await?;
        self.inner.copy_opts(from, to, options).await
    }
}
