//! Pruning: what statistics say of a tile before it is read.
//!
//! A [`TilePruner`] is the companion of a condition on rows: it judges many tiles at once by the
//! smallest and the largest value of each column. It answers two questions: may a cell meet the condition (if not, the
//! tile is left out), and do all cells meet it (then it need not be evaluated).
//!
//! The subtle thing is which tiles may be judged by their attributes: only those whose cells no other tile can hide
//! and that hide none themselves. Leaving out the newer of two tiles would bring back the older cells. By coordinates any
//! tile may be judged, for all copies of a cell have the same.

use std::fmt;

use arrow::array::{ArrayRef, UInt64Array};

/// What is known of a condition on the cells of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No cell meets it.
    Nothing,
    /// Some may.
    Something,
    /// Every cell meets it.
    Everything,
}

impl Verdict {
    /// What is known of a condition that consists of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (Self::Everything, Self::Everything) => Self::Everything,
            _ => Self::Something,
        }
    }

    /// What is known of one condition on the cells of two tiles.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        if self == other { self } else { Self::Something }
    }
}

/// Judges tiles by their statistics.
pub trait TilePruner: fmt::Debug + Send + Sync {
    /// The table columns it looks at.
    fn columns(&self) -> &[usize];

    /// A verdict for every tile. What cannot be judged is [`Verdict::Something`].
    fn evaluate(&self, tiles: &TileStatistics) -> Vec<Verdict>;
}

/// What is known of some tiles: one value of each array a tile.
#[derive(Debug)]
pub struct TileStatistics {
    /// How many tiles.
    pub tiles: usize,
    /// Cells in each.
    pub cells: UInt64Array,
    /// The columns that the pruner looks at, in its order.
    pub columns: Vec<ColumnStatistics>,
}

/// What is known of one column in some tiles. NULL is: nothing.
#[derive(Debug)]
pub struct ColumnStatistics {
    /// The table column.
    pub column: usize,
    /// No value is smaller; of the column's type, or that of its enumeration's values. Of floats, never 0.0: a lower bound
    /// of zero is -0.0 and an upper one 0.0, so that it holds whether or not the two are told apart.
    pub min: ArrayRef,
    /// No value is larger.
    pub max: ArrayRef,
    /// Values that are NULL.
    pub null_counts: UInt64Array,
    /// Of an enumerated column: the smallest and the largest code inside the enumeration, where there is one.
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
