//! Reading one sparse unit.
//!
//! Two rounds. The first fetches what decides: coordinates that must be tested or compared, timestamps, and the
//! columns of the predicate (all columns if there is none), and those that deletes look at. The order is law: time
//! window, ranges, newest copy, deletes, predicate. The second fetches the other columns, only for tiles with survivors.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::coordinates::DimCells;
use super::deletes::CellTimes;
use super::fetch::{FetchList, Fetched, TileTicket};
use super::fields::{ColumnRequest, FragmentScan, TileOf};
use super::memory::{Grant, MemoryBudget};
use super::metrics::ScanMetrics;
use super::plan::ScanPlan;
use super::plan::sparse::{SparseUnit, TileRef};
use super::rows::{Columns, apply_predicate, batch};
use super::selection::Selection;
use super::stream::ScanContext;
use super::visibility::{ContestedTile, hide_older_copies};
use crate::array::types::Cells;
use crate::array::window::Visibility;
use crate::error::{Error, Result};
use crate::read::scratch::Scratch;

/// Reads a unit; the batches are in memory accounted for by the grant.
pub async fn read_unit(
    context: &Arc<ScanContext>,
    unit: Arc<SparseUnit>,
) -> Result<(Vec<RecordBatch>, Option<Grant>)> {
    let plan = &context.plan;
    let reader = UnitReader {
        context,
        unit: &unit,
    };
    let first_columns = match context.predicate {
        Some(_) => context.predicate_columns().to_vec(),
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
    let mut requests = Vec::with_capacity(unit.tiles.len());
    let mut bytes = 0_usize;
    // The second round may not happen, but its memory must be there if it does.
    let mut later_list = FetchList::default();
    for tile in &unit.tiles {
        let first_columns = match tile.proven {
            true => &plan.spec.projection,
            false => &first_columns,
        };
        let request = reader.first_round(tile, first_columns, &mut list).await?;
        let later = reader.missing(&request, &later_columns);
        let later = reader.ask(tile, &later, &mut later_list).await?;
        bytes = bytes.saturating_add(reader.decoded_bytes(&request, &later)?);
        requests.push(request);
    }
    let fetched_bytes = list.bytes().saturating_add(later_list.bytes());
    let bytes = bytes.saturating_add(usize::try_from(fetched_bytes)?);
    let grant = context.memory.reserve(bytes)?;
    let fetched = list
        .fetch(&plan.spec.table.snapshot.storage, &context.metrics)
        .await?;

    let whole = Arc::clone(&unit);
    let states = context
        .decode(move |context, scratch| decide(context, &whole, requests, &fetched, scratch))
        .await?;
    if later_columns.is_empty() || states.iter().all(|s| s.selection.is_empty()) {
        let batches = context
            .decode(move |context, _| emit(context, states))
            .await?;
        return Ok((batches, Some(grant)));
    }

    let mut list = FetchList::default();
    let mut requests = Vec::with_capacity(states.len());
    for state in &states {
        let decoded = |column: &usize| state.columns.iter().any(|(c, _)| c == column);
        let wanted = later_columns.iter().copied().filter(|c| !decoded(c));
        let wanted: Vec<usize> = match state.selection.is_empty() {
            true => Vec::new(),
            false => wanted.collect(),
        };
        requests.push(reader.ask(&state.tile, &wanted, &mut list).await?);
    }
    let fetched = list
        .fetch(&plan.spec.table.snapshot.storage, &context.metrics)
        .await?;
    let batches = context
        .decode(move |context, scratch| {
            let mut states = states;
            for (state, requests) in states.iter_mut().zip(&requests) {
                let scan = fragment(&context.plan, &state.tile)?;
                let of = tile_of(&context.plan, &state.tile);
                for request in requests {
                    let column = scan.decode(request, &fetched, of, scratch)?;
                    context
                        .metrics
                        .bytes_decoded
                        .add(column.get_array_memory_size());
                    state.columns.push((request.column, column));
                }
            }
            emit(context, states)
        })
        .await?;
    Ok((batches, Some(grant)))
}

fn fragment<'a>(plan: &'a ScanPlan, tile: &TileRef) -> Result<&'a FragmentScan> {
    plan.fragments
        .get(tile.fragment)
        .ok_or_else(|| Error::internal("a tile names a fragment that was not planned"))
}

