//! Sets of cells, each as a subarray that contains at least these cells, and their unions and intersections.

use crate::geometry::subarray::{DimRanges, Subarray};

/// A set of cells.
#[derive(Debug, Clone)]
pub(super) struct Set {
    /// A subarray that contains every cell of the set.
    pub(super) subarray: Subarray,
    /// Whether it contains no other cell.
    pub(super) exact: bool,
}

/// The most subarrays that are compared pair by pair in a union.
const MOST_PAIRS: usize = 16;

impl Set {
    /// The cells of a subarray, or at most those. (An empty set is always exact.)
    fn new(subarray: Subarray, exact: bool) -> Self {
        let exact = exact || subarray.is_empty();
        Self { subarray, exact }
    }

    /// Every cell.
    pub(super) fn all(ndim: usize) -> Self {
        Self::new(Subarray::all(ndim), true)
    }

    /// No cell.
    pub(super) fn none(ndim: usize) -> Self {
        // Without dimensions there is no dimension to hold an empty list of ranges.
        let mut subarray = Subarray::all(ndim);
        subarray.set_dim(0, DimRanges::none());
        Self::new(subarray, true)
    }

    /// An unknown set, within all cells.
    pub(super) fn unknown(ndim: usize) -> Self {
        Self::new(Subarray::all(ndim), false)
    }

    /// The cells of some ranges of one dimension.
    pub(super) fn of_dim(ndim: usize, dim: usize, ranges: DimRanges, exact: bool) -> Self {
        let mut subarray = Subarray::all(ndim);
        subarray.set_dim(dim, ranges);
        Self::new(subarray, exact)
    }

    /// The same subarray, without the claim that it is exact.
    pub(super) fn at_least(self) -> Self {
        Self::new(self.subarray, false)
    }

    /// The cells in all of the sets.
    pub(super) fn all_of(sets: Vec<Self>, ndim: usize) -> Self {
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
    pub(super) fn any_of(sets: Vec<Self>, ndim: usize) -> Self {
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
