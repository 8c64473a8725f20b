//! Arrays, queries and groups in sessions of datafusion-python, by DataFusion's foreign function interface.
//!
//! None of this package's optimizer rules and guards run in another session, and neither do its stores, settings and memory limit. So
//! each scan of the host is planned and run here, as a query of this package's session: the host gets its rows, and how many they are
//! if that is certain. It is promised no order and no bounds.

mod catalog;
mod filters;
mod plan;
mod table;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::CreateExternalTable;
use datafusion::prelude::SessionContext;
use datafusion_ffi::catalog_provider::FFI_CatalogProvider;
use datafusion_ffi::table_provider::FFI_TableProvider;
use datafusion_ffi::table_provider_factory::FFI_TableProviderFactory;
use datafusion_tiledb::{
    TableOptions, TileDbGroup, TileDbTable, TileDbTableFactory, to_datafusion_error,
};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tokio::runtime::Handle;

use self::catalog::BorderCatalog;
use self::table::BorderTable;
use crate::capsules::{BorderItem, border_capsule, host_codec};
use crate::errors::exception;
use crate::module_runtime::{handle, wait};
use crate::query::EngineQuery;
use crate::session::EngineSession;

/// The session that serves the host, and the threads that it runs on: the host polls futures where there is no runtime.
#[derive(Clone)]
struct BorderSession {
    ctx: SessionContext,
    runtime: Handle,
}

impl BorderSession {
    fn new(session: &EngineSession) -> PyResult<Self> {
        Ok(Self {
            ctx: session.context()?.clone(),
            runtime: handle()?,
        })
    }

    /// Does work on the threads of the package.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let done = self.runtime.spawn(work).await;
        done.map_err(|e| DataFusionError::Execution(format!("the work has ended: {e}")))?
    }

    fn table(&self, inner: Arc<dyn TableProvider>) -> Arc<dyn TableProvider> {
        Arc::new(BorderTable::new(inner, self.clone()))
    }
}

fn options_at(timestamp: Option<&str>) -> datafusion_tiledb::Result<TableOptions> {
    let mut options = TableOptions::default();
    if let Some(timestamp) = timestamp {
        options.set("timestamp", timestamp)?;
    }
    Ok(options)
}

/// An array as a table of the session `host`.
#[pyfunction]
pub fn array_for_datafusion<'py>(
    py: Python<'py>,
    session: &EngineSession,
    uri: &str,
    timestamp: Option<&str>,
    host: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let border = BorderSession::new(session)?;
    let (ctx, uri) = (border.ctx.clone(), uri.to_owned());
    let options = options_at(timestamp);
    let opened = wait(py, async move {
        let builder = TileDbTable::builder(uri).session(&ctx).options(options?);
        builder.open().await
    })?;
    let table = opened.map_err(|e| exception(py, &to_datafusion_error(e), ""))?;
    table_capsule(py, border.table(Arc::new(table)), &border, host)
}

/// The rows of a query as a table of the session `host`. The query runs whenever the host reads it.
#[pyfunction]
pub fn query_for_datafusion<'py>(
    py: Python<'py>,
    session: &EngineSession,
    query: &EngineQuery,
    host: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let border = BorderSession::new(session)?;
    let inner = query.provider();
    let inner = inner.map_err(|e| exception(py, &e, ""))?;
    table_capsule(py, border.table(inner), &border, host)
}

fn table_capsule<'py>(
    py: Python<'py>,
    table: Arc<dyn TableProvider>,
    border: &BorderSession,
    host: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let runtime = Some(border.runtime.clone());
    let table = FFI_TableProvider::new_with_ffi_codec(table, true, runtime, host_codec(host)?);
    border_capsule(py, BorderItem::Table(table))
}

/// A group as a catalog of the session `host`.
#[pyfunction]
pub fn group_for_datafusion<'py>(
    py: Python<'py>,
    session: &EngineSession,
    uri: &str,
    timestamp: Option<&str>,
    host: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let border = BorderSession::new(session)?;
    let (ctx, uri) = (border.ctx.clone(), uri.to_owned());
    let options = options_at(timestamp);
    let opened = wait(py, async move {
        let builder = TileDbGroup::builder(uri).options(options?);
        builder.open_in(&ctx).await
    })?;
    let group = opened.map_err(|e| exception(py, &to_datafusion_error(e), ""))?;
    let catalog = Arc::new(BorderCatalog::new(Arc::new(group), border.clone()));
    let runtime = Some(border.runtime);
    let codec = host_codec(host)?;
    border_capsule(
        py,
        BorderItem::Catalog(FFI_CatalogProvider::new_with_ffi_codec(
            catalog, runtime, codec,
        )),
    )
}

/// What makes the tables of `CREATE EXTERNAL TABLE … STORED AS TILEDB` in the session `host`.
#[pyfunction]
pub fn factory_for_datafusion<'py>(
    py: Python<'py>,
    session: &EngineSession,
    host: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let border = BorderSession::new(session)?;
    let runtime = Some(border.runtime.clone());
    let codec = host_codec(host)?;
    let factory = Arc::new(BorderFactory { border });
    border_capsule(
        py,
        BorderItem::Factory(FFI_TableProviderFactory::new_with_ffi_codec(
            factory, runtime, codec,
        )),
    )
}

struct BorderFactory {
    border: BorderSession,
}

impl std::fmt::Debug for BorderFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BorderFactory").finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProviderFactory for BorderFactory {
    async fn create(
        &self,
        _: &dyn Session,
        statement: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let (ctx, statement) = (self.border.ctx.clone(), statement.clone());
        let created = self.border.run(async move {
            let state = ctx.state();
            TileDbTableFactory.create(&state, &statement).await
        });
        Ok(self.border.table(created.await?))
    }
}
