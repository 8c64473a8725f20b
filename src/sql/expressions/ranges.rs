//! Splits a predicate into a subarray and the conjuncts that ranges on dimensions do not decide.
//!
//! Every expression is converted to the cells where it is *true* or where it is *false* (`Truth`): with NULL these are
//! not each other's complement, and converting both makes NOT, AND and OR three-valued without any rewriting. The
//! result is a subarray that contains at least these cells, and whether it contains exactly these; a conjunct that is
//! converted exactly is not evaluated again. A wrong "exactly" leads to wrong results, so whatever is not known to be
//! right is "at least", and an unknown expression is "all cells, at least".

mod atoms;
mod column;
mod set;
mod steps;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt};
use datafusion::scalar::ScalarValue;

pub use column::DimensionColumn;
use set::Set;

use super::shape::{Expr, Shape, operands};
use crate::geometry::subarray::Subarray;

/// A predicate, split.
#[derive(Debug, Clone)]
pub struct Split {
    /// The cells that can satisfy the predicate.
    pub subarray: Subarray,
    /// The conjuncts still to be evaluated on those cells.
    pub residual: Option<Arc<dyn PhysicalExpr>>,
}

/// Splits a conjunction over the table's columns. `dimensions` are all dimensions of the array, in order.
pub fn split(predicate: &Arc<dyn PhysicalExpr>, dimensions: &[DimensionColumn]) -> Split {
    let analysis = Analysis { dimensions };
    let conjuncts = operands(predicate, Operator::And);
    let sets: Vec<Set> = conjuncts
        .iter()
        .map(|c| analysis.cells(c, Truth::True, 0))
        .collect();
    let residual = conjuncts
        .into_iter()
        .zip(&sets)
        .filter(|(_, set)| !set.exact)
        .map(|(c, _)| Arc::clone(c));
    let residual = conjunction_opt(residual.collect::<Vec<_>>());
    let subarray = Set::all_of(sets, dimensions.len()).subarray;
    let residual = residual.filter(|_| !subarray.is_empty());
    Split { subarray, residual }
}

/// The value of an expression for which cells are sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    /// The expression is true.
    True,
    /// The expression is false, and not NULL.
    False,
}

impl Truth {
    fn not(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
        }
    }

    fn is(self, value: bool) -> bool {
        (self == Self::True) == value
    }
}

struct Analysis<'a> {
    dimensions: &'a [DimensionColumn],
}

impl Analysis<'_> {
    fn ndim(&self) -> usize {
        self.dimensions.len()
    }

    /// The cells where `expr` has the value `truth`.
    fn cells(&self, expr: &Expr, truth: Truth, depth: usize) -> Set {
        let sets = |parts: Vec<&Expr>| {
            let parts = parts.into_iter();
            parts.map(|e| self.cells(e, truth, depth + 1)).collect()
        };
        // False is to OR what true is to AND.
        match Shape::of(expr, depth) {
            None => Set::unknown(self.ndim()),
            Some(Shape::Constant(value)) => self.constant(value, truth),
            Some(Shape::Not(arg)) => self.cells(arg, truth.not(), depth + 1),
            Some(Shape::All(parts)) if truth == Truth::True => {
                Set::all_of(sets(parts), self.ndim())
            }
            Some(Shape::Any(parts)) if truth == Truth::False => {
                Set::all_of(sets(parts), self.ndim())
            }
            Some(Shape::All(parts) | Shape::Any(parts)) => Set::any_of(sets(parts), self.ndim()),
            // Without ELSE it may also be NULL, which is not true.
            Some(Shape::OneOf(parts)) => Set::any_of(sets(parts), self.ndim()).at_least(),
            Some(Shape::Dynamic(filter)) => self.dynamic(filter, truth, depth),
            Some(Shape::Single) => {
                let atom = self.atom(expr, truth);
                atom.unwrap_or_else(|| Set::unknown(self.ndim()))
            }
        }
    }

    fn constant(&self, value: &ScalarValue, truth: Truth) -> Set {
        match value {
            ScalarValue::Boolean(Some(value)) if truth.is(*value) => Set::all(self.ndim()),
            ScalarValue::Boolean(_) | ScalarValue::Null => Set::none(self.ndim()),
            _ => Set::unknown(self.ndim()),
        }
    }

    /// A filter that tightens while the query runs: its current condition remains true from now on, but it stays in the
    /// residual.
    fn dynamic(&self, filter: &DynamicFilterPhysicalExpr, truth: Truth, depth: usize) -> Set {
        match (truth, filter.current()) {
            (Truth::True, Ok(current)) => self.cells(&current, truth, depth + 1).at_least(),
            _ => Set::unknown(self.ndim()),
        }
    }
}
