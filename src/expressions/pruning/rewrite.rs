//! The part of a condition that bounds can decide, and of its negation.
//!
//! DataFusion's pruning assumes that every cast keeps the order, which casts to booleans, times of day or zones with
//! summer time do not, and negates numbers without regard to the smallest one. So conditions are split here:
//! comparisons, lists, LIKE and NULL tests of a column, or of a cast of it that keeps the order, are used; everything
//! else is replaced by TRUE, which rules out nothing.
//!
//! The negation of a condition is where it is false *or NULL*: only if there is no such row do all rows match.

pub(super) use crate::expressions::shape::{PhysicalExprRef, operands};

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NotExpr, lit,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::utils::{collect_columns, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;

use crate::expressions::shape::ConditionShape;

/// A condition that holds wherever `expr` does, of parts that bounds can decide.
pub(super) fn matching(expr: &PhysicalExprRef, schema: &Schema) -> PhysicalExprRef {
    PruningRewrite { schema }.rows(expr, WantedProof::True, 0)
}

/// A condition that holds wherever `expr` is false or NULL, of parts that bounds can decide.
pub(super) fn failing(expr: &PhysicalExprRef, schema: &Schema) -> PhysicalExprRef {
    PruningRewrite { schema }.rows(expr, WantedProof::NotTrue, 0)
}

/// The value of a condition for which rows are sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WantedProof {
    /// The condition is true.
    True,
    /// The condition is false.
    False,
    /// The condition is false or NULL.
    NotTrue,
    /// The condition is true or NULL.
    NotFalse,
}

impl WantedProof {
    /// The same rows, by the value of the negated condition.
    fn negated(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::NotTrue => Self::NotFalse,
            Self::NotFalse => Self::NotTrue,
        }
    }

    fn with_null(self) -> bool {
        matches!(self, Self::NotTrue | Self::NotFalse)
    }

    /// Whether the condition itself holds, instead of its negation.
    fn positive(self) -> bool {
        matches!(self, Self::True | Self::NotFalse)
    }
}

struct PruningRewrite<'a> {
    schema: &'a Schema,
}

