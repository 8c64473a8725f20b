//! Tables that one statement sees, in front of those of its session.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::progress::MaintenanceWatch;

/// Tables by their names.
pub type NamedTables = HashMap<String, Arc<dyn TableProvider>>;

/// A session that also knows `tables`, in its default schema. They hide others of the same names. Everything else is shared.
pub fn with_tables(ctx: &SessionContext, tables: NamedTables) -> SessionContext {
    if tables.is_empty() {
        return ctx.clone();
    }
    let state = ctx.state();
    let defaults = &state.config_options().catalog;
    let catalogs = OverlaidCatalogs {
        inner: Arc::clone(state.catalog_list()),
        catalog: defaults.default_catalog.clone(),
        schema: defaults.default_schema.clone(),
        tables: Arc::new(tables),
    };
    let state = SessionStateBuilder::from(state).with_catalog_list(Arc::new(catalogs));
    SessionContext::new_with_state(state.build())
}

/// A session whose statements report maintenance to `watch`.
pub fn with_maintenance(
    ctx: &SessionContext,
    watch: Option<Arc<MaintenanceWatch>>,
) -> SessionContext {
    let Some(watch) = watch else {
        return ctx.clone();
    };
    let mut state = ctx.state();
    state.config_mut().set_extension(watch);
    SessionContext::new_with_state(state)
}

#[derive(Debug)]
struct OverlaidCatalogs {
    inner: Arc<dyn CatalogProviderList>,
    catalog: String,
    schema: String,
    tables: Arc<NamedTables>,
}

impl CatalogProviderList for OverlaidCatalogs {
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
        if name != self.catalog {
            return Some(inner);
        }
        Some(Arc::new(OverlaidCatalog {
            inner,
            schema: self.schema.clone(),
            tables: Arc::clone(&self.tables),
        }))
    }
}

#[derive(Debug)]
struct OverlaidCatalog {
    inner: Arc<dyn CatalogProvider>,
    schema: String,
    tables: Arc<NamedTables>,
}

impl CatalogProvider for OverlaidCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let inner = self.inner.schema(name)?;
        if name != self.schema {
            return Some(inner);
        }
        let tables = Arc::clone(&self.tables);
        Some(Arc::new(OverlaidSchema { inner, tables }))
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
struct OverlaidSchema {
    inner: Arc<dyn SchemaProvider>,
    tables: Arc<NamedTables>,
}

#[async_trait]
impl SchemaProvider for OverlaidSchema {
    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.tables.get(name) {
            Some(table) => Ok(Some(Arc::clone(table))),
            None => self.inner.table(name).await,
        }
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
        self.tables.contains_key(name) || self.inner.table_exist(name)
    }
}
