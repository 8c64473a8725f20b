//! Paths as table names on an object store: what a statement costs in requests, and that it sees what was written before its
//! rows were asked for, however long before that it was planned.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::stream::BoxStream;
use libtest_mimic::Failed;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use url::Url;

use crate::support::array_files::Files;
use crate::support::neutral_rows;

/// A store that counts what is asked of it.
#[derive(Debug)]
struct Counting<S> {
    inner: S,
    lists: Mutex<Vec<String>>,
    gets: Mutex<BTreeMap<String, usize>>,
}

impl<S: ObjectStore> Counting<S> {
    fn new(inner: S) -> Arc<Self> {
        Arc::new(Self {
            inner,
            lists: Mutex::default(),
            gets: Mutex::default(),
        })
    }

    /// The folders listed since the last call, and how often what was read.
    fn take(&self) -> (Vec<String>, BTreeMap<String, usize>) {
        let mut lists = std::mem::take(&mut *self.lists.lock().unwrap());
        lists.sort();
        (lists, std::mem::take(&mut *self.gets.lock().unwrap()))
    }
}

impl<S> fmt::Display for Counting<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for Counting<S> {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        let what = format!("{location} {:?}", options.range);
        *self.gets.lock().unwrap().entry(what).or_default() += 1;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.lists
            .lock()
            .unwrap()
            .push(format!("all of {prefix:?}"));
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let folder = prefix.map(ToString::to_string).unwrap_or_default();
        self.lists.lock().unwrap().push(folder);
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A session over the store.
struct Fixture {
    store: Arc<Counting<InMemory>>,
    ctx: SessionContext,
}

const PATH: &str = "memory:///array";

impl Fixture {
    fn new() -> Result<Self, Failed> {
        let store = Counting::new(InMemory::new());
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        ctx.register_object_store(&Url::parse("memory:///")?, Arc::clone(&store) as _);
        datafusion_tiledb::register(&ctx)?;
        Ok(Self { store, ctx })
    }

    /// Writes the files of an array whose paths are `wanted`.
    async fn write(&self, files: &Files, wanted: impl Fn(&str) -> bool) -> Result<(), Failed> {
        for (path, bytes) in files.0.iter().filter(|(path, _)| wanted(path)) {
            let path = Path::parse(format!("array/{path}"))?;
            self.store.inner.put(&path, bytes.clone().into()).await?;
        }
        Ok(())
    }

    async fn ask(&self, sql: &str) -> Result<Vec<String>, Failed> {
        let frame = self.ctx.sql(&sql.replace('$', PATH)).await?;
        Ok(neutral_rows::rows(&frame.collect().await?))
    }