impl PruningRewrite<'_> {
    fn rows(&self, expr: &PhysicalExprRef, wanted: WantedProof, depth: usize) -> PhysicalExprRef {
        let understood = self.understood(expr, wanted, depth);
        understood.unwrap_or_else(|| lit(true))
    }

    fn understood(
        &self,
        expr: &PhysicalExprRef,
        wanted: WantedProof,
        depth: usize,
    ) -> Option<PhysicalExprRef> {
        match ConditionShape::of(expr, depth)? {
            ConditionShape::Constant(value) => constant(value, wanted),
            ConditionShape::Not(arg) => self.understood(arg, wanted.negated(), depth + 1),
            ConditionShape::Dynamic(filter) => {
                self.understood(&filter.current().ok()?, wanted, depth + 1)
            }
            ConditionShape::OneOf(results) => self.one_of(results, wanted, depth),
            ConditionShape::All(parts) => self.chain(parts, wanted.positive(), wanted, depth),
            ConditionShape::Any(parts) => self.chain(parts, !wanted.positive(), wanted, depth),
            ConditionShape::Single => self.single(expr, wanted),
        }
    }

    /// A condition that is not composed of others.
    fn single(&self, expr: &PhysicalExprRef, wanted: WantedProof) -> Option<PhysicalExprRef> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.comparison(binary, *binary.op(), wanted);
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(list, wanted);
        }
        if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            return self.like(like, wanted);
        }
        if let Some(null) = expr.downcast_ref::<IsNullExpr>() {
            return null_test(null.arg(), wanted.positive());
        }
        if let Some(null) = expr.downcast_ref::<IsNotNullExpr>() {
            return null_test(null.arg(), !wanted.positive());
        }
        let column = expr.downcast_ref::<Column>()?;
        if self.schema.field(column.index()).data_type() != &DataType::Boolean {
            return None;
        }
        let holds: PhysicalExprRef = if wanted.positive() {
            Arc::clone(expr)
        } else {
            Arc::new(NotExpr::new(Arc::clone(expr)))
        };
        Some(self.or_null(holds, expr, wanted))
    }

    /// AND and OR, whose operands form a balanced tree, however many they are: the rows that satisfy all of them, or
    /// any.
    fn chain(
        &self,
        parts: Vec<&PhysicalExprRef>,
        all: bool,
        wanted: WantedProof,
        depth: usize,
    ) -> Option<PhysicalExprRef> {
        let rows = parts.into_iter().map(|e| self.rows(e, wanted, depth + 1));
        if all {
            let rows = rows.filter(|e| !is_true(e)).collect();
            return Some(balanced(rows, Operator::And));
        }
        let rows = rows.collect::<Vec<_>>();
        let some = !rows.iter().any(is_true);
        some.then(|| balanced(rows, Operator::Or))
    }

    /// A CASE of conditions, as partitioned joins create it.
    fn one_of(
        &self,
        results: Vec<&PhysicalExprRef>,
        wanted: WantedProof,
        depth: usize,
    ) -> Option<PhysicalExprRef> {
        let results = results.into_iter().filter(|_| wanted == WantedProof::True);
        let any = results.map(|result| self.understood(result, wanted, depth + 1));
        let any = any.collect::<Option<Vec<_>>>()?;
        (!any.is_empty()).then(|| balanced(any, Operator::Or))
    }

    fn comparison(
        &self,
        binary: &BinaryExpr,
        op: Operator,
        wanted: WantedProof,
    ) -> Option<PhysicalExprRef> {
        let (operand, literal) = match (
            binary.left().downcast_ref::<Literal>(),
            binary.right().downcast_ref::<Literal>(),
        ) {
            (None, Some(literal)) => (binary.left(), literal),
            (Some(literal), None) => (binary.right(), literal),
            _ => return None,
        };
        self.keeps_order(operand).then_some(())?;
        let distinct = matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
        if literal.value().is_null() && !distinct {
            // This is never true and never false.
            return Some(lit(wanted.with_null()));
        }
        let known = matches!(
            op,
            Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
        );
        if !known && !distinct {
            return None;
        }
        let op = match (wanted.positive(), op) {
            (true, op) => op,
            (false, Operator::IsDistinctFrom) => Operator::IsNotDistinctFrom,
            (false, Operator::IsNotDistinctFrom) => Operator::IsDistinctFrom,
            (false, op) => op.negate()?,
        };
        let (left, right) = (Arc::clone(binary.left()), Arc::clone(binary.right()));
        let holds: PhysicalExprRef = Arc::new(BinaryExpr::new(left, op, right));
        Some(if distinct {
            holds
        } else {
            self.or_null(holds, operand, wanted)
        })
    }

    fn in_list(&self, list: &InListExpr, wanted: WantedProof) -> Option<PhysicalExprRef> {
        self.keeps_order(list.expr()).then_some(())?;
        let mut items = Vec::with_capacity(list.list().len());
        let mut with_null = false;
        for item in list.list() {
            if item.downcast_ref::<Literal>()?.value().is_null() {
                with_null = true
            } else {
                items.push(Arc::clone(item))
            }
        }
        let inside = wanted.positive() != list.negated();
        // In a list, the two zeros of floats are equal; in bounds they differ.
        let zeros = items.iter().flat_map(other_zero).collect::<Vec<_>>();
        if inside {
            items.extend(zeros)
        } else {
            items.retain(|item| other_zero(item).is_none())
        }
        // With a NULL in the list, a value that is not in the list gives NULL.
        if with_null && !inside {
            if !wanted.with_null() {
                return Some(lit(false));
            }
        } else if with_null && wanted.with_null() {
            return None;
        }
        if items.is_empty() {
            return None;
        }
        let holds = InListExpr::try_new(Arc::clone(list.expr()), items, !inside, self.schema);
        Some(self.or_null(Arc::new(holds.ok()?), list.expr(), wanted))
    }

    fn like(&self, like: &LikeExpr, wanted: WantedProof) -> Option<PhysicalExprRef> {
        let pattern = like.pattern().downcast_ref::<Literal>()?;
        if like.case_insensitive() || pattern.value().is_null() {
            return None;
        }
        like.expr().downcast_ref::<Column>()?;
        let negated = wanted.positive() == like.negated();
        let (operand, pattern) = (Arc::clone(like.expr()), Arc::clone(like.pattern()));
        let holds: PhysicalExprRef = Arc::new(LikeExpr::new(negated, false, operand, pattern));
        Some(self.or_null(holds, like.expr(), wanted))
    }

    /// A condition on an operand, or that the operand is NULL if such rows are sought.
    fn or_null(
        &self,
        holds: PhysicalExprRef,
        operand: &PhysicalExprRef,
        wanted: WantedProof,
    ) -> PhysicalExprRef {
        if !wanted.with_null() || !operand.nullable(self.schema).unwrap_or(true) {
            return holds;
        }
        match column_of(operand) {
            Some(column) => balanced(vec![Arc::new(IsNullExpr::new(column)), holds], Operator::Or),
            None => lit(true),
        }
    }

    /// Whether an operand is a column, or casts of one that keep the order.
    fn keeps_order(&self, operand: &PhysicalExprRef) -> bool {
        let cast = |inner: &PhysicalExprRef, to: &DataType| {
            let from = inner.data_type(self.schema);
            self.keeps_order(inner) && from.is_ok_and(|from| never_decreases(&from, to))
        };
        if let Some(to) = operand.downcast_ref::<CastExpr>() {
            return cast(to.expr(), to.cast_type());
        }
        operand.downcast_ref::<Column>().is_some()
    }
}

