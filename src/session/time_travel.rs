//! Times in the FROM clause of a statement, and named arguments of the functions there.
//!
//! Both are planned by relation planners, which see what the parser made of FROM before DataFusion does. They come
//! before the planners of the session, and leave to these what is not about arrays.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{
    self, Expr as SqlExpr, FunctionArg, FunctionArgExpr, ObjectName, TableFactor, TableVersion,
    Value,
};

use crate::error::to_datafusion_error;
use crate::evolve;
use crate::functions;
use crate::options::TableOptions;
use crate::table::open::wait_for;
use crate::table::provider::TileDbTable;

/// Adds the planners to a session that is being built and does not have them.
pub(crate) fn install(state: &mut SessionStateBuilder) {
    let planners = state.relation_planners().get_or_insert_default();
    planners.insert(0, Arc::new(AsOf));
    planners.insert(0, Arc::new(NamedArguments));
}

/// Plans arrays as of a time.
///
/// `FROM t FOR SYSTEM_TIME AS OF '2024-05-01'`: an array as of a time, in the dialects that parse this.
///
/// The table is planned without its time first. If it turns out to be an array, its place is taken by the same array,
/// opened again as of the time; what its other options say stays. Any other table is left to the planners behind, the
/// last of which refuses the clause: DataFusion itself would drop it.
#[derive(Debug)]
struct AsOf;

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
        let table = open(table, &at).map_err(to_datafusion_error)?;
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
fn open(table: &TileDbTable, at: &str) -> tiledb_engine::Result<TileDbTable> {
    let mut options: TableOptions = table.options().clone();
    options.set("timestamp", at)?;
    options.window()?;
    let storage = table.storage().clone();
    wait_for("tiledb_as_of", async move || {
        TileDbTable::open_columns(storage, options).await
    })
}

/// Turns named arguments into pairs of a name and a value.
///
/// Named arguments of the functions in FROM: `tiledb_scan('/data/array', timestamp => '2024-05-01')`.
///
/// DataFusion takes no names there, so each becomes what it stands for: the name of an option and its value, behind
/// the arguments without names.
#[derive(Debug)]
struct NamedArguments;

impl RelationPlanner for NamedArguments {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match &mut relation {
            TableFactor::Table {
                name,
                args: Some(arguments),
                ..
            } if is_ours(name) => arguments.args = in_pairs(std::mem::take(&mut arguments.args))?,
            TableFactor::Function { name, args, .. } if is_ours(name) => {
                *args = in_pairs(std::mem::take(args))?;
            }
            _ => {}
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

fn is_ours(name: &ObjectName) -> bool {
    let last = name.0.last().and_then(|part| part.as_ident());
    let changes = |name: &str| evolve::all().iter().any(|f| f.name() == name);
    last.is_some_and(|ident| functions::is_name(&ident.value) || changes(&ident.value))
}

fn in_pairs(arguments: Vec<FunctionArg>) -> Result<Vec<FunctionArg>> {
    let (mut plain, mut pairs) = (Vec::with_capacity(arguments.len()), Vec::new());
    for argument in arguments {
        let (name, value) = match argument {
            FunctionArg::Named { name, arg, .. } => (name.value, arg),
            FunctionArg::ExprNamed {
                name: SqlExpr::Identifier(name),
                arg,
                ..
            } => (name.value, arg),
            FunctionArg::ExprNamed { name, .. } => {
                return plan_err!("{name} isn't a name of an option");
            }
            FunctionArg::Unnamed(_) => {
                plain.push(argument);
                continue;
            }
        };
        let name = Value::SingleQuotedString(name.to_ascii_lowercase());
        let name = FunctionArgExpr::Expr(SqlExpr::value(name));
        pairs.extend([FunctionArg::Unnamed(name), FunctionArg::Unnamed(value)]);
    }
    plain.extend(pairs);
    Ok(plain)
}
