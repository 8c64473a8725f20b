//! Splits a predicate into a subarray and the conjuncts that ranges on dimensions do not decide.
//!
//! Every expression is converted to the cells where it is *true* or where it is *false* (`SoughtTruth`): with NULL these are
//! not each other's complement, and converting both makes NOT, AND and OR three-valued without any rewriting. The
//! result is a subarray that contains at least these cells, and whether it contains exactly these; a conjunct that is
//! converted exactly is not evaluated again. A wrong "exactly" leads to wrong results, so whatever is not known to be
//! right is "at least", and an unknown expression is "all cells, at least".

mod atoms;
mod column;
mod view;

#[cfg(test)]
mod tests;

pub use column::DimensionColumn;

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt};
use datafusion::scalar::ScalarValue;
use tiledb_engine::geometry::subarray::{DimRanges, Subarray};

use super::shape::{ConditionShape, PhysicalExprRef, operands};

/// A predicate, split.
#[derive(Debug, Clone)]
pub struct SplitPredicate {
    /// The cells that can satisfy the predicate.
    pub subarray: Subarray,
    /// The conjuncts still to be evaluated on those cells.
    pub residual: Option<Arc<dyn PhysicalExpr>>,
}

/// Splits a conjunction over the table's columns. `dimensions` are all dimensions of the array, in order.
pub fn split(predicate: &Arc<dyn PhysicalExpr>, dimensions: &[DimensionColumn]) -> SplitPredicate {
    let analysis = RangeAnalysis { dimensions };
    let conjuncts = operands(predicate, Operator::And);
    let sets: Vec<CellSet> = conjuncts
        .iter()
        .map(|c| analysis.cells(c, SoughtTruth::True, 0))
        .collect();
    let residual = conjuncts
        .into_iter()
        .zip(&sets)
        .filter(|(_, set)| !set.exact)
        .map(|(c, _)| Arc::clone(c));
    let residual = conjunction_opt(residual.collect::<Vec<_>>());
    let subarray = CellSet::all_of(sets, dimensions.len()).subarray;
    let residual = residual.filter(|_| !subarray.is_empty());
    SplitPredicate { subarray, residual }
}

/// The value of an expression for which cells are sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SoughtTruth {
    /// The expression is true.
    True,
    /// The expression is false, and not NULL.
    False,
}

impl SoughtTruth {
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

struct RangeAnalysis<'a> {
    dimensions: &'a [DimensionColumn],
}

impl RangeAnalysis<'_> {
    fn ndim(&self) -> usize {
        self.dimensions.len()
    }

    /// The cells where `expr` has the value `truth`.
    fn cells(&self, expr: &PhysicalExprRef, truth: SoughtTruth, depth: usize) -> CellSet {
        let sets = |parts: Vec<&PhysicalExprRef>| {
            let parts = parts.into_iter();
            parts.map(|e| self.cells(e, truth, depth + 1)).collect()
        };
        // False is to OR what true is to AND.
        match ConditionShape::of(expr, depth) {
            None => CellSet::unknown(self.ndim()),
            Some(ConditionShape::Constant(value)) => self.constant(value, truth),
            Some(ConditionShape::Not(arg)) => self.cells(arg, truth.not(), depth + 1),
            Some(ConditionShape::All(parts)) if truth == SoughtTruth::True => {
                CellSet::all_of(sets(parts), self.ndim())
            }
            Some(ConditionShape::Any(parts)) if truth == SoughtTruth::False => {
                CellSet::all_of(sets(parts), self.ndim())
            }
            Some(ConditionShape::All(parts) | ConditionShape::Any(parts)) => {
                CellSet::any_of(sets(parts), self.ndim())
            }
            // Without ELSE it may also be NULL, which is not true.
            Some(ConditionShape::OneOf(parts)) => {
                CellSet::any_of(sets(parts), self.ndim()).at_least()
            }
            Some(ConditionShape::Dynamic(filter)) => self.dynamic(filter, truth, depth),
            Some(ConditionShape::Single) => {
                let atom = self.atom(expr, truth);
                atom.unwrap_or_else(|| CellSet::unknown(self.ndim()))
            }
        }
    }

    fn constant(&self, value: &ScalarValue, truth: SoughtTruth) -> CellSet {
        match value {
            ScalarValue::Boolean(Some(value)) if truth.is(*value) => CellSet::all(self.ndim()),
            ScalarValue::Boolean(_) | ScalarValue::Null => CellSet::none(self.ndim()),
            _ => CellSet::unknown(self.ndim()),
        }
    }

    /// A filter that tightens while the query runs: its current condition remains true from now on, but it stays in the
    /// residual.
    fn dynamic(
        &self,
        filter: &DynamicFilterPhysicalExpr,
        truth: SoughtTruth,
        depth: usize,
    ) -> CellSet {
        match (truth, filter.current()) {
            (SoughtTruth::True, Ok(current)) => self.cells(&current, truth, depth + 1).at_least(),
            _ => CellSet::unknown(self.ndim()),
        }
    }
}

