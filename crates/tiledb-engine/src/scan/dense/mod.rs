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

use self::clip::{ClipSource, TileClip};
use self::columns::decode;
use super::plan::dense::DensePlan;
use super::plan::{PlanUnits, ScanPlan};
use super::rounds::{self, RoundColumns, RoundRequests, TwoRoundUnit};
use super::rows::{DecodedColumns, apply_predicate, batch, keep_selected};
use super::spec::EmptyCells;
use crate::array::table::filled_bytes;
use crate::error::{Error, Result};
use crate::geometry::box_runs::BoxCoordinates;
use crate::geometry::domain::KeyBox;
use crate::memory::budget::Grant;
use crate::scan::context::ScanContext;
use crate::scan::spec::RuntimeCondition;
use crate::tile::fetch::{FetchList, FetchedBytes};
use crate::tile::fields::{ColumnRequest, FragmentScan};
use crate::tile::selection::Selection;
use crate::tile::tile_memory::DecodeScratch;

/// The rows of a unit, one batch for each tile with rows.
pub struct DenseUnitRows {
    /// The batches.
    pub batches: Vec<RecordBatch>,
    /// The boxes of cells that the batches are; empty unless the scan [keeps places](ScanContext::keeping_places).
    pub places: Vec<KeyBox>,
    /// The memory of the batches.
    pub grant: Option<Grant>,
}

