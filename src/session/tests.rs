//! Statements with options of object stores, through the door.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::{SessionConfig, SessionContext};
use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::execute::execute;
use crate::stores::statement::{SessionStores, StatementStores, StoreRequest};

/// Keeps the objects of all URLs in memory, and records the requests.
#[derive(Debug, Default)]
struct FakeStores {
    objects: Arc<InMemory>,
    requests: Mutex<Vec<String>>,
}

impl FakeStores {
    /// The requests since the last call: the URL and the options.
    fn requests(&self) -> Vec<String> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut requests)
    }
}

#[async_trait]
impl StatementStores for FakeStores {
    async fn store(&self, request: StoreRequest<'_>) -> Result<Option<Arc<dyn ObjectStore>>> {
        let options = request.options.iter().map(|(k, v)| format!(" {k}={v}"));
        let made = format!("{}{}", request.url, options.collect::<String>());
        if made.contains("refused") {
            return Err(DataFusionError::Configuration(format!("no store: {made}")));
        }
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(made);
        let is_ours = matches!(request.url.scheme(), "fake" | "file");
        let registered = request.registered;
        let store = registered.unwrap_or_else(|| Arc::clone(&self.objects) as _);
        Ok(is_ours.then_some(store))
    }

    fn replace(&self, location: &str, format: &str) -> Option<String> {
        (location == "/dev/stdin").then(|| format!("fake://b/csv/{format}"))
    }
}

fn session(stores: &Arc<FakeStores>) -> SessionContext {
    let stores = SessionStores::new(Arc::clone(stores) as _);
    let config = SessionConfig::new().with_extension(Arc::new(stores));
    let ctx = SessionContext::new_with_config(config);
    crate::register(&ctx).unwrap();
    ctx
}

async fn shown(ctx: &SessionContext, sql: &str) -> String {
    let frame = execute(ctx, sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    let rows = frame.to_string().await;
    rows.unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// The options of a store, whose value must not be shown.
const OPTIONS: &str = "'aws.region' 'r', 'aws.secret_access_key' 'hush-hush'";

#[tokio::test]
async fn stores_are_made_with_the_options_of_each_statement() {
    let stores = Arc::new(FakeStores::default());
    let ctx = session(&stores);
    for (sql, url) in [
        (
            "CREATE EXTERNAL TABLE t (x INT, v INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 'fake://b/t' \
             OPTIONS ($, 'tiledb.capacity' '7')",
            "fake://b/t",
        ),
        (
            "COPY (SELECT 1 AS x) TO 'fake://c/copied' STORED AS TILEDB PARTITIONED BY (x) OPTIONS ($, 'capacity' 7)",
            "fake://c/copied",
        ),
        (
            "COPY (SELECT 1 AS x) TO 'fake://b/csv/a.csv' STORED AS CSV OPTIONS ($, 'has_header' 'true')",
            "fake://b/csv/a.csv",
        ),
        (
            "CREATE EXTERNAL TABLE c STORED AS CSV LOCATION 'fake://b/csv/a.csv' OPTIONS ($, 'has_header' 'true')",
            "fake://b/csv/a.csv",
        ),
        (
            "EXPLAIN COPY (SELECT 1 AS x) TO 'fake://b/csv/b.csv' STORED AS CSV OPTIONS ($)",
            "fake://b/csv/b.csv",
        ),
        (
            "EXPLAIN VERBOSE COPY (SELECT 1 AS x) TO 'fake://b/csv/b.csv' STORED AS CSV OPTIONS ($)",
            "fake://b/csv/b.csv",
        ),
        (
            "EXPLAIN ANALYZE COPY (SELECT 1 AS x) TO 'fake://b/csv/b.csv' STORED AS CSV OPTIONS ($)",
            "fake://b/csv/b.csv",
        ),
    ] {
        let told = shown(&ctx, &sql.replace('$', OPTIONS)).await;
        assert!(!told.contains("hush"), "{sql}: {told}");
        let expected = format!("{url} aws.region=r aws.secret_access_key=hush-hush");
        assert_eq!(stores.requests(), [expected], "{sql}");
    }
    for sql in ["SELECT x FROM c", "SELECT x FROM 'fake://c/copied'"] {
        assert!(shown(&ctx, sql).await.contains("| 1 |"), "{sql}");
    }
    assert!(stores.requests().is_empty());
    shown(&ctx, "SELECT * FROM tiledb_create_group('fake://b/group')").await;
    let attach = "ATTACH 'fake://b/group' AS g (aws.region 'r', timestamp 5)";
    shown(&ctx, attach).await;
    assert_eq!(stores.requests(), ["fake://b/group aws.region=r"]);
}

#[tokio::test]
async fn stores_are_made_without_options_too() {
    let stores = Arc::new(FakeStores::default());
    let ctx = session(&stores);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv").display().to_string();
    shown(&ctx, &format!("COPY (SELECT 1 AS x) TO '{path}'")).await;
    assert_eq!(stores.requests(), ["file:///"]);
    shown(
        &ctx,
        "COPY (SELECT 1 AS x) TO 'fake://b/csv/CSV'  STORED AS CSV",
    )
    .await;
    assert_eq!(stores.requests(), ["fake://b/csv/CSV"]);
    let input = "CREATE EXTERNAL TABLE i STORED AS CSV LOCATION '/dev/stdin'";
    shown(&ctx, input).await;
    assert_eq!(stores.requests(), ["fake://b/csv/CSV"]);
    assert!(shown(&ctx, "SELECT * FROM i").await.contains("| 1 |"));
}

const STATEMENTS: [&str; 5] = [
    "CREATE EXTERNAL TABLE t (x INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$' OPTIONS (%)",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '$' OPTIONS (%)",
    "COPY (SELECT 1 AS x) TO '$' STORED AS TILEDB PARTITIONED BY (x) OPTIONS (%)",
    "COPY (SELECT 1 AS x) TO '$' STORED AS CSV OPTIONS (%)",
    "ATTACH '$' AS e (%)",
];

async fn refused(ctx: &SessionContext, sql: &str, location: &str) -> String {
    let sql = sql.replace('$', location).replace('%', OPTIONS);
    let ran = async { execute(ctx, &sql).await?.collect().await };
    let error = ran.await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("hush"), "{sql}: {shown}");
    shown
}

#[tokio::test]
async fn no_option_is_dropped() {
    let ctx = SessionContext::new();
    crate::register(&ctx).unwrap();
    for sql in STATEMENTS {
        let error = refused(&ctx, sql, "nostore://bucket/x").await;
        let names = [
            "aws.region",
            "'nostore://bucket/x'",
            "register_object_store",
        ];
        for name in names {
            assert!(error.contains(name), "{sql}: {error}");
        }
        let error = refused(&ctx, sql, "./x").await;
        assert!(error.contains("no options of an object store"), "{error}");
    }
    // Without the door, too.
    for sql in [STATEMENTS[0], STATEMENTS[2]] {
        let sql = sql.replace('$', "./x").replace('%', OPTIONS);
        let ran = async { ctx.sql(&sql).await?.collect().await };
        let error = ran.await.unwrap_err().to_string();
        assert!(error.contains("register_object_store"), "{sql}: {error}");
    }
    let stores = Arc::new(FakeStores::default());
    for sql in STATEMENTS {
        let error = refused(&session(&stores), sql, "fake://refused/x").await;
        assert!(error.contains("no store"), "{sql}: {error}");
    }
}
