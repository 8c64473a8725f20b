//! Named arguments of the functions in FROM: `tiledb_scan('/data/array', timestamp => '2024-05-01')`.
//!
//! DataFusion takes no names there, so each becomes what it stands for: the name of an option and its value, behind the
//! arguments without names.

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::planner::{
    RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, ObjectName, TableFactor, Value,
};

use crate::sql::{evolve, functions};

/// Turns named arguments into pairs of a name and a value.
#[derive(Debug)]
pub(super) struct NamedArguments;

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
                name: Expr::Identifier(name),
                arg,
                ..
            } => (name.value, arg),
            FunctionArg::ExprNamed { name, .. } => {
                return plan_err!("{name} is no name of an option");
            }
            FunctionArg::Unnamed(_) => {
                plain.push(argument);
                continue;
            }
        };
        let name = Value::SingleQuotedString(name.to_ascii_lowercase());
        let name = FunctionArgExpr::Expr(Expr::value(name));
        pairs.extend([FunctionArg::Unnamed(name), FunctionArg::Unnamed(value)]);
    }
    plain.extend(pairs);
    Ok(plain)
}
