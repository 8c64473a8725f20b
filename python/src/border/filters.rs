//! Filters of another session, as filters of this one.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, plan_err};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, Volatility};

/// The filter with functions of this session instead of foreign ones; `None` if something in it is unknown here, or gives another
/// value each time. Functions are found by their names: over the border, they have another type.
pub(super) fn of_this_session(filter: &Expr, state: &SessionState) -> Option<Expr> {
    let known = filter.clone().transform_up(|expr| known(expr, state));
    known.data().ok()
}

fn known(expr: Expr, state: &SessionState) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(
            column.name,
        )))),
        Expr::ScalarFunction(call) => {
            let own = state.scalar_functions().get(call.func.name());
            match own {
                Some(own) if own.signature().volatility == Volatility::Immutable => {
                    let call = ScalarFunction::new_udf(own.clone(), call.args);
                    Ok(Transformed::yes(Expr::ScalarFunction(call)))
                }
                _ => plan_err!("the function {} isn't known here", call.func.name()),
            }
        }
        Expr::Literal(..)
        | Expr::BinaryExpr(_)
        | Expr::Not(_)
        | Expr::Negative(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::Between(_)
        | Expr::Like(_)
        | Expr::InList(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_) => Ok(Transformed::no(expr)),
        other => plan_err!("{other} isn't taken over the border"),
    }
}
