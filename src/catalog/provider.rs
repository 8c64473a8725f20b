//! DataFusion's view of a group: a catalog of schemas, each with the arrays in and below one nested group.
//!
//! The subtle thing: `information_schema` lists the names of a schema and then opens every table, and stops at the first error.
//! So once its names were listed, a schema replaces tables that cannot be opened by tables without columns, which fail when
//! they are read. A query never lists names, and gets the error at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{CatalogProvider, SchemaProvider, Session, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use tiledb_engine::{Error, ResultExt};

use super::ROOT_SCHEMA;
use super::explore::join;
use super::group::{GroupState, TileDbGroup};
use crate::error::to_datafusion_error;
use crate::stores::ahead::OpenedTables;
use crate::table::provider::TileDbTable;

const INFORMATION_SCHEMA: &str = "information_schema";

impl TileDbGroup {
    /// All arrays of the group as one schema, by their paths.
    pub fn as_schema(&self) -> Arc<dyn SchemaProvider> {
        Arc::new(GroupSchema::of_all(Arc::clone(&self.0)))
    }
}

impl CatalogProvider for TileDbGroup {
    fn schema_names(&self) -> Vec<String> {
        self.0.listing().groups().map(schema_name).collect()
    }

    /// Any name is a schema: whether the group exists is checked when one of its tables is looked up.
    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let path = match name {
            INFORMATION_SCHEMA => return None,
            ROOT_SCHEMA => "",
            path => path.strip_prefix("./").unwrap_or(path),
        };
        let shared = Arc::clone(&self.0);
        Some(Arc::new(GroupSchema::of_group(shared, path)))
    }

    fn register_schema(
        &self,
        name: &str,
        _schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.0.read_only(&format!("adding the schema \"{name}\""))
    }

    fn deregister_schema(
        &self,
        name: &str,
        _cascade: bool,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.0.read_only(&format!("dropping the schema \"{name}\""))
    }
}

/// The name of the schema of the group at `path`.
fn schema_name(path: &str) -> String {
    match path {
        "" => ROOT_SCHEMA.to_owned(),
        ROOT_SCHEMA | INFORMATION_SCHEMA => format!("./{path}"),
        path => path.to_owned(),
    }
}

impl GroupState {
    fn read_only<T>(&self, what: &str) -> Result<T> {
        let error = Error::unsupported(format!(
            "{what}: members of a group are edited by tiledb_add_member and tiledb_remove_member"
        ));
        Err(to_datafusion_error(error.with("group", self.root.uri())))
    }

    async fn open_table(
        &self,
        path: &str,
        name: &str,
    ) -> tiledb_engine::Result<Arc<dyn TableProvider>> {
        // Groups of one URL may have different stores and credentials.
        let place = format!("{self:p} {}", join(path, name));
        if let Some(opened) = OpenedTables::get(&place, &self.options) {
            return Ok(opened);
        }
        if OpenedTables::is_looking_ahead() && !self.root.is_remote() {
            return Err(Error::unsupported(
                "tables of this machine are not opened ahead",
            ));
        }
        let storage = self.find_array(path, name).await?;
        let is_remote = storage.is_remote();
        let table = TileDbTable::open_whole(storage, self.options.clone()).await;
        let table = table
            .context("member", || join(path, name))
            .context("group", || self.root.uri())?;
        let table: Arc<dyn TableProvider> = Arc::new(table);
        if is_remote {
            OpenedTables::keep(&place, &self.options, &table);
        }
        Ok(table)
    }
}

/// The arrays below one group as tables.
pub(super) struct GroupSchema {
    shared: Arc<GroupState>,
    /// The path of the group.
    path: String,
    /// Whether names are paths of all arrays below the group, instead of the names of its own arrays.
    lists_all: bool,
    /// Whether its names were listed, after which errors are deferred.
    is_listed: AtomicBool,
}

impl GroupSchema {
    /// The arrays of the group at `path`. The result is for a single caller.
    fn of_group(shared: Arc<GroupState>, path: &str) -> Self {
        Self {
            shared,
            path: path.to_owned(),
            lists_all: false,
            is_listed: AtomicBool::new(false),
        }
    }

    /// All arrays by their paths. The result is for a single caller.
    pub(super) fn of_all(shared: Arc<GroupState>) -> Self {
        Self {
            lists_all: true,
            ..Self::of_group(shared, "")
        }
    }
}

impl fmt::Debug for GroupSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupSchema")
            .field("group", &self.shared.root)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for GroupSchema {
    fn table_names(&self) -> Vec<String> {
        self.is_listed.store(true, Ordering::Relaxed);
        if self.lists_all {
            self.shared.listing().array_paths().collect()
        } else {
            self.shared.listing().arrays(&self.path).to_vec()
        }
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.shared.open_table(&self.path, name).await {
            Ok(table) => Ok(Some(table)),
            Err(error) if self.is_listed.load(Ordering::Relaxed) => {
                let error = Arc::new(to_datafusion_error(error));
                Ok(Some(Arc::new(UnreadableTable { error })))
            }
            Err(error) => Err(to_datafusion_error(error)),
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if self.table_exist(name) {
            return Ok(Some(TableType::Base));
        }
        Ok(self.table(name).await?.map(|table| table.table_type()))
    }

    fn register_table(
        &self,
        name: String,
        _table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.shared.read_only(&format!("adding \"{name}\""))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.shared.read_only(&format!("dropping \"{name}\""))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.shared.listing().has_array(&self.path, name)
    }
}

/// Replaces a table that could not be opened while tables were listed.
#[derive(Debug)]
struct UnreadableTable {
    error: Arc<DataFusionError>,
}

#[async_trait]
impl TableProvider for UnreadableTable {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::empty())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::Shared(Arc::clone(&self.error)))
    }
}
