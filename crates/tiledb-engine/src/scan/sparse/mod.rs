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
use super::rows::{Columns, batch};
use crate::error::{Error, Result};
use crate::format::schema::Layout;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::scan::context::ScanContext;
use crate::scan::plan::sparse_units::{CellVersions, SparseUnit, TileRef};
use crate::tile::fetch::{FetchList, Fetched};
use crate::tile::fields::FragmentScan;
use crate::tile::selection::Selection;
use crate::tile::tile_memory::Scratch;
use crate::tile::visibility::{BYTES_PER_COMPARED_CELL, Runs, hide_older_versions};

/// Reads a unit; the grant accounts for the memory of the batches.
pub async fn read_unit(
    context: &Arc<ScanContext>,
    unit: Arc<SparseUnit>,
) -> Result<(Vec<RecordBatch>, Option<Grant>)> {
    let plan = &context.plan;
    let reader = UnitReader {
        context,
        unit: &unit,
    };
    let few = reader.asks_for_few();
    let first_columns = match context.predicate {
        Some(_) => context.predicate_columns().to_vec(),
        None if few => Vec::new(),
        None => plan.spec.projection.clone(),
    };
    let later_columns = plan
        .spec
        .projection
        .iter()
        .copied()
        .filter(|column| !first_columns.contains(column))
        .collect::<Vec<_>>();

    let mut list = FetchList::default();
    let mut requests = Vec::with_capacity(unit.tiles.len() + unit.witnesses.len());
    let mut bytes = 0_usize;
    // The second round may not happen, but its memory must be there if it does.
    let mut later_list = FetchList::default();
    for tile in &unit.tiles {
        let first_columns = match tile.proven {
            true if !few => &plan.spec.projection,
            _ => &first_columns,
        };
        let request = reader.first_round(tile, first_columns, &mut list).await?;
        let later = reader.missing(&request, &later_columns);
        let later = reader.ask(tile, &later, &mut later_list).await?;
        bytes = bytes.saturating_add(reader.decoded_bytes(&request, &later)?);
        requests.push(request);
    }
    for tile in &unit.witnesses {
        let request = reader.witness(tile, &mut list).await?;
        bytes = bytes.saturating_add(reader.decoded_bytes(&request, &[])?);
        requests.push(request);
    }
    let fetched_bytes = list.bytes().saturating_add(later_list.bytes());
    let bytes = bytes.saturating_add(usize::try_from(fetched_bytes)?);
    let grant = context.memory.reserve(bytes)?;
    let fetched = context.fetch(list).await?;

    let decided = Arc::clone(&unit);
    let states = context
        .decode(move |context, scratch| decide(context, &decided, requests, &fetched, scratch))
        .await?;
    if later_columns.is_empty() || states.is_empty() {
        let batches = context
            .decode(move |context, _| emit(context, &states))
            .await?;
        return Ok((batches, Some(grant)));
    }
    let batches = second_round(&reader, states, &later_columns).await?;
    Ok((batches, Some(grant)))
}

/// Reads the columns that the first round left out, for the tiles with cells left.
async fn second_round(
    reader: &UnitReader<'_>,
    states: Vec<TileState>,
    later_columns: &[usize],
) -> Result<Vec<RecordBatch>> {
    let mut list = FetchList::default();
    let mut requests = Vec::with_capacity(states.len());
    for state in &states {
        let decoded = |column: &usize| state.columns.iter().any(|(c, _)| c == column);
        let wanted = later_columns.iter().copied().filter(|c| !decoded(c));
        let wanted: Vec<usize> = wanted.collect();
        requests.push(reader.ask(&state.tile, &wanted, &mut list).await?);
    }
    let fetched = reader.context.fetch(list).await?;
    reader
        .context
        .decode(move |context, scratch| {
            let mut states = states;
            for (state, requests) in states.iter_mut().zip(&requests) {
                let mut decoder = TileDecoder::new(context, &state.tile, &fetched)?;
                let kept = state.selection.to_bools();
                let rows = state.selection.copier(requests.len());
                for request in requests {
                    let column = match request.is_stored() {
                        true => rows.copy(&decoder.column(request, &kept, scratch)?)?,
                        false => decoder.repeated(request.column, state.selection.count())?,
                    };
                    state.columns.push((request.column, column));
                }
            }
            emit(context, &states)
        })
        .await
}

fn fragment<'a>(plan: &'a ScanPlan, tile: &TileRef) -> Result<&'a FragmentScan> {
    plan.fragments
        .get(tile.fragment)
        .ok_or_else(|| Error::internal("a tile names a fragment that was not planned"))
}

/// A tile with cells left after the first round.
struct TileState {
    tile: TileRef,
    /// The cells that become rows; at least one.
    selection: Selection,
    /// The decoded columns of these rows.
    columns: Columns,
}

/// Decodes the first round and decides which cells become rows.
fn decide(
    context: &ScanContext,
    unit: &SparseUnit,
    requests: Vec<FirstRound>,
    fetched: &Fetched,
    scratch: &mut Scratch,
) -> Result<Vec<TileState>> {
    let mut tiles = Vec::with_capacity(requests.len());
    for request in requests {
        let decoder = TileDecoder::new(context, &request.tile, fetched)?;
        let mut work = TileWork::new(decoder, request);
        work.locate(unit, scratch)?;
        if !work.is_empty() {
            tiles.push(work);
        }
    }
    tiles.sort_by_key(TileWork::tile_key);
    let hidden = hide_older(context, unit.versions, &mut tiles, scratch)?;
    context.metrics.cells_hidden.add(hidden);
    tiles.retain(|tile| !tile.is_witness());
    tiles.iter_mut().for_each(TileWork::forget_coordinates);
    let mut states = Vec::with_capacity(tiles.len());
    for mut work in tiles {
        work.drop_deleted(scratch)?;
        states.extend(work.into_rows(scratch)?);
    }
    Ok(states)
}

/// The rows of each tile as a batch.
fn emit(context: &ScanContext, states: &[TileState]) -> Result<Vec<RecordBatch>> {
    let rows = |state: &TileState| Selection::all(state.selection.count());
    let batches = states.iter().map(|s| batch(context, &rows(s), &s.columns));
    batches.collect()
}

/// Deselects the older versions of cells in the tiles, which come in the order of the plan; counts them, except those
/// of witnesses.
fn hide_older(
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
