//! `IN (SELECT …)` inside a larger condition.
//!
//! As a condition of WHERE, `x IN (SELECT y …)` becomes a join that handles NULL correctly. Below OR, NOT or CASE,
//! DataFusion makes a column of it that shows whether the join found a match, and is never NULL: `NOT (x IN (SELECT y
//! …)) OR …` keeps rows for which the answer is unknown. Before DataFusion rewrites such an expression, the optimizer
//! rule here adds the cases in which it is NULL:
//!
//! ```sql
//! CASE WHEN x IN (SELECT y FROM n) THEN true
//!      WHEN (x IS NULL AND EXISTS (SELECT y FROM n LIMIT 1)) OR EXISTS (SELECT y FROM n WHERE y IS NULL LIMIT 1) THEN NULL
//!      ELSE false END
//! ```
//!
//! This is done only in queries over arrays, if a value can be NULL, and where NULL differs from false: not below a
//! chain of AND and OR, and not in a WHEN.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, Exists, InSubquery};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    lit,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::optimizer::plan_search::reads_array_and_has_expr;

/// Adds the cases in which `IN (SELECT …)` is NULL.
#[derive(Debug)]
pub(crate) struct NullableIn;

impl NullableIn {
    pub(crate) const NAME: &'static str = "tiledb_nullable_in";
}

impl OptimizerRule for NullableIn {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !reads_array_and_has_expr(&plan, |expr| matches!(expr, Expr::InSubquery(_)))? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Filter(filter) => in_filter(filter),
            plan => Ok(Transformed::no(plan)),
        })
    }
}

fn in_filter(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let Filter {
        predicate, input, ..
    } = filter;
    let schema = merge_schema(&[input.as_ref()]);
    let predicate = top(predicate, &schema)?;
    let changed = predicate.transformed;
    let filter = LogicalPlan::Filter(Filter::try_new(predicate.data, input)?);
    Ok(if changed {
        Transformed::yes(filter)
    } else {
        Transformed::no(filter)
    })
}

/// Rewrites a condition of WHERE, or one side of its ANDs, where DataFusion handles IN and NOT IN correctly.
fn top(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(both) if both.op == Operator::And => sides(both, |side| top(side, schema)),
        Expr::Not(inner) if matches!(*inner, Expr::InSubquery(_)) => {
            Ok(Transformed::no(Expr::Not(inner)))
        }
        Expr::InSubquery(_) => Ok(Transformed::no(expr)),
        expr => null_is_false(expr, schema),
    }
}

/// Rewrites a condition for which NULL and false mean the same.
fn null_is_false(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(both) if matches!(both.op, Operator::And | Operator::Or) => {
            sides(both, |side| null_is_false(side, schema))
        }
        Expr::InSubquery(InSubquery { negated: false, .. }) => Ok(Transformed::no(expr)),
        expr => null_matters(expr, schema),
    }
}

/// Rewrites an expression whose NULL differs from true and false.
fn null_matters(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Case(Case {
            expr: None,
            when_then_expr,
            else_expr,
        }) => {
            let mut changed = false;
            let mut see = |part: Transformed<Expr>| {
                changed |= part.transformed;
                Box::new(part.data)
            };
            let mut branches = Vec::with_capacity(when_then_expr.len());
            for (when, then) in when_then_expr {
                let when = see(null_is_false(*when, schema)?);
                branches.push((when, see(null_matters(*then, schema)?)));
            }
            let otherwise = else_expr
                .map(|expr| null_matters(*expr, schema))
                .transpose()?;
            let case = Expr::Case(Case {
                expr: None,
                when_then_expr: branches,
                else_expr: otherwise.map(see),
            });
            Ok(if changed {
                Transformed::yes(case)
            } else {
                Transformed::no(case)
            })
        }
        Expr::InSubquery(found) => spelled_out(found, schema),
        expr => expr.map_children(|child| null_matters(child, schema)),
    }
}

fn sides(
    both: BinaryExpr,
    change: impl Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    Expr::BinaryExpr(both).map_children(change)
}

/// `x IN (SELECT y …)` with the cases in which it is NULL.
fn spelled_out(found: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let rows = &found.subquery.subquery;
    let Some((qualifier, field)) = rows.schema().iter().next() else {
        return Ok(Transformed::no(Expr::InSubquery(found)));
    };
    let of_values = field.is_nullable();
    let of_value = found.expr.nullable(schema).unwrap_or(true);
    if !(of_values || of_value) || found.expr.is_volatile() {
        return Ok(Transformed::no(Expr::InSubquery(found)));
    }
    let value = found.expr.as_ref().clone();
    let element = Expr::Column(Column::from((qualifier, field)));
    let unknown = if rows.all_out_ref_exprs().is_empty() {
        let any = exists(&found.subquery, None, true)?;
        let null = exists(&found.subquery, Some(element.is_null()), true)?;
        value.is_null().and(any).or(null)
    } else {
        let outer = to_outer(value, schema)?;
        exists(&found.subquery, Some(outer.eq(element).is_null()), false)?
    };
    let negated = found.negated;
    let positive = Expr::InSubquery(InSubquery {
        negated: false,
        ..found
    });
    let case = Expr::Case(Case {
        expr: None,
        when_then_expr: vec![
            (Box::new(positive), Box::new(lit(!negated))),
            (
                Box::new(unknown),
                Box::new(Expr::Literal(ScalarValue::Boolean(None), None)),
            ),
        ],
        else_expr: Some(Box::new(lit(negated))),
    });
    Ok(Transformed::yes(case))
}

/// Whether a subquery has rows that satisfy a condition; `one_row` limits it to one row.
fn exists(subquery: &Subquery, condition: Option<Expr>, one_row: bool) -> Result<Expr> {
    let mut rows = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
    if let Some(condition) = condition {
        rows = rows.filter(condition)?;
    }
    if one_row {
        rows = rows.limit(0, Some(1))?;
    }
    let rows = rows.build()?;
    Ok(Expr::Exists(Exists {
        subquery: Subquery {
            outer_ref_columns: rows.all_out_ref_exprs(),
            subquery: Arc::new(rows),
            spans: subquery.spans.clone(),
        },
        negated: false,
    }))
}

/// An expression of the outer query, as the subquery refers to it.
fn to_outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        expr => Ok(Transformed::no(expr)),
    })
    .data()
}
