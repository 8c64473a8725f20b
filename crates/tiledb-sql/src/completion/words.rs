//! The words and names for completion: the words of statements, and the tables, columns and functions that a session knows.

use std::sync::mpsc;
use std::time::Duration;

use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::options::TableOptions;
use tiledb_engine::write::create::ARRAY_OPTIONS;
use tokio::runtime::Handle;

use super::wanted::NamedTable;

/// The words with which a statement begins, and those that only the shell takes.
pub const STATEMENTS: [&str; 40] = [
    "ALTER TABLE",
    "ATTACH",
    "COPY",
    "CREATE EXTERNAL TABLE",
    "CREATE FUNCTION",
    "CREATE SCHEMA",
    "CREATE TABLE",
    "CREATE VIEW",
    "DEALLOCATE",
    "DELETE FROM",
    "DESCRIBE",
    "DETACH",
    "DROP SCHEMA",
    "DROP TABLE",
    "DROP VIEW",
    "EXECUTE",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "FROM",
    "INSERT INTO",
    "INSERT OVERWRITE",
    "MERGE INTO",
    "PREPARE",
    "REPLACE INTO",
    "RESET",
    "SELECT",
    "SET",
    "SHOW ALL",
    "SHOW COLUMNS FROM",
    "SHOW CREATE TABLE",
    "SHOW FUNCTIONS",
    "SHOW TABLES",
    "SUMMARIZE",
    "TRUNCATE TABLE",
    "UPDATE",
    "VALUES",
    "WITH",
    "exit",
    "help",
    "quit",
];

/// What the names of functions begin with that only plans use.
const INTERNAL: &str = "tiledb_";

/// Options of statements that belong to object stores, to files or to COPY.
const OTHER_OPTIONS: [&str; 17] = [
    "aws.access_key_id",
    "aws.allow_http",
    "aws.endpoint",
    "aws.region",
    "aws.secret_access_key",
    "aws.session_token",
    "aws.skip_signature",
    "format.compression",
    "format.delimiter",
    "format.has_header",
    "format.null_value",
    "format.quote",
    "gcp.application_credentials_path",
    "gcp.service_account_key",
    "gcp.service_account_path",
    "tiledb.choose_by",
    "tiledb.domains_from",
];

/// The longest wait after Tab was pressed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The names that a session knows.
///
/// The line editor waits for them, so nothing takes long: tables of object stores that do not answer have no columns.
pub struct SessionNames {
    ctx: SessionContext,
    runtime: Handle,
}

impl SessionNames {
    /// The names of a session, which are looked up on the runtime of the caller.
    pub fn new(ctx: SessionContext) -> Self {
        Self {
            ctx,
            runtime: Handle::current(),
        }
    }

    /// The names that can follow a qualifier in the name of a table: catalogs, schemas, tables.
    pub fn tables(&self, qualifier: &[String]) -> Vec<String> {
        let state = self.ctx.state();
        let options = &state.config_options().catalog;
        let (catalog, schema) = (&options.default_catalog, &options.default_schema);
        let own = self.ctx.catalog(catalog);
        let mut names = Vec::new();
        match qualifier {
            [] => {
                let tables = own.iter().filter_map(|own| own.schema(schema));
                names.extend(tables.flat_map(|schema| schema.table_names()));
                names.extend(own.iter().flat_map(|own| own.schema_names()));
                names.extend(self.ctx.catalog_names());
            }
            [first] => {
                let tables = own.and_then(|own| own.schema(first));
                names.extend(tables.iter().flat_map(|schema| schema.table_names()));
                let other = self.ctx.catalog(first);
                names.extend(other.iter().flat_map(|catalog| catalog.schema_names()));
            }
            [catalog, schema] => {
                let catalog = self.ctx.catalog(catalog);
                let tables = catalog.and_then(|catalog| catalog.schema(schema));
                names.extend(tables.iter().flat_map(|schema| schema.table_names()));
            }
            _ => {}
        }
        names
    }

    /// The columns of a table; none if the table doesn't exist.
    pub fn columns(&self, table: &NamedTable) -> Vec<String> {
        let reference = match &table.name[..] {
            [name] => TableReference::bare(name.as_str()),
            [schema, name] => TableReference::partial(schema.as_str(), name.as_str()),
            [catalog, schema, name] => {
                TableReference::full(catalog.as_str(), schema.as_str(), name.as_str())
            }
            _ => return Vec::new(),
        };
        let (ctx, (sender, receiver)) = (self.ctx.clone(), mpsc::channel());
        self.runtime.spawn(async move {
            if let Ok(table) = ctx.table_provider(reference).await {
                let schema = table.schema();
                let names = schema.fields().iter().map(|field| field.name().clone());
                // The completion may have given up the wait.
                let _ = sender.send(names.collect());
            }
        });
        receiver.recv_timeout(PATIENCE).unwrap_or_default()
    }

    /// The columns of all tables of the default schema.
    pub fn all_columns(&self) -> Vec<String> {
        let state = self.ctx.state();
        let options = &state.config_options().catalog;
        let schema = self.ctx.catalog(&options.default_catalog);
        let schema = schema.and_then(|catalog| catalog.schema(&options.default_schema));
        let tables = schema.iter().flat_map(|schema| schema.table_names());
        let table = |name| NamedTable {
            name: vec![name],
            alias: None,
        };
        tables.flat_map(|name| self.columns(&table(name))).collect()
    }

    /// Functions of expressions.
    pub fn functions(&self) -> Vec<String> {
        let state = self.ctx.state();
        let mut names = state.scalar_functions().keys().cloned().collect::<Vec<_>>();
        names.extend(state.aggregate_functions().keys().cloned());
        names.extend(state.window_functions().keys().cloned());
        names.retain(|name| !name.starts_with(INTERNAL));
        names
    }

    /// Settings of the session.
    pub fn settings(&self) -> Vec<String> {
        let state = self.ctx.state();
        let entries = state.config_options().entries().into_iter();
        entries.map(|entry| entry.key).collect()
    }

    /// Options of statements.
    pub fn options(&self) -> Vec<String> {
        let of_arrays = TableOptions::names().chain(ARRAY_OPTIONS);
        let of_arrays = of_arrays.map(|name| format!("tiledb.{name}"));
        let others = OTHER_OPTIONS.iter().map(|name| (*name).to_owned());
        of_arrays.chain(others).collect()
    }

    /// Functions that are tables.
    pub fn table_functions(&self) -> Vec<String> {
        self.ctx.state().table_functions().keys().cloned().collect()
    }
}
