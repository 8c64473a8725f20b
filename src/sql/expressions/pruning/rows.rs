//! The part of a filter that is worth evaluating on rows.
//!
//! Dynamic filters are checked again by the operators that made them, so a scan may evaluate only the part of one that
//! saves more than it costs.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, lit,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::utils::{collect_columns, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;

use super::rewrite::{Expr, balanced, is_true, operands};

/// Evaluates everything in a condition that depends on no column; `None` if that fails.
pub(crate) fn fold_constants(expr: &Expr) -> Option<Expr> {
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
pub(crate) fn keep_cheap(expr: &Expr) -> Option<Expr> {
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
                Ok(match known {
                    true => TreeNodeRecursion::Continue,
                    false => TreeNodeRecursion::Stop,
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
pub(crate) fn relaxed(expr: &Expr, column: usize) -> Option<Expr> {
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
            let mut distinct: Vec<Expr> = Vec::new();
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
