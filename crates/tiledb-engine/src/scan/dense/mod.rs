//! Reading one dense unit: a run of space tiles.
//!
//! Of each tile only the clip is read: its part inside the subarray and the non-empty domain. The newest fragment that
//! covers the clip supplies all of it. Where none covers it, the cells are painted, oldest fragment first, and cells of
//! no fragment get the fill value (specification: "Reading dense arrays"; every attribute of a cell comes from the last
//! fragment whose box contains it). Rows come out in the stored order.

mod clip;
mod columns;
mod pruned;
mod scattered;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::BooleanBuffer;

use self::clip::{Clip, Copy};
use self::columns::decode;
use super::plan::dense::DensePlan;
use super::plan::{ScanPlan, Units};
use super::rows::{Columns, apply_predicate, batch, keep_selected};
use super::spec::EmptyCells;
use crate::array::table::filled_bytes;
use crate::error::{Error, Result};
use crate::geometry::box_runs::Coordinates;
use crate::geometry::domain::KeyBox;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::scan::context::ScanContext;
use crate::scan::spec::RuntimeCondition;
use crate::tile::fetch::{FetchList, Fetched};
use crate::tile::fields::{ColumnRequest, FragmentScan};
use crate::tile::selection::Selection;
use crate::tile::tile_memory::Scratch;

/// A clip after the first round of reading.
struct ClipState {
    clip: Clip,
    /// The cells of the clip that the ranges select.
    in_ranges: Selection,
    /// The cells among these that become rows.
    selection: Selection,
    columns: Columns,
}

impl ClipState {
    /// Adds the columns of the second round.
    fn add(
        &mut self,
        context: &ScanContext,
        requests: &ClipRequests,
        fetched: &Fetched,
        columns: &[usize],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let selected = keep_selected(&context.plan, &mut self.selection, &mut self.columns)?;
        let selection = self.in_ranges.and(&selected)?;
        let clip = &self.clip;
        let columns = decode(
            context, clip, &selection, requests, fetched, columns, scratch,
        )?;
        self.columns.extend(columns);
        Ok(())
    }
}

/// The result of the first round.
enum Decided {
    /// All columns were read.
    Rows(Vec<RecordBatch>),
    /// Some columns are left to the second round.
    Partly(Vec<ClipState>),
}

/// Reads the space tiles with these indexes, or their cells within a box.
pub async fn read_unit(
    context: &Arc<ScanContext>,
    condition: Option<&RuntimeCondition>,
    tiles: Vec<Vec<u64>>,
    within: Option<&KeyBox>,
) -> Result<(Vec<RecordBatch>, Option<Grant>)> {
    let spec = &context.plan.spec;
    let dense = dense_plan(&context.plan)?;
    let clips = tiles
        .iter()
        .map(|tile| {
            Clip::new(
                dense,
                tile,
                within,
                &context.subarray,
                context.memory.as_ref(),
            )
        })
        .filter_map(Result::transpose)
        .collect::<Result<Vec<_>>>()?;
    let clips = scattered::resolve(context, clips).await?;
    let clips = pruned::prune(context, condition, clips).await?;
    let first = match context.predicate {
        Some(_) => context.predicate_columns().to_vec(),
        None => spec.projection.clone(),
    };
    let mut later = spec.projection.clone();
    later.retain(|column| !first.contains(column));

    let mut list = FetchList::default();
    let mut requests = Vec::with_capacity(clips.len());
    let mut bytes = 0_usize;
    // The second round may not happen, but its memory must be there if it does.
    let mut later_list = FetchList::default();
    for clip in &clips {
        let asked = ask(context, clip, &first, &mut list).await?;
        let asked_later = ask(context, clip, &later, &mut later_list).await?;
        for (asked, columns) in [(&asked, &first), (&asked_later, &later)] {
            bytes = bytes.saturating_add(decoded_bytes(context, clip, asked, columns)?);
        }
        requests.push(asked);
    }
    let fetched_bytes = list.bytes().saturating_add(later_list.bytes());
    let bytes = bytes.saturating_add(usize::try_from(fetched_bytes)?);
    let grant = reserve(context, bytes)?;
    let fetched = context.fetch(list).await?;
    let complete = later.is_empty();
    let decided = context
        .decode(move |context, scratch| {
            let states = decide(context, clips, &requests, &fetched, &first, scratch)?;
            if complete || states.iter().all(|s| s.selection.is_empty()) {
                return Ok(Decided::Rows(emit(context, &states)?));
            }
            Ok(Decided::Partly(states))
        })
        .await?;
    let states = match decided {
        Decided::Rows(batches) => return Ok((batches, Some(grant))),
        Decided::Partly(states) => states,
    };
    let batches = second_round(context, states, later).await?;
    Ok((batches, Some(grant)))
}

