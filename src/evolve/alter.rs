//! `ALTER TABLE`: the schema of an array evolves.
//!
//! ```text
//! ALTER TABLE [IF EXISTS] t operation, …
//!   ADD [COLUMN] [IF NOT EXISTS] c TYPE [NOT NULL] [DEFAULT constant] [OPTIONS (filters = 'zstd', enumeration = '["a", "b"]')]
//!   DROP [COLUMN] [IF EXISTS] c
//!   SET TBLPROPERTIES ('tiledb.current_domain' = '[0, 99]', 'tiledb.attr.c.filters' = 'zstd')
//! ```
//!
//! All operations of a statement are one change. DataFusion's planner refuses the statement, so [`execute`](crate::execute)
//! runs it. The subtle thing: a query that was planned before keeps the columns it was planned with. The table is opened again
//! when a later statement names it.

use datafusion::common::TableReference;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{CreateExternalTable, Statement};
use datafusion::sql::sqlparser::ast::{
    self, AlterTableOperation, ColumnDef, ColumnOption, Expr, Ident, ObjectName, SqlOption,
    UnaryOperator, Value,
};
use tiledb_engine::SchemaEvolution;
use tiledb_engine::{Error, Result, ResultExt};

use crate::create::default_value;
use crate::table::provider::TileDbTable;

/// An `ALTER TABLE` statement.
#[derive(Debug, Clone)]
pub(crate) struct AlterTable(ast::AlterTable);

impl AlterTable {
    /// The statement if it is an `ALTER TABLE`.
    pub(crate) fn of(statement: &Statement) -> Option<Self> {
        let Statement::Statement(statement) = statement else {
            return None;
        };
        match statement.as_ref() {
            ast::Statement::AlterTable(alter) => Some(Self(alter.clone())),
            _ => None,
        }
    }

    /// Runs the statement; returns whether its table is an array. Other tables are not changed.
    ///
    /// # Errors
    /// The table doesn't exist, or the array can't change like this.
    pub(crate) async fn run(self, ctx: &SessionContext) -> Result<bool> {
        let session = ctx.state();
        let Self(alter) = self;
        let name = table_of(alter.name.clone(), &session)?;
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
        let changeable = table.options().check_changeable("ALTER TABLE");
        changeable.map_err(|e| e.with("table", &shown))?;
        if alter.only || alter.location.is_some() || alter.on_cluster.is_some() {
            return Err(Error::unsupported(
                "ONLY, SET LOCATION and ON CLUSTER have no meaning for an array",
            ));
        }
        let evolution = evolution(alter.operations, &session)
            .await?
            .timestamp_if_given(table.options().write_timestamp);
        evolution.apply(table.storage()).await?;
        table.set_outdated();
        Ok(true)
    }
}

fn cannot(table: &str, error: DataFusionError) -> Error {
    Error::not_found("there is no such table")
        .with("table", table)
        .with_source(error)
}

/// The evolution that the operations ask for.
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
                    let name = name_of(name, session);
                    evolution = if if_exists {
                        evolution.drop_column_if_there(&name)
                    } else {
                        evolution.drop_column(&name)
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

/// The reason why an operation is refused.
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
            "an array has no constraints but its dimensions, which can't change after it is created"
        }
        _ => "expected ADD COLUMN, DROP COLUMN or SET TBLPROPERTIES",
    };
    Error::unsupported(format!("{operation}: {why}"))
}

/// A column to add.
///
/// The subtle thing: a type or a default must mean the same as in `CREATE EXTERNAL TABLE`. So DataFusion plans such a statement
/// with the new columns, which never runs, and the columns and defaults of its plan are taken.
#[derive(Debug, Clone)]
pub(super) struct NewColumn {
    pub definition: ColumnDef,
    pub if_not_exists: bool,
}

/// Adds columns to an evolution.
pub(super) async fn add_columns(
    mut evolution: SchemaEvolution,
    columns: Vec<NewColumn>,
    session: &SessionState,
) -> Result<SchemaEvolution> {
    for column in columns {
        let name = column.definition.name.value.clone();
        let added = add_column(evolution, column, session).await;
        evolution = added.context("column", || name)?;
    }
    Ok(evolution)
}

