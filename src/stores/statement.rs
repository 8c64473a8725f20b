//! The object stores that a program makes for statements.
//!
//! `CREATE EXTERNAL TABLE`, `COPY` and `ATTACH` may name a location in an object store, with options such as `aws.region`. The
//! [engine](crate::Engine) makes the stores of the services that it was built with. A program that wants to make them itself, or
//! others, gives its session a [`StatementStores`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::config::TableOptions;
use datafusion::error::Result;
use object_store::ObjectStore;
use tiledb_engine::Error;
use tiledb_engine::storage::Location;
use tiledb_stores::StoreOptions;
use url::Url;

/// Makes the object stores for the locations in statements.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use datafusion::error::Result;
/// use datafusion::prelude::{SessionConfig, SessionContext};
/// use datafusion_tiledb::{SessionStores, StatementStores, StoreRequest};
/// use object_store::ObjectStore;
/// use object_store::memory::InMemory;
///
/// /// Keeps all objects in memory.
/// #[derive(Debug)]
/// struct MemoryStores;
///
/// #[async_trait]
/// impl StatementStores for MemoryStores {
///     async fn store(&self, request: StoreRequest<'_>) -> Result<Option<Arc<dyn ObjectStore>>> {
///         if request.url.scheme() != "memory" || request.registered.is_some() {
///             return Ok(None);
///         }
///         Ok(Some(Arc::new(InMemory::new())))
///     }
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let stores = SessionStores::new(Arc::new(MemoryStores));
/// let ctx = SessionContext::new_with_config(SessionConfig::new().with_extension(Arc::new(stores)));
/// datafusion_tiledb::register(&ctx)?;
/// let copy = "COPY (SELECT 1 AS x) TO 'memory://host/new' STORED AS TILEDB PARTITIONED BY (x)";
/// datafusion_tiledb::execute(&ctx, copy).await?.collect().await?;
/// # let rows = datafusion_tiledb::execute(&ctx, "SELECT * FROM 'memory://host/new'").await?;
/// # assert_eq!(rows.count().await?, 1);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[async_trait]
pub trait StatementStores: fmt::Debug + Send + Sync {
    /// Makes the store for one location of a statement. The session registers the store before the statement runs. `None` means
    /// that no store is made here: then the session's own is used, or that of the [engine](crate::Engine).
    ///
    /// # Errors
    ///
    /// Fails if the store can't be made, and if the request has an option that the store doesn't take.
    async fn store(&self, request: StoreRequest<'_>) -> Result<Option<Arc<dyn ObjectStore>>>;

    /// Returns the URL to use in place of a location of `CREATE EXTERNAL TABLE … STORED AS` a format, for example of `/dev/stdin`.
    fn replace(&self, location: &str, format: &str) -> Option<String> {
        let _ = (location, format);
        None
    }
}

/// A location for which a statement needs an object store.
#[derive(Debug)]
#[non_exhaustive]
pub struct StoreRequest<'a> {
    /// The URL of the location. It is `file:///` for every path.
    pub url: &'a Url,
    /// The options that the statement gives the store.
    pub options: &'a StoreOptions,
    /// The store that the session has for the URL.
    pub registered: Option<Arc<dyn ObjectStore>>,
}

/// The [`StatementStores`] of a session, for [`SessionConfig::with_extension`](datafusion::prelude::SessionConfig::with_extension).
#[derive(Debug)]
pub struct SessionStores(pub(crate) Arc<dyn StatementStores>);

impl SessionStores {
    /// Wraps the maker of stores.
    pub fn new(stores: Arc<dyn StatementStores>) -> Self {
        Self(stores)
    }
}

/// Removes the options of stores from those of a statement.
pub(crate) fn taken_store_options(options: &mut HashMap<String, String>) -> StoreOptions {
    let taken = options.extract_if(|key, _| StoreOptions::is_store_option(key));
    taken.collect()
}

/// Fails if a statement has an option of an object store that nobody has used. A program like datafusion-cli makes stores on its
/// own, and then the session's table options have the prefix of the key.
pub(crate) fn check_used(
    options: &HashMap<String, String>,
    known: &TableOptions,
    location: &str,
) -> tiledb_engine::Result<()> {
    let is_used = |key: &str| {
        let (prefix, _) = key.split_once('.').unwrap_or_default();
        known.extensions.iter().any(|(known, _)| known == prefix)
    };
    let unused = options
        .keys()
        .filter(|key| StoreOptions::is_store_option(key) && !is_used(key));
    match unused.min() {
        Some(key) => Err(unused_option(key, location)),
        None => Ok(()),
    }
}

/// The error for an option of an object store in a session that makes no stores.
pub(crate) fn unused_option(key: &str, location: &str) -> Error {
    let shown = Location::without_secrets(location);
    Error::unsupported(format!(
        "the option {key} configures an object store, and this session can't create one: register the store of '{shown}' with \
         SessionContext::register_object_store, and remove the option"
    ))
}