/// The other zero, for an item of a list that is a zero of floats.
fn other_zero(item: &PhysicalExprRef) -> Option<PhysicalExprRef> {
    match item.downcast_ref::<Literal>()?.value() {
        ScalarValue::Float32(Some(v)) if *v == 0.0 => Some(lit(-*v)),
        ScalarValue::Float64(Some(v)) if *v == 0.0 => Some(lit(-*v)),
        _ => None,
    }
}

fn constant(value: &ScalarValue, wanted: WantedProof) -> Option<PhysicalExprRef> {
    match value {
        ScalarValue::Boolean(Some(value)) => Some(lit(*value == wanted.positive())),
        value if value.is_null() => Some(lit(wanted.with_null())),
        _ => None,
    }
}

fn null_test(operand: &PhysicalExprRef, is_null: bool) -> Option<PhysicalExprRef> {
    let column = Arc::clone(operand);
    operand.downcast_ref::<Column>()?;
    Some(if is_null {
        Arc::new(IsNullExpr::new(column))
    } else {
        Arc::new(IsNotNullExpr::new(column))
    })
}

fn column_of(operand: &PhysicalExprRef) -> Option<PhysicalExprRef> {
    if operand.downcast_ref::<Column>().is_some() {
        return Some(Arc::clone(operand));
    }
    let cast = operand.downcast_ref::<CastExpr>()?;
    column_of(cast.expr())
}

pub(super) fn is_true(expr: &PhysicalExprRef) -> bool {
    let literal = expr.downcast_ref::<Literal>();
    literal.is_some_and(|l| l.value() == &ScalarValue::Boolean(Some(true)))
}

/// Combines operands as a balanced tree.
pub(super) fn balanced(mut operands: Vec<PhysicalExprRef>, op: Operator) -> PhysicalExprRef {
    while operands.len() > 1 {
        let pairs = operands.chunks(2).map(|pair| match pair {
            [left, right] => {
                let (left, right) = (Arc::clone(left), Arc::clone(right));
                Arc::new(BinaryExpr::new(left, op, right)) as PhysicalExprRef
            }
            one => one.first().map_or_else(|| lit(true), Arc::clone),
        });
        operands = pairs.collect();
    }
    let none = || lit(op == Operator::And);
    operands.pop().unwrap_or_else(none)
}

/// Whether a cast keeps the order. (A cast that fails does so for the smallest or the largest values first.)
fn never_decreases(from: &DataType, to: &DataType) -> bool {
    use DataType as A;
    let number = |t: &A| t.is_numeric();
    let text = |t: &A| matches!(t, A::Utf8 | A::LargeUtf8 | A::Utf8View);
    let bytes = |t: &A| matches!(t, A::Binary | A::LargeBinary | A::BinaryView);
    let utc = |zone: &Option<Arc<str>>| matches!(zone.as_deref(), None | Some("UTC" | "+00:00"));
    let moment = |t: &A| match t {
        A::Timestamp(_, zone) => utc(zone),
        A::Date32 | A::Date64 => true,
        _ => false,
    };
    match (from, to) {
        (A::Dictionary(_, from), to) => never_decreases(from, to),
        (from, A::Dictionary(_, to)) => never_decreases(from, to),
        (from, to) if from == to => true,
        (from, to) if number(from) && number(to) => true,
        (from, to) if text(from) && text(to) => true,
        (from, to) if bytes(from) && bytes(to) => true,
        (from, to) if moment(from) && moment(to) => true,
        (A::Timestamp(..), A::Int64) | (A::Int64, A::Timestamp(_, None)) => true,
        (A::Date32, A::Int32) | (A::Int32, A::Date32) => true,
        (A::Duration(_), A::Duration(_) | A::Int64) => true,
        (A::Time32(_) | A::Time64(_), A::Time32(_) | A::Time64(_)) => true,
        _ => false,
    }
}

