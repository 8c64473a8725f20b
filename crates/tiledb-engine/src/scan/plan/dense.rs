//! Planning a dense scan: the space tiles that the subarray touches, as arithmetic rather than as a list.
//!
//! The rows of a dense array are the cells of its non-empty domain, the box around those of all fragments, or of its whole domain. Per
//! dimension the subarray's ranges touch some intervals of tile indexes; the tiles of the scan are their cross
//! product, numbered in tile order, and a unit is a run of these numbers.

mod intervals;
mod units;

use std::sync::Arc;

use futures::future::try_join_all;

use self::intervals::{TileIntervals, count_tiles};
pub(super) use self::units::{DenseUnits, plan_share};
use super::touching::{FragmentIndex, ScatteredTiles};
use super::{PlanCounts, PlanUnits, ScanPlan, dense_unit_cells, needed_columns};
use crate::array::fragment::Fragment;
use crate::array::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::format::schema::{ArraySchema, Layout};
use crate::geometry::domain::KeyBox;
use crate::geometry::subarray::Subarray;
use crate::geometry::tile_grid::{TileBox, TileGrid};
use crate::scan::spec::{EmptyCells, ScanSpec};
use crate::stats::StatisticsCache;
use crate::tile::fields::FragmentScan;

/// The box of cells that a fragment wrote, and how it stores them.
#[derive(Debug, Clone)]
pub struct DenseFragment {
    /// The cells it wrote; for a sparse fragment, a box around them.
    pub domain: KeyBox,
    /// How it stores them.
    pub stored_as: StoredAs,
}

/// How a fragment of a dense array stores its cells.
#[derive(Debug, Clone)]
pub enum StoredAs {
    /// As the space tiles of this box, numbered within it.
    Tiles(TileBox),
    /// As a sparse fragment: single cells with their coordinates.
    Cells,
}

/// The units of a dense scan.
#[derive(Debug, Clone)]
pub struct DensePlan {
    /// The grid of tiles.
    pub grid: TileGrid,
    /// The rows of the scan before ranges: the array's non-empty domain, or its whole domain.
    pub bounds: KeyBox,
    /// The fragments, parallel to the plan's list.
    pub fragments: Vec<DenseFragment>,
    /// Finds them by their boxes.
    pub index: Arc<FragmentIndex>,
    /// The tiles of the sparse fragments among them.
    pub scattered: Arc<ScatteredTiles>,
    /// Per dimension the intervals of tile indexes that the subarray touches, ascending.
    intervals: Vec<TileIntervals>,
    /// The size of the cross product, capped at the largest `u128`: a grid of 2^64 cells may have as many tiles.
    tiles: u128,
    tiles_per_unit: u64,
    /// The number of the plan's first tile among those that the subarray touches.
    first: u128,
    /// The positions of the tiles that are left, ascending; `None` if all are.
    left: Option<Vec<u128>>,
}