/// A set of cells.
#[derive(Debug, Clone)]
struct CellSet {
    /// A subarray that contains every cell of the set.
    subarray: Subarray,
    /// Whether it contains no other cell.
    exact: bool,
}

/// The most subarrays that are compared pair by pair in a union.
const MOST_PAIRS: usize = 16;

impl CellSet {
    /// The cells of a subarray, or at most those. (An empty set is always exact.)
    fn new(subarray: Subarray, exact: bool) -> Self {
        let exact = exact || subarray.is_empty();
        Self { subarray, exact }
    }

    /// Every cell.
    fn all(ndim: usize) -> Self {
        Self::new(Subarray::all(ndim), true)
    }

    /// No cell.
    fn none(ndim: usize) -> Self {
        // Without dimensions there is no dimension to hold an empty list of ranges.
        let mut subarray = Subarray::all(ndim);
        subarray.set_dim(0, DimRanges::none());
        Self::new(subarray, true)
    }

    /// An unknown set, within all cells.
    fn unknown(ndim: usize) -> Self {
        Self::new(Subarray::all(ndim), false)
    }

    /// The cells of some ranges of one dimension.
    fn of_dim(ndim: usize, dim: usize, ranges: DimRanges, exact: bool) -> Self {
        let mut subarray = Subarray::all(ndim);
        subarray.set_dim(dim, ranges);
        Self::new(subarray, exact)
    }

    /// Gives up the claim that the subarray is exact: it may hold more cells than the condition selects.
    fn at_least(self) -> Self {
        Self::new(self.subarray, false)
    }

    /// The cells in all of the sets.
    fn all_of(sets: Vec<Self>, ndim: usize) -> Self {
        let mut subarray = Subarray::all(ndim);
        for dim in 0..ndim {
            let asked = sets
                .iter()
                .map(|set| set.subarray.dim(dim))
                .filter(|ranges| !ranges.is_all());
            subarray.set_dim(dim, DimRanges::intersect_all(asked));
        }
        Self::new(subarray, sets.iter().all(|set| set.exact))
    }

    /// The cells in any of the sets.
    fn any_of(sets: Vec<Self>, ndim: usize) -> Self {
        let (single, mut pieces): (Vec<Self>, Vec<Self>) = sets
            .into_iter()
            .filter(|set| !set.subarray.is_empty())
            .partition(|set| set.only_dim().is_some());
        for dim in 0..ndim {
            let of_dim = || single.iter().filter(|set| set.only_dim() == Some(dim));
            if of_dim().next().is_some() {
                let ranges = DimRanges::union_all(of_dim().map(|set| set.subarray.dim(dim)));
                pieces.push(Self::of_dim(
                    ndim,
                    dim,
                    ranges,
                    of_dim().all(|set| set.exact),
                ));
            }
        }
        if pieces.len() > MOST_PAIRS {
            return Self::hull_of_all(&pieces, ndim);
        }
        pieces
            .into_iter()
            .reduce(|a, b| a.union(&b))
            .unwrap_or_else(|| Self::none(ndim))
    }

    fn hull_of_all(pieces: &[Self], ndim: usize) -> Self {
        let mut subarray = Subarray::all(ndim);
        for dim in 0..ndim {
            subarray.set_dim(
                dim,
                DimRanges::union_all(pieces.iter().map(|piece| piece.subarray.dim(dim))),
            );
        }
        Self::new(subarray, false)
    }

    fn union(&self, other: &Self) -> Self {
        for (outer, inner) in [(self, other), (other, self)] {
            if outer.exact && outer.subarray.intersect(&inner.subarray) == inner.subarray {
                return outer.clone();
            }
        }
        let pairs = self.subarray.dims().iter().zip(other.subarray.dims());
        let one_differs = pairs.filter(|(a, b)| a != b).count() <= 1;
        Self::new(
            self.subarray.hull(&other.subarray),
            one_differs && self.exact && other.exact,
        )
    }

    /// The one dimension that is constrained, if it is one.
    fn only_dim(&self) -> Option<usize> {
        let mut constrained = self
            .subarray
            .dims()
            .iter()
            .enumerate()
            .filter(|(_, ranges)| !ranges.is_all());
        let (dim, _) = constrained.next()?;
        constrained.next().is_none().then_some(dim)
    }
}
