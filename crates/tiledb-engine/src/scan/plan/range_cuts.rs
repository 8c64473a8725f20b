//! Cutting a scan at coordinates of its leading dimension.
//!
//! Each part is a scan of its own, over the same array within narrower ranges, so every cell is in exactly one part.
//! Tiles that lie across a cut are read by the parts on both sides.

use std::sync::Arc;

use arrow::array::ArrayRef;
use serde::{Deserialize, Serialize};

use super::dense::DensePlan;
use super::{PlanUnits, ScanPlan, share};
use crate::arrow::stored_values;
use crate::error::Result;
use crate::format::schema::CellValNum;
use crate::geometry::key;
use crate::geometry::subarray::DimRanges;
use crate::scan::plan::sparse_units::SparseUnit;

/// A cut may read at most one cell in this many twice,
const CELLS_PER_CELL_READ_TWICE: u64 = 8;
/// unless it reads no more than this many twice.
const FEW_CELLS: u64 = 64 * 1024;

/// The coordinates at which a scan is cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeCuts {
    /// Keys of the leading dimension at which a new part begins, ascending; there is one more part than cuts.
    pub keys: Vec<u64>,
    /// How many distinct coordinates the leading dimension can have in the scan.
    pub coordinates: u64,
}

impl RangeCuts {
    /// The cuts as values of the column; `None` if the column cannot show one of them, or shows it as NULL.
    pub fn values(&self, plan: &ScanPlan) -> Option<ArrayRef> {
        let ty = plan.spec.table.types.first()?;
        let stored = self
            .keys
            .iter()
            .map(|k| key::from_key(ty.datatype(), *k))
            .collect::<Vec<_>>();
        let cuts = stored.iter().map(|value| Some(value.as_slice()));
        stored_values(ty, cuts, None).ok()?
    }
}

/// The extent of a tile, or of a row of tiles of a dense array, along the leading dimension.
#[derive(Debug, Clone, Copy)]
struct CutSpan {
    lo: u64,
    hi: u64,
    cells: u64,
}

impl ScanPlan {
    /// The cuts of the scan into at most `parts` parts with about equally many cells; `None` if too many cells would be
    /// read twice, or if the leading dimension is not one of integers or points in time.
    pub fn range_cuts(&self, parts: usize) -> Option<RangeCuts> {
        let dimension = self.spec.table.snapshot.schema.dimensions.first()?;
        let datatype = dimension.datatype;
        let plain = dimension.cell_val_num == CellValNum::Fixed(1) && !datatype.is_float();
        if !plain || !key::has_key(datatype) {
            return None;
        }
        let mut spans = match &self.units {
            PlanUnits::Sparse(units) => self.sparse_spans(units)?,
            PlanUnits::Dense(dense) => dense_spans(dense, self.spec.subarray.dim(0))?,
        };
        spans.sort_unstable_by_key(|span| (span.lo, span.hi));
        let (first, last) = (spans.first()?.lo, spans.iter().map(|s| s.hi).max()?);
        let keys = cuts(&spans, parts as u64);
        let twice = |key: &u64| {
            let across = spans.iter().filter(|s| s.lo < *key && *key <= s.hi);
            across.fold(0_u64, |cells, span| cells.saturating_add(span.cells))
        };
        let twice = keys.iter().map(twice).fold(0_u64, u64::saturating_add);
        let all = spans
            .iter()
            .fold(0_u64, |sum, s| sum.saturating_add(s.cells));
        if keys.is_empty() || twice > FEW_CELLS.max(all / CELLS_PER_CELL_READ_TWICE) {
            return None;
        }
        let selected = self.spec.subarray.dim(0).clip_keys(first, last);
        let coordinates = selected.map(|r| (r.hi - r.lo).saturating_add(1));
        Some(RangeCuts {
            keys,
            coordinates: coordinates.fold(0, u64::saturating_add),
        })
    }

