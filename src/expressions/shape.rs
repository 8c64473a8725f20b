//! The shape of a condition: how it is composed of other conditions.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, DynamicFilterPhysicalExpr, Literal, NotExpr,
};
use datafusion::scalar::ScalarValue;

/// A condition or a value of a physical plan.
pub(crate) type PhysicalExprRef = Arc<dyn PhysicalExpr>;

/// Conditions that are nested more deeply count as unknown. (Chains of AND or OR are one level.)
pub(super) const DEEPEST: usize = 64;

/// How a condition is composed.
pub(super) enum ConditionShape<'a> {
    /// A constant, the same for every row.
    Constant(&'a ScalarValue),
    /// The negation of a condition.
    Not(&'a PhysicalExprRef),
    /// All of these, joined by AND, left to right.
    All(Vec<&'a PhysicalExprRef>),
    /// Any of these, joined by OR, left to right.
    Any(Vec<&'a PhysicalExprRef>),
    /// At most one of these: the results of a CASE, which is NULL or its ELSE where no branch is taken.
    OneOf(Vec<&'a PhysicalExprRef>),
    /// A filter that tightens while the query runs.
    Dynamic(&'a DynamicFilterPhysicalExpr),
    /// A condition that is not composed of others.
    Single,
}

impl<'a> ConditionShape<'a> {
    /// The shape of a condition; `None` if it is nested too deeply.
    pub(super) fn of(expr: &'a PhysicalExprRef, depth: usize) -> Option<Self> {
        if depth > DEEPEST {
            return None;
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return Some(Self::Constant(literal.value()));
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return Some(Self::Not(not.arg()));
        }
        if let Some(dynamic) = expr.downcast_ref::<DynamicFilterPhysicalExpr>() {
            return Some(Self::Dynamic(dynamic));
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            let results = case.when_then_expr().iter().map(|(_, then)| then);
            return Some(Self::OneOf(results.chain(case.else_expr()).collect()));
        }
        let binary = expr.downcast_ref::<BinaryExpr>();
        Some(match binary.map(BinaryExpr::op) {
            Some(Operator::And) => Self::All(operands(expr, Operator::And)),
            Some(Operator::Or) => Self::Any(operands(expr, Operator::Or)),
            _ => Self::Single,
        })
    }
}

/// The operands of a chain of one operator, left to right, however they are nested.
pub(super) fn operands(expr: &PhysicalExprRef, op: Operator) -> Vec<&PhysicalExprRef> {
    let mut found = Vec::new();
    let mut pending = vec![expr];
    while let Some(expr) = pending.pop() {
        match expr.downcast_ref::<BinaryExpr>() {
            Some(binary) if *binary.op() == op => pending.extend([binary.right(), binary.left()]),
            _ => found.push(expr),
        }
    }
    found
}
