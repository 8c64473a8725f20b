//! The plans of statements, for programs that take statements from users.

use datafusion::common::{Result, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

use crate::statements::written;
use crate::stores::location::expand_home;

/// Plans a statement like [`SessionState::statement_to_plan`], and also supports what that doesn't plan: DEFAULT as a value and
/// `DEFAULT VALUES` of arrays, and quoted names in `COPY … PARTITIONED BY`. A column that UPDATE sets twice is an error. For an
/// outermost `SELECT *`, the planning time grows with the number of columns, not with its square. The plan finds columns that
/// others have added since an array was opened: a statement with an unknown column, and DESCRIBE, look at the array again.
///
/// ```
/// use datafusion::prelude::SessionContext;
/// use datafusion_tiledb::TileDbSessionExt;
/// use datafusion_tiledb::session::plan_statement;
///
/// # async fn example() -> datafusion::error::Result<()> {
/// let ctx = SessionContext::new();
/// ctx.register_tiledb("weather", "./examples/data/weather_stations").await?;
/// let state = ctx.state();
/// let dialect = state.config_options().sql_parser.dialect;
/// let statement = state.sql_to_statement("SELECT * FROM weather LIMIT 5", &dialect)?;
/// let plan = plan_statement(&state, statement).await?;
/// assert_eq!(ctx.execute_logical_plan(plan).await?.count().await?, 5);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
///
/// # Errors
///
/// Fails if DataFusion cannot plan the statement.
pub async fn plan_statement(state: &SessionState, statement: Statement) -> Result<LogicalPlan> {
    // A table compares its columns with the array's if it is looked up again without having been used.
    let plan = written::plan(state, statement.clone()).await;
    let looks_again = match &plan {
        Ok(_) => describes_table(&statement),
        Err(error) => is_unknown_column(error),
    };
    match looks_again {
        true => written::plan(state, statement).await,
        false => plan,
    }
}

fn describes_table(statement: &Statement) -> bool {
    matches!(statement, Statement::Statement(statement) if matches!(**statement, SqlStatement::ExplainTable { .. }))
}

fn is_unknown_column(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => {
            matches!(**error, SchemaError::FieldNotFound { .. })
        }
        DataFusionError::Collection(errors) => errors.iter().any(is_unknown_column),
        _ => false,
    }
}

/// The plan of a COPY or CREATE EXTERNAL TABLE with the home folder in place of a leading `~` in its location, which DataFusion
/// would take for a folder's name. Other plans stay unchanged.
pub fn with_home_expanded(plan: LogicalPlan) -> LogicalPlan {
    let expanded = |path: &str| expand_home(path).into_owned();
    match plan {
        LogicalPlan::Copy(copy) => LogicalPlan::Copy(CopyTo {
            output_url: expanded(&copy.output_url),
            ..copy
        }),
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(mut table)) => {
            for location in &mut table.locations {
                *location = expanded(location);
            }
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table))
        }
        plan => plan,
    }
}