fn tile_of<'a>(plan: &'a ScanPlan, tile: &TileRef) -> TileOf<'a> {
    TileOf {
        table: &plan.spec.table,
        tile: tile.tile,
        cells: tile.cells,
    }
}

/// What the first round asks for one tile.
struct FirstRound {
    tile: TileRef,
    /// Fields whose stored cells are looked at, then turned into columns if those are wanted: first dimensions that
    /// are tested or compared, then what deletes need besides.
    looked_at: Vec<ColumnRequest>,
    /// How many of these are such dimensions.
    coordinates: usize,
    /// Other columns.
    columns: Vec<ColumnRequest>,
    /// Which of the fields looked at are wanted as columns.
    wanted: Vec<usize>,
    timestamps: Option<TileTicket>,
    delete_times: Option<TileTicket>,
}

/// A tile after the first round.
struct TileState {
    tile: TileRef,
    selection: Selection,
    columns: Columns,
}

struct UnitReader<'a> {
    context: &'a Arc<ScanContext>,
    unit: &'a SparseUnit,
}

impl UnitReader<'_> {
    /// The dimensions of a tile whose values must be looked at.
    fn looked_at(&self, tile: &TileRef) -> Vec<usize> {
        let spec = &self.context.plan.spec;
        let subarray = self.unit.clip.as_ref().unwrap_or(&self.context.subarray);
        (0..spec.table.dimension_count())
            .filter(|d| self.unit.resolve || (!tile.covered && !subarray.dim(*d).is_all()))
            .collect()
    }

    async fn first_round(
        &self,
        tile: &TileRef,
        columns: &[usize],
        list: &mut FetchList,
    ) -> Result<FirstRound> {
        let scan = fragment(&self.context.plan, tile)?;
        let mut looked_at = self.looked_at(tile);
        let coordinates = looked_at.len();
        let delete_columns = match tile.spared {
            true => &[],
            false => scan.delete_columns(),
        };
        for column in delete_columns {
            if !looked_at.contains(column) {
                looked_at.push(*column);
            }
        }
        // What is read anyway serves the second round, too.
        let projected = |c: &usize| self.context.plan.spec.projection.contains(c);
        let wanted = looked_at
            .iter()
            .copied()
            .filter(|c| columns.contains(c) || projected(c))
            .collect();
        let fields = looked_at.len();
        let rest = columns.iter().filter(|c| !looked_at.contains(c));
        let all = looked_at.iter().chain(rest).copied().collect::<Vec<_>>();
        let mut asked = self.ask(tile, &all, list).await?;
        let columns = asked.split_off(fields);
        let partly = scan.fragment.visibility == Visibility::ByCell;
        let tiles = scan
            .tiles(&self.context.plan.spec.table.snapshot.storage)
            .await?;
        let by_time = !tile.spared && scan.deletes().needs_timestamps();
        let timestamps = if self.unit.resolve || partly || by_time {
            scan.ask_timestamps(tiles, tile.tile, list)?
        } else {
            None
        };
        Ok(FirstRound {
            tile: *tile,
            coordinates,
            timestamps,
            delete_times: scan.ask_delete_times(tiles, tile.tile, list)?,
            looked_at: asked,
            columns,
            wanted,
        })
    }

    async fn ask(
        &self,
        tile: &TileRef,
        columns: &[usize],
        list: &mut FetchList,
    ) -> Result<Vec<ColumnRequest>> {
        let scan = fragment(&self.context.plan, tile)?;
        let tiles = scan
            .tiles(&self.context.plan.spec.table.snapshot.storage)
            .await?;
        scan.ask(tiles, columns, tile.tile, list)
    }

    /// Of `columns`, those that the first round does not bring.
    fn missing(&self, request: &FirstRound, columns: &[usize]) -> Vec<usize> {
        let missing = columns.iter().filter(|c| !request.wanted.contains(c));
        missing.copied().collect()
    }

    /// Memory for the decoded tile, both rounds.
    fn decoded_bytes(&self, request: &FirstRound, later: &[ColumnRequest]) -> Result<usize> {
        let scan = fragment(&self.context.plan, &request.tile)?;
        let cells = request.tile.cells;
        let per_cell = if self.unit.resolve { 40 } else { 1 };
        // Two times and a few marks.
        let per_cell = per_cell + if request.tile.spared { 0 } else { 20 };
        let mut bytes = cells.saturating_mul(per_cell);
        for column in request
            .looked_at
            .iter()
            .chain(&request.columns)
            .chain(later)
        {
            bytes = bytes.saturating_add(scan.decoded_bytes(column, cells)?);
        }
        Ok(bytes)
    }
}

