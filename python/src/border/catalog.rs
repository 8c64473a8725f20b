//! A group as a catalog for another session.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::Result;

use super::BorderSession;

/// A catalog whose tables are [`BorderTable`](super::table::BorderTable)s.
pub(super) struct BorderCatalog {
    inner: Arc<dyn CatalogProvider>,
    border: BorderSession,
}

impl BorderCatalog {
    pub(super) fn new(inner: Arc<dyn CatalogProvider>, border: BorderSession) -> Self {
        Self { inner, border }
    }
}

impl fmt::Debug for BorderCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BorderCatalog").field(&self.inner).finish()
    }
}

impl CatalogProvider for BorderCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let inner = self.inner.schema(name)?;
        let border = self.border.clone();
        Some(Arc::new(BorderSchema { inner, border }))
    }
}

struct BorderSchema {
    inner: Arc<dyn SchemaProvider>,
    border: BorderSession,
}

impl fmt::Debug for BorderSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BorderSchema").field(&self.inner).finish()
    }
}

#[async_trait]
impl SchemaProvider for BorderSchema {
    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let (inner, name) = (Arc::clone(&self.inner), name.to_owned());
        let found = self.border.run(async move { inner.table(&name).await });
        Ok(found.await?.map(|table| self.border.table(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name)
    }
}
