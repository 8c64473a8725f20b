//! Reading one sparse unit.
//!
//! A unit is read in two rounds. The first reads the columns that decide which cells become rows: coordinates that must
//! be tested or compared, timestamps, the columns of the predicate (all columns if there is none, unless few cells can
//! lie in the ranges), and those of delete conditions. The second round reads the other columns, only for tiles with
//! cells left.
//!
//! The order of the tests is fixed: time window, ranges, newest version, deletes, predicate. Each step decodes only
//! what it needs, of the tiles that still have cells. The rows of a tile are copied out at once, so that a tile with
//! few rows takes little memory.

mod decoder;
mod request;
mod search;
mod tile;

use std::sync::Arc;

use arrow::array::RecordBatch;

use self::decoder::TileDecoder;
use self::request::{FirstRound, UnitReader};
use self::tile::TileWork;
use super::plan::ScanPlan;
use super::rounds::{self, RoundColumns, RoundRequests, TwoRoundUnit};
use super::rows::{DecodedColumns, batch};
use crate::error::{Error, Result};
use crate::format::schema::Layout;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::scan::context::ScanContext;
use crate::scan::plan::sparse_units::{CellVersions, SparseUnit, TileRef};
use crate::tile::fetch::{FetchList, FetchedBytes};
use crate::tile::fields::{ColumnRequest, FragmentScan};
use crate::tile::selection::Selection;
use crate::tile::tile_memory::DecodeScratch;
use crate::tile::visibility::{BYTES_PER_COMPARED_CELL, ComparedRuns, hide_older_versions};

/// Reads a unit; the grant accounts for the memory of the batches.
pub async fn read_unit(
    context: &Arc<ScanContext>,
    unit: Arc<SparseUnit>,
) -> Result<(Vec<RecordBatch>, Option<Grant>)> {
    let few = UnitReader::new(context, &unit).asks_for_few();
    let columns = RoundColumns::of(context, few);
    rounds::read(context, TileRun { unit, few, columns }).await
}

/// The tiles of a unit.
struct TileRun {
    unit: Arc<SparseUnit>,
    /// Whether the ranges can select few of its cells.
    few: bool,
    columns: RoundColumns,
}

/// A tile with cells left after the first round.
struct TileState {
    tile: TileRef,
    /// The cells that become rows; at least one.
    selection: Selection,
    /// The decoded columns of these rows.
    columns: DecodedColumns,
}

impl TwoRoundUnit for TileRun {
    type First = FirstRound;
    type Part = TileState;
    type Later = Vec<ColumnRequest>;

    fn columns(&self) -> &RoundColumns {
        &self.columns
    }

    async fn request(
        &mut self,
        context: &ScanContext,
        requests: &mut RoundRequests,
    ) -> Result<Vec<FirstRound>> {
        let (unit, RoundColumns { first, later }) = (&self.unit, &self.columns);
        let reader = UnitReader::new(context, unit);
        let mut of_tiles = Vec::with_capacity(unit.tiles.len() + unit.comparison_tiles.len());
        for tile in &unit.tiles {
            let columns = match tile.proven {
                true if !self.few => &context.plan.spec.projection,
                _ => first,
            };
            let request = reader
                .first_round(tile, columns, &mut requests.first)
                .await?;
            let later = reader.missing(&request, later);
            let later = reader.ask(tile, &later, &mut requests.later).await?;
            requests.add_decoded(reader.decoded_bytes(&request, &later)?);
            of_tiles.push(request);
        }
        for tile in &unit.comparison_tiles {
            let request = reader.comparison_tile(tile, &mut requests.first).await?;
            requests.add_decoded(reader.decoded_bytes(&request, &[])?);
            of_tiles.push(request);
        }
        Ok(of_tiles)
    }

