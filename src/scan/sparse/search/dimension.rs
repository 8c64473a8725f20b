//! The dimension by which a tile can be searched, and the bounds of its cells, both from the tile's box.

use std::ops::RangeInclusive;

use crate::format::schema::{CellValNum, Dimension, Layout};
use crate::geometry::cell_order::GlobalOrder;
use crate::geometry::key;

/// What ascends from cell to cell of a tile: the coordinates of a dimension, or the space tiles in which they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Key,
    SpaceTile,
}

/// A dimension by which a tile can be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::scan::sparse) struct SearchBy {
    /// The dimension.
    pub dimension: usize,
    pub(super) step: Step,
    /// Whether the steps ascend twice.
    pub(super) twice: bool,
    /// The smallest and the largest step.
    pub(super) bounds: RangeInclusive<u64>,
}

/// The box of a tile.
struct TileBox<'a, F> {
    dimensions: &'a [Dimension],
    order: &'a GlobalOrder,
    ends: F,
}

impl<F: Fn(usize) -> Option<(u64, u64)>> TileBox<'_, F> {
    /// The keys of the box's ends in a dimension; `None` if it has none.
    fn keys(&self, d: usize) -> Option<(u64, u64)> {
        let dimension = self.dimensions.get(d)?;
        let fixed = dimension.cell_val_num == CellValNum::Fixed(1);
        if !fixed || !key::has_key(dimension.datatype) {
            return None;
        }
        (self.ends)(d).filter(|(lo, hi)| lo <= hi)
    }

    /// The space tiles of the box's ends in a dimension.
    fn space_tiles(&self, d: usize) -> (u64, u64) {
        let (lo, hi) = self.keys(d).unwrap_or_default();
        (self.order.tile_index(d, lo), self.order.tile_index(d, hi))
    }
}

/// The dimension, out of `searched`, by which a tile in global order can be searched; `ends` are the keys of its box
/// for every dimension that has keys.
pub(in crate::scan::sparse) fn search_by<'a>(
    dimensions: &'a [Dimension],
    order: &'a GlobalOrder,
    ends: impl Fn(usize) -> Option<(u64, u64)>,
    searched: impl Fn(usize) -> bool,
) -> Option<SearchBy> {
    let tile = TileBox {
        dimensions,
        order,
        ends,
    };
    let in_order = |layout: Layout| -> Option<Vec<usize>> {
        let dimensions = 0..dimensions.len();
        match layout {
            Layout::RowMajor => Some(dimensions.collect()),
            Layout::ColMajor => Some(dimensions.rev().collect()),
            Layout::Hilbert => None,
        }
    };
    let by_cell = in_order(order.cell_order())?;
    let by_tile = in_order(order.tile_order())?;
    // The dimensions in which the box spans several space tiles, outermost first.
    let spread = |d: &usize| {
        let (lo, hi) = tile.space_tiles(*d);
        lo < hi
    };
    let mut spread = by_tile.into_iter().filter(spread);
    let found = |dimension: usize, step, twice| {
        let (lo, hi) = match step {
            Step::Key => tile.keys(dimension)?,
            Step::SpaceTile => tile.space_tiles(dimension),
        };
        searched(dimension).then_some(SearchBy {
            dimension,
            step,
            twice,
            bounds: lo..=hi,
        })
    };
    // The first dimension in cell order in which the box spans several coordinates.
    let mut free = by_cell.into_iter().filter_map(|d| match tile.keys(d) {
        Some((lo, hi)) if lo == hi => None,
        Some(_) => Some(Some(d)),
        // The order of strings is not relied on.
        None => Some(None),
    });
    let first_free = free.next().flatten();
    match (spread.next(), spread.next()) {
        (None, _) => found(first_free?, Step::Key, false),
        (Some(only), None) if first_free == Some(only) => found(only, Step::Key, false),
        (Some(outer), inner) => {
            let (lo, hi) = tile.space_tiles(outer);
            let inner = inner.filter(|_| hi - lo == 1);
            let inner = inner.and_then(|inner| found(inner, Step::SpaceTile, true));
            inner.or_else(|| found(outer, Step::SpaceTile, false))
        }
    }
}
