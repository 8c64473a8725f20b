//! Narrowing of units just before they are read: the tiles that the latest condition rules out are dropped.

use std::sync::Arc;

use crate::array::fragment::boxes::TileBoxes;
use crate::error::{Error, Result};
use crate::geometry::subarray::Subarray;
use crate::scan::context::ScanContext;
use crate::scan::plan::ScanPlan;
use crate::scan::plan::sparse_units::{CellVersions, SparseUnit, TileRef};
use crate::scan::plan::versions::comparison_tiles_of_rest;
use crate::scan::spec::RuntimeCondition;
use crate::stats::pruner::{TilePruner, Verdict};
use crate::stats::{CandidateTile, TileExtent};

/// The unit without the tiles that are ruled out by now, and the context to read it with; `None` if no tile is left.
pub async fn narrow_unit(
    context: Arc<ScanContext>,
    unit: &Arc<SparseUnit>,
) -> Result<Option<(Arc<ScanContext>, Arc<SparseUnit>)>> {
    let condition = context.condition()?;
    let late_pruner = context.late_pruner();
    if condition.is_none() && late_pruner.is_none() {
        return Ok(Some((context, Arc::clone(unit))));
    }
    let mut narrowed = SparseUnit::clone(unit);
    let all = narrowed.tiles.len();
    let mut subarray = Arc::clone(&context.subarray);
    if let Some(condition) = &condition {
        subarray = subarray_of(&context.plan, condition, unit)?;
        look_for_nan(&context.plan, &subarray, unit).await?;
        narrow_ranges(&context.plan, &subarray, &mut narrowed)?;
        let verdicts = match &condition.pruner {
            Some(pruner) => evaluate(&context, pruner.as_ref(), &narrowed).await?,
            None => Vec::new(),
        };
        let given = context.plan.spec.predicate.is_none();
        let mut verdicts = verdicts.into_iter();
        narrowed.tiles.retain_mut(|tile| {
            let verdict = verdicts.next().unwrap_or(Verdict::Something);
            let meets = !condition.stricter || verdict == Verdict::Everything;
            tile.proven = (given || tile.proven) && meets;
            verdict != Verdict::Nothing
        });
        let metrics = &context.metrics;
        metrics.tiles_pruned_runtime.add(all - narrowed.tiles.len());
    }
    if let Some(pruner) = late_pruner {
        let left = narrowed.tiles.len();
        let verdicts = evaluate(&context, pruner.as_ref(), &narrowed).await?;
        let asks_more = condition.as_ref().is_some_and(|c| c.stricter);
        let mut verdicts = verdicts.into_iter();
        narrowed.tiles.retain_mut(|tile| {
            let verdict = verdicts.next().unwrap_or(Verdict::Something);
            tile.proven = verdict == Verdict::Everything && !asks_more;
            context.metrics.tiles_proven.add(usize::from(tile.proven));
            verdict != Verdict::Nothing
        });
        let gone = left - narrowed.tiles.len();
        context.metrics.tiles_pruned_statistics.add(gone);
    }
    if narrowed.tiles.is_empty() {
        return Ok(None);
    }
    if unit.versions == CellVersions::Neighbours && narrowed.tiles.len() < all {
        narrowed.comparison_tiles = comparison_tiles_of_rest(&context.plan, unit, &narrowed.tiles)?;
    }
    let cells = narrowed.tiles.iter().map(|t| t.cells as u64).sum();
    narrowed.cells = narrowed.cells.min(cells);
    let context = match condition {
        Some(condition) => context.under(&condition, subarray),
        None => context,
    };
    Ok(Some((context, Arc::new(narrowed))))
}