    /// The folders listed since the last call, and whatever was read more than once.
    fn requests(&self) -> (Vec<String>, Vec<String>) {
        let (lists, gets) = self.store.take();
        let twice = gets.into_iter().filter(|(_, times)| *times > 1);
        (lists, twice.map(|(what, _)| what).collect())
    }
}

/// Whether a file is there from the beginning, and not written at 3000.
fn early(path: &str) -> bool {
    !path.contains("__3000_3000_")
}

const FOLDERS: [&str; 4] = [
    "array",
    "array/__commits",
    "array/__fragment_meta",
    "array/__schema",
];

trial!(requests);
/// Every folder is listed once, and nothing is read twice.
async fn requests() -> Result<(), Failed> {
    let fixture = Fixture::new()?;
    fixture
        .write(&Files::golden("weather_stations"), |_| true)
        .await?;
    for sql in [
        "SELECT * FROM '$'",
        "SELECT count(*) FROM '$'",
        "SELECT station, avg(wind) FROM '$' WHERE temperature < 5 GROUP BY station",
        "SELECT * FROM '$?timestamp=2100-01-01' LIMIT 3",
        "SELECT * FROM tiledb_scan('$') WHERE station = 'Oslo'",
    ] {
        fixture.ask(sql).await?;
        let (lists, twice) = fixture.requests();
        assert_eq!(lists, FOLDERS, "{sql}");
        assert!(twice.is_empty(), "{sql}: {twice:?}");
    }
    // The columns follow from the schemas alone.
    fixture.ask("DESCRIBE '$'").await?;
    assert_eq!(fixture.requests().0, FOLDERS[3..]);
    // A table with a name lists again for every query.
    fixture
        .ask("CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '$'")
        .await?;
    fixture.requests();
    for _ in 0..2 {
        fixture.ask("SELECT count(*) FROM t").await?;
        let (lists, _) = fixture.requests();
        assert_eq!(lists[1..], FOLDERS[..3]);
        // Enumerations come with the schemas.
        assert!(
            lists[0].contains("all of") && lists[0].contains("__schema"),
            "{lists:?}"
        );
    }
    Ok(())
}

const COUNT: &str = "SELECT count(*) AS n FROM '$'";

trial!(later_statements);
/// The fragments of `enum_extended` hold three cells each, one of which is the same.
async fn later_statements() -> Result<(), Failed> {
    let (fixture, files) = (Fixture::new()?, Files::golden("enum_extended"));
    fixture.write(&files, early).await?;
    assert_eq!(fixture.ask(COUNT).await?, ["[3]"]);
    fixture.write(&files, |path| !early(path)).await?;
    assert_eq!(fixture.ask(COUNT).await?, ["[5]"]);
    Ok(())
}

trial!(views);
/// A view is planned long before it is asked.
async fn views() -> Result<(), Failed> {
    let (fixture, files) = (Fixture::new()?, Files::golden("enum_extended"));
    fixture.write(&files, early).await?;
    fixture
        .ask(&format!("CREATE VIEW unasked AS {COUNT}"))
        .await?;
    fixture
        .ask(&format!("CREATE VIEW asked AS {COUNT}"))
        .await?;
    assert_eq!(fixture.ask("SELECT n FROM asked").await?, ["[3]"]);
    fixture.write(&files, |path| !early(path)).await?;
    for view in ["unasked", "asked", "unasked"] {
        assert_eq!(
            fixture.ask(&format!("SELECT n FROM {view}")).await?,
            ["[5]"],
            "{view}"
        );
    }
    Ok(())
}

trial!(prepared);
async fn prepared() -> Result<(), Failed> {
    let (fixture, files) = (Fixture::new()?, Files::golden("enum_extended"));
    fixture.write(&files, early).await?;
    fixture.ask(&format!("PREPARE unasked AS {COUNT}")).await?;
    fixture.ask(&format!("PREPARE asked AS {COUNT}")).await?;
    assert_eq!(fixture.ask("EXECUTE asked").await?, ["[3]"]);
    fixture.write(&files, |path| !early(path)).await?;
    for statement in ["unasked", "asked", "unasked"] {
        let found = fixture.ask(&format!("EXECUTE {statement}")).await?;
        assert_eq!(found, ["[5]"], "{statement}");
    }
    Ok(())
}

trial!(kept_frames);
/// A program may keep what it planned, and the table itself.
async fn kept_frames() -> Result<(), Failed> {
    let (fixture, files) = (Fixture::new()?, Files::golden("enum_extended"));
    fixture.write(&files, early).await?;
    let count = COUNT.replace('$', PATH);
    let unasked = fixture.ctx.sql(&count).await?;
    let asked = fixture.ctx.sql(&count).await?;
    let provider = fixture.ctx.table_provider(format!("\"{PATH}\"")).await?;
    assert_eq!(neutral_rows::rows(&asked.clone().collect().await?), ["[3]"]);
    fixture.write(&files, |path| !early(path)).await?;
    for frame in [unasked.clone(), asked, unasked] {
        assert_eq!(neutral_rows::rows(&frame.collect().await?), ["[5]"]);
    }
    let frame = fixture.ctx.read_table(provider)?;
    assert_eq!(frame.count().await?, 5);
    Ok(())
}

trial!(twice);
/// One path twice in a statement.
async fn twice() -> Result<(), Failed> {
    let (fixture, files) = (Fixture::new()?, Files::golden("enum_extended"));
    fixture.write(&files, |_| true).await?;
    let sql = "SELECT count(*) FROM '$' a JOIN '$' b ON a.d = b.d WHERE b.d IN (SELECT d FROM '$')";
    assert_eq!(fixture.ask(sql).await?, ["[5]"]);
    let (lists, twice) = fixture.requests();
    assert!(lists.len() <= 3 * FOLDERS.len(), "{lists:?}");
    assert!(
        twice.iter().all(|what| what.contains("__fragments/")),
        "{twice:?}"
    );
    Ok(())
}

trial!(evolved_meanwhile);
/// The schema changed between planning and reading: the fragments written by it are read by it.
async fn evolved_meanwhile() -> Result<(), Failed> {
    let (fixture, files) = (Fixture::new()?, Files::golden("enum_extended"));
    let first = |path: &str| path.contains("__1000_1000_") || path.contains("__enumerations");
    fixture.write(&files, first).await?;
    let sql = "SELECT d, c FROM '$' WHERE c IS NOT NULL";
    for view in ["v", "w", "x"] {
        fixture.ask(&format!("CREATE VIEW {view} AS {sql}")).await?;
    }
    let early = fixture.ctx.sql(&sql.replace('$', PATH)).await?;
    fixture.write(&files, |path| !first(path)).await?;
    let expected = [
        "[0,\"red\"]",
        "[1,\"green\"]",
        "[2,\"violet\"]",
        "[3,\"blue\"]",
    ];
    // The second finds the footers of all fragments in the cache, whatever schemas it knows; the third comes late.
    assert_eq!(fixture.ask("SELECT * FROM v").await?, expected);
    assert_eq!(fixture.ask("SELECT * FROM w").await?, expected);
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    assert_eq!(fixture.ask("SELECT * FROM x").await?, expected);
    assert_eq!(neutral_rows::rows(&early.collect().await?), expected);
    // New columns are for new statements.
    let (fixture, files) = (Fixture::new()?, Files::golden("enum_added"));
    fixture.write(&files, first).await?;
    fixture.ask("CREATE VIEW v AS SELECT d, a FROM '$'").await?;
    fixture.write(&files, |path| !first(path)).await?;
    let error = fixture.ask("SELECT * FROM v").await.unwrap_err();
    let told = error
        .message()
        .unwrap_or_default()
        .contains("columns of the array changed");
    assert!(told, "{error:?}");
    assert_eq!(
        fixture
            .ask("SELECT d, k FROM '$' WHERE k IS NOT NULL")
            .await?
            .len(),
        2
    );
    Ok(())
}

trial!(old_layout);
/// The schema of old releases lies in the array's own folder, which only opening finds.
async fn old_layout() -> Result<(), Failed> {
    let folder = crate::support::golden::folder().join("old/v05_appended");
    let fixture = Fixture::new()?;
    fixture.write(&Files::of(&folder), |_| true).await?;
    assert_eq!(fixture.ask(COUNT).await?, ["[18]"]);
    let (_, twice) = fixture.requests();
    assert!(twice.is_empty(), "{twice:?}");
    let error = fixture.ask("SELECT * FROM 'memory:///nothing'").await;
    assert!(error.is_err());
    Ok(())
}

trial!(files_of_the_session);
/// A store that stands for the files of this machine sees all that is asked of them, however they are named.
async fn files_of_the_session() -> Result<(), Failed> {
    let folder = crate::support::golden::folder().join("weather_stations");
    let path = folder.to_str().ok_or("a path in UTF-8")?;
    let store = Counting::new(LocalFileSystem::new());
    let ctx = SessionContext::new();
    ctx.register_object_store(&Url::parse("file:///")?, Arc::clone(&store) as _);
    datafusion_tiledb::register(&ctx)?;
    let plain = SessionContext::new();
    datafusion_tiledb::register(&plain)?;
    let create = format!("CREATE EXTERNAL TABLE weather STORED AS TILEDB LOCATION '{path}'");
    plain.sql(&create).await?;
    ctx.sql(&create).await?;
    let mut fragments = 0;
    for from in [
        "weather".to_owned(),
        format!("'{path}'"),
        format!("tiledb_scan('file://{path}')"),
        format!("(SELECT count(*) FROM tiledb_fragments('{path}'))"),
    ] {
        store.take();
        let sql = format!("SELECT * FROM {from}");
        let expected = neutral_rows::rows(&plain.sql(&sql).await?.collect().await?);
        let found = neutral_rows::rows(&ctx.sql(&sql).await?.collect().await?);
        assert_eq!(expected, found);
        let (lists, gets) = store.take();
        assert!(!lists.is_empty(), "{sql}");
        fragments += usize::from(gets.keys().any(|file| file.contains("__fragments/")));
    }
    // What is known of footers stays known.
    assert!(fragments >= 3);
    Ok(())
}