    fn decide(
        &self,
        context: &ScanContext,
        first: Vec<FirstRound>,
        fetched: &FetchedBytes,
        scratch: &mut DecodeScratch,
    ) -> Result<Vec<TileState>> {
        let mut tiles = Vec::with_capacity(first.len());
        for request in first {
            let decoder = TileDecoder::new(context, &request.tile, fetched)?;
            let mut work = TileWork::new(decoder, request);
            work.locate(&self.unit, scratch)?;
            if !work.is_empty() {
                tiles.push(work);
            }
        }
        tiles.sort_by_key(TileWork::tile_key);
        let hidden = hide_older(context, self.unit.versions, &mut tiles, scratch)?;
        context.metrics.cells_hidden.add(hidden);
        tiles.retain(|tile| !tile.is_comparison_tile());
        tiles.iter_mut().for_each(TileWork::forget_coordinates);
        let mut states = Vec::with_capacity(tiles.len());
        for mut work in tiles {
            work.drop_deleted(scratch)?;
            states.extend(work.into_rows(scratch)?);
        }
        Ok(states)
    }

    async fn request_later(
        &self,
        context: &ScanContext,
        state: &TileState,
        list: &mut FetchList,
    ) -> Result<Vec<ColumnRequest>> {
        let decoded = |column: &usize| state.columns.iter().any(|(c, _)| c == column);
        let wanted = self
            .columns
            .later
            .iter()
            .copied()
            .filter(|c| !decoded(c))
            .collect::<Vec<_>>();
        let reader = UnitReader::new(context, &self.unit);
        reader.ask(&state.tile, &wanted, list).await
    }

    fn add_later(
        &self,
        context: &ScanContext,
        state: &mut TileState,
        requests: &Vec<ColumnRequest>,
        fetched: &FetchedBytes,
        scratch: &mut DecodeScratch,
    ) -> Result<()> {
        let mut decoder = TileDecoder::new(context, &state.tile, fetched)?;
        let kept = state.selection.to_bools();
        let rows = state.selection.copier(requests.len());
        for request in requests {
            let column = if request.is_stored() {
                rows.copy(&decoder.column(request, &kept, scratch)?)?
            } else {
                decoder.repeated(request.column, state.selection.count())?
            };
            state.columns.push((request.column, column));
        }
        Ok(())
    }

    fn batch(context: &ScanContext, state: &TileState) -> Result<RecordBatch> {
        let rows = Selection::all(state.selection.count());
        batch(context, &rows, &state.columns)
    }
}

fn fragment<'a>(plan: &'a ScanPlan, tile: &TileRef) -> Result<&'a FragmentScan> {
    plan.fragments
        .get(tile.fragment)
        .ok_or_else(|| Error::internal("a tile names a fragment that was not planned"))
}

/// Deselects the older versions of cells in the tiles, which come in the order of the plan; counts them, except those
/// of comparison tiles.
fn hide_older(
    context: &ScanContext,
    versions: CellVersions,
    tiles: &mut [TileWork<'_>],
    scratch: &mut DecodeScratch,
) -> Result<usize> {
    let before = count_comparison_tiles(tiles);
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
    Ok(hidden - (before - count_comparison_tiles(tiles)))
}

/// The number of selected cells of comparison tiles.
fn count_comparison_tiles(tiles: &[TileWork<'_>]) -> usize {
    let comparison_tiles = tiles.iter().filter(|tile| tile.is_comparison_tile());
    comparison_tiles.map(TileWork::count).sum()
}

/// Compares each cell with those before it. Coordinates of a dimension are decoded only for tiles in which neighbours
/// are equal in the dimensions before, and times only for tiles with several versions of a cell.
fn among_neighbours(tiles: &mut [TileWork<'_>], scratch: &mut DecodeScratch) -> Result<usize> {
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
    let mut runs = ComparedRuns::new(tiles.iter().map(TileWork::asked));
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
    runs: &ComparedRuns,
    tiles: &'t mut [TileWork<'a>],
) -> impl Iterator<Item = &'t mut TileWork<'a>> {
    let tiles = tiles.iter_mut().enumerate();
    tiles.filter_map(|(number, tile)| runs.meet(number).then_some(tile))
}

/// Calls `of` on each tile that takes part in a run of equal cells.
fn of_runs<'t, 'a, T>(
    runs: &ComparedRuns,
    tiles: &'t [TileWork<'a>],
    of: impl Fn(&'t TileWork<'a>) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    let tiles = tiles.iter().enumerate();
    let those = tiles.map(|(number, tile)| runs.meet(number).then(|| of(tile)).transpose());
    those.collect()
}
