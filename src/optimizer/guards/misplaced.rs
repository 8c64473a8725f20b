//! Expressions that no operator can evaluate. DataFusion's errors for them print its own structures.
//!
//! A window function in SET or WHERE, and a scalar subquery whose dependence on the outer query isn't an equality, pass all
//! checks of DataFusion. Its last step then fails with "Physical plan does not support logical expression
//! WindowFunction(WindowFunction { fun: WindowUDF(…". The rules here first report what isn't possible, and what is.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, not_impl_err, plan_err};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Filter, LogicalPlan, Operator, Subquery};
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};

use crate::optimizer::plan_search::{reads_array, reads_array_and_has_expr};

/// Refuses functions of several rows in places that need the value of one row.
#[derive(Debug)]
pub(crate) struct FunctionsInPlace;

impl AnalyzerRule for FunctionsInPlace {
    fn name(&self) -> &'static str {
        "tiledb_functions_in_place"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if reads_array(&plan)? {
            plan.apply_with_subqueries(check_functions)?;
        }
        Ok(plan)
    }
}

fn check_functions(plan: &LogicalPlan) -> Result<TreeNodeRecursion> {
    let (windows, aggregates) = match plan {
        LogicalPlan::Window(_) => (true, true),
        LogicalPlan::Aggregate(_) => (false, true),
        _ => (false, false),
    };
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            let kind = match part {
                Expr::WindowFunction(_) if !windows => "a window function",
                Expr::AggregateFunction(_) if !aggregates => "an aggregate",
                Expr::Unnest(_) => "unnest",
                _ => return Ok(TreeNodeRecursion::Continue),
            };
            plan_err!(
                "{}: {kind} has no value for a single row, as WHERE, ON and SET ask for; compute it in a subquery, and refer to \
                 the column of that",
                part.human_display()
            )
        })
    })
}

/// Refuses scalar subqueries that remain in the plan because they can't become joins.
#[derive(Debug)]
pub(crate) struct PlannedSubqueries;

impl OptimizerRule for PlannedSubqueries {
    fn name(&self) -> &'static str {
        "tiledb_planned_subqueries"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if reads_array_and_has_expr(&plan, |expr| matches!(expr, Expr::ScalarSubquery(_)))? {
            plan.apply_with_subqueries(|plan| {
                plan.apply_expressions(|expr| {
                    expr.apply(|part| match part {
                        Expr::ScalarSubquery(subquery) => check_subquery(subquery),
                        _ => Ok(TreeNodeRecursion::Continue),
                    })
                })
            })?;
        }
        Ok(Transformed::no(plan))
    }
}

fn check_subquery(subquery: &Subquery) -> Result<TreeNodeRecursion> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(TreeNodeRecursion::Continue);
    }
    subquery.subquery.apply(|plan| {
        let obstacle = match plan {
            // A subquery of a single row is removed later.
            LogicalPlan::Limit(limit) if limit.input.max_rows().is_none_or(|rows| rows > 1) => {
                Some("LIMIT".to_owned())
            }
            LogicalPlan::Filter(Filter { predicate, .. }) => {
                let conditions = split_conjunction(predicate).into_iter();
                let mut others = conditions.filter(|c| c.contains_outer() && !is_equality(c));
                others.next().map(as_written).transpose()?
            }
            _ => None,
        };
        match obstacle {
            Some(obstacle) => not_impl_err!(
                "{obstacle} in a subquery for one value that depends on the outer query: such a subquery may refer to the outer \
                 query only by column = outer column, and may have no LIMIT; a join with GROUP BY can say the same"
            ),
            None => Ok(TreeNodeRecursion::Continue),
        }
    })
}

/// Whether a condition equates a column with an expression of the outer query.
fn is_equality(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = condition
    else {
        return false;
    };
    let is_column = |expr: &Expr| match expr {
        Expr::Cast(Cast { expr, .. }) => matches!(expr.as_ref(), Expr::Column(_)),
        expr => matches!(expr, Expr::Column(_)),
    };
    (is_column(left) && !right.any_column_refs()) || (is_column(right) && !left.any_column_refs())
}

/// A condition as the statement writes it.
fn as_written(condition: &Expr) -> Result<String> {
    let condition = condition.clone().transform_up(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        expr => Ok(Transformed::no(expr)),
    });
    Ok(condition.data()?.human_display().to_string())
}
