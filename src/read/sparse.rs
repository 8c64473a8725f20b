//! Reading one sparse unit.
//!
//! Two rounds. The first fetches what decides: coordinates that must be tested or compared, timestamps, and the
//! columns of the predicate (all columns if there is none). The order is law: time window, ranges, newest copy,
//! predicate. The second fetches the other columns, only for tiles with survivors.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::coordinates::DimCells;
use super::fetch::{FetchList, Fetched, TileTicket};
use super::fields::{ColumnRequest, FragmentScan, TileOf};
use super::memory::Grant;
use super::metrics::ScanMetrics;
use super::plan::ScanPlan;
use super::plan::sparse::{SparseUnit, TileRef};
use super::rows::{Columns, apply_predicate, batch};
use super::selection::Selection;
use super::stream::ScanContext;
use super::visibility::{ContestedTile, hide_older_copies};
use crate::array::window::Visibility;
use crate::error::{Error, Result};
use crate::filter::Scratch;

/// Reads unit number `index`; the batches are in memory accounted for by the grant.
pub async fn read_unit(
    context: &Arc<ScanContext>,
    index: usize,
    unit: &SparseUnit,
) -> Result<(Vec<RecordBatch>, Option<Grant>)> {
    let plan = &context.plan;
    let reader = UnitReader { context, unit };
    let first_columns = match plan.spec.predicate {
        Some(_) => plan.spec.predicate_columns().to_vec(),
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
        let request = reader.first_round(tile, &first_columns, &mut list).await?;
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

    let states = context
        .decode(move |context, scratch| decide(context, index, requests, &fetched, scratch))
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
    /// Dimensions whose values are tested or compared, then turned into columns if those are wanted.
    coordinates: Vec<ColumnRequest>,
    /// Other columns.
    columns: Vec<ColumnRequest>,
    /// Which of the coordinates are wanted as columns.
    wanted: Vec<usize>,
    timestamps: Option<TileTicket>,
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
        let subarray = self.unit.clip.as_ref().unwrap_or(&spec.subarray);
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
        let looked_at = self.looked_at(tile);
        let rest = columns
            .iter()
            .copied()
            .filter(|c| !looked_at.contains(c))
            .collect::<Vec<_>>();
        // A coordinate that is read anyway serves the second round, too.
        let projected = |c: &usize| self.context.plan.spec.projection.contains(c);
        let wanted = looked_at
            .iter()
            .copied()
            .filter(|c| columns.contains(c) || projected(c))
            .collect();
        let scan = fragment(&self.context.plan, tile)?;
        let partly = scan.fragment.visibility == Visibility::ByCell;
        let tiles = scan
            .tiles(&self.context.plan.spec.table.snapshot.storage)
            .await?;
        let timestamps = if self.unit.resolve || partly {
            scan.ask_timestamps(tiles, tile.tile, list)?
        } else {
            None
        };
        Ok(FirstRound {
            tile: *tile,
            coordinates: self.ask(tile, &looked_at, list).await?,
            columns: self.ask(tile, &rest, list).await?,
            wanted,
            timestamps,
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
        columns
            .iter()
            .map(|column| scan.ask(tiles, *column, tile.tile, list))
            .collect()
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
        let mut bytes = cells.saturating_mul(if self.unit.resolve { 40 } else { 1 });
        for column in request
            .coordinates
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
    index: usize,
    requests: Vec<FirstRound>,
    fetched: &Fetched,
    scratch: &mut Scratch,
) -> Result<Vec<TileState>> {
    let plan = &context.plan;
    let super::plan::Units::Sparse(units) = &plan.units else {
        return Err(Error::internal("a sparse unit of a dense plan"));
    };
    let unit = units
        .get(index)
        .ok_or_else(|| Error::internal("there is no such unit"))?;
    let mut states = Vec::with_capacity(requests.len());
    let mut contested = Vec::new();
    for request in requests {
        let (columns, cells) = decode_tile(context, unit, &request, fetched, scratch)?;
        states.push((request.tile, columns));
        contested.push(cells);
    }
    if unit.resolve {
        let hidden = hide_older_copies(&mut contested)?;
        context.metrics.cells_hidden.add(hidden);
    }
    states
        .into_iter()
        .zip(contested)
        .map(|((tile, columns), cells)| {
            let selection = if cells.mask.is_empty() {
                Selection::all(tile.cells)
            } else {
                Selection::from_bools(&cells.mask)
            };
            let selection = apply_predicate(plan, selection, &columns)?;
            Ok(TileState {
                tile,
                selection,
                columns,
            })
        })
        .collect()
}

/// Decodes one tile, and marks its cells that lie in the window and the ranges. No marks: all of them do.
fn decode_tile(
    context: &ScanContext,
    unit: &SparseUnit,
    request: &FirstRound,
    fetched: &Fetched,
    scratch: &mut Scratch,
) -> Result<(Columns, ContestedTile)> {
    let plan = &context.plan;
    let scan = fragment(plan, &request.tile)?;
    let of = tile_of(plan, &request.tile);
    let metrics: &ScanMetrics = &context.metrics;
    metrics.tiles_decoded.add(1);
    metrics.cells_decoded.add(of.cells);
    let subarray = unit.clip.as_ref().unwrap_or(&plan.spec.subarray);
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
    let mut columns = Vec::new();
    let mut dims = Vec::new();
    for coordinate in &request.coordinates {
        let d = coordinate.column;
        let cells = scan.decode_cells(coordinate, fetched, of, scratch)?;
        let (Some(dimension), Some(ty)) = (
            scan.fragment.schema.dimensions.get(d),
            plan.spec.table.types.get(d),
        ) else {
            return Err(Error::internal(format!("there is no dimension {d}")));
        };
        let looked_at = DimCells::new(dimension.datatype, &cells).map_err(|e| {
            e.with("dimension", &dimension.name)
                .with("fragment", &scan.fragment.name.name)
        })?;
        mask.resize(of.cells, true);
        looked_at.mark_inside(subarray.dim(d), &mut mask);
        if request.wanted.contains(&d) {
            let array = ty.to_array(cells).map_err(|e| {
                e.with("dimension", &dimension.name)
                    .with("data tile", request.tile.tile.0)
                    .with("fragment", &scan.fragment.name.name)
            })?;
            metrics.bytes_decoded.add(array.get_array_memory_size());
            columns.push((d, array));
        }
        dims.push(looked_at);
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
    Ok((columns, contested))
}

/// The rows of each tile as a batch.
fn emit(context: &ScanContext, states: Vec<TileState>) -> Result<Vec<RecordBatch>> {
    let with_rows = states.iter().filter(|s| !s.selection.is_empty());
    with_rows
        .map(|state| batch(context, &state.selection, &state.columns))
        .collect()
}
