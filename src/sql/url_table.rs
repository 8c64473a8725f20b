//! A path or URL as a table name: `SELECT * FROM '/data/weather?timestamp=2024-05-01'`.
//!
//! A wrapper around the session's catalogs that opens such names as arrays and passes all other names on. It works at
//! any position among other wrappers. Inside a wrapper that registers object stores, the store exists at the second
//! lookup. Around such a wrapper, that one is asked first if the store is missing. And arrays are looked up *before* a
//! catalog inside that opens folders of files, because that one takes the `?` of a query for a glob and would list the
//! whole parent folder.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::TableType;
use futures::future::BoxFuture;
use url::{Url, form_urlencoded};

use super::location::{check_no_secret, expand_home};
use super::options::{TableOptions, has_prefix, is_known, is_secret};
use super::provider::TileDbTable;
use crate::error::Error;

/// Opens the array at a location, or returns `None` if there is none.
///
/// It takes the runtime and not the session, because a session may be rebuilt around the same catalogs
/// (`enable_url_table` does so), after which a reference to it would be invalid.
pub(crate) type OpenArray = fn(
    String,
    TableOptions,
    Arc<RuntimeEnv>,
) -> BoxFuture<'static, Result<Option<Arc<dyn TableProvider>>>>;

/// Wraps catalogs, so that paths and URLs of arrays are table names. Catalogs that are already wrapped stay as they
/// are.
pub(crate) fn around(
    inner: Arc<dyn CatalogProviderList>,
    runtime: Arc<RuntimeEnv>,
    open: OpenArray,
) -> Arc<dyn CatalogProviderList> {
    if inner.is::<ArrayCatalogs>() {
        return inner;
    }
    let opener = Opener { open, runtime };
    Arc::new(ArrayCatalogs { inner, opener })
}

#[derive(Clone)]
struct Opener {
    open: OpenArray,
    runtime: Arc<RuntimeEnv>,
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").finish_non_exhaustive()
    }
}

impl Opener {
    async fn open(&self, location: &Location) -> Result<Option<Arc<dyn TableProvider>>> {
        let runtime = Arc::clone(&self.runtime);
        (self.open)(location.path.clone(), location.options.clone(), runtime).await
    }

    fn has_store(&self, path: &str) -> bool {
        has_store(&self.runtime, path)
    }
}

/// Whether an object store for the location is registered; local paths always have one.
pub(super) fn has_store(runtime: &RuntimeEnv, path: &str) -> bool {
    if !path.contains("://") {
        return true;
    }
    Url::parse(path).is_ok_and(|url| runtime.object_store_registry.get_store(&url).is_ok())
}

/// A parsed location: its path, and the options in its query.
#[derive(Debug)]
pub(super) struct Named {
    pub path: String,
    pub pairs: Vec<(String, String)>,
}

impl Named {
    pub(super) fn parse(name: &str) -> crate::error::Result<Self> {
        check_no_secret(name)?;
        let (path, pairs) = split_query(name);
        // Names are shown in plans, errors and listings.
        if pairs.iter().any(|(key, _)| is_secret(key)) {
            return Err(Error::invalid(
                "the name of a table cannot hold a key: name a file that does with tiledb.encryption_key_file, or an \
                 environment variable with tiledb.encryption_key_env",
            ));
        }
        Ok(Self {
            path: expand_home(path).into_owned(),
            pairs,
        })
    }
}

/// A table name that is a location on storage.
#[derive(Debug, PartialEq, Eq)]
struct Location {
    path: String,
    options: TableOptions,
    /// Whether the name has a query, which only makes sense for an array.
    has_query: bool,
}

impl Location {
    /// `None` if the name is not a location.
    fn parse(name: &str) -> crate::error::Result<Option<Self>> {
        if !looks_like_location(name) {
            return Ok(None);
        }
        let Named { path, pairs } = Named::parse(name)?;
        let pairs_as_text = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        Ok(Some(Self {
            path,
            options: TableOptions::from_pairs(pairs_as_text)?,
            has_query: !pairs.is_empty(),
        }))
    }

    /// Whether the URL names a file on a web server, judging by its extension.
    fn names_web_file(&self) -> bool {
        let is_web = ["http://", "https://"]
            .iter()
            .any(|scheme| self.path.starts_with(scheme));
        let path = self.path.split(['?', '#']).next().unwrap_or_default();
        let is_one_of = |ending: &str, known: &[&str]| known.contains(&ending);
        let mut endings = path.rsplit('.');
        let ending = match endings.next() {
            Some(ending) if is_one_of(ending, &COMPRESSED_ENDINGS) => endings.next(),
            ending => ending,
        };
        is_web && !self.has_query && ending.is_some_and(|ending| is_one_of(ending, &FILE_ENDINGS))
    }
}