impl DensePlan {
    /// How many units there are.
    pub fn unit_count(&self) -> u64 {
        // If there are more units, only the first ones count: no scan would ever finish the rest.
        let units = self.all_tiles().div_ceil(self.tiles_per_unit.into());
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// How many tiles the units hold, capped at the largest `u64`.
    pub fn tile_count(&self) -> u64 {
        u64::try_from(self.all_tiles()).unwrap_or(u64::MAX)
    }

    fn all_tiles(&self) -> u128 {
        match &self.left {
            Some(left) => left.len() as u128,
            None => self.tiles,
        }
    }

    /// Removes the tiles with these ascending numbers from the plan.
    pub(super) fn without(&self, numbers: &[u64]) -> Self {
        let mut numbers = numbers.iter().copied().peekable();
        let left = (0..self.tile_count())
            .filter(|n| numbers.next_if_eq(n).is_none())
            .filter_map(|number| self.position(number.into()))
            .collect();
        Self {
            left: Some(left),
            ..self.clone()
        }
    }

    /// Narrows the plan to a smaller subarray; `None` if the plan has already lost some of its tiles.
    pub(super) fn within(&self, subarray: &Subarray) -> Option<Self> {
        if self.left.is_some() || self.first > 0 {
            return None;
        }
        let ranges = self.bounds.ranges().enumerate();
        let intervals = ranges
            .map(|(d, range)| TileIntervals::new(&self.grid, d, range, subarray.dim(d)))
            .collect::<Vec<_>>();
        Some(Self {
            tiles: count_tiles(&intervals),
            intervals,
            ..self.clone()
        })
    }

    /// The same plan in units whose ranges of the leading dimension do not overlap. Each is a *slab*: all tiles between
    /// two bounds of the grid. `None` if a slab of several tiles would hold more than `most_cells` cells.
    pub(super) fn in_slabs(
        &self,
        subarray: &Subarray,
        unit_cells: u64,
        most_cells: u64,
    ) -> Option<Self> {
        let tiles = self.tiles_of_slab()?;
        let across = self
            .bounds
            .ranges()
            .enumerate()
            .skip(1)
            .map(|(d, (lo, hi))| {
                let keys = subarray
                    .dim(d)
                    .clip_keys(lo, hi)
                    .map(|r| (r.hi - r.lo).saturating_add(1));
                keys.fold(0, u64::saturating_add)
            });
        let extent = *self.grid.extents().first()?;
        let cells = across.fold(extent, u64::saturating_mul);
        if tiles > 1 && cells > most_cells {
            return None;
        }
        let slabs = (unit_cells / cells.max(1)).max(1);
        Some(Self {
            tiles_per_unit: tiles.saturating_mul(slabs).max(1),
            ..self.clone()
        })
    }

    /// How many tiles lie between two neighbouring bounds of the grid along the leading dimension, if the numbers of these
    /// tiles are consecutive. `None` if there are too many tiles to read from the end.
    pub(super) fn tiles_of_slab(&self) -> Option<u64> {
        u64::try_from(self.all_tiles()).ok()?;
        let (leading, others) = self.intervals.split_first()?;
        let mut others = others.iter().map(|interval| interval.count);
        let tiles = others.try_fold(1_u128, u128::checked_mul)?;
        let tiles = u64::try_from(tiles).ok()?;
        let neighbours = tiles == 1 || leading.count <= 1;
        let row_major = self.grid.tile_order() != Layout::ColMajor;
        (self.left.is_none() && (row_major || neighbours)).then_some(tiles)
    }

    /// The position in the cross product of the tile with a number.
    fn position(&self, number: u128) -> Option<u128> {
        match &self.left {
            Some(left) => left.get(usize::try_from(number).ok()?).copied(),
            None => (number < self.tiles).then(|| self.first.saturating_add(number)),
        }
    }

    /// The number of cells in the tiles of a unit.
    pub fn unit_cells(&self) -> u64 {
        self.grid
            .cells_per_tile()
            .saturating_mul(self.tiles_per_unit)
    }

    /// The tile indexes of the tiles of a unit, in tile order.
    pub fn unit_tiles(&self, unit: u64) -> Vec<Vec<u64>> {
        let (unit, tiles) = (u128::from(unit), u128::from(self.tiles_per_unit));
        let first = unit.saturating_mul(tiles);
        (first..first.saturating_add(tiles).min(self.all_tiles()))
            .filter_map(|number| self.nth_tile(number))
            .collect()
    }

    /// The smallest and the largest key of a dimension among the cells of tiles.
    pub fn span(&self, tiles: &[Vec<u64>], dim: usize) -> Option<(u64, u64)> {
        let (lo, hi) = self.bounds.range(dim)?;
        let spans = tiles.iter().map(|tile| self.grid.tile_box(tile).range(dim));
        let around = |a: Option<(u64, u64)>, b: Option<(u64, u64)>| {
            let ((a_lo, a_hi), (b_lo, b_hi)) = (a?, b?);
            Some((a_lo.min(b_lo), a_hi.max(b_hi)))
        };
        let (first, last) = spans.reduce(around)??;
        Some((first.max(lo), last.min(hi)))
    }

    /// The tile index of the tile with a number.
    pub(super) fn tile_at(&self, number: u64) -> Option<Vec<u64>> {
        self.nth_tile(number.into())
    }

    fn nth_tile(&self, number: u128) -> Option<Vec<u64>> {
        let mut rest = self.position(number)?;
        let mut tile = vec![0; self.intervals.len()];
        let mut locate = |(slot, axis): (&mut u64, &TileIntervals)| {
            *slot = axis.at(rest % axis.count.max(1))?;
            rest /= axis.count.max(1);
            Some(())
        };
        match self.grid.tile_order() {
            Layout::ColMajor => tile
                .iter_mut()
                .zip(&self.intervals)
                .try_for_each(&mut locate),
            _ => tile
                .iter_mut()
                .zip(&self.intervals)
                .rev()
                .try_for_each(&mut locate),
        }?;
        Some(tile)
    }
}

/// Plans a scan of a dense array. Only footers are read, and the MBRs of sparse fragments.
pub(super) async fn plan(spec: ScanSpec) -> Result<ScanPlan> {
    let table = Arc::clone(&spec.table);
    let snapshot = &table.snapshot;
    let grid = TileGrid::new(&snapshot.schema)?;
    let mut counts = PlanCounts {
        fragments: snapshot.fragments.len() as u64,
        ..Default::default()
    };
    let (candidates, written) = candidates(snapshot, &grid)?;
    let bounds = match spec.empty_cells {
        EmptyCells::Domain => Some(whole_domain(&snapshot.schema, &grid)?),
        EmptyCells::Fill | EmptyCells::Null | EmptyCells::Skip => written,
    };
    let Some(bounds) = bounds else {
        return Ok(empty(spec, counts));
    };
    let intervals = bounds
        .ranges()
        .enumerate()
        .map(|(d, range)| TileIntervals::new(&grid, d, range, spec.subarray.dim(d)))
        .collect::<Vec<_>>();
    let tiles = count_tiles(&intervals);
    let all_tiles = grid.tiles_of_box(&bounds).count().unwrap_or(u64::MAX);
    counts.tiles = all_tiles;
    let touched = u64::try_from(tiles).unwrap_or(u64::MAX);
    counts.tiles_pruned = all_tiles.saturating_sub(touched);
    let (fragments, boxes) = touched_fragments(&spec, &grid, candidates, &mut counts)?;
    let scattered = scattered_tiles(&fragments, snapshot).await?;
    let rows = selected_rows(&bounds, &spec);
    let exact = spec.predicate.is_none() && spec.empty_cells != EmptyCells::Skip;
    let tile_cells = grid.cells_per_tile().max(1);
    let cells = touched.saturating_mul(tile_cells);
    let unit_cells = dense_unit_cells(cells, &spec);
    let tiles_per_unit = (unit_cells / tile_cells).max(1);
    Ok(ScanPlan {
        statistics_cache: Arc::new(StatisticsCache::new(&table)),
        prunes_late: true,
        boxes: Vec::new(),
        spec,
        fragments: Arc::new(fragments),
        counts,
        exact_rows: exact.then_some(rows),
        max_rows: u64::try_from(rows).unwrap_or(u64::MAX),
        units: PlanUnits::Dense(Box::new(DensePlan {
            grid,
            bounds,
            index: Arc::new(FragmentIndex::new(boxes.iter().map(|f| &f.domain))),
            fragments: boxes,
            scattered: Arc::new(scattered),
            intervals,
            tiles,
            tiles_per_unit,
            first: 0,
            left: None,
        })),
    })
}

/// A fragment with the box of the cells it wrote.
type FragmentBox = (Arc<Fragment>, KeyBox);

/// Finds the fragments that wrote cells, and the box around all of these cells.
fn candidates(snapshot: &Snapshot, grid: &TileGrid) -> Result<(Vec<FragmentBox>, Option<KeyBox>)> {
    let mut bounds: Option<KeyBox> = None;
    let mut candidates = Vec::new();
    for fragment in snapshot.fragments.iter() {
        let Some(domain) = domain(fragment, grid)? else {
            continue;
        };
        bounds = match bounds {
            Some(bounds) => bounds.union(&domain),
            None => Some(domain.clone()),
        };
        candidates.push((Arc::clone(fragment), domain));
    }
    Ok((candidates, bounds))
}

/// Picks the fragments that the subarray touches, and says how each stores its cells.
fn touched_fragments(
    spec: &ScanSpec,
    grid: &TileGrid,
    candidates: Vec<FragmentBox>,
    counts: &mut PlanCounts,
) -> Result<(Vec<FragmentScan>, Vec<DenseFragment>)> {
    let dimensions = spec.table.dimension_count();
    let needed = needed_columns(spec, |_| false)
        .into_iter()
        .enumerate()
        .map(|(column, needed)| needed && column >= dimensions)
        .collect::<Vec<_>>();
    let (mut fragments, mut boxes) = (Vec::new(), Vec::new());
    for (fragment, domain) in candidates {
        if !touches(&domain, spec) {
            counts.fragments_pruned += 1;
            continue;
        }
        let is_dense = fragment.footer.dense;
        let stored_as = if is_dense {
            check_tile_cells(&fragment, grid)?;
            StoredAs::Tiles(grid.tiles_of_box(&domain))
        } else {
            StoredAs::Cells
        };
        boxes.push(DenseFragment { domain, stored_as });
        let needed = match is_dense {
            true => needed.clone(),
            // Only its coordinates tell which cells a sparse fragment wrote.
            false => (0..needed.len())
                .map(|c| c < dimensions || needed.get(c) == Some(&true))
                .collect(),
        };
        fragments.push(FragmentScan::new(&spec.table, fragment, &needed, false)?);
    }
    Ok((fragments, boxes))
}

async fn scattered_tiles(
    fragments: &[FragmentScan],
    snapshot: &Snapshot,
) -> Result<ScatteredTiles> {
    let sparse = fragments
        .iter()
        .map(|scan| scan.fragment.as_ref())
        .enumerate()
        .filter(|(_, fragment)| !fragment.footer.dense)
        .collect::<Vec<_>>();
    let boxes = sparse.iter().map(|(_, f)| f.boxes(&snapshot.storage));
    let boxes = try_join_all(boxes).await?;
    let tiles = sparse.iter().zip(&boxes);
    ScatteredTiles::new(tiles.map(|((number, fragment), boxes)| (*number, *fragment, boxes)))
}

/// The current domain, or the domain of an array that has none.
fn whole_domain(schema: &ArraySchema, grid: &TileGrid) -> Result<KeyBox> {
    let Some(current) = &schema.current_domain else {
        return Ok(grid.domain().clone());
    };
    let datatypes = schema.dimensions.iter().map(|dimension| dimension.datatype);
    let current = KeyBox::from_ranges(&datatypes.collect::<Vec<_>>(), &current.ranges)?;
    current
        .intersect(grid.domain())
        .ok_or_else(|| Error::corrupt("the current domain lies outside the domain"))
}

/// The plan for an array without fragments, which has no rows.
pub(super) fn empty(spec: ScanSpec, counts: PlanCounts) -> ScanPlan {
    ScanPlan {
        statistics_cache: Arc::new(StatisticsCache::new(&spec.table)),
        prunes_late: false,
        boxes: Vec::new(),
        exact_rows: Some(0),
        max_rows: 0,
        spec,
        fragments: Arc::default(),
        units: PlanUnits::Sparse(Vec::new()),
        counts,
    }
}

/// The box that a fragment wrote, checked to lie inside the domain.
fn domain(fragment: &Fragment, grid: &TileGrid) -> Result<Option<KeyBox>> {
    let Some(ranges) = &fragment.footer.non_empty_domain else {
        return Ok(None);
    };
    let at = |e: Error| e.with("fragment", &fragment.name.name);
    let domain = KeyBox::from_ranges(&fragment.dimension_datatypes(), ranges).map_err(at)?;
    // Old consolidations widened the box to whole tiles; the cells outside the domain are padding.
    let domain = domain.intersect(grid.domain());
    if let (Some(domain), true) = (&domain, fragment.footer.dense) {
        check_tile_count(fragment, grid, domain).map_err(at)?;
    }
    Ok(domain)
}

/// Checks that a box can hold the tiles it claims. Every tile takes at least a chunk count in each file, so a box of
/// more tiles than bytes is damaged, and would plan far too many cells.
fn check_tile_count(fragment: &Fragment, grid: &TileGrid, domain: &KeyBox) -> Result<()> {
    const TILE_BYTES: u64 = 8;
    let bytes = fragment.footer.file_sizes.iter().max().copied();
    let room = bytes.unwrap_or(0) / TILE_BYTES;
    match grid.tiles_of_box(domain).count() {
        Some(tiles) if tiles <= room => Ok(()),
        tiles => Err(Error::corrupt(format!(
            "the non-empty domain spans {} tiles, but the largest data file has room for at most {room}",
            tiles.map_or_else(|| "more than 2^64".to_owned(), |tiles| tiles.to_string())
        ))),
    }
}

/// Checks that the footer states the number of cells per tile that follows from the extents.
fn check_tile_cells(fragment: &Fragment, grid: &TileGrid) -> Result<()> {
    if fragment.cells_per_tile() == grid.cells_per_tile() {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "the footer says {} cells per tile, the tile extents make {}",
        fragment.cells_per_tile(),
        grid.cells_per_tile()
    ))
    .with("fragment", &fragment.name.name))
}

fn touches(domain: &KeyBox, spec: &ScanSpec) -> bool {
    domain
        .ranges()
        .enumerate()
        .all(|(d, (lo, hi))| spec.subarray.dim(d).intersects_keys(lo, hi))
}

/// The number of cells of `bounds` that the subarray selects, capped at the largest `u128`.
pub(super) fn selected_rows(bounds: &KeyBox, spec: &ScanSpec) -> u128 {
    let dimensions = bounds.ranges().enumerate();
    let selected = dimensions.map(|(d, (lo, hi))| {
        let ranges = spec.subarray.dim(d).clip_keys(lo, hi);
        ranges
            .map(|range| u128::from(range.hi - range.lo) + 1)
            .sum::<u128>()
    });
    selected.fold(1, u128::saturating_mul)
}
