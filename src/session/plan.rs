//! The plans of parsed statements, including those that DataFusion doesn't plan.

use datafusion::common::{Result, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

use crate::statements::written;
use crate::table::url_table::looks_like_location;

/// Plans a statement like [`SessionState::statement_to_plan`], and also supports what that doesn't plan: DEFAULT as a value and
/// `DEFAULT VALUES` of arrays, and quoted names in `COPY … PARTITIONED BY`. A column that UPDATE sets twice is an error. For an
/// outermost `SELECT *`, the planning time grows with the number of columns, not with its square. The plan finds columns that
/// others have added since an array was opened: a statement with an unknown column, and DESCRIBE, look at the array again.
///
/// # Errors
///
/// Fails if DataFusion cannot plan the statement.
pub(super) async fn plan_statement(
    state: &SessionState,
    statement: Statement,
) -> Result<LogicalPlan> {
    // A table compares its columns with the array's if it is looked up again without having been used.
    let plan = written::plan(state, statement.clone()).await;
    let looks_again = match &plan {
        Ok(_) => describes_table(&statement),
        Err(error) => is_unknown_column(error),
    };
    if looks_again {
        written::plan(state, statement).await
    } else {
        plan
    }
}

/// Whether a statement describes a table of the session. The table at a path is opened by the statement itself.
fn describes_table(statement: &Statement) -> bool {
    let Statement::Statement(statement) = statement else {
        return false;
    };
    match statement.as_ref() {
        SqlStatement::ExplainTable { table_name, .. } => {
            !looks_like_location(&table_name.to_string())
        }
        _ => false,
    }
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