/// The extensions of files that DataFusion reads.
const FILE_ENDINGS: [&str; 6] = ["parquet", "csv", "json", "ndjson", "arrow", "avro"];
/// The extensions of compressed files.
const COMPRESSED_ENDINGS: [&str; 4] = ["gz", "bz2", "xz", "zst"];

/// Plain names are no locations, not even that of a folder in the current directory (`./weather` names it): DataFusion
/// also looks up here whether the table of a CREATE statement exists already, and `CREATE EXTERNAL TABLE weather …
/// LOCATION 'weather'` must not find itself.
pub(super) fn looks_like_location(name: &str) -> bool {
    name.contains(['/', std::path::MAIN_SEPARATOR]) || name == "~"
}

/// Splits `path?key=value&…`. A URL's query has our options only if one of its keys is ours: other queries sign
/// requests. The query of a local path always has options.
fn split_query(name: &str) -> (&str, Vec<(String, String)>) {
    let Some((path, query)) = name.rsplit_once('?') else {
        return (name, Vec::new());
    };
    // A plus sign is part of a time zone here, not a space.
    let query = query.replace('+', "%2B");
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let is_word = |key: &str| {
        !key.is_empty()
            && key
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._".contains(&b))
    };
    let ours = if name.contains("://") {
        pairs
            .iter()
            .any(|(key, _)| is_known(key) || has_prefix(key))
    } else {
        query.contains('=') && pairs.iter().all(|(key, _)| is_word(key))
    };
    if ours {
        (path, pairs)
    } else {
        (name, Vec::new())
    }
}

#[derive(Debug)]
struct ArrayCatalogs {
    inner: Arc<dyn CatalogProviderList>,
    opener: Opener,
}

impl CatalogProviderList for ArrayCatalogs {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.inner.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.inner.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let inner = self.inner.catalog(name)?;
        let opener = self.opener.clone();
        Some(Arc::new(ArrayCatalog { inner, opener }))
    }
}

#[derive(Debug)]
struct ArrayCatalog {
    inner: Arc<dyn CatalogProvider>,
    opener: Opener,
}

impl CatalogProvider for ArrayCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let inner = self.inner.schema(name)?;
        let opener = self.opener.clone();
        Some(Arc::new(ArraySchema { inner, opener }))
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.register_schema(name, schema)
    }

    fn deregister_schema(
        &self,
        name: &str,
        cascade: bool,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.deregister_schema(name, cascade)
    }
}

#[derive(Debug)]
struct ArraySchema {
    inner: Arc<dyn SchemaProvider>,
    opener: Opener,
}

impl ArraySchema {
    /// The table. If its columns have changed, it is opened again and replaced.
    async fn renewed(
        &self,
        name: &str,
        table: Option<Arc<dyn TableProvider>>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let array = table.as_ref().and_then(|t| t.downcast_ref::<TileDbTable>());
        let renewed = match array {
            Some(array) => array.renewed().await,
            None => None,
        };
        let Some(renewed) = renewed else {
            return Ok(table);
        };
        let renewed = renewed.map_err(|e| DataFusionError::External(Box::new(e)))?;
        let renewed: Arc<dyn TableProvider> = Arc::new(renewed);
        // Schemas that do not change make their tables anew each time.
        if self
            .inner
            .deregister_table(name)
            .is_ok_and(|old| old.is_some())
        {
            let renewed = Arc::clone(&renewed);
            self.inner.register_table(name.to_owned(), renewed)?;
        }
        Ok(Some(renewed))
    }
}

#[async_trait]
impl SchemaProvider for ArraySchema {
    fn owner_name(&self) -> Option<&str> {
        self.inner.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.inner.table_exist(name) {
            let table = self.inner.table(name).await?;
            return self.renewed(name, table).await;
        }
        let location = Location::parse(name).map_err(|e| DataFusionError::External(Box::new(e)))?;
        let Some(location) = location else {
            return self.inner.table(name).await;
        };
        if !self.opener.has_store(&location.path)
            && let Some(table) = self.inner.table(&location.path).await?
        {
            return Ok(Some(table));
        }
        // A search for an array on a web server costs requests that most servers refuse.
        let file = match location.names_web_file() {
            true => self.inner.table(&location.path).await,
            false => Ok(None),
        };
        if let Ok(Some(table)) = file {
            return Ok(Some(table));
        }
        if let Some(table) = self.opener.open(&location).await? {
            return Ok(Some(table));
        }
        file?;
        if location.has_query {
            let error =
                Error::not_found(format!("there is no TileDB array at '{}'", location.path));
            return Err(DataFusionError::External(Box::new(error)));
        }
        self.inner.table(&location.path).await
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if self.inner.table_exist(name) {
            return self.inner.table_type(name).await;
        }
        Ok(self.table(name).await?.map(|table| table.table_type()))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    use datafusion::arrow::array::StringArray;
    use datafusion::arrow::record_batch::RecordBatch;
    use datafusion::datasource::MemTable;
    use datafusion::prelude::SessionContext;
    use futures::FutureExt;

    /// Opens every path that contains "array"; the table shows the path and the time it was opened with.
    fn fake_open(
        path: String,
        options: TableOptions,
        _: Arc<RuntimeEnv>,
    ) -> BoxFuture<'static, Result<Option<Arc<dyn TableProvider>>>> {
        async move {
            if !path.contains("array") {
                return Ok(None);
            }
            let seen = format!("{path}@{:?}", options.timestamp_end);
            let column = Arc::new(StringArray::from(vec![seen])) as _;
            let batch = RecordBatch::try_from_iter([("seen", column)])?;
            let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
            Ok(Some(Arc::new(table) as _))
        }
        .boxed()
    }