/// Reads the columns that the first round left out.
async fn second_round(
    context: &Arc<ScanContext>,
    states: Vec<ClipState>,
    later: Vec<usize>,
) -> Result<Vec<RecordBatch>> {
    let mut list = FetchList::default();
    let mut requests = Vec::with_capacity(states.len());
    let is_attribute = |c: &usize| *c >= context.plan.spec.table.dimension_count();
    let fetch_later = later
        .iter()
        .copied()
        .filter(is_attribute)
        .collect::<Vec<_>>();
    for state in &states {
        let columns: &[usize] = if state.selection.is_empty() {
            &[]
        } else {
            &fetch_later
        };
        requests.push(ask(context, &state.clip, columns, &mut list).await?);
    }
    let fetched = context.fetch(list).await?;
    context
        .decode(move |context, scratch| {
            let mut states = states;
            for (state, requests) in states.iter_mut().zip(&requests) {
                if !state.selection.is_empty() {
                    state.add(context, requests, &fetched, &later, scratch)?;
                }
            }
            emit(context, &states)
        })
        .await
}

/// Reserves memory for a unit; columns kept for other units are dropped first.
fn reserve(context: &ScanContext, bytes: usize) -> Result<Grant> {
    context.memory.reserve(bytes).or_else(|_| {
        context.coordinates.clear();
        context.memory.reserve(bytes)
    })
}

fn dense_plan(plan: &ScanPlan) -> Result<&DensePlan> {
    match &plan.units {
        Units::Dense(dense) => Ok(dense),
        Units::Sparse(_) => Err(Error::internal("a dense unit of a sparse plan")),
    }
}

/// The attribute requests of one clip, copy by copy.
type ClipRequests = Vec<Vec<ColumnRequest>>;

async fn ask(
    context: &ScanContext,
    clip: &Clip,
    columns: &[usize],
    list: &mut FetchList,
) -> Result<ClipRequests> {
    let spec = &context.plan.spec;
    let attributes = columns.iter().copied();
    let attributes = attributes.filter(|c| *c >= spec.table.dimension_count());
    let attributes = attributes.collect::<Vec<_>>();
    let mut requests = Vec::with_capacity(clip.copies.len());
    for copy in &clip.copies {
        let scan = fragment(&context.plan, copy)?;
        let tiles = scan.tiles(&spec.table.snapshot.storage).await?;
        requests.push(scan.ask(tiles, &attributes, copy.tile, list)?);
    }
    Ok(requests)
}

fn fragment<'a>(plan: &'a ScanPlan, copy: &Copy) -> Result<&'a FragmentScan> {
    plan.fragments
        .get(copy.fragment)
        .ok_or_else(|| Error::internal("a tile names a fragment that was not planned"))
}

/// The bytes of a coordinate.
const COORDINATE_BYTES: usize = 8;