    /// The part of the scan between two cuts.
    pub async fn range_part(&self, from: Option<u64>, to: Option<u64>) -> Result<Self> {
        let mut subarray = self.spec.subarray.as_ref().clone();
        let (lo, hi) = (
            from.unwrap_or(0),
            to.map_or(u64::MAX, |to| to.saturating_sub(1)),
        );
        subarray.intersect_dim(0, &DimRanges::key_range(lo, hi));
        let mut spec = self.spec.clone();
        spec.subarray = Arc::new(subarray);
        Self::new(spec).await
    }

    fn sparse_spans(&self, units: &[Arc<SparseUnit>]) -> Option<Vec<CutSpan>> {
        let mut tiles = units
            .iter()
            .flat_map(|unit| &unit.tiles)
            .collect::<Vec<_>>();
        tiles.sort_unstable_by_key(|tile| (tile.fragment, tile.tile));
        tiles.dedup_by_key(|tile| (tile.fragment, tile.tile));
        let span = |tile: &crate::scan::plan::sparse_units::TileRef| {
            let (lo, hi) = self.boxes.get(tile.fragment)?.keys(tile.tile.get(), 0)?;
            Some(CutSpan {
                lo,
                hi,
                cells: tile.cells as u64,
            })
        };
        tiles.into_iter().map(span).collect()
    }
}

/// The rows of tiles of a dense array.
fn dense_spans(dense: &DensePlan, ranges: &DimRanges) -> Option<Vec<CutSpan>> {
    /// Beyond this, several rows of tiles are combined into one span.
    const MOST_SPANS: u64 = 1 << 12;
    let (lo, hi) = dense.bounds.range(0)?;
    let (origin, extent) = (
        dense.grid.domain().lo().first()?,
        dense.grid.extents().first()?,
    );
    let start = |row: u64| origin.saturating_add(row.saturating_mul(*extent));
    let (first, last) = (dense.grid.tile_of(0, lo), dense.grid.tile_of(0, hi));
    let step = ((last - first) / MOST_SPANS).saturating_add(1);
    let mut spans = Vec::new();
    let mut row = first;
    while row <= last {
        let end = row.saturating_add(step - 1).min(last);
        let lo = start(row).max(lo);
        let hi = start(end).saturating_add(extent - 1).min(hi);
        let cells = ranges
            .clip_keys(lo, hi)
            .map(|r| (r.hi - r.lo).saturating_add(1))
            .fold(0, u64::saturating_add);
        if cells > 0 {
            spans.push(CutSpan { lo, hi, cells });
        }
        row = end.checked_add(1)?;
    }
    Some(spans)
}

/// Starts of spans that split the cells about evenly.
fn cuts(spans: &[CutSpan], parts: u64) -> Vec<u64> {
    let all = spans
        .iter()
        .fold(0_u64, |sum, s| sum.saturating_add(s.cells));
    let first = spans.first().map(|span| span.lo);
    let mut cuts: Vec<u64> = Vec::new();
    let mut before = 0_u64;
    for span in spans {
        let cut = cuts.len() as u64 + 1;
        let new = Some(span.lo) != first && cuts.last() != Some(&span.lo);
        if cut < parts && new && before >= share(all, cut, parts) {
            cuts.push(span.lo);
        }
        before = before.saturating_add(span.cells);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(list: &[(u64, u64, u64)]) -> Vec<CutSpan> {
        let span = |(lo, hi, cells): &(u64, u64, u64)| CutSpan {
            lo: *lo,
            hi: *hi,
            cells: *cells,
        };
        list.iter().map(span).collect()
    }

    #[test]
    fn cuts_part_cells_evenly_and_never_twice_at_one_coordinate() {
        let even = spans(&[(0, 9, 10), (10, 19, 10), (20, 29, 10), (30, 39, 10)]);
        assert_eq!(cuts(&even, 2), [20]);
        assert_eq!(cuts(&even, 4), [10, 20, 30]);
        assert_eq!(cuts(&even, 9), [10, 20, 30]);
        let heavy = spans(&[(0, 9, 100), (10, 19, 1), (10, 19, 1), (20, 29, 1)]);
        assert_eq!(cuts(&heavy, 3), [10, 20]);
        let same = spans(&[(5, 9, 10), (5, 19, 10)]);
        assert!(cuts(&same, 4).is_empty());
        assert!(cuts(&[], 4).is_empty());
    }
}