/// Reads the space tiles with these indexes, or their cells within a box.
pub async fn read_unit(
    context: &Arc<ScanContext>,
    condition: Option<&RuntimeCondition>,
    tiles: Vec<Vec<u64>>,
    within: Option<&KeyBox>,
) -> Result<DenseUnitRows> {
    let dense = dense_plan(&context.plan)?;
    let clips = tiles
        .iter()
        .map(|tile| {
            TileClip::new(
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
    let columns = RoundColumns::of(context, false);
    let places = match context.keeps_places {
        true => clips.iter().map(|clip| clip.cells.clone()).collect(),
        false => Vec::new(),
    };
    let (batches, grant) = rounds::read(context, ClipRun { clips, columns }).await?;
    if context.keeps_places && places.len() != batches.len() {
        return Err(Error::internal("a scan of whole boxes left out a tile"));
    }
    Ok(DenseUnitRows {
        batches,
        places,
        grant,
    })
}

/// The clips of a unit.
struct ClipRun {
    /// The clips, until they are requested.
    clips: Vec<TileClip>,
    columns: RoundColumns,
}

/// A clip with rows left after the first round.
struct ClipState {
    clip: TileClip,
    /// The cells of the clip that the ranges select.
    in_ranges: Selection,
    /// The cells among these that become rows; at least one.
    selection: Selection,
    columns: DecodedColumns,
}

impl TwoRoundUnit for ClipRun {
    type First = (TileClip, ClipRequests);
    type Part = ClipState;
    type Later = ClipRequests;

    fn columns(&self) -> &RoundColumns {
        &self.columns
    }

    async fn request(
        &mut self,
        context: &ScanContext,
        requests: &mut RoundRequests,
    ) -> Result<Vec<Self::First>> {
        let RoundColumns { first, later } = &self.columns;
        let mut of_clips = Vec::with_capacity(self.clips.len());
        for clip in self.clips.drain(..) {
            let asked = ask(context, &clip, first, &mut requests.first).await?;
            let asked_later = ask(context, &clip, later, &mut requests.later).await?;
            for (asked, columns) in [(&asked, first), (&asked_later, later)] {
                requests.add_decoded(decoded_bytes(context, &clip, asked, columns)?);
            }
            of_clips.push((clip, asked));
        }
        Ok(of_clips)
    }

    fn decide(
        &self,
        context: &ScanContext,
        first: Vec<Self::First>,
        fetched: &FetchedBytes,
        scratch: &mut DecodeScratch,
    ) -> Result<Vec<ClipState>> {
        let mut states = Vec::with_capacity(first.len());
        for (clip, requests) in first {
            let columns = &self.columns.first;
            let in_ranges = select(context, &clip)?;
            let columns = decode(
                context, &clip, &in_ranges, &requests, fetched, columns, scratch,
            )?;
            let selection = Selection::all(in_ranges.count());
            let predicate = context.predicate.as_deref().filter(|_| !clip.proven);
            let selection = apply_predicate(predicate, selection, &columns)?;
            if !selection.is_empty() {
                states.push(ClipState {
                    clip,
                    in_ranges,
                    selection,
                    columns,
                });
            }
        }
        Ok(states)
    }

    async fn request_later(
        &self,
        context: &ScanContext,
        state: &ClipState,
        list: &mut FetchList,
    ) -> Result<ClipRequests> {
        ask(context, &state.clip, &self.columns.later, list).await
    }

    fn add_later(
        &self,
        context: &ScanContext,
        state: &mut ClipState,
        requests: &ClipRequests,
        fetched: &FetchedBytes,
        scratch: &mut DecodeScratch,
    ) -> Result<()> {
        let selected = keep_selected(&context.plan, &mut state.selection, &mut state.columns)?;
        let selection = state.in_ranges.and(&selected)?;
        let (clip, columns) = (&state.clip, &self.columns.later);
        let columns = decode(
            context, clip, &selection, requests, fetched, columns, scratch,
        )?;
        state.columns.extend(columns);
        Ok(())
    }

    fn batch(context: &ScanContext, state: &ClipState) -> Result<RecordBatch> {
        batch(context, &state.selection, &state.columns)
    }
}

fn dense_plan(plan: &ScanPlan) -> Result<&DensePlan> {
    match &plan.units {
        PlanUnits::Dense(dense) => Ok(dense),
        PlanUnits::Sparse(_) => Err(Error::internal("a dense unit of a sparse plan")),
    }
}

/// The attribute requests of one clip, copy by copy.
type ClipRequests = Vec<Vec<ColumnRequest>>;

async fn ask(
    context: &ScanContext,
    clip: &TileClip,
    columns: &[usize],
    list: &mut FetchList,
) -> Result<ClipRequests> {
    let spec = &context.plan.spec;
    let attributes = columns
        .iter()
        .copied()
        .filter(|c| *c >= spec.table.dimension_count())
        .collect::<Vec<_>>();
    let mut requests = Vec::with_capacity(clip.copies.len());
    for copy in &clip.copies {
        let scan = fragment(&context.plan, copy)?;
        let tiles = scan.tiles(&spec.table.snapshot.storage).await?;
        requests.push(scan.ask(tiles, &attributes, copy.tile, list)?);
    }
    Ok(requests)
}

fn fragment<'a>(plan: &'a ScanPlan, copy: &ClipSource) -> Result<&'a FragmentScan> {
    plan.fragments
        .get(copy.fragment)
        .ok_or_else(|| Error::internal("a tile names a fragment that was not planned"))
}

/// The bytes of a coordinate.
const COORDINATE_BYTES: usize = 8;

/// About how many bytes the columns of a clip take: the decoded tiles, and the rows that are gathered from them.
fn decoded_bytes(
    context: &ScanContext,
    clip: &TileClip,
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

/// The cells of a clip that the ranges select and that are rows.
fn select(context: &ScanContext, clip: &TileClip) -> Result<Selection> {
    let spec = &context.plan.spec;
    let order = dense_plan(&context.plan)?.grid.cell_order();
    let mut mask: Option<Vec<bool>> = None;
    for (d, (lo, hi)) in clip.cells.ranges().enumerate() {
        let ranges = context.subarray.dim(d);
        if ranges.covers_keys(lo, hi) {
            continue;
        }
        let mut inside = vec![false; clip.rows];
        let coordinates = BoxCoordinates::new(&clip.cells, order, d)?;
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