/// About how many bytes the columns of a clip take: the decoded tiles, and the rows that are gathered from them.
fn decoded_bytes(
    context: &ScanContext,
    clip: &Clip,
    requests: &ClipRequests,
    columns: &[usize],
) -> Result<usize> {
    let table = &context.plan.spec.table;
    let gathered = clip.is_gathered();
    let repeated = |column: usize| {
        let mut asked = requests.iter().flatten();
        asked.any(|request| request.column == column && !request.is_stored())
    };
    let of_rows = columns.iter().map(|column| match *column {
        column if column < table.dimension_count() => COORDINATE_BYTES,
        column if gathered || repeated(column) => filled_bytes(table, column),
        _ => 0,
    });
    let row_bytes = of_rows.fold(0, usize::saturating_add);
    let mut bytes = clip.rows.saturating_mul(row_bytes);
    for (copy, requests) in clip.copies.iter().zip(requests) {
        let scan = fragment(&context.plan, copy)?;
        for request in requests.iter().filter(|request| request.is_stored()) {
            let decoded = scan.decoded_bytes(table, request, copy.cells)?;
            bytes = bytes.saturating_add(decoded);
            if gathered {
                bytes = bytes.saturating_add(request.var_bytes());
            }
        }
    }
    Ok(bytes)
}

/// Decodes the first round and decides which cells become rows.
fn decide(
    context: &ScanContext,
    clips: Vec<Clip>,
    requests: &[ClipRequests],
    fetched: &Fetched,
    columns: &[usize],
    scratch: &mut Scratch,
) -> Result<Vec<ClipState>> {
    clips
        .into_iter()
        .zip(requests)
        .map(|(clip, requests)| {
            let in_ranges = select(context, &clip)?;
            let columns = decode(
                context, &clip, &in_ranges, requests, fetched, columns, scratch,
            )?;
            let selection = Selection::all(in_ranges.count());
            let predicate = context.predicate.as_deref().filter(|_| !clip.proven);
            let selection = apply_predicate(predicate, selection, &columns)?;
            Ok(ClipState {
                clip,
                in_ranges,
                selection,
                columns,
            })
        })
        .collect()
}

/// The cells of a clip that the ranges select and that are rows.
fn select(context: &ScanContext, clip: &Clip) -> Result<Selection> {
    let spec = &context.plan.spec;
    let order = dense_plan(&context.plan)?.grid.cell_order();
    let mut mask: Option<Vec<bool>> = None;
    for (d, (lo, hi)) in clip.cells.ranges().enumerate() {
        let ranges = context.subarray.dim(d);
        if ranges.covers_keys(lo, hi) {
            continue;
        }
        let mut inside = vec![false; clip.rows];
        let coordinates = Coordinates::new(&clip.cells, order, d)?;
        coordinates.fill(0, &mut inside, |key| ranges.contains_key(key));
        match &mut mask {
            None => mask = Some(inside),
            Some(mask) => mask.iter_mut().zip(&inside).for_each(|(a, b)| *a &= b),
        }
    }
    if spec.empty_cells == EmptyCells::Skip
        && (clip.copies.is_empty() || clip.pieces.iter().any(|p| clip.is_empty_piece(p)))
    {
        let mut mask = mask.unwrap_or_else(|| vec![true; clip.rows]);
        let mut rest = mask.as_mut_slice();
        for piece in &clip.pieces {
            let Some((cells, after)) = rest.split_at_mut_checked(piece.len) else {
                break;
            };
            if clip.is_empty_piece(piece) {
                cells.fill(false);
            }
            rest = after;
        }
        return Ok(Selection::from_mask(BooleanBuffer::from(mask)));
    }
    Ok(mask.map_or_else(
        || Selection::all(clip.rows),
        |mask| Selection::from_bools(&mask),
    ))
}

/// The rows of each clip as a batch.
fn emit(context: &ScanContext, states: &[ClipState]) -> Result<Vec<RecordBatch>> {
    let with_rows = states.iter().filter(|s| !s.selection.is_empty());
    with_rows
        .map(|state| batch(context, &state.selection, &state.columns))
        .collect()
}