/// Decodes the first round and decides which cells become rows.
fn decide(
    context: &ScanContext,
    unit: &SparseUnit,
    requests: Vec<FirstRound>,
    fetched: &Fetched,
    scratch: &mut Scratch,
) -> Result<Vec<TileState>> {
    let mut states = Vec::with_capacity(requests.len());
    let mut contested = Vec::new();
    for request in requests {
        let decoded = decode_tile(context, unit, &request, fetched, scratch)?;
        states.push((request.tile, decoded.columns, decoded.survivors));
        contested.push(decoded.cells);
    }
    if unit.resolve {
        let hidden = hide_older_copies(&mut contested)?;
        context.metrics.cells_hidden.add(hidden);
    }
    states
        .into_iter()
        .zip(contested)
        .map(|((tile, columns, survivors), mut cells)| {
            if let Some(survivors) = survivors {
                let deleted = keep_survivors(survivors, &mut cells.mask);
                context.metrics.cells_deleted.add(deleted);
            }
            let selection = if cells.mask.is_empty() {
                Selection::all(tile.cells)
            } else {
                Selection::from_bools(&cells.mask)
            };
            let predicate = context.predicate.as_deref().filter(|_| !tile.proven);
            let selection = apply_predicate(predicate, selection, &columns)?;
            Ok(TileState {
                tile,
                selection,
                columns,
            })
        })
        .collect()
}

/// Clears the marks of deleted cells, and counts them. No marks stand for all.
fn keep_survivors(survivors: Vec<bool>, mask: &mut Vec<bool>) -> usize {
    if mask.is_empty() {
        *mask = survivors;
        return mask.iter().filter(|mark| !**mark).count();
    }
    let mut deleted = 0;
    for (mark, survives) in mask.iter_mut().zip(survivors) {
        deleted += usize::from(*mark & !survives);
        *mark &= survives;
    }
    deleted
}

/// A tile after its first round is decoded.
struct Decoded {
    columns: Columns,
    /// The cells that lie in the window and the ranges; no marks: all of them do.
    cells: ContestedTile,
    /// The cells that no delete hits, if there are deletes.
    survivors: Option<Vec<bool>>,
}