/// Evaluates everything in a condition that depends on no column; `None` if that fails.
///
/// Dynamic filters are checked again by the operators that made them, so a scan may evaluate only the part of one that
/// saves more than it costs.
pub(crate) fn fold_constants(expr: &PhysicalExprRef) -> Option<PhysicalExprRef> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let empty = Arc::new(Schema::empty());
    let batch = RecordBatch::try_new_with_options(empty, vec![], &options).ok()?;
    let folded = Arc::clone(expr).transform_up(|expr| {
        let constant = expr.downcast_ref::<Literal>().is_none()
            && expr.downcast_ref::<Column>().is_none()
            && (!expr.children().is_empty() || expr.downcast_ref::<ScalarSubqueryExpr>().is_some())
            && expr
                .children()
                .iter()
                .all(|c| c.downcast_ref::<Literal>().is_some())
            && !is_volatile(&expr);
        if !constant {
            return Ok(Transformed::no(expr));
        }
        let value = expr.evaluate(&batch)?.into_array(1)?;
        let value = ScalarValue::try_from_array(&value, 0)?;
        Ok(Transformed::yes(lit(value)))
    });
    folded.data().ok()
}

/// The conjuncts that are cheap to evaluate on rows, without look-ups in the hash tables of joins.
pub(crate) fn keep_cheap(expr: &PhysicalExprRef) -> Option<PhysicalExprRef> {
    let mut kept = Vec::new();
    for conjunct in split_conjunction(expr) {
        let mut cheap = true;
        conjunct
            .apply(|e| {
                let known = e.downcast_ref::<BinaryExpr>().is_some()
                    || e.downcast_ref::<Literal>().is_some()
                    || e.downcast_ref::<Column>().is_some()
                    || e.downcast_ref::<InListExpr>().is_some()
                    || e.downcast_ref::<CastExpr>().is_some()
                    || e.downcast_ref::<IsNullExpr>().is_some()
                    || e.downcast_ref::<IsNotNullExpr>().is_some();
                cheap &= known;
                Ok(if known {
                    TreeNodeRecursion::Continue
                } else {
                    TreeNodeRecursion::Stop
                })
            })
            .ok()?;
        if cheap && !is_true(conjunct) {
            kept.push(Arc::clone(conjunct));
        }
    }
    (!kept.is_empty()).then(|| conjunction(kept))
}

/// The part of a condition that depends on one column alone; `None` if there is none.
pub(crate) fn relaxed(expr: &PhysicalExprRef, column: usize) -> Option<PhysicalExprRef> {
    let chain = expr.downcast_ref::<BinaryExpr>().map(|b| *b.op());
    match chain {
        Some(Operator::And) => {
            let parts = operands(expr, Operator::And);
            let parts = parts.iter().filter_map(|part| relaxed(part, column));
            let parts = parts.collect::<Vec<_>>();
            (!parts.is_empty()).then(|| balanced(parts, Operator::And))
        }
        Some(Operator::Or) => {
            let parts = operands(expr, Operator::Or);
            let parts = parts.iter().map(|part| relaxed(part, column));
            let mut distinct: Vec<PhysicalExprRef> = Vec::new();
            for part in parts.collect::<Option<Vec<_>>>()? {
                if !distinct.contains(&part) {
                    distinct.push(part);
                }
            }
            Some(balanced(distinct, Operator::Or))
        }
        _ => {
            let alone = collect_columns(expr).iter().all(|c| c.index() == column);
            alone.then(|| Arc::clone(expr))
        }
    }
}