    fn install(ctx: &SessionContext) {
        let catalogs = Arc::clone(ctx.state().catalog_list());
        ctx.register_catalog_list(around(catalogs, ctx.runtime_env(), fake_open));
    }

    fn path_of(name: &str) -> Option<(String, Option<u64>)> {
        let location = Location::parse(name).unwrap()?;
        Some((location.path, location.options.timestamp_end))
    }

    #[test]
    fn names_are_not_locations() {
        assert_eq!(path_of("weather"), None);
        assert_eq!(path_of("weather?timestamp=5"), None);
        assert_eq!(path_of("/a/b"), Some(("/a/b".into(), None)));
        assert_eq!(path_of("s3://a/b"), Some(("s3://a/b".into(), None)));
    }

    #[test]
    fn queries_are_options() {
        assert_eq!(path_of("/a/b?timestamp=5"), Some(("/a/b".into(), Some(5))));
        assert_eq!(
            path_of("s3://a/b?tiledb.timestamp=5"),
            Some(("s3://a/b".into(), Some(5)))
        );
        assert_eq!(
            path_of("/a/b?timestamp=1970-01-01T02:00:01+02:00&empty_cells=skip"),
            Some(("/a/b".into(), Some(1000)))
        );
        let error = Location::parse("/a/b?timestmp=5").unwrap_err();
        assert!(
            error.message().contains("unknown option \"timestmp\""),
            "{error}"
        );
    }

    #[test]
    fn the_queries_and_globs_of_others_are_left_alone() {
        for name in [
            "https://h/x.parquet?version=a+b",
            "/data/*.parquet",
            "/data/part?.parquet",
            "/data/x?=1",
        ] {
            assert_eq!(path_of(name), Some((name.into(), None)));
        }
        // No store takes a signature from there, and the name of a table is shown.
        let error = Location::parse("https://h/x.parquet?sig=hunter2").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    async fn first_cell(ctx: &SessionContext, sql: &str) -> Result<String> {
        let batches = ctx.sql(sql).await?.collect().await?;
        let cell = batches
            .iter()
            .find(|b| b.num_rows() > 0)
            .map(|b| b.column(0));
        let cell = cell.ok_or_else(|| DataFusionError::External("no rows".into()))?;
        datafusion::arrow::util::display::array_value_to_string(cell, 0).map_err(Into::into)
    }

    async fn check_order(ctx: &SessionContext) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.csv");
        std::fs::write(&file, "n\n42\n").unwrap();
        let array = folder.path().join("array");
        let sql = |path: &Path, query: &str| format!("SELECT * FROM '{}{query}'", path.display());

        assert_eq!(first_cell(ctx, &sql(&file, "")).await.unwrap(), "42");
        let seen = first_cell(ctx, &sql(&array, "?timestamp=9")).await.unwrap();
        assert_eq!(seen, format!("{}@Some(9)", array.display()));
        assert!(
            first_cell(ctx, &sql(&folder.path().join("nothing"), ""))
                .await
                .is_err()
        );
        let error = first_cell(ctx, &sql(&folder.path().join("nothing"), "?timestamp=9")).await;
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("there is no TileDB array at")
        );
        assert!(first_cell(ctx, "SELECT * FROM typo").await.is_err());

        ctx.sql("CREATE TABLE \"a/b\" AS SELECT 7 AS n")
            .await
            .unwrap();
        assert_eq!(first_cell(ctx, "SELECT * FROM \"a/b\"").await.unwrap(), "7");
    }

    #[tokio::test]
    async fn arrays_come_before_files_around_url_tables() {
        let ctx = SessionContext::new().enable_url_table();
        install(&ctx);
        install(&ctx);
        check_order(&ctx).await;
    }

    #[tokio::test]
    async fn arrays_come_before_files_inside_url_tables() {
        let ctx = SessionContext::new();
        install(&ctx);
        let ctx = ctx.enable_url_table();
        check_order(&ctx).await;
    }
}