/// Decodes one tile, and marks its cells that lie in the window and the ranges, and those that are not deleted.
fn decode_tile(
    context: &ScanContext,
    unit: &SparseUnit,
    request: &FirstRound,
    fetched: &Fetched,
    scratch: &mut Scratch,
) -> Result<Decoded> {
    let plan = &context.plan;
    let scan = fragment(plan, &request.tile)?;
    let of = tile_of(plan, &request.tile);
    let metrics: &ScanMetrics = &context.metrics;
    metrics.tiles_decoded.add(1);
    metrics.cells_decoded.add(of.cells);
    let subarray = unit.clip.as_ref().unwrap_or(&context.subarray);
    let timestamps = request
        .timestamps
        .map(|ticket| scan.decode_timestamps(ticket, fetched, of, scratch))
        .transpose()?;
    let partly = scan.fragment.visibility == Visibility::ByCell;
    // Made when cells are there: their number alone may be a lie.
    let mut mask = Vec::new();
    if let Some(timestamps) = timestamps.as_ref().filter(|_| partly) {
        let window = plan.spec.table.snapshot.window;
        let (start, end) = (window.start.0, window.end_or_now().0);
        mask.extend(timestamps.iter().map(|time| (start..=end).contains(time)));
    }
    let mut stored = Vec::with_capacity(request.looked_at.len());
    for field in &request.looked_at {
        stored.push((
            field.column,
            scan.decode_cells(field, fetched, of, scratch)?,
        ));
    }
    let mut dims = Vec::new();
    for (d, cells) in stored.iter().take(request.coordinates) {
        let Some(dimension) = scan.fragment.schema.dimensions.get(*d) else {
            return Err(Error::internal(format!("there is no dimension {d}")));
        };
        let looked_at = DimCells::new(dimension.datatype, cells).map_err(|e| {
            e.with("dimension", &dimension.name)
                .with("fragment", &scan.fragment.name.name)
        })?;
        mask.resize(of.cells, true);
        looked_at.mark_inside(subarray.dim(*d), &mut mask);
        dims.push(looked_at);
    }
    let delete_times = request
        .delete_times
        .map(|ticket| scan.decode_timestamps(ticket, fetched, of, scratch))
        .transpose()?;
    let times = CellTimes {
        written: timestamps.as_deref(),
        deleted: delete_times.as_deref(),
    };
    let survivors = match request.tile.spared {
        true => None,
        false => Some(survivors(plan, scan, &stored, times, of)?),
    };
    let mut columns = Vec::new();
    for (column, cells) in stored {
        if request.wanted.contains(&column) {
            let array = scan.to_array(column, cells, of)?;
            metrics.bytes_decoded.add(array.get_array_memory_size());
            columns.push((column, array));
        }
    }
    for column in &request.columns {
        let array = scan.decode(column, fetched, of, scratch)?;
        metrics.bytes_decoded.add(array.get_array_memory_size());
        columns.push((column.column, array));
    }
    let contested = ContestedTile {
        age: request.tile.fragment,
        fragment_time: scan.fragment.name.t1,
        timestamps,
        dims: if unit.resolve { dims } else { Vec::new() },
        mask,
    };
    Ok(Decoded {
        columns,
        cells: contested,
        survivors,
    })
}

/// Which cells of a tile no delete hits.
fn survivors(
    plan: &ScanPlan,
    scan: &FragmentScan,
    stored: &[(usize, Cells)],
    times: CellTimes<'_>,
    of: TileOf<'_>,
) -> Result<Vec<bool>> {
    let find = |column: &usize| {
        let found = stored.iter().find(|(c, _)| c == column);
        let found = found.map(|(_, cells)| cells);
        found.ok_or_else(|| Error::internal("a field of a delete was not decoded"))
    };
    let fields = scan.delete_columns().iter().map(find);
    let fields = fields.collect::<Result<Vec<_>>>()?;
    let end = plan.spec.table.snapshot.window.end_or_now().0;
    scan.deletes()
        .survivors(&fields, times, end, of.cells)
        .map_err(|e| {
            e.with("data tile", of.tile.0)
                .with("fragment", &scan.fragment.name.name)
        })
}

/// The rows of each tile as a batch.
fn emit(context: &ScanContext, states: Vec<TileState>) -> Result<Vec<RecordBatch>> {
    let with_rows = states.iter().filter(|s| !s.selection.is_empty());
    with_rows
        .map(|state| batch(context, &state.selection, &state.columns))
        .collect()
}
