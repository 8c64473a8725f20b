//! The NaN of constants.
//!
//! Arrow orders floats by their bits, and `0.0 / 0.0` has a sign on most machines: it is below all numbers, and no NaN of an
//! array equals it, because arrays show the one of `'NaN'`. The rule here makes that one of every NaN among the constants of
//! queries over arrays, after constants have been computed and before conditions reach scans.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::sql::optimizer::below::reads_array;

/// Makes one NaN of all constants that are NaN.
#[derive(Debug)]
pub(in crate::sql) struct OneNan;

impl OneNan {
    /// The rule before which this one stands.
    pub(in crate::sql) const BEFORE: &'static str = "push_down_filter";
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
        if !reads_array(&plan)? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_down_with_subqueries(|plan| {
            plan.map_expressions(|expr| expr.transform_up(|expr| Ok(one_nan(expr))))
        })
    }
}

fn one_nan(expr: Expr) -> Transformed<Expr> {
    let Expr::Literal(value, metadata) = expr else {
        return Transformed::no(expr);
    };
    let one = match &value {
        ScalarValue::Float64(Some(v)) if is_other(v.is_nan(), v.to_bits(), f64::NAN.to_bits()) => {
            ScalarValue::from(f64::NAN)
        }
        ScalarValue::Float32(Some(v)) if is_other(v.is_nan(), v.to_bits(), f32::NAN.to_bits()) => {
            ScalarValue::from(f32::NAN)
        }
        _ => return Transformed::no(Expr::Literal(value, metadata)),
    };
    Transformed::yes(Expr::Literal(one, metadata))
}

/// Whether a value is NaN, but not the one.
fn is_other<T: PartialEq>(is_nan: bool, bits: T, one: T) -> bool {
    is_nan && bits != one
}
