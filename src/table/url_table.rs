//! A path or URL as a table name: `SELECT * FROM '/data/weather?timestamp=2024-05-01'`.
//!
//! A wrapper around the session's catalogs that opens such names as arrays and passes all other names on. It works at
//! any position among other wrappers. Inside a wrapper that registers object stores, the store exists at the second
//! lookup. Below such a wrapper, the wrapper is called first if the store is missing. And arrays are looked up *before* a
//! catalog inside that opens folders of files, because that one takes the `?` of a query for a glob and would list the
//! whole parent folder.

mod name;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::TableType;
use futures::FutureExt;
use futures::future::BoxFuture;

use self::name::TableLocation;
pub(crate) use self::name::{ParsedLocation, looks_like_location};
use tiledb_engine::{Error, ErrorKind};

use crate::error::{kind_of, to_datafusion_error};
use crate::options::TableOptions;
use crate::stores::ahead::OpenedTables;
use crate::stores::location::has_store;
use crate::stores::runtime::ArrayRuntime;
use crate::table::provider::TileDbTable;
use crate::upstream::boxed_methods::forward_to_boxed;

/// Opens the array at a location, or returns `None` if there is none. An error of the kind [`ErrorKind::NotAnArray`] explains why no
/// array can be there; the location may still be that of a file.
///
/// It takes the runtime and not the session, because a session may be rebuilt around the same catalogs
/// (`enable_url_table` does so), after which a reference to it would be invalid.
pub(crate) type OpenArray = fn(
    String,
    TableOptions,
    ArrayRuntime,
) -> BoxFuture<'static, Result<Option<Arc<dyn TableProvider>>>>;

/// Finds the names of arrays and groups in a folder that is neither. They help in an error, so a folder that can't be listed
/// has none.
pub(crate) type ListArrays = fn(String, ArrayRuntime) -> BoxFuture<'static, Vec<String>>;

/// Wraps catalogs, so that paths and URLs of arrays are table names. Catalogs that are already wrapped stay as they
/// are.
pub(crate) fn around(
    inner: Arc<dyn CatalogProviderList>,
    runtime: ArrayRuntime,
    open: OpenArray,
    list: ListArrays,
) -> Arc<dyn CatalogProviderList> {
    if inner.is::<ArrayCatalogs>() {
        return inner;
    }
    let opener = UrlTableOpener {
        open,
        list,
        runtime,
    };
    Arc::new(ArrayCatalogs { inner, opener })
}

#[derive(Clone)]
struct UrlTableOpener {
    open: OpenArray,
    list: ListArrays,
    runtime: ArrayRuntime,
}

impl fmt::Debug for UrlTableOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").finish_non_exhaustive()
    }
}

impl UrlTableOpener {
    async fn open(&self, location: &TableLocation) -> Result<Option<Arc<dyn TableProvider>>> {
        let runtime = self.runtime.clone();
        (self.open)(location.path.clone(), location.options.clone(), runtime).await
    }

    fn has_store(&self, path: &str) -> bool {
        has_store(path, &self.runtime)
    }

    /// The error for a folder of arrays, which may have files beside them.
    async fn holds_arrays(&self, path: &str, has_files: bool) -> Option<Error> {
        let names = (self.list)(path.to_owned(), self.runtime.clone()).await;
        let first = names.first()?;
        let mut shown = names
            .iter()
            .take(SHOWN_ARRAYS)
            .map(String::as_str)
            .collect::<Vec<_>>();
        if names.len() > SHOWN_ARRAYS {
            shown.push("…");
        }
        let folder = path.trim_end_matches('/');
        let files = match has_files {
            true => format!(", or the files beside them, as in FROM '{folder}/*.csv'"),
            false => String::new(),
        };
        Some(Error::not_found(format!(
            "'{path}' is a folder of arrays ({}), not an array: name one of them, as in FROM '{folder}/{first}'{files}",
            shown.join(", ")
        )))
    }
}

/// Whether a location looks like a folder of this machine: its last part has neither an ending nor a pattern.
fn names_local_folder(path: &str) -> bool {
    let last = path.trim_end_matches('/').rsplit('/').next();
    let is_folder =
        last.is_some_and(|name| !name.trim_start_matches('.').contains(['.', '*', '?']));
    is_folder && !path.contains("://")
}

/// The number of arrays of a folder that an error names.
const SHOWN_ARRAYS: usize = 5;

