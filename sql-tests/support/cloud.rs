//! Sessions on a server of S3 in this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::session::in_one_statement;
use datafusion_tiledb::{Engine, EngineOptions, StoreRegistry, execute};
use futures::TryStreamExt;
use libtest_mimic::Failed;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use tiledb_stores::{ObjectStores, StoreEnvironment};

use super::s3::{S3Action, S3Bucket, S3Server, S3ServerOptions, S3User};

/// The bucket that every cloud has.
pub const BUCKET: &str = "data";
/// The keys that may do everything there.
pub const KEYS: (&str, &str) = ("owner", "owner-secret");

/// A server with one bucket, and its owner.
pub struct S3Cloud {
    pub server: S3Server,
}

impl S3Cloud {
    pub fn start() -> Self {
        Self::with(S3ServerOptions::default())
    }

    /// A server with more buckets and users.
    pub fn with(options: S3ServerOptions) -> Self {
        let owner = S3User::new(KEYS.0, KEYS.1).with_grants(&S3Action::ALL, BUCKET);
        let options = options.with_bucket(S3Bucket::new(BUCKET)).with_user(owner);
        Self {
            server: S3Server::start(options),
        }
    }

    /// The variables of the environment with which a program finds the server, and its owner's keys.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = self.endpoint();
        variables.push(("AWS_ACCESS_KEY_ID", KEYS.0.to_owned()));
        variables.push(("AWS_SECRET_ACCESS_KEY", KEYS.1.to_owned()));
        variables
    }

    /// The variables without keys.
    pub fn endpoint(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT", self.server.endpoint()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
    }

    /// All objects of the server.
    pub async fn contents(&self) -> Result<BTreeMap<ObjectPath, Bytes>, Failed> {
        let objects = self.server.objects();
        let mut contents = BTreeMap::new();
        let listed: Vec<_> = objects.list(None).try_collect().await?;
        for object in listed {
            let read = objects.get(&object.location).await?;
            contents.insert(object.location, read.bytes().await?);
        }
        Ok(contents)
    }

    /// Waits until no upload in parts is open.
    pub async fn no_upload_is_open(&self) -> Result<(), Failed> {
        for _ in 0..100 {
            if self.server.open_uploads() == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(format!("{} uploads are open", self.server.open_uploads()).into())
    }

    /// An engine of its own, with the owner's keys.
    pub fn engine(&self) -> Engine {
        engine(self.variables())
    }

    /// A session in an engine of its own, as the shell has one, with the owner's keys.
    pub fn session(&self) -> SessionContext {
        session(self.variables())
    }
}

/// An engine that sees these variables of the environment and no others.
fn engine(variables: Vec<(&'static str, String)>) -> Engine {
    let environment = StoreEnvironment::from_iter(variables);
    let stores = ObjectStores::with_environment(environment);
    Engine::with_stores(EngineOptions::default(), stores)
}

/// A session that sees these variables of the environment and no others.
pub fn session(variables: Vec<(&'static str, String)>) -> SessionContext {
    let engine = engine(variables);
    let registry = Arc::new(StoreRegistry::new(&engine));
    let runtime = RuntimeEnvBuilder::new().with_object_store_registry(Arc::clone(&registry) as _);
    let config = SessionConfig::new()
        .with_target_partitions(2)
        .with_extension(registry)
        .with_extension(Arc::new(engine));
    let runtime = runtime.build_arc().expect("a runtime");
    let ctx = SessionContext::new_with_config_rt(config, runtime).enable_url_table();
    datafusion_tiledb::register(&ctx).expect("the session takes arrays");
    ctx
}

/// The rows of a statement as text, or its error.
pub async fn tried(ctx: &SessionContext, sql: &str) -> Result<String, String> {
    let ran = async { execute(ctx, sql).await?.collect().await };
    let batches = in_one_statement(ran).await.map_err(|e| e.to_string())?;
    let table = pretty_format_batches(&batches).map_err(|e| e.to_string())?;
    Ok(table.to_string())
}

/// The rows of a statement as text.
pub async fn rows(ctx: &SessionContext, sql: &str) -> Result<String, Failed> {
    let ran = tried(ctx, sql).await;
    ran.map_err(|e| format!("{sql}: {e}").into())
}

/// The error of a statement.
pub async fn error(ctx: &SessionContext, sql: &str) -> Result<String, Failed> {
    match tried(ctx, sql).await {
        Ok(rows) => Err(format!("{sql} gave rows: {rows}").into()),
        Err(error) => Ok(error),
    }
}
