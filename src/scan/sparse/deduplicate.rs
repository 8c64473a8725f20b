//! Deduplication keeps the newest version of each cell in the tiles of a unit, and hides the others.

use super::tile::TileWork;
use crate::error::Result;
use crate::format::schema::Layout;
use crate::memory::budget::MemoryBudget;
use crate::scan::context::ScanContext;
use crate::scan::plan::sparse_units::CellVersions;
use crate::tile::scratch::Scratch;
use crate::tile::visibility::{BYTES_PER_COMPARED_CELL, Runs, hide_older_versions};

/// Deselects the older versions of cells in the tiles, which come in the order of the plan; counts them, except those
/// of witnesses.
pub(super) fn hide_older(
    context: &ScanContext,
    versions: CellVersions,
    tiles: &mut [TileWork<'_>],
    scratch: &mut Scratch,
) -> Result<usize> {
    let before = count_witnesses(tiles);
    let hidden = match versions {
        CellVersions::None => return Ok(0),
        CellVersions::Neighbours => among_neighbours(tiles, scratch)?,
        CellVersions::Anywhere => {
            let cells = tiles.iter().map(TileWork::count).sum::<usize>();
            let _grant = context
                .memory
                .reserve(cells.saturating_mul(BYTES_PER_COMPARED_CELL))?;
            let mut compared = Vec::with_capacity(tiles.len());
            for tile in tiles.iter_mut() {
                compared.push(tile.compared(scratch)?);
            }
            hide_older_versions(&mut compared)?
        }
    };
    Ok(hidden - (before - count_witnesses(tiles)))
}

/// The number of selected cells of witnesses.
fn count_witnesses(tiles: &[TileWork<'_>]) -> usize {
    let witnesses = tiles.iter().filter(|tile| tile.is_witness());
    witnesses.map(TileWork::count).sum()
}

/// Compares each cell with those before it. Coordinates of a dimension are decoded only for tiles in which neighbours
/// are equal in the dimensions before, and times only for tiles with several versions of a cell.
fn among_neighbours(tiles: &mut [TileWork<'_>], scratch: &mut Scratch) -> Result<usize> {
    let Some(tile) = tiles.first() else {
        return Ok(0);
    };
    // The dimension whose coordinates change most often comes first.
    let schema = &tile.table().snapshot.schema;
    let mut dimensions = (0..schema.dimensions.len()).collect::<Vec<_>>();
    if schema.cell_order != Layout::ColMajor {
        dimensions.reverse();
    }
    let floats = |d: &&usize| {
        schema
            .dimensions
            .get(**d)
            .is_some_and(|d| d.datatype.is_float())
    };
    let floats = dimensions
        .iter()
        .filter(floats)
        .copied()
        .collect::<Vec<_>>();
    // The number of cells is not trusted before coordinates have been decoded.
    if let Some(first) = dimensions.first() {
        for tile in tiles.iter_mut() {
            tile.decode_coordinates(*first, scratch)?;
        }
    }
    let mut runs = Runs::new(tiles.iter().map(TileWork::asked));
    for d in dimensions {
        for tile in in_runs(&runs, tiles) {
            tile.decode_coordinates(d, scratch)?;
        }
        let dims = of_runs(&runs, tiles, |tile| tile.coordinates(d))?;
        runs.compare(&dims)?;
        if runs.is_empty() {
            return Ok(0);
        }
    }
    for tile in in_runs(&runs, tiles) {
        tile.decode_timestamps(scratch)?;
    }
    let older = runs.older(&of_runs(&runs, tiles, |tile| tile.timed(&floats))?);
    for (tile, cell) in &older {
        if let Some(tile) = tiles.get_mut(*tile) {
            tile.hide(*cell);
        }
    }
    Ok(older.len())
}

fn in_runs<'t, 'a>(
    runs: &Runs,
    tiles: &'t mut [TileWork<'a>],
) -> impl Iterator<Item = &'t mut TileWork<'a>> {
    let tiles = tiles.iter_mut().enumerate();
    tiles.filter_map(|(number, tile)| runs.meet(number).then_some(tile))
}

/// Calls `of` on each tile that takes part in a run of equal cells.
fn of_runs<'t, 'a, T>(
    runs: &Runs,
    tiles: &'t [TileWork<'a>],
    of: impl Fn(&'t TileWork<'a>) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    let tiles = tiles.iter().enumerate();
    let those = tiles.map(|(number, tile)| runs.meet(number).then(|| of(tile)).transpose());
    those.collect()
}
