//! Literals that DataFusion changes before it compares them.
//!
//! A comparison casts its sides to a common type: for a column of seconds, `t < TIMESTAMP '….5'` is `CAST(t AS Timestamp(ns)) <
//! …`. DataFusion's simplifier then casts the literal back to the type of the column, which rounds it towards zero and drops
//! its zone. As a result, `=` finds rows that aren't equal, and `<` loses rows that are less. Before the simplifier runs, the
//! rule here makes an exact comparison in the unit of the column, which can also be pushed down:
//!
//! ```text
//! t <  TIMESTAMP '2024-02-29 00:00:00.5'   →   t <= TIMESTAMP '2024-02-29 00:00:00'
//! t =  TIMESTAMP '2024-02-29 00:00:00.5'   →   false
//! ```
//!
//! With a zone, the value of a column is the local time there. When clocks are turned back, a local time occurs twice, and the
//! cast fails for it. So, unless the zone has a fixed offset, the cast stays, together with a condition on the column that the
//! scan can use: `t < <local time> AND CAST(t AS Timestamp(s, zone)) < …`.
//!
//! All other casts that the simplifier must not move to a literal are [`hidden`] while it runs, because an expression may
//! become a literal during its run.

mod hidden;
mod moments;

use std::cell::RefCell;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast, cast,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use self::hidden::{hidden, is_hidden, shown};
use self::moments::{
    ConstantEvaluator, TimeOperand, TimePoint, is_constant, is_fixed, shown_in, unit_of, zone_of,
};
use crate::optimizer::plan_search::reads_array_and_has_expr;

/// The rule that makes exact comparisons and hides casts.
#[derive(Debug)]
pub(crate) struct ExactLiterals;

/// The rule that restores the hidden casts.
#[derive(Debug)]
pub(crate) struct ShownCasts;

/// The name of DataFusion's rule that moves casts to literals.
pub(crate) const SIMPLIFIER: &str = "simplify_expressions";

impl OptimizerRule for ExactLiterals {
    fn name(&self) -> &'static str {
        "tiledb_exact_literals"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !reads_array_and_has_expr(&plan, is_cast)? {
            return Ok(Transformed::no(plan));
        }
        let info = SimplifyContext::builder()
            .with_config_options(config.options())
            .with_query_execution_start_time(config.query_execution_start_time());
        let constants = ConstantEvaluator::new(info.build());
        plan.transform_up_with_subqueries(|plan| in_node(plan, &constants))
    }
}

impl OptimizerRule for ShownCasts {
    fn name(&self) -> &'static str {
        "tiledb_shown_casts"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !reads_array_and_has_expr(&plan, is_hidden)? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|plan| {
            plan.map_expressions(|expr| expr.transform_up(|expr| Ok(shown(expr))))
        })
    }
}

fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(_) | Expr::TryCast(_))
}

fn in_node(plan: LogicalPlan, constants: &ConstantEvaluator) -> Result<Transformed<LogicalPlan>> {
    let mut has_casts = false;
    plan.apply_expressions(|expr| {
        has_casts |= expr.exists(|part| Ok(is_cast(part)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !has_casts {
        return Ok(Transformed::no(plan));
    }
    let node = NodeRewriter {
        schema: columns(&plan)?,
        constants,
        known: RefCell::new(plan.expressions()),
    };
    let names = NamePreserver::new(&plan);
    let rewrite = |expr: Expr| {
        let name = names.save(&expr);
        let changed = expr.transform_down(|expr| node.rewritten(expr))?;
        Ok(changed.update_data(|expr| name.restore(expr)))
    };
    plan.map_expressions(|expr| match expr {
        // Grouping sets have no names of their own.
        Expr::GroupingSet(_) => expr.map_children(rewrite),
        expr => rewrite(expr),
    })
}

/// The columns that a node's expressions may refer to.
fn columns(plan: &LogicalPlan) -> Result<DFSchema> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())
        }
        plan => Ok(merge_schema(&plan.inputs())),
    }
}

