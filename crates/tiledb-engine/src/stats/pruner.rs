//! Pruning: deciding by statistics whether a tile must be read.
//!
//! A [`TilePruner`] belongs to a predicate and is evaluated on many tiles at once, by the smallest and the largest
//! value of each column. It answers two questions: can a cell satisfy the predicate (if not, the tile is pruned), and
//! do all cells satisfy it (then the predicate need not be evaluated on rows).
//!
//! The subtle thing is which tiles may be pruned by their attributes: only those whose cells no other tile can hide,
//! and that hide none themselves. Pruning the newer of two tiles would make the older cells visible again. By
//! coordinates any tile may be pruned, because all versions of a cell have the same coordinates.

use std::fmt;

use arrow::array::{ArrayRef, UInt64Array};

/// What statistics prove about a condition on the cells of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No cell satisfies it.
    Nothing,
    /// Some cells may satisfy it.
    Something,
    /// Every cell satisfies it.
    Everything,
}

impl Verdict {
    /// The verdict on the conjunction of two conditions.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (Self::Everything, Self::Everything) => Self::Everything,
            _ => Self::Something,
        }
    }

    /// The verdict on one condition over the cells of two tiles.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        if self == other { self } else { Self::Something }
    }
}

/// Evaluates a predicate on tiles by their statistics.
pub trait TilePruner: fmt::Debug + Send + Sync {
    /// The table columns that it reads.
    fn columns(&self) -> &[usize];

    /// A verdict for every tile; [`Verdict::Something`] where statistics do not decide.
    fn evaluate(&self, tiles: &PrunedTileStatistics) -> Vec<Verdict>;
}

/// The statistics of some tiles: each array has one value per tile.
#[derive(Debug)]
pub struct PrunedTileStatistics {
    /// The number of tiles.
    pub tiles: usize,
    /// The number of cells in each tile.
    pub cells: UInt64Array,
    /// The columns that the pruner reads, in its order.
    pub columns: Vec<ColumnStatistics>,
}

/// The statistics of one column in some tiles. NULL means unknown.
#[derive(Debug)]
pub struct ColumnStatistics {
    /// The table column.
    pub column: usize,
    /// A lower bound of the values, of the column's type or that of its enumeration's values. For floats, a lower bound
    /// of zero is -0.0 and an upper one 0.0, so that it holds whether or not a comparison distinguishes the two.
    pub min: ArrayRef,
    /// An upper bound of the values.
    pub max: ArrayRef,
    /// The number of NULLs.
    pub null_counts: UInt64Array,
    /// For an enumerated column, the smallest and the largest code within the enumeration, if any.
    pub codes: Option<Vec<Option<(u64, u64)>>>,
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Everything, Nothing, Something};

    #[test]
    fn verdicts_add_up() {
        assert_eq!(Everything.and(Everything), Everything);
        assert_eq!(Everything.and(Something), Something);
        assert_eq!(Something.and(Nothing), Nothing);
        assert_eq!(Nothing.over(Nothing), Nothing);
        assert_eq!(Nothing.over(Everything), Something);
        assert_eq!(Everything.over(Everything), Everything);
    }
}
