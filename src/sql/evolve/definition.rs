//! Columns as SQL defines them → a [`SchemaEvolution`].
//!
//! The subtle thing: a type or a default must mean the same as in `CREATE EXTERNAL TABLE`, so DataFusion plans such a statement
//! with the new columns, which is never run, and the columns and defaults of its plan are taken.

use datafusion::common::TableReference;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::{CreateExternalTable, Statement};
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, Expr, Ident, ObjectName, SqlOption, UnaryOperator, Value,
};

use crate::SchemaEvolution;
use crate::error::{Error, Result, ResultExt};
use crate::sql::create::default_value;

/// A column that is to be added.
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
    let field = planned.schema.fields().first().cloned();
    let field = field.ok_or_else(|| Error::internal("a column was planned to nothing"))?;
    let mut evolution = match if_not_exists {
        true => evolution.add_column_if_missing(&field)?,
        false => evolution.add_column(&field)?,
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
                    Error::invalid(format!("{value} is no constant")).with("option", key)
                })?;
                Ok((key.value.clone(), value))
            }
            other => Err(Error::invalid(format!(
                "{other} is no option: expected key = 'value'"
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
pub(super) fn name(ident: Ident, session: &SessionState) -> String {
    let lowers = session
        .config_options()
        .sql_parser
        .enable_ident_normalization;
    match lowers && ident.quote_style.is_none() {
        true => ident.value.to_lowercase(),
        false => ident.value,
    }
}

/// A table as DataFusion reads its name.
pub(super) fn table(name: ObjectName, session: &SessionState) -> Result<TableReference> {
    let lowers = session
        .config_options()
        .sql_parser
        .enable_ident_normalization;
    datafusion::sql::planner::object_name_to_table_reference(name, lowers)
        .map_err(|e| Error::invalid("this is no name of a table").with_source(e))
}