async fn add_column(
    evolution: SchemaEvolution,
    column: NewColumn,
    session: &SessionState,
) -> Result<SchemaEvolution> {
    let NewColumn {
        mut definition,
        if_not_exists,
    } = column;
    let mut options = Vec::new();
    let mut kept = Vec::new();
    for option in std::mem::take(&mut definition.options) {
        match &option.option {
            ColumnOption::Null | ColumnOption::NotNull | ColumnOption::Default(_) => {
                kept.push(option);
            }
            ColumnOption::Options(given) => options.extend(pairs(given)?),
            other => {
                return Err(Error::unsupported(format!(
                    "{other} of a column: expected NOT NULL, DEFAULT and OPTIONS (filters = '…')"
                )));
            }
        }
    }
    definition.options = kept;
    let planned = plan(definition, session).await?;
    let field = planned
        .schema
        .fields()
        .first()
        .cloned()
        .ok_or_else(|| Error::internal("a column was planned to nothing"))?;
    let mut evolution = if if_not_exists {
        evolution.add_column_if_missing(&field)?
    } else {
        evolution.add_column(&field)?
    };
    if let Some(default) = planned.column_defaults.get(field.name()) {
        let value = default_value(session, default, field.data_type())?;
        if value.is_none() && !field.is_nullable() {
            return Err(Error::invalid("DEFAULT NULL, and the column is NOT NULL"));
        }
        evolution = evolution.default_value(field.name(), value)?;
    }
    for (key, value) in options {
        let key = key.strip_prefix("tiledb.").unwrap_or(&key);
        evolution = evolution.option(&format!("attr.{}.{key}", field.name()), &value)?;
    }
    Ok(evolution)
}

/// The plan of a statement that would create a table of the column.
async fn plan(
    definition: ColumnDef,
    session: &SessionState,
) -> Result<datafusion::logical_expr::CreateExternalTable> {
    let statement = CreateExternalTable {
        name: ObjectName::from(vec![Ident::new("t")]),
        columns: vec![definition],
        file_type: "TILEDB".to_owned(),
        locations: vec!["t".to_owned()],
        table_partition_cols: Vec::new(),
        order_exprs: Vec::new(),
        if_not_exists: false,
        or_replace: false,
        temporary: false,
        unbounded: false,
        options: Vec::new(),
        constraints: Vec::new(),
    };
    let statement = Statement::CreateExternalTable(statement);
    let plan = session.statement_to_plan(statement).await;
    let plan =
        plan.map_err(|e| Error::invalid("the column cannot be understood").with_source(e))?;
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(planned)) => Ok(*planned),
        _ => Err(Error::internal("a column was planned to something else")),
    }
}

/// Options as keys and values.
pub(super) fn pairs(options: &[SqlOption]) -> Result<Vec<(String, String)>> {
    options
        .iter()
        .map(|option| match option {
            SqlOption::KeyValue { key, value } => {
                let value = literal(value).ok_or_else(|| {
                    Error::invalid(format!("{value} isn't a constant")).with("option", key)
                })?;
                Ok((key.value.clone(), value))
            }
            other => Err(Error::invalid(format!(
                "{other} isn't an option: expected key = 'value'"
            ))),
        })
        .collect()
}

/// The text of a constant.
fn literal(value: &Expr) -> Option<String> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(text.clone()),
            Value::Boolean(value) => Some(value.to_string()),
            other => other.clone().into_string(),
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => literal(expr).map(|text| format!("-{text}")),
        _ => None,
    }
}

/// A name as DataFusion reads it.
pub(super) fn name_of(ident: Ident, session: &SessionState) -> String {
    let lowers = session
        .config_options()
        .sql_parser
        .enable_ident_normalization;
    if lowers && ident.quote_style.is_none() {
        ident.value.to_lowercase()
    } else {
        ident.value
    }
}

/// A table as DataFusion reads its name.
fn table_of(name: ObjectName, session: &SessionState) -> Result<TableReference> {
    let lowers = session
        .config_options()
        .sql_parser
        .enable_ident_normalization;
    datafusion::sql::planner::object_name_to_table_reference(name, lowers)
        .map_err(|e| Error::invalid("this isn't a name of a table").with_source(e))
}
