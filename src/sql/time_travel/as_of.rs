//! `FROM t FOR SYSTEM_TIME AS OF '2024-05-01'`: an array as of a time, in the dialects that parse this.
//!
//! The table is planned without its time first. If it turns out to be an array, its place is taken by the same array,
//! opened again as of the time; what its other options say stays. Any other table is left to the planners behind, the
//! last of which refuses the clause: DataFusion itself would drop it.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{self, TableFactor, TableVersion};

use crate::sql::options::TableOptions;
use crate::sql::provider::TileDbTable;
use crate::sql::waiting::wait_for;

/// Plans arrays as of a time.
#[derive(Debug)]
pub(super) struct AsOf;

impl RelationPlanner for AsOf {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let mut now = relation.clone();
        let TableFactor::Table { version, alias, .. } = &mut now else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let Some(version) = version.take() else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let alias = alias.take();
        let planned = context.plan(now)?;
        let LogicalPlan::TableScan(scan) = &planned else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let provider = source_as_provider(&scan.source)?;
        let Some(table) = provider.downcast_ref::<TileDbTable>() else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let at = time(version, context)?;
        let table = open(table, &at).map_err(DataFusionError::from)?;
        let source = provider_as_source(Arc::new(table));
        let plan = LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.build()?;
        let planned = PlannedRelation::new(plan, alias);
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

/// The time in a clause, as an option would have it. A version of an array is a time, too.
fn time(version: TableVersion, context: &mut dyn RelationPlannerContext) -> Result<String> {
    let clause = version.to_string();
    let written: ast::Expr = match version {
        TableVersion::ForSystemTimeAsOf(time)
        | TableVersion::TimestampAsOf(time)
        | TableVersion::VersionAsOf(time) => time,
        other => {
            return plan_err!(
                "{other} is not understood; an array is read as of a time by FOR SYSTEM_TIME AS OF, TIMESTAMP AS OF \
                 or VERSION AS OF"
            );
        }
    };
    let none = DFSchema::empty();
    let expr = context.sql_to_expr(written, &none)?;
    let simplify = SimplifyContext::builder()
        .with_current_time()
        .with_schema(Arc::new(none.clone()))
        .build();
    let simplifier = ExprSimplifier::new(simplify);
    let expr = simplifier.simplify(simplifier.coerce(expr, &none)?)?;
    let Expr::Literal(value, _) = expr else {
        return plan_err!("{clause}: the time is not constant");
    };
    match value.cast_to(&datafusion::arrow::datatypes::DataType::Utf8)? {
        datafusion::common::ScalarValue::Utf8(Some(time)) => Ok(time),
        _ => plan_err!("{clause}: the time is NULL"),
    }
}

/// The array of a table as of a time.
fn open(table: &TileDbTable, at: &str) -> crate::Result<TileDbTable> {
    let mut options: TableOptions = table.options().clone();
    options.set("timestamp", at)?;
    options.window()?;
    let storage = table.storage().clone();
    wait_for("tiledb_as_of", async move || {
        TileDbTable::open_columns(storage, options).await
    })
}