/// Rewrites the expressions of one node.
struct NodeRewriter<'a> {
    schema: DFSchema,
    constants: &'a ConstantEvaluator,
    /// The expressions of the node, and the conditions that were added to them.
    known: RefCell<Vec<Expr>>,
}

/// An expression that is compared as a timestamp, with or without a cast to that type.
struct UnderCast {
    subject: TimeOperand,
    /// The type in which the expression is compared.
    target: DataType,
}

impl NodeRewriter<'_> {
    fn rewritten(&self, expr: Expr) -> Result<Transformed<Expr>> {
        let (mut expr, mut changed) = (expr, false);
        // The exact comparison may again have a cast on one side.
        while let Some(exact) = self.exact(&expr) {
            (expr, changed) = (exact, true);
        }
        if self.is_lossy(&expr) {
            (expr, changed) = (hidden(expr), true);
        }
        Ok(if changed {
            Transformed::yes(expr)
        } else {
            Transformed::no(expr)
        })
    }

    /// The exact comparison, if the simplifier might change the expression.
    fn exact(&self, expr: &Expr) -> Option<Expr> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let straight = self.comparison(left, *op, right);
                straight.or_else(|| self.comparison(right, op.swap()?, left))
            }
            Expr::Between(Between {
                expr,
                negated,
                low,
                high,
            }) => {
                let (from, to) = if *negated {
                    (Operator::Lt, Operator::Gt)
                } else {
                    (Operator::GtEq, Operator::LtEq)
                };
                let from = self.comparison(expr, from, low)?;
                let to = self.comparison(expr, to, high)?;
                (!expr.is_volatile()).then(|| if *negated { from.or(to) } else { from.and(to) })
            }
            Expr::InList(list) => self.list(list),
            Expr::Cast(cast) => self.beyond(cast),
            _ => None,
        }
    }

    /// The exact form of `side op other`, if `other` is a constant point in time.
    fn comparison(&self, side: &Expr, op: Operator, other: &Expr) -> Option<Expr> {
        let UnderCast { subject, target } = self.under_cast(side, std::slice::from_ref(other))?;
        let TimePoint::At(at) = self.constants.moment(other, &target)? else {
            return None;
        };
        let zone = match (zone_of(&subject.data_type), zone_of(&target)) {
            (None, Some(zone)) => zone,
            _ => return subject.compared(op, at),
        };
        if is_fixed(zone) {
            return subject.compared(op, shown_in(zone, at)?);
        }
        use Operator::{Eq, Gt, GtEq, Lt, LtEq};
        if !matches!(op, Eq | Lt | LtEq | Gt | GtEq) || side.is_volatile() {
            return None;
        }
        let shown = self.added(subject.compared(op, shown_in(zone, at)?)?)?;
        Some(shown.and(in_zone(subject, zone)?.compared(op, at)?))
    }

    /// The exact form of `x IN (…)`, if the members are constant points in time.
    fn list(&self, list: &InList) -> Option<Expr> {
        let UnderCast { subject, target } = self.under_cast(&list.expr, &list.list)?;
        let members = list
            .list
            .iter()
            .map(|member| self.constants.moment(member, &target))
            .collect::<Option<Vec<_>>>()?;
        let zone = match (zone_of(&subject.data_type), zone_of(&target)) {
            (None, Some(zone)) => zone,
            _ => return subject.among(&members, list.negated),
        };
        let there = members
            .iter()
            .map(|member| match member {
                TimePoint::Null => Some(TimePoint::Null),
                TimePoint::At(at) => shown_in(zone, *at).map(TimePoint::At),
            })
            .collect::<Option<Vec<_>>>()?;
        if is_fixed(zone) {
            return subject.among(&there, list.negated);
        }
        if list.negated || list.expr.is_volatile() {
            return None;
        }
        let shown = self.added(subject.among(&there, false)?)?;
        Some(shown.and(in_zone(subject, zone)?.among(&members, false)?))
    }

    /// A condition to add, unless the node already has it: the optimizer makes several passes.
    fn added(&self, condition: Expr) -> Option<Expr> {
        let mut known = self.known.borrow_mut();
        let has = |expr: &Expr| expr.exists(|part| Ok(part == &condition)).unwrap_or(true);
        if known.iter().any(has) {
            return None;
        }
        known.push(condition.clone());
        Some(condition)
    }

    /// The expression that a side of a comparison casts, if it can be compared exactly. A side without a cast also counts, if
    /// the `others` aren't literals yet, because their values may lie beyond its type.
    fn under_cast(&self, side: &Expr, others: &[Expr]) -> Option<UnderCast> {
        let (expr, target) = match side {
            Expr::Cast(Cast { expr, field }) => (expr.as_ref(), field.data_type().clone()),
            _ if others
                .iter()
                .all(|other| matches!(other, Expr::Literal(..))) =>
            {
                return None;
            }
            side => (side, side.get_type(&self.schema).ok()?),
        };
        if !matches!(target, DataType::Timestamp(..)) || is_constant(expr) {
            return None;
        }
        let data_type = expr.get_type(&self.schema).ok()?;
        // A cast that rounds the column is different from one that rounds the literal, and a day has no zone.
        let is_exact = unit_of(&data_type)? >= unit_of(&target)?
            && (data_type != DataType::Date32 || zone_of(&target).is_none());
        let subject = TimeOperand {
            expr: expr.clone(),
            data_type,
            nullable: expr.nullable(&self.schema).unwrap_or(true),
        };
        is_exact.then_some(UnderCast { subject, target })
    }

    /// The constant of a cast whose value fits the target type, but not the type that it is cast from: `CAST(TIMESTAMP
    /// '1500-01-01' AS TIMESTAMP(0))`.
    fn beyond(&self, cast: &Cast) -> Option<Expr> {
        let Expr::Cast(inner) = cast.expr.as_ref() else {
            return None;
        };
        let (from, to) = (inner.field.data_type(), cast.field.data_type());
        let TimePoint::At(at) = self.constants.moment(&cast.expr, from)? else {
            return None;
        };
        let fits = moments::literal(from, Some(at / unit_of(from)?)).is_some();
        if fits || zone_of(from) != zone_of(to) {
            return None;
        }
        let unit = unit_of(to)?;
        let count = match to {
            DataType::Date32 => at.div_euclid(unit),
            _ => at / unit,
        };
        let value = moments::literal(to, Some(count))?;
        Some(Expr::Literal(value, None))
    }

    /// Whether an expression is a cast that the simplifier wrongly takes for exact.
    fn is_lossy(&self, expr: &Expr) -> bool {
        let (inner, to, tries) = match expr {
            Expr::Cast(Cast { expr, field }) => (expr, field.data_type(), false),
            Expr::TryCast(TryCast { expr, field }) => (expr, field.data_type(), true),
            _ => return false,
        };
        if matches!(inner.as_ref(), Expr::Literal(..)) {
            return false;
        }
        let from = inner.get_type(&self.schema);
        from.is_ok_and(|from| is_lossy(&from, to, tries))
    }
}

/// The operand as an instant, if its value is the local time in a zone.
fn in_zone(subject: TimeOperand, zone: &str) -> Option<TimeOperand> {
    let DataType::Timestamp(unit, None) = subject.data_type else {
        return None;
    };
    let data_type = DataType::Timestamp(unit, Some(zone.into()));
    Some(TimeOperand {
        expr: cast(subject.expr, data_type.clone()),
        data_type,
        nullable: subject.nullable,
    })
}

/// Whether comparing the cast with a literal differs from comparing the uncast value with the literal in its type.
fn is_lossy(from: &DataType, to: &DataType, tries: bool) -> bool {
    use DataType as A;
    match (from, to) {
        (from, to) if from == to => false,
        (A::Timestamp(_, zone), A::Timestamp(_, other)) => {
            tries || unit_of(from) > unit_of(to) || (zone.is_none() && other.is_some())
        }
        (from, to) if from.is_decimal() => match (scale(from), scale(to)) {
            (Some(from), Some(to)) => tries || to < from,
            (Some(_), None) => to.is_integer(),
            _ => false,
        },
        // A value that can't be cast becomes NULL.
        (_, _) => tries,
    }
}

fn scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}
