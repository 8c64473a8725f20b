//! The array or group that a call names: its storage, and the options to read it with.
//!
//! The target is the name of a table of the session, or a location, which is resolved as in `CREATE EXTERNAL TABLE`.
//! The subtle thing: some sessions register an object store only when a table at its URL is looked up, so if the store
//! is missing, the URL is looked up.

use std::fmt;
use std::sync::Arc;

use datafusion::catalog::{CatalogProviderList, Session, TableProvider};
use datafusion::common::TableReference;
use datafusion::execution::runtime_env::RuntimeEnv;

use super::arguments::Call;
use crate::array::window::OpenWindow;
use crate::error::{Error, Result};
use crate::sql::location;
use crate::sql::location::with_key;
use crate::sql::options::TableOptions;
use crate::sql::provider::TileDbTable;
use crate::sql::url_table::{Named, has_store, looks_like_location};
use crate::storage::Storage;

/// The parts of a session that resolve names; owned, so that they can be used on another thread.
#[derive(Clone)]
pub(in crate::sql) struct Surroundings {
    runtime: Arc<RuntimeEnv>,
    catalogs: Arc<dyn CatalogProviderList>,
    default_catalog: String,
    default_schema: String,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

/// An array or group that may or may not exist, and how to read it.
#[derive(Debug, Clone)]
pub(in crate::sql) struct Target {
    pub storage: Storage,
    pub options: TableOptions,
    /// The table of the session, if the call names one.
    pub table: Option<Arc<dyn TableProvider>>,
    /// The runtime with other object stores, in which members of a group may lie.
    pub runtime: Arc<RuntimeEnv>,
}

impl Target {
    /// The window of time of the options, with a fixed end.
    pub(in crate::sql) fn window(&self) -> Result<OpenWindow> {
        let window = self.options.window()?;
        OpenWindow::new(window.start, Some(window.end_or_now()))
    }
}

impl Surroundings {
    pub(in crate::sql) fn of(session: &dyn Session) -> Self {
        let catalog = &session.config_options().catalog;
        Self {
            runtime: Arc::clone(session.runtime_env()),
            catalogs: session.catalog_list(),
            default_catalog: catalog.default_catalog.clone(),
            default_schema: catalog.default_schema.clone(),
        }
    }

    /// The target of a call.
    pub(in crate::sql) async fn resolve(&self, call: &Call) -> Result<Target> {
        // A name with quotes may contain a path in a group: exp."ms/RNA".var
        if (!looks_like_location(&call.target) || call.target.contains('"'))
            && let Some(table) = self.table(&call.target).await?
        {
            return self.of_table(&call.target, &table, call);
        }
        let named = Named::parse(&call.target)?;
        let query = named.pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let options = TableOptions::from_pairs(query.chain(call.pairs()))?;
        if !has_store(&self.runtime, &named.path) {
            // The table is ignored: the lookup may register the store.
            let reference = TableReference::bare(named.path.as_str());
            let asked = self.look_up(reference).await;
            if let Err(e) = asked
                && !has_store(&self.runtime, &named.path)
            {
                return Err(Error::storage("the object store cannot be used").with_source(e));
            }
        }
        let storage = location::storage(&named.path, &options, &self.runtime)?;
        let runtime = Arc::clone(&self.runtime);
        Ok(Target {
            storage,
            options,
            table: None,
            runtime,
        })
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let found = self.look_up(TableReference::parse_str(name)).await;
        found.map_err(|e| Error::invalid(format!("the table {name} cannot be used")).with_source(e))
    }

    async fn look_up(
        &self,
        reference: TableReference,
    ) -> datafusion::error::Result<Option<Arc<dyn TableProvider>>> {
        let name = reference.resolve(&self.default_catalog, &self.default_schema);
        let schema = self
            .catalogs
            .catalog(&name.catalog)
            .and_then(|catalog| catalog.schema(&name.schema));
        match schema {
            Some(schema) => schema.table(&name.table).await,
            None => Ok(None),
        }
    }

    /// The target of a table, with the table's options, which the call may override.
    fn of_table(
        &self,
        name: &str,
        provider: &Arc<dyn TableProvider>,
        call: &Call,
    ) -> Result<Target> {
        let Some(table) = provider.downcast_ref::<TileDbTable>() else {
            return Err(Error::invalid(format!(
                "{}: the table {name} is not a TileDB array",
                call.function
            )));
        };
        let mut options = table.options().clone();
        for (key, value) in call.pairs() {
            options.set(key, value)?;
        }
        Ok(Target {
            storage: with_key(table.storage().clone(), &options)?,
            options,
            table: Some(Arc::clone(provider)),
            runtime: Arc::clone(&self.runtime),
        })
    }
}
