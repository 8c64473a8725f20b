//! A tile of a dense fragment: the attributes of the cells that were written. What lies around them is padding, whose
//! content nobody looks at.

use super::context::Source;
use super::{TileFindings, field};
use crate::array::fragment::TileIdx;
use crate::error::Result;
use crate::geometry::box_runs::{BoxRuns, Run};
use crate::tile::scratch::Scratch;

/// Checks a tile.
pub fn check(
    source: &Source<'_>,
    scratch: &mut Scratch,
    findings: &mut TileFindings,
) -> Result<()> {
    let audited = source.audited;
    findings.totals = audited.fields.iter().map(|_| None).collect();
    let mut runs = None;
    for index in 0..audited.fields.len() {
        let Some(column) = field::decode(source, index, None, scratch, findings)? else {
            continue;
        };
        // A tile that has been decoded has as many cells as its metadata say.
        let runs = match &runs {
            Some(runs) => runs,
            None => runs.insert(written(source)?),
        };
        findings.cells = runs.iter().map(|run| run.len as u64).sum();
        field::check(source, index, &column, runs, scratch, findings)?;
    }
    Ok(())
}

/// The written cells of the tile, in stored order.
fn written(source: &Source<'_>) -> Result<Vec<Run>> {
    let Some((tiles, grid)) = &source.audited.dense else {
        return Ok(Vec::new());
    };
    let Some(clip) = tiles.cells_of(TileIdx(source.tile)) else {
        return Ok(Vec::new());
    };
    let first = clip.lo().iter().enumerate();
    let tile: Vec<u64> = first.map(|(d, key)| grid.tile_of(d, *key)).collect();
    let runs = BoxRuns::new(
        grid.extents(),
        grid.cell_order(),
        &grid.tile_lo(&tile),
        &clip,
    )?;
    Ok(runs.collect())
}
