//! How a session is made again in another process: the statements that gave it settings, tables and groups.
//!
//! A statement with a secret isn't kept: a setting is left out, and a table or a group with one can't be made again.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{
    CreateExternalTable, DFParser, ResetStatement, Statement as ParsedSql,
};
use datafusion::sql::sqlparser::ast::{Set, Statement};
use datafusion_tiledb::options::secrets::StatementSecrets;

/// The statements of a session.
#[derive(Default)]
pub struct SessionRecipe(Mutex<Vec<RecipeStep>>);

/// A thing that a session has, and the statement that makes it.
#[derive(Debug, PartialEq, Eq)]
struct RecipeStep {
    thing: SessionThing,
    /// The statement, or the reason why there is none.
    statement: Result<String, &'static str>,
}

/// A thing that a session has, by its name.
#[derive(Debug, PartialEq, Eq)]
enum SessionThing {
    Setting(String),
    Prepared(String),
    Table(String),
    /// A catalog, or a schema of one.
    Catalog(String),
}

const HAS_SECRET: &str = "has a secret among its options, which must not leave this process: name a file or a variable of the environment \
                          instead, as with 'tiledb.encryption_key_file'";
const HAS_ROWS: &str = "has rows in the memory of this process: write them to an array, or give them to the other process";

impl SessionRecipe {
    /// The catalogs and schemas of a session before a statement that may add some.
    pub fn catalogs_before(ctx: &SessionContext, sql: &str) -> BTreeSet<String> {
        let sql = sql.to_lowercase();
        let may_add = sql.contains("attach") || sql.contains("create");
        if may_add {
            Self::catalogs(ctx)
        } else {
            BTreeSet::new()
        }
    }

    fn catalogs(ctx: &SessionContext) -> BTreeSet<String> {
        let catalogs = ctx.catalog_names().into_iter();
        let named = catalogs.flat_map(|name| {
            let schemas = ctx.catalog(&name).map(|catalog| catalog.schema_names());
            let schemas = schemas.unwrap_or_default().into_iter();
            let schemas: Vec<_> = schemas.map(|schema| format!("{name}.{schema}")).collect();
            schemas.into_iter().chain([name])
        });
        named.collect()
    }

    /// Keeps a statement without rows that has run. `before` is what `catalogs_before` returned.
    pub fn keep(&self, ctx: &SessionContext, sql: &str, before: &BTreeSet<String>) {
        let has_secret = !StatementSecrets::of(sql).is_empty();
        let text = match has_secret {
            true => Err(HAS_SECRET),
            false => Ok(sql.to_owned()),
        };
        // ATTACH, CREATE DATABASE and CREATE SCHEMA.
        let after = Self::catalogs(ctx);
        let added = after.difference(before).min_by_key(|name| name.len());
        if let Some(name) = added.filter(|_| !before.is_empty()) {
            return self.push(SessionThing::Catalog(name.clone()), text);
        }
        let statement = DFParser::parse_sql(sql)
            .ok()
            .and_then(|mut s| s.pop_front());
        match statement {
            Some(ParsedSql::CreateExternalTable(create)) => {
                let name = create.name.to_string();
                let text = text.map(|text| opened_again(&create).unwrap_or(text));
                self.push(SessionThing::Table(name), text);
            }
            Some(ParsedSql::Reset(ResetStatement::Variable(name))) => {
                self.forget(&SessionThing::Setting(name.to_string()));
            }
            Some(ParsedSql::Statement(statement)) => self.keep_sql(&statement, text),
            _ => {}
        }
    }

    fn keep_sql(&self, statement: &Statement, text: Result<String, &'static str>) {
        match statement {
            Statement::CreateView(view) => {
                self.push(SessionThing::Table(view.name.to_string()), text);
            }
            Statement::CreateTable(table) => {
                self.push(SessionThing::Table(table.name.to_string()), Err(HAS_ROWS));
            }
            Statement::Set(Set::SingleAssignment { variable, .. }) => {
                self.push(SessionThing::Setting(variable.to_string()), text);
            }
            Statement::Prepare { name, .. } => {
                self.push(SessionThing::Prepared(name.to_string()), text);
            }
            Statement::Deallocate { name, .. } => {
                self.forget(&SessionThing::Prepared(name.to_string()));
            }
            _ => {}
        }
    }

    /// Keeps that data of Python has a name.
    pub fn keep_data(&self, name: &str) {
        self.push(SessionThing::Table(name.to_owned()), Err(HAS_ROWS));
    }

    /// Forgets data of Python.
    pub fn forget_data(&self, name: &str) {
        self.forget(&SessionThing::Table(name.to_owned()));
    }

    fn push(&self, thing: SessionThing, statement: Result<String, &'static str>) {
        self.forget(&thing);
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.push(RecipeStep { thing, statement });
    }

    fn forget(&self, thing: &SessionThing) {
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.retain(|step| step.thing != *thing);
    }

    /// The statements that make what the session has now, in order.
    ///
    /// # Errors
    ///
    /// What can't be made again, and why.
    pub fn statements(&self, ctx: &SessionContext) -> Result<Vec<String>, String> {
        let catalogs = Self::catalogs(ctx);
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statements = Vec::new();
        for RecipeStep { thing, statement } in steps.iter() {
            let (what, name) = match thing {
                SessionThing::Setting(name) => ("the setting", name),
                SessionThing::Prepared(name) => ("the prepared statement", name),
                SessionThing::Table(name) => ("the table", name),
                SessionThing::Catalog(name) => ("the catalog", name),
            };
            let is_there = match thing {
                SessionThing::Table(name) => ctx
                    .table_exist(TableReference::from(name.as_str()))
                    .unwrap_or(false),
                SessionThing::Catalog(name) => catalogs.contains(name),
                SessionThing::Setting(_) | SessionThing::Prepared(_) => true,
            };
            match statement {
                _ if !is_there => {}
                Ok(statement) => statements.push(statement.clone()),
                // The other process has its own secrets.
                Err(_) if matches!(thing, SessionThing::Setting(_)) => {}
                Err(why) => return Err(format!("{what} {name} {why}")),
            }
        }
        Ok(statements)
    }
}

/// The statement that opens the array of a table in another process. The one that has run would make a new array where there is none, for
/// example in another folder.
fn opened_again(create: &CreateExternalTable) -> Option<String> {
    if !create.file_type.eq_ignore_ascii_case("tiledb") {
        return None;
    }
    let [location] = create.locations.as_slice() else {
        return None;
    };
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let options = create.options.iter();
    let options = options.map(|(name, value)| format!("{} {value}", quoted(name)));
    let options = options.collect::<Vec<_>>().join(", ");
    let options = match options.is_empty() {
        true => options,
        false => format!(" OPTIONS ({options})"),
    };
    Some(format!(
        "CREATE EXTERNAL TABLE {} STORED AS TILEDB LOCATION {}{options}",
        create.name,
        quoted(&absolute(location)),
    ))
}

/// The location from any folder.
fn absolute(location: &str) -> String {
    if location.contains("://") || location.starts_with('~') {
        return location.to_owned();
    }
    let path = std::path::absolute(Path::new(location));
    let path = path.ok().and_then(|path| path.to_str().map(str::to_owned));
    path.unwrap_or_else(|| location.to_owned())
}
