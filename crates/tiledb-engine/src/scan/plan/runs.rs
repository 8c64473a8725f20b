//! Estimates of how many consecutive rows agree in some of the dimensions.
//!
//! The coordinates of consecutive cells of a dense tile count up like digits, so those of the outer dimensions change
//! seldom. Cells of a sparse array are sorted, so those with the same leading coordinate are neighbours. An aggregate
//! that groups by such dimensions need not look up the group of each row.

use std::sync::Arc;

use super::dense::DensePlan;
use super::{PlanUnits, ScanPlan};
use crate::array::fragment::boxes::TileRange;
use crate::format::schema::{CellValNum, Layout};
use crate::geometry::key;
use crate::scan::plan::sparse_units::SparseUnit;

impl ScanPlan {
    /// About how many consecutive rows have the same coordinates in these dimensions, estimated from tile extents,
    /// ranges and boxes: conditions on attributes leave shorter runs, and cells may be spread unevenly.
    pub fn run_length(&self, dimensions: &[usize]) -> u64 {
        match &self.units {
            PlanUnits::Dense(dense) => self.dense_run_length(dimensions, dense),
            PlanUnits::Sparse(units) => self.sparse_run_length(dimensions, units),
        }
    }

    /// The number of cells for each coordinate of the innermost of the dimensions.
    fn dense_run_length(&self, dimensions: &[usize], dense: &DensePlan) -> u64 {
        let ndim = dense.grid.ndim();
        let inner_first: Vec<usize> = match dense.grid.cell_order() {
            Layout::ColMajor => (0..ndim).collect(),
            _ => (0..ndim).rev().collect(),
        };
        let free = inner_first
            .into_iter()
            .take_while(|dimension| !dimensions.contains(dimension));
        let width = |dimension: usize| {
            let extent = dense.grid.extents().get(dimension)?;
            let (lo, hi) = dense.bounds.range(dimension)?;
            let selected = self.spec.subarray.dim(dimension).clip_keys(lo, hi);
            let longest = selected.map(|r| (r.hi - r.lo).saturating_add(1)).max();
            Some(longest.unwrap_or(0).min(*extent))
        };
        free.map(|dimension| width(dimension).unwrap_or(1))
            .fold(1, u64::saturating_mul)
    }

    /// The number of cells in the tiles, divided by the number of coordinates in their boxes.
    fn sparse_run_length(&self, dimensions: &[usize], units: &[Arc<SparseUnit>]) -> u64 {
        let schema = &self.spec.table.snapshot.schema;
        let leading = match schema.cell_order {
            Layout::RowMajor => 0,
            Layout::ColMajor => schema.dimensions.len().saturating_sub(1),
            _ => return 1,
        };
        let Some(dimension) = schema.dimensions.get(leading) else {
            return 1;
        };
        if dimensions.iter().any(|by| *by != leading) {
            return 1;
        }
        let (datatype, fixed) = (
            dimension.datatype,
            dimension.cell_val_num == CellValNum::Fixed(1),
        );
        let countable = fixed && key::has_key(datatype) && !datatype.is_float();
        let coordinates = |range: TileRange<'_>| match range {
            TileRange::Keys { lo, hi, nan: None } if countable || lo == hi => {
                hi.saturating_sub(lo).saturating_add(1)
            }
            TileRange::Bytes { lo, hi } if lo == hi => 1,
            _ => u64::MAX,
        };
        let (mut cells, mut runs) = (0_u64, 0_u64);
        for tile in units.iter().flat_map(|unit| &unit.tiles) {
            let Some(boxes) = self.boxes.get(tile.fragment) else {
                continue;
            };
            let range = boxes.range(tile.tile.get(), leading);
            let of_tile = tile.cells as u64;
            cells = cells.saturating_add(of_tile);
            runs = runs.saturating_add(coordinates(range).min(of_tile));
        }
        cells.checked_div(runs).unwrap_or(1).max(1)
    }
}
