//! `ALTER TABLE`: the schema of an array evolves.
//!
//! ```text
//! ALTER TABLE [IF EXISTS] t operation, …
//!   ADD [COLUMN] [IF NOT EXISTS] c TYPE [NOT NULL] [DEFAULT constant] [OPTIONS (filters = 'zstd', enumeration = '["a", "b"]')]
//!   DROP [COLUMN] [IF EXISTS] c
//!   SET TBLPROPERTIES ('tiledb.current_domain' = '[0, 99]', 'tiledb.attr.c.filters' = 'zstd')
//! ```
//!
//! All operations of a statement are one change. DataFusion's planner refuses the statement, so a program passes statements to
//! [`run_statement`](super::statement::run_statement) first. The subtle thing: whoever has planned a query of the table keeps the
//! columns it was planned with; the table is opened again when a later statement names it.

use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::{self, AlterTableOperation};
use datafusion::sql::sqlparser::dialect::dialect_from_str;

use super::definition::{self, NewColumn, add_columns, pairs};
use crate::SchemaEvolution;
use crate::error::{Error, Result};
use crate::sql::catalog::first_word;
use crate::sql::provider::TileDbTable;

/// An `ALTER TABLE` statement.
#[derive(Debug, Clone)]
pub struct AlterTable(ast::AlterTable);

impl AlterTable {
    /// Parses `sql`, or returns `None` if it is another kind of statement.
    ///
    /// # Errors
    /// It begins like one and cannot be parsed in the dialect of the session.
    pub fn parse(ctx: &SessionContext, sql: &str) -> Result<Option<Self>> {
        if !first_word(sql).eq_ignore_ascii_case("alter") {
            return Ok(None);
        }
        let state = ctx.state_ref();
        let dialect = state.read().config_options().sql_parser.dialect;
        let dialect = dialect_from_str(dialect)
            .ok_or_else(|| Error::invalid(format!("there is no SQL dialect {dialect}")))?;
        let parsed = DFParser::parse_sql_with_dialect(sql, dialect.as_ref());
        let mut parsed =
            parsed.map_err(|e| Error::invalid("the statement cannot be parsed").with_source(e))?;
        match (parsed.pop_front(), parsed.is_empty()) {
            (Some(Statement::Statement(statement)), true) => Ok(match *statement {
                ast::Statement::AlterTable(alter) => Some(Self(alter)),
                _ => None,
            }),
            (Some(Statement::Statement(statement)), false)
                if matches!(*statement, ast::Statement::AlterTable(_)) =>
            {
                Err(Error::invalid("ALTER TABLE is a statement of its own"))
            }
            _ => Ok(None),
        }
    }

    /// Runs the statement; returns whether its table is an array. Of any other table, nothing is changed.
    ///
    /// # Errors
    /// There is no such table, or the array cannot change like this.
    pub async fn run(self, ctx: &SessionContext) -> Result<bool> {
        let session = ctx.state();
        let Self(alter) = self;
        let name = definition::table(alter.name.clone(), &session)?;
        let shown = name.to_string();
        let known = ctx.table_provider(name).await;
        let provider = match known {
            Ok(provider) => provider,
            Err(DataFusionError::Plan(_)) if alter.if_exists => return Ok(true),
            Err(e) => return Err(cannot(&shown, e)),
        };
        let Some(table) = provider.downcast_ref::<TileDbTable>() else {
            return Ok(false);
        };
        if !table.shows_present() {
            return Err(Error::unsupported(
                "ALTER TABLE of a table that shows the past: create a table without a timestamp, and set \
                 tiledb.write_timestamp to change the array as of another time than the present",
            )
            .with("table", shown));
        }
        if alter.only || alter.location.is_some() || alter.on_cluster.is_some() {
            return Err(Error::unsupported(
                "ONLY, SET LOCATION and ON CLUSTER have no meaning for an array",
            ));
        }
        let evolution = evolution(alter.operations, &session).await?;
        let evolution = match table.options().write_timestamp {
            Some(ms) => evolution.timestamp(ms),
            None => evolution,
        };
        evolution.apply_in(table.storage()).await?;
        table.set_outdated();
        Ok(true)
    }
}

fn cannot(table: &str, error: DataFusionError) -> Error {
    Error::not_found("there is no such table")
        .with("table", table)
        .with_source(error)
}

/// What the operations want.
async fn evolution(
    operations: Vec<AlterTableOperation>,
    session: &SessionState,
) -> Result<SchemaEvolution> {
    let mut evolution = SchemaEvolution::new();
    let mut options = Vec::new();
    for operation in operations {
        match operation {
            AlterTableOperation::AddColumn {
                if_not_exists,
                column_def,
                column_position: None,
                ..
            } => {
                let column = NewColumn {
                    definition: column_def,
                    if_not_exists,
                };
                evolution = add_columns(evolution, vec![column], session).await?;
            }
            AlterTableOperation::AddColumn { .. } => {
                return Err(Error::unsupported(
                    "FIRST and AFTER: new columns of an array come behind the others",
                ));
            }
            AlterTableOperation::DropColumn {
                column_names,
                if_exists,
                ..
            } => {
                for name in column_names {
                    let name = definition::name(name, session);
                    evolution = match if_exists {
                        true => evolution.drop_column_if_there(&name),
                        false => evolution.drop_column(&name),
                    };
                }
            }
            AlterTableOperation::SetTblProperties { table_properties } => {
                options.extend(pairs(&table_properties)?);
            }
            AlterTableOperation::SetOptionsParens { options: given } => {
                options.extend(pairs(&given)?);
            }
            other => return Err(refused(&other)),
        }
    }
    for (key, value) in options {
        evolution = evolution.option(&key, &value)?;
    }
    Ok(evolution)
}

/// Why an operation cannot be carried out.
fn refused(operation: &AlterTableOperation) -> Error {
    let why = match operation {
        AlterTableOperation::RenameColumn { .. } | AlterTableOperation::ChangeColumn { .. } => {
            "the files of a fragment are found by the names of the columns, so a column keeps its name: add a column, and copy the values with INSERT … SELECT"
        }
        AlterTableOperation::RenameTable { .. } => {
            "the array is where it is: create a table of another name at its location"
        }
        AlterTableOperation::AlterColumn { .. } | AlterTableOperation::ModifyColumn { .. } => {
            "what is stored has the type that the column had when it was written: add a column, and copy the values with INSERT … SELECT"
        }
        AlterTableOperation::AddConstraint { .. } | AlterTableOperation::DropConstraint { .. } => {
            "an array has no constraints but its dimensions, which are settled when it is created"
        }
        _ => "expected ADD COLUMN, DROP COLUMN or SET TBLPROPERTIES",
    };
    Error::unsupported(format!("{operation}: {why}"))
}