/// Checks the fragments of a unit for NaN where that may show that the ranges rule a tile out.
async fn look_for_nan(plan: &ScanPlan, subarray: &Arc<Subarray>, unit: &SparseUnit) -> Result<()> {
    if Arc::ptr_eq(subarray, &plan.spec.subarray) {
        return Ok(());
    }
    let storage = &plan.spec.table.snapshot.storage;
    for of_fragment in unit.tiles.chunk_by(|a, b| a.fragment == b.fragment) {
        let scan = of_fragment
            .first()
            .map(|tile| tile.fragment)
            .and_then(|number| plan.fragments.get(number).zip(plan.boxes.get(number)));
        if let Some((scan, boxes)) = scan {
            let tiles = of_fragment.iter().map(|tile| tile.tile.get());
            let doubtful = boxes.in_doubt(subarray, tiles);
            boxes
                .look_for_nan(&scan.fragment, storage, &doubtful)
                .await?;
        }
    }
    Ok(())
}

/// The ranges of a condition for the cells of a unit.
fn subarray_of(
    plan: &ScanPlan,
    condition: &RuntimeCondition,
    unit: &SparseUnit,
) -> Result<Arc<Subarray>> {
    condition.subarray_of(unit.cells, |d| {
        let ends = unit
            .tiles
            .iter()
            .map(|tile| boxes_of(plan, tile).ok()?.keys(tile.tile.get(), d));
        let around = |a: Option<(u64, u64)>, b: Option<(u64, u64)>| {
            let ((a_lo, a_hi), (b_lo, b_hi)) = (a?, b?);
            Some((a_lo.min(b_lo), a_hi.max(b_hi)))
        };
        ends.reduce(around)?
    })
}

/// Prunes the tiles outside the ranges.
fn narrow_ranges(plan: &ScanPlan, subarray: &Arc<Subarray>, unit: &mut SparseUnit) -> Result<()> {
    if Arc::ptr_eq(subarray, &plan.spec.subarray) {
        return Ok(());
    }
    let alone = unit.clip.is_none();
    let mut kept = Vec::with_capacity(unit.tiles.len());
    for tile in &unit.tiles {
        let boxes = boxes_of(plan, tile)?;
        let (touched, covered) = boxes.touches_and_lies_in(tile.tile.get(), subarray);
        if touched {
            kept.push(TileRef {
                covered: covered && (alone || tile.covered),
                ..*tile
            });
        }
    }
    unit.tiles = kept;
    if let Some(clip) = &mut unit.clip {
        *clip = Arc::new(clip.intersect(subarray));
    }
    Ok(())
}

fn boxes_of<'a>(plan: &'a ScanPlan, tile: &TileRef) -> Result<&'a TileBoxes> {
    let boxes = plan.boxes.get(tile.fragment).map(Arc::as_ref);
    boxes.ok_or_else(|| Error::internal("a tile names a fragment that was not planned"))
}

/// Evaluates the pruner on the tiles of a unit. Attributes count only if no other tile can hide cells of the unit's
/// tiles, or if such tiles are compared with them even when they are pruned.
async fn evaluate(
    context: &ScanContext,
    pruner: &dyn TilePruner,
    unit: &SparseUnit,
) -> Result<Vec<Verdict>> {
    let plan = &context.plan;
    let by_attributes =
        unit.versions != CellVersions::Anywhere && plan.statistics_cache.reads_attributes(pruner);
    if !by_attributes && !plan.statistics_cache.reads_dimensions(pruner) {
        return Ok(Vec::new());
    }
    let mut known = Vec::with_capacity(unit.tiles.len());
    for tile in &unit.tiles {
        let scan = plan.fragments.get(tile.fragment).filter(|_| by_attributes);
        known.push(match scan {
            Some(scan) => {
                let number = tile.fragment;
                let columns = pruner.columns();
                let known = plan
                    .statistics_cache
                    .of_fragment(number, &scan.fragment, columns);
                Some(known.await?)
            }
            None => None,
        });
    }
    let candidates = unit
        .tiles
        .iter()
        .zip(&known)
        .map(|(tile, known)| {
            Ok(CandidateTile {
                tile: tile.tile,
                cells: tile.cells as u64,
                extent: TileExtent::Box(boxes_of(plan, tile)?),
                known: known.as_deref(),
            })
        })
        .collect::<Result<Vec<_>>>()?;
    plan.statistics_cache.evaluate(pruner, &candidates)
}
