//! Decides which conditions a scan can evaluate: conditions that depend only on the columns of one row.

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::Expr;

/// Whether an expression depends only on the columns of one row, and has one value.
pub(crate) fn evaluable(filter: &Expr) -> Result<bool> {
    Ok(!looks_beyond_row(filter)? && !filter.is_volatile())
}

/// Whether an expression depends on more than the columns of one row.
pub(crate) fn looks_beyond_row(filter: &Expr) -> Result<bool> {
    filter.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(_, _)
                | Expr::Placeholder(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        ))
    })
}
