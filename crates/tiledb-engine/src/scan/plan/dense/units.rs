//! Runs of units of a dense plan, which another machine reads.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    DensePlan, TileIntervals, candidates, count_tiles, scattered_tiles, touched_fragments,
};
use crate::error::Result;
use crate::format::schema::Layout;
use crate::geometry::domain::KeyBox;
use crate::geometry::tile_grid::TileGrid;
use crate::scan::plan::touching::FragmentIndex;
use crate::scan::plan::unfit::unfit;
use crate::scan::plan::{PlanCounts, PlanUnits, ScanPlan};
use crate::scan::spec::ScanSpec;
use crate::stats::StatisticsCache;

/// The most tiles of a unit: more than any plan makes, so that forged units take no memory.
const MOST_UNIT_TILES: u64 = 1 << 24;

/// A run of units of a [`DensePlan`], as values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenseUnits {
    bounds: KeyBox,
    tiles_per_unit: u64,
    first: u128,
    tiles: u128,
}

impl DensePlan {
    /// A run of units, and the numbers of the fragments that may hold some of their cells; `None` if some of the plan's tiles are
    /// not read.
    pub fn share(&self, units: Range<u64>) -> Option<(Vec<usize>, DenseUnits)> {
        if self.left.is_some() {
            return None;
        }
        let tile = |unit: u64| {
            let tile = u128::from(unit).saturating_mul(self.tiles_per_unit.into());
            tile.min(self.tiles)
        };
        let (first, end) = (tile(units.start), tile(units.end));
        let touched = match self.hull(first..end) {
            Some(hull) => {
                let fragments = self.fragments.iter().enumerate();
                let touched = fragments.filter(|(_, f)| f.domain.intersects(&hull));
                touched.map(|(number, _)| number).collect()
            }
            None => Vec::new(),
        };
        let units = DenseUnits {
            bounds: self.bounds.clone(),
            tiles_per_unit: self.tiles_per_unit,
            first: self.first.saturating_add(first),
            tiles: end.saturating_sub(first),
        };
        Some((touched, units))
    }

    /// A box around the tiles with these numbers; `None` if there are none.
    fn hull(&self, numbers: Range<u128>) -> Option<KeyBox> {
        if numbers.is_empty() {
            return None;
        }
        let last = numbers.end.checked_sub(1)?;
        let (first, last) = (self.nth_tile(numbers.start)?, self.nth_tile(last)?);
        // The tiles of a run lie between its ends along the dimension in which their numbers grow slowest.
        let slowest = match self.grid.tile_order() {
            Layout::ColMajor => first.len().checked_sub(1)?,
            _ => 0,
        };
        let (mut lo, mut hi) = (self.bounds.lo().to_vec(), self.bounds.hi().to_vec());
        let ends = [&first, &last].map(|tile| self.grid.tile_box(tile).range(slowest));
        if let [Some((from, _)), Some((_, to))] = ends {
            *lo.get_mut(slowest)? = from;
            *hi.get_mut(slowest)? = to;
        }
        KeyBox::new(lo, hi)
    }
}

/// Plans the reading of units that another plan has made. The snapshot has the fragments that hold some of their cells.
pub async fn plan_share(spec: ScanSpec, units: DenseUnits) -> Result<ScanPlan> {
    let table = Arc::clone(&spec.table);
    let snapshot = &table.snapshot;
    let grid = TileGrid::new(&snapshot.schema)?;
    let bounds = units.bounds;
    if bounds.ranges().count() != grid.ndim() || !grid.domain().contains(&bounds) {
        return Err(unfit("its bounds lie outside the domain"));
    }
    let intervals = bounds
        .ranges()
        .enumerate()
        .map(|(d, range)| TileIntervals::new(&grid, d, range, spec.subarray.dim(d)))
        .collect::<Vec<_>>();
    let end = units.first.checked_add(units.tiles);
    if units.tiles_per_unit == 0 || units.tiles_per_unit > MOST_UNIT_TILES {
        return Err(unfit("its units have too many tiles, or none"));
    }
    if end.is_none_or(|end| end > count_tiles(&intervals)) {
        return Err(unfit("it has tiles that there aren't"));
    }
    let (candidates, _) = candidates(snapshot, &grid)?;
    let mut counts = PlanCounts::default();
    let (fragments, boxes) = touched_fragments(&spec, &grid, candidates, &mut counts)?;
    let scattered = scattered_tiles(&fragments, snapshot).await?;
    let cells = u64::try_from(units.tiles).unwrap_or(u64::MAX);
    Ok(ScanPlan {
        statistics_cache: Arc::new(StatisticsCache::new(&table)),
        prunes_late: true,
        boxes: Vec::new(),
        spec,
        fragments: Arc::new(fragments),
        counts,
        exact_rows: None,
        max_rows: cells.saturating_mul(grid.cells_per_tile()),
        units: PlanUnits::Dense(Box::new(DensePlan {
            grid,
            bounds,
            index: Arc::new(FragmentIndex::new(boxes.iter().map(|f| &f.domain))),
            fragments: boxes,
            scattered: Arc::new(scattered),
            intervals,
            tiles: units.tiles,
            tiles_per_unit: units.tiles_per_unit,
            first: units.first,
            left: None,
        })),
    })
}
