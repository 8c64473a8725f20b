//! The NaN of constants.
//!
//! Arrow orders floats by their bits, and `0.0 / 0.0` has a sign on most machines. It sorts below all numbers, and no NaN of an
//! array equals it, because arrays show the NaN of `'NaN'`. The rule here replaces every NaN among the constants of queries
//! over arrays by that NaN. It runs after constants are computed and before conditions reach scans.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::optimizer::plan_search::reads_array_and_has_expr;

/// Replaces all NaN constants by the one NaN.
#[derive(Debug)]
pub(crate) struct OneNan;

impl OneNan {
    /// The rule before which this rule runs.
    pub(crate) const BEFORE: &'static str = "push_down_filter";
}

impl OptimizerRule for OneNan {
    fn name(&self) -> &'static str {
        "tiledb_one_nan"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !reads_array_and_has_expr(&plan, |expr| replacement(expr).is_some())? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_down_with_subqueries(|plan| {
            plan.map_expressions(|expr| expr.transform_up(|expr| Ok(one_nan(expr))))
        })
    }
}

/// The one NaN of the type of a literal that is another NaN; `None` for any other expression.
fn replacement(expr: &Expr) -> Option<ScalarValue> {
    let Expr::Literal(value, _) = expr else {
        return None;
    };
    match value {
        ScalarValue::Float64(Some(v)) if v.is_nan() && v.to_bits() != f64::NAN.to_bits() => {
            Some(ScalarValue::from(f64::NAN))
        }
        ScalarValue::Float32(Some(v)) if v.is_nan() && v.to_bits() != f32::NAN.to_bits() => {
            Some(ScalarValue::from(f32::NAN))
        }
        _ => None,
    }
}

fn one_nan(expr: Expr) -> Transformed<Expr> {
    match (replacement(&expr), expr) {
        (Some(nan), Expr::Literal(_, metadata)) => Transformed::yes(Expr::Literal(nan, metadata)),
        (_, expr) => Transformed::no(expr),
    }
}