#[derive(Debug)]
struct ArrayCatalogs {
    inner: Arc<dyn CatalogProviderList>,
    opener: UrlTableOpener,
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
    opener: UrlTableOpener,
}

impl CatalogProvider for ArrayCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let inner = self.inner.schema(name)?;
        let opener = self.opener.clone();
        Some(Arc::new(ArraySchemaProvider { inner, opener }))
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
struct ArraySchemaProvider {
    inner: Arc<dyn SchemaProvider>,
    opener: UrlTableOpener,
}

impl ArraySchemaProvider {
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
        // Schemas that can't change make their tables again each time.
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

impl ArraySchemaProvider {
    /// Opens a table ahead, if it is in a store behind a network. What fails is reported when the table is looked up.
    async fn open_ahead(&self, name: &str) {
        if self.inner.table_exist(name) {
            // It may be that of a group.
            let _ = self.inner.table(name).await;
            return;
        }
        let location = TableLocation::parse(name).ok().flatten();
        let is_remote = |path: &str| path.contains("://") && !path.starts_with("file:");
        if let Some(location) = location.filter(|location| is_remote(&location.path))
            && !location.names_web_file()
            && self.opener.has_store(&location.path)
        {
            let _ = self.opener.open(&location).await;
        }
    }
}

impl ArraySchemaProvider {
    fn table_boxed<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<dyn TableProvider>>>> {
        async move {
            if OpenedTables::is_looking_ahead() {
                self.open_ahead(name).await;
                return Ok(None);
            }
            if self.inner.table_exist(name) {
                let table = self.inner.table(name).await?;
                return self.renewed(name, table).await;
            }
            let location =
                TableLocation::parse(name).map_err(|e| DataFusionError::External(Box::new(e)))?;
            let Some(location) = location else {
                return self.inner.table(name).await;
            };
            if !self.opener.has_store(&location.path)
                && let Some(table) = self.inner.table(&location.path).await?
            {
                return Ok(Some(table));
            }
            // A search for an array on a web server costs requests that most servers refuse.
            let file = if location.names_web_file() {
                self.inner.table(&location.path).await
            } else {
                Ok(None)
            };
            if let Ok(Some(table)) = file {
                return Ok(Some(table));
            }
            let refusal = match self.opener.open(&location).await {
                Ok(Some(table)) => return Ok(Some(table)),
                Ok(None) => None,
                Err(error) if kind_of(&error) == Some(ErrorKind::NotAnArray) => Some(error),
                Err(error) => return Err(error),
            };
            file?;
            if location.has_query {
                let error =
                    Error::not_found(format!("there is no TileDB array at '{}'", location.path));
                return Err(DataFusionError::External(Box::new(error)));
            }
            let table = self.inner.table(&location.path).await;
            let has_files = matches!(table, Ok(Some(_)));
            if (!has_files || names_local_folder(&location.path))
                && let Some(error) = self.opener.holds_arrays(&location.path, has_files).await
            {
                return Err(to_datafusion_error(error));
            }
            match refusal {
                Some(refusal) if !has_files => Err(refusal),
                _ => table,
            }
        }
        .boxed()
    }
}

#[async_trait]
impl SchemaProvider for ArraySchemaProvider {
    fn owner_name(&self) -> Option<&str> {
        self.inner.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    forward_to_boxed!(SchemaProvider: table);

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

    use datafusion::arrow::array::StringArray;
    use datafusion::arrow::record_batch::RecordBatch;
    use datafusion::datasource::MemTable;
    use datafusion::prelude::SessionContext;
    use futures::FutureExt;

    use super::*;

    /// Opens every path that contains "array"; the table shows the path and the time it was opened with.
    fn fake_open(
        path: String,
        options: TableOptions,
        _: ArrayRuntime,
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
        ctx.register_catalog_list(around(
            catalogs,
            ArrayRuntime::of_context(ctx),
            fake_open,
            |_, _| async { Vec::new() }.boxed(),
        ));
    }

    async fn first_cell(ctx: &SessionContext, sql: &str) -> Result<String> {
        let batches = ctx.sql(sql).await?.collect().await?;
        let cell = batches
            .iter()
            .find(|b| b.num_rows() > 0)
            .map(|b| b.column(0))
            .ok_or_else(|| DataFusionError::External("no rows".into()))?;
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
