//! Pruning of clips by statistics, and the clips that the predicate need not be evaluated on.
//!
//! Every cell of a clip comes from one of its copies, so the statistics of all of them decide: no cell of the clip
//! matches if none in any of its copies does. Older fragments under a copy that covers the clip supply nothing, so
//! their statistics do not count.

use super::clip::TileClip;
use super::dense_plan;
use crate::error::{Error, Result};
use crate::scan::context::ScanContext;
use crate::scan::spec::RuntimeCondition;
use crate::stats::pruner::{TilePruner, Verdict};
use crate::stats::{CandidateTile, TileExtent};

/// Prunes clips without matches, and sets `proven` where every cell matches.
pub(super) async fn prune(
    context: &ScanContext,
    condition: Option<&RuntimeCondition>,
    mut clips: Vec<TileClip>,
) -> Result<Vec<TileClip>> {
    let plan = &context.plan;
    let metrics = &context.metrics;
    let given = plan.spec.predicate.is_none();
    let mut proven = vec![given; clips.len()];
    if let Some(pruner) = context.late_pruner() {
        let verdicts = evaluate(context, pruner.as_ref(), &clips).await?;
        proven = verdicts.iter().map(|v| *v == Verdict::Everything).collect();
        metrics
            .tiles_proven
            .add(proven.iter().filter(|p| **p).count());
        let gone = keep(&mut clips, &mut proven, &verdicts);
        metrics.tiles_pruned_statistics.add(gone);
    }
    if let Some(condition) = condition {
        let verdicts = match &condition.pruner {
            Some(pruner) => evaluate(context, pruner.as_ref(), &clips).await?,
            None => vec![Verdict::Something; clips.len()],
        };
        for (proven, verdict) in proven.iter_mut().zip(&verdicts) {
            *proven &= !condition.stricter || *verdict == Verdict::Everything;
        }
        let gone = keep(&mut clips, &mut proven, &verdicts);
        metrics.tiles_pruned_runtime.add(gone);
    }
    for (clip, proven) in clips.iter_mut().zip(proven) {
        clip.proven = proven;
    }
    Ok(clips)
}

/// Drops the clips in which nothing matches, and counts them.
fn keep(clips: &mut Vec<TileClip>, proven: &mut Vec<bool>, verdicts: &[Verdict]) -> usize {
    let before = clips.len();
    let kept = |verdicts: &mut std::slice::Iter<'_, Verdict>| {
        verdicts.next().is_none_or(|v| *v != Verdict::Nothing)
    };
    let mut of_clips = verdicts.iter();
    clips.retain(|_| kept(&mut of_clips));
    let mut of_proven = verdicts.iter();
    proven.retain(|_| kept(&mut of_proven));
    before - clips.len()
}

async fn evaluate(
    context: &ScanContext,
    pruner: &dyn TilePruner,
    clips: &[TileClip],
) -> Result<Vec<Verdict>> {
    let plan = &context.plan;
    let dense = dense_plan(plan)?;
    let mut known = Vec::new();
    let mut copies = Vec::new();
    for (number, clip) in clips.iter().enumerate() {
        let boxes = clip
            .copies
            .iter()
            .map(|copy| copy.written.as_ref())
            .collect::<Option<Vec<_>>>();
        let empty = clip.pieces.iter().any(|p| clip.is_empty_piece(p)) || clip.copies.is_empty();
        let by_attributes = plan.statistics_cache.reads_attributes(pruner) && !empty;
        let Some(boxes) = boxes.filter(|_| by_attributes) else {
            known.push(None);
            copies.push((number, None, &clip.cells, clip.rows as u64));
            continue;
        };
        for (copy, written) in clip.copies.iter().zip(boxes) {
            let missing = || Error::internal("a tile names a fragment that was not planned");
            let scan = plan.fragments.get(copy.fragment).ok_or_else(missing)?;
            let own = dense.fragments.get(copy.fragment).ok_or_else(missing)?;
            let statistics =
                plan.statistics_cache
                    .of_fragment(copy.fragment, &scan.fragment, pruner.columns());
            known.push(Some(statistics.await?));
            let tile = dense.grid.tile_box(&clip.tile(dense));
            let cells = own.domain.intersect(&tile).and_then(|cells| cells.cells());
            copies.push((number, Some(copy.tile), written, cells.unwrap_or(u64::MAX)));
        }
    }
    let candidates = copies
        .iter()
        .zip(&known)
        .map(|((_, tile, cells, stored), known)| CandidateTile {
            tile: tile.unwrap_or_default(),
            cells: *stored,
            extent: TileExtent::Cells(cells),
            known: known.as_deref(),
        });
    let verdicts = plan
        .statistics_cache
        .evaluate(pruner, &candidates.collect::<Vec<_>>())?;
    let mut of_clips: Vec<Option<Verdict>> = vec![None; clips.len()];
    for ((number, ..), verdict) in copies.iter().zip(verdicts) {
        if let Some(of_clip) = of_clips.get_mut(*number) {
            *of_clip = Some(of_clip.map_or(verdict, |v| v.over(verdict)));
        }
    }
    let of_clips = of_clips
        .into_iter()
        .map(|v| v.unwrap_or(Verdict::Something));
    Ok(of_clips.collect())
}
