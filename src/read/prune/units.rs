//! Units just before they are read: without the tiles that the latest condition has no use for.

use std::sync::Arc;

use super::{Extent, RuntimeCondition, Subject, TilePruner, Verdict};
use crate::array::key;
use crate::array::subarray::Subarray;
use crate::error::{Error, Result};
use crate::format::fragment::rtree::Mbrs;
use crate::format::schema::{ArraySchema, CellValNum};
use crate::read::plan::ScanPlan;
use crate::read::plan::sparse::{Copies, SparseUnit, TileRef};
use crate::read::plan::versions::witnesses_of_rest;
use crate::read::stream::ScanContext;

/// Whether a subarray touches a tile's MBR, and whether it covers it.
pub fn touches_and_covers(
    schema: &ArraySchema,
    subarray: &Subarray,
    mbrs: &Mbrs,
    tile: usize,
) -> Result<(bool, bool)> {
    let mut covered = true;
    for (d, dimension) in schema.dimensions.iter().enumerate() {
        let ranges = subarray.dim(d);
        if ranges.is_all() {
            continue;
        }
        let (lo, hi) = mbrs.range(tile, d);
        let (touches, covers) = match dimension.cell_val_num {
            CellValNum::Var => (ranges.intersects_bytes(lo, hi), ranges.covers_bytes(lo, hi)),
            CellValNum::Fixed(_) => {
                let lo = key::key(dimension.datatype, lo)?;
                let hi = key::key(dimension.datatype, hi)?;
                (ranges.intersects_keys(lo, hi), ranges.covers_keys(lo, hi))
            }
        };
        if !touches {
            return Ok((false, false));
        }
        covered &= covers;
    }
    Ok((true, covered))
}

/// The unit as it is to be read now, with what is asked of its rows; `None` if none of its tiles is of use.
pub async fn narrow_unit(
    context: Arc<ScanContext>,
    unit: &Arc<SparseUnit>,
) -> Result<Option<(Arc<ScanContext>, Arc<SparseUnit>)>> {
    let condition = context.condition()?;
    let judged_late = context.judges_late();
    if condition.is_none() && judged_late.is_none() {
        return Ok(Some((context, Arc::clone(unit))));
    }
    let mut narrowed = SparseUnit::clone(unit);
    let all = narrowed.tiles.len();
    let mut subarray = Arc::clone(&context.subarray);
    if let Some(condition) = &condition {
        subarray = subarray_of(&context.plan, condition, unit)?;
        narrow_ranges(&context.plan, &subarray, &mut narrowed)?;
        let verdicts = match &condition.pruner {
            Some(pruner) => judge(&context, pruner.as_ref(), &narrowed).await?,
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
    if let Some(pruner) = judged_late {
        let left = narrowed.tiles.len();
        let verdicts = judge(&context, pruner.as_ref(), &narrowed).await?;
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
    if unit.copies == Copies::Neighbours && narrowed.tiles.len() < all {
        narrowed.witnesses = witnesses_of_rest(&context.plan, unit, &narrowed.tiles)?;
    }
    let cells = narrowed.tiles.iter().map(|t| t.cells as u64).sum();
    narrowed.cells = narrowed.cells.min(cells);
    let context = match condition {
        Some(condition) => context.under(&condition, subarray),
        None => context,
    };
    Ok(Some((context, Arc::new(narrowed))))
}

/// The ranges of a condition for the cells of a unit.
fn subarray_of(
    plan: &ScanPlan,
    condition: &RuntimeCondition,
    unit: &SparseUnit,
) -> Result<Arc<Subarray>> {
    let schema = &plan.spec.table.snapshot.schema;
    condition.subarray_of(unit.cells, |d| {
        let datatype = schema.dimensions.get(d)?.datatype;
        let ends = unit.tiles.iter().map(|tile| {
            let (lo, hi) = mbrs_of(plan, tile).ok()?.range(tile.tile.get(), d);
            Some((key::key(datatype, lo).ok()?, key::key(datatype, hi).ok()?))
        });
        let around = |a: Option<(u64, u64)>, b: Option<(u64, u64)>| {
            let ((a_lo, a_hi), (b_lo, b_hi)) = (a?, b?);
            Some((a_lo.min(b_lo), a_hi.max(b_hi)))
        };
        ends.reduce(around)?
    })
}

/// Lets go of the tiles outside the ranges.
fn narrow_ranges(plan: &ScanPlan, subarray: &Arc<Subarray>, unit: &mut SparseUnit) -> Result<()> {
    if Arc::ptr_eq(subarray, &plan.spec.subarray) {
        return Ok(());
    }
    let schema = &plan.spec.table.snapshot.schema;
    let alone = unit.clip.is_none();
    let mut kept = Vec::with_capacity(unit.tiles.len());
    for tile in &unit.tiles {
        let mbrs = mbrs_of(plan, tile)?;
        let (touched, covered) = touches_and_covers(schema, subarray, mbrs, tile.tile.get())?;
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

fn mbrs_of<'a>(plan: &'a ScanPlan, tile: &TileRef) -> Result<&'a Mbrs> {
    let mbrs = plan.mbrs.get(tile.fragment).map(Arc::as_ref);
    mbrs.ok_or_else(|| Error::internal("a tile names a fragment that was not planned"))
}

/// Judges the tiles of a unit: by their attributes only if no tile has a say in their cells, or such as are compared
/// with them even if they are ruled out.
async fn judge(
    context: &ScanContext,
    pruner: &dyn TilePruner,
    unit: &SparseUnit,
) -> Result<Vec<Verdict>> {
    let plan = &context.plan;
    let by_attributes = unit.copies != Copies::Anywhere && plan.knowledge.judges_attributes(pruner);
    if !by_attributes && !plan.knowledge.judges_dimensions(pruner) {
        return Ok(Vec::new());
    }
    let mut known = Vec::with_capacity(unit.tiles.len());
    for tile in &unit.tiles {
        let scan = plan.fragments.get(tile.fragment).filter(|_| by_attributes);
        known.push(match scan {
            Some(scan) => {
                let number = tile.fragment;
                let columns = pruner.columns();
                let known = plan.knowledge.of_fragment(number, &scan.fragment, columns);
                Some(known.await?)
            }
            None => None,
        });
    }
    let subjects = unit.tiles.iter().zip(&known).map(|(tile, known)| {
        Ok(Subject {
            tile: tile.tile,
            cells: tile.cells as u64,
            extent: Extent::Mbr(mbrs_of(plan, tile)?),
            known: known.as_deref(),
        })
    });
    let subjects = subjects.collect::<Result<Vec<_>>>()?;
    plan.knowledge.judge(pruner, &subjects)
}
