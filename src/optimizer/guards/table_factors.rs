//! Clauses after a table's name in FROM that DataFusion ignores.
//!
//! In the dialects of BigQuery, MsSQL, Snowflake and Databricks, `FROM t FOR SYSTEM_TIME AS OF '2024-01-01'` parses, and
//! DataFusion plans the table in its current state. It also ignores TABLESAMPLE and selected partitions. Each of these clauses
//! changes the rows of the result, so each is an error here for any table, because no later planner would see it. Arrays as of
//! a time are planned earlier.

use std::sync::Arc;

use datafusion::common::{Result, not_impl_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::planner::{
    RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::TableFactor;

/// Rejects clauses that would be ignored.
#[derive(Debug)]
struct NothingDropped;

/// Adds the planner after those of the session, which may support the clauses.
pub(crate) fn install(state: &mut SessionStateBuilder) {
    let planners = state.relation_planners().get_or_insert_default();
    planners.push(Arc::new(NothingDropped));
}

impl RelationPlanner for NothingDropped {
    fn plan_relation(
        &self,
        relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match &relation {
            TableFactor::Table {
                name,
                version: Some(version),
                ..
            } => {
                return not_impl_err!(
                    "{name} {version}: only a table of an array has times at which it can be read, and {name} is another \
                     table, a view or a query"
                );
            }
            TableFactor::Table {
                sample: Some(_), ..
            }
            | TableFactor::Derived {
                sample: Some(_), ..
            } => {
                return not_impl_err!(
                    "{relation}: samples are not understood; use a condition such as random() < 0.1 instead"
                );
            }
            TableFactor::Table {
                name, partitions, ..
            } if !partitions.is_empty() => {
                return not_impl_err!("{name}: partitions cannot be chosen by PARTITION in FROM");
            }
            TableFactor::Table {
                name,
                json_path: Some(path),
                ..
            } => return not_impl_err!("{name}: the path {path} in FROM is not understood"),
            _ => {}
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}
