//! Reading one dense unit: a run of space tiles.
//!
//! Of each tile only the clip is read, its part inside the subarray and the non-empty domain. The newest fragment
//! that covers the clip supplies it without any merging; where none does, the cells are painted, oldest fragment
//! first, and what no fragment covers is the fill value (specification: "Reading dense arrays"; every attribute
//! of a cell comes from the last fragment whose box contains it). Rows come out in the stored order.

use std::sync::Arc;

use arrow::array::{
    ArrayData, ArrayRef, MutableArrayData, RecordBatch, make_array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, MutableBuffer};

use super::fetch::{FetchList, Fetched};
use super::fields::{ColumnRequest, FragmentScan, TileOf, fill_column};
use super::memory::Grant;
use super::plan::dense::{DenseFragment, DensePlan};
use super::plan::{ScanPlan, Units};
use super::rows::{Columns, apply_predicate, batch};
use super::selection::Selection;
use super::spec::EmptyCells;
use super::stream::ScanContext;
use crate::array::box_runs::{BoxRuns, Coordinates};
use crate::array::domain::KeyBox;
use crate::array::fragment::TileIdx;
use crate::array::key::{Native, with_native};
use crate::array::types::{CellData, Cells};
use crate::error::{Error, Result};
use crate::filter::Scratch;

/// A fragment's copy of a space tile.
#[derive(Debug, Clone, Copy)]
struct Copy {
    /// Index into the plan's fragments.
    fragment: usize,
    tile: TileIdx,
}

/// The part of a space tile that becomes rows.
struct Clip {
    /// The cells.
    cells: KeyBox,
    /// The copies that supply cells, oldest first.
    copies: Vec<Copy>,
    /// Runs of cells, one copy each, in stored order.
    pieces: Vec<Piece>,
    rows: usize,
}

/// Cells that follow each other in the tile and come from one copy.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Index into the clip's copies; as many as there are copies: never written.
    copy: usize,
    /// The first cell's number within the tile.
    start: usize,
    len: usize,
}

/// A clip after the first round.
struct ClipState {
    clip: Clip,
    selection: Selection,
    columns: Columns,
}

/// Reads the tiles with these indexes.
pub async fn read_unit(
    context: &Arc<ScanContext>,
    tiles: Vec<Vec<u64>>,
) -> Result<(Vec<RecordBatch>, Option<Grant>)> {
    let spec = &context.plan.spec;
    let dense = dense_plan(&context.plan)?;
    let clips = tiles
        .iter()
        .map(|tile| Clip::new(dense, tile, &context.plan))
        .filter_map(Result::transpose)
        .collect::<Result<Vec<_>>>()?;
    let is_attribute = |c: &usize| *c >= spec.table.dimension_count();
    let first = match spec.predicate {
        Some(_) => spec.predicate_columns().to_vec(),
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
        let columns = first.len() + later.len();
        bytes = bytes.saturating_add(decoded_bytes(context, clip, &asked, columns)?);
        bytes = bytes.saturating_add(decoded_bytes(context, clip, &asked_later, 0)?);
        requests.push(asked);
    }
    let fetched_bytes = list.bytes().saturating_add(later_list.bytes());
    let bytes = bytes.saturating_add(usize::try_from(fetched_bytes)?);
    let grant = context.memory.reserve(bytes)?;
    let storage = &spec.table.snapshot.storage;
    let fetched = list.fetch(storage, &context.metrics).await?;
    let states = context
        .decode(move |context, scratch| {
            decide(context, clips, &requests, &fetched, &first, scratch)
        })
        .await?;
    if later.is_empty() || states.iter().all(|s| s.selection.is_empty()) {
        let batches = context
            .decode(move |context, _| emit(context, &states))
            .await?;
        return Ok((batches, Some(grant)));
    }

    let mut list = FetchList::default();
    let mut requests = Vec::with_capacity(states.len());
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
    let fetched = list.fetch(storage, &context.metrics).await?;
    let batches = context
        .decode(move |context, scratch| {
            let mut states = states;
            for (state, requests) in states.iter_mut().zip(&requests) {
                if !state.selection.is_empty() {
                    let columns =
                        decode(context, &state.clip, requests, &fetched, &later, scratch)?;
                    state.columns.extend(columns);
                }
            }
            emit(context, &states)
        })
        .await?;
    Ok((batches, Some(grant)))
}

fn dense_plan(plan: &ScanPlan) -> Result<&DensePlan> {
    match &plan.units {
        Units::Dense(dense) => Ok(dense),
        Units::Sparse(_) => Err(Error::internal("a dense unit of a sparse plan")),
    }
}

impl Clip {
    /// The clip of a tile; `None` if no row lies in it.
    fn new(dense: &DensePlan, tile: &[u64], plan: &ScanPlan) -> Result<Option<Self>> {
        let Some(cells) = dense.grid.tile_box(tile).intersect(&dense.bounds) else {
            return Ok(None);
        };
        let Some(cells) = shrink(&cells, plan) else {
            return Ok(None);
        };
        let tile_lo = dense.grid.tile_lo(tile);
        let runs = BoxRuns::new(
            dense.grid.extents(),
            dense.grid.cell_order(),
            &tile_lo,
            &cells,
        )?;
        let rows = runs.cells();
        let mut copies = Vec::new();
        let mut boxes = Vec::new();
        for (i, fragment) in dense.fragments.iter().enumerate().rev() {
            let Some(part) = fragment.domain.intersect(&cells) else {
                continue;
            };
            copies.push(Copy {
                fragment: i,
                tile: stored_tile(fragment, tile)?,
            });
            let covers = part == cells;
            boxes.push(part);
            if covers {
                break;
            }
        }
        copies.reverse();
        boxes.reverse();
        let one_covers = boxes.len() == 1 && boxes.first() == Some(&cells);
        let pieces = if one_covers || boxes.is_empty() {
            runs.map(|run| Piece {
                copy: 0,
                start: run.start,
                len: run.len,
            })
            .collect()
        } else {
            paint(dense, &tile_lo, &boxes, runs)?
        };
        Ok(Some(Self {
            cells,
            copies,
            pieces,
            rows,
        }))
    }

    /// Cells that no fragment wrote.
    fn is_empty_piece(&self, piece: &Piece) -> bool {
        piece.copy >= self.copies.len()
    }
}

/// The number of a space tile in a fragment's own numbering.
fn stored_tile(fragment: &DenseFragment, tile: &[u64]) -> Result<TileIdx> {
    fragment
        .tiles
        .position(tile)
        .map(TileIdx)
        .ok_or_else(|| Error::internal("a fragment does not hold a tile of its own domain"))
}

/// The smallest box around the selected cells: ranges that select one interval cut the box itself.
fn shrink(cells: &KeyBox, plan: &ScanPlan) -> Option<KeyBox> {
    let (mut lo, mut hi) = (cells.lo().to_vec(), cells.hi().to_vec());
    for (d, (lo, hi)) in lo.iter_mut().zip(&mut hi).enumerate() {
        let touched = plan.spec.subarray.dim(d).overlapping_keys(*lo, *hi);
        *lo = touched.first()?.lo.max(*lo);
        *hi = touched.last()?.hi.min(*hi);
    }
    KeyBox::new(lo, hi)
}

/// Cuts the runs of a clip by which copy supplies them: later boxes paint over earlier ones.
fn paint(
    dense: &DensePlan,
    tile_lo: &[u64],
    boxes: &[KeyBox],
    runs: BoxRuns,
) -> Result<Vec<Piece>> {
    let never = u32::try_from(boxes.len())?;
    let cells = usize::try_from(dense.grid.cells_per_tile())?;
    let mut owner = Vec::new();
    owner
        .try_reserve_exact(cells)
        .map_err(|e| Error::out_of_memory(format!("a tile of {cells} cells")).with_source(e))?;
    owner.resize(cells, never);
    for (copy, part) in boxes.iter().enumerate() {
        let copy = u32::try_from(copy)?;
        let grid = &dense.grid;
        for run in BoxRuns::new(grid.extents(), grid.cell_order(), tile_lo, part)? {
            if let Some(cells) = owner.get_mut(run.start..run.start + run.len) {
                cells.fill(copy);
            }
        }
    }
    let mut pieces = Vec::new();
    for run in runs {
        let owners = owner
            .get(run.start..run.start + run.len)
            .unwrap_or_default();
        let mut start = run.start;
        for part in owners.chunk_by(|a, b| a == b) {
            let copy = part.first().map_or(usize::MAX, |copy| *copy as usize);
            pieces.push(Piece {
                copy,
                start,
                len: part.len(),
            });
            start += part.len();
        }
    }
    Ok(pieces)
}

/// The requests of one clip: per copy, the attributes asked for.
type ClipRequests = Vec<Vec<ColumnRequest>>;

async fn ask(
    context: &ScanContext,
    clip: &Clip,
    columns: &[usize],
    list: &mut FetchList,
) -> Result<ClipRequests> {
    let spec = &context.plan.spec;
    let mut requests = Vec::with_capacity(clip.copies.len());
    for copy in &clip.copies {
        let scan = fragment(&context.plan, copy)?;
        let tiles = scan.tiles(&spec.table.snapshot.storage).await?;
        let attributes = columns
            .iter()
            .filter(|c| **c >= spec.table.dimension_count());
        requests.push(
            attributes
                .map(|column| scan.ask(tiles, *column, copy.tile, list))
                .collect::<Result<Vec<_>>>()?,
        );
    }
    Ok(requests)
}

fn fragment<'a>(plan: &'a ScanPlan, copy: &Copy) -> Result<&'a FragmentScan> {
    plan.fragments
        .get(copy.fragment)
        .ok_or_else(|| Error::internal("a tile names a fragment that was not planned"))
}

fn decoded_bytes(
    context: &ScanContext,
    clip: &Clip,
    requests: &ClipRequests,
    columns: usize,
) -> Result<usize> {
    let cells = usize::try_from(dense_plan(&context.plan)?.grid.cells_per_tile())?;
    let mut bytes = clip.rows.saturating_mul(8).saturating_mul(columns);
    for (copy, requests) in clip.copies.iter().zip(requests) {
        let scan = fragment(&context.plan, copy)?;
        for request in requests {
            bytes = bytes.saturating_add(scan.decoded_bytes(request, cells)?);
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
            let columns = decode(context, &clip, requests, fetched, columns, scratch)?;
            let selection = select(context, &clip)?;
            let selection = apply_predicate(&context.plan, selection, &columns)?;
            Ok(ClipState {
                clip,
                selection,
                columns,
            })
        })
        .collect()
}

/// The cells of a clip that the ranges select, and that count as rows.
fn select(context: &ScanContext, clip: &Clip) -> Result<Selection> {
    let spec = &context.plan.spec;
    let order = dense_plan(&context.plan)?.grid.cell_order();
    let mut mask: Option<Vec<bool>> = None;
    for (d, (lo, hi)) in clip.cells.ranges().enumerate() {
        let ranges = spec.subarray.dim(d);
        if ranges.covers_keys(lo, hi) {
            continue;
        }
        let mut inside = Vec::new();
        let coordinates = Coordinates::new(&clip.cells, order, d)?;
        coordinates.fill(0, clip.rows, &mut inside, |key| ranges.contains_key(key));
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

/// The columns of a clip, in the order of its rows: attributes from the copies' tiles, dimensions computed.
fn decode(
    context: &ScanContext,
    clip: &Clip,
    requests: &ClipRequests,
    fetched: &Fetched,
    columns: &[usize],
    scratch: &mut Scratch,
) -> Result<Columns> {
    let table = &context.plan.spec.table;
    let cells = usize::try_from(dense_plan(&context.plan)?.grid.cells_per_tile())?;
    let decodes = requests.iter().any(|r| !r.is_empty());
    if decodes {
        context.metrics.tiles_decoded.add(clip.copies.len());
        context
            .metrics
            .cells_decoded
            .add(cells.saturating_mul(clip.copies.len()));
    }
    let mut decoded = Vec::with_capacity(columns.len());
    let mut attribute = 0;
    for column in columns {
        if *column < table.dimension_count() {
            decoded.push((*column, coordinates(context, clip, *column)?));
            continue;
        }
        let mut sources = Vec::with_capacity(clip.copies.len());
        for (copy, requests) in clip.copies.iter().zip(requests) {
            let request = requests
                .get(attribute)
                .ok_or_else(|| Error::internal(format!("column {column} was not asked for")))?;
            let of = TileOf {
                table,
                tile: copy.tile,
                cells,
            };
            let scan = fragment(&context.plan, copy)?;
            let array = match scan.decode(request, fetched, of, scratch) {
                // What cannot even be unfiltered is damage, and the number of its cells may be a lie.
                Err(e) if scan.decode_cells(request, fetched, of, scratch).is_err() => {
                    return Err(e);
                }
                Err(e) => match padding_excluded(context, clip, copy)? {
                    Some(kept) => scan.decode_kept(request, fetched, of, scratch, kept)?,
                    None => return Err(e),
                },
                decoded => decoded?,
            };
            sources.push(array);
        }
        attribute += 1;
        let array = gather(context, clip, *column, &sources)?;
        context
            .metrics
            .bytes_decoded
            .add(array.get_array_memory_size());
        decoded.push((*column, array));
    }
    Ok(decoded)
}

/// The cells of a tile inside its fragment's box, if others are outside: what is stored there is padding, whose
/// bytes need not even be valid.
fn padding_excluded(
    context: &ScanContext,
    clip: &Clip,
    copy: &Copy,
) -> Result<Option<BooleanBuffer>> {
    let dense = dense_plan(&context.plan)?;
    let grid = &dense.grid;
    let tile = clip
        .cells
        .ranges()
        .enumerate()
        .map(|(d, (lo, _))| grid.tile_of(d, lo));
    let tile = grid.tile_box(&tile.collect::<Vec<_>>());
    let written = dense
        .fragments
        .get(copy.fragment)
        .and_then(|f| f.domain.intersect(&tile));
    let Some(written) = written.filter(|written| written.cells() != Some(grid.cells_per_tile()))
    else {
        return Ok(None);
    };
    let mut kept = vec![false; usize::try_from(grid.cells_per_tile())?];
    for run in BoxRuns::new(grid.extents(), grid.cell_order(), tile.lo(), &written)? {
        if let Some(cells) = kept.get_mut(run.start..run.start + run.len) {
            cells.fill(true);
        }
    }
    Ok(Some(BooleanBuffer::from(kept)))
}

/// Puts the pieces of a clip together; a clip that is a whole tile, or one run of it, is not copied.
fn gather(
    context: &ScanContext,
    clip: &Clip,
    column: usize,
    sources: &[ArrayRef],
) -> Result<ArrayRef> {
    if let ([source], [piece]) = (sources, clip.pieces.as_slice())
        && !clip.is_empty_piece(piece)
    {
        return Ok(source.slice(piece.start, piece.len));
    }
    let longest_empty = clip
        .pieces
        .iter()
        .filter(|p| clip.is_empty_piece(p))
        .map(|p| p.len)
        .max();
    let mut data = sources
        .iter()
        .map(|s| s.to_data())
        .collect::<Vec<ArrayData>>();
    if let Some(len) = longest_empty {
        data.push(empty_cells(context, column, len)?.to_data());
    }
    let with_nulls = data.iter().any(|d| d.null_count() > 0);
    let mut merged = MutableArrayData::new(data.iter().collect(), with_nulls, clip.rows);
    for piece in &clip.pieces {
        if clip.is_empty_piece(piece) {
            merged.try_extend(sources.len(), 0, piece.len)
        } else {
            merged.try_extend(piece.copy, piece.start, piece.start + piece.len)
        }
        .map_err(|e| {
            Error::internal("the copies of a tile cannot be put together").with_source(e)
        })?;
    }
    Ok(make_array(merged.freeze()))
}

/// `len` cells that were never written.
fn empty_cells(context: &ScanContext, column: usize, len: usize) -> Result<ArrayRef> {
    let spec = &context.plan.spec;
    let ty = spec.table.types.get(column);
    match (spec.empty_cells, ty) {
        (EmptyCells::Null | EmptyCells::Skip, Some(ty)) => Ok(new_null_array(ty.data_type(), len)),
        _ => fill_column(&spec.table, column, len),
    }
}

/// The values of a dimension over the cells of a clip.
fn coordinates(context: &ScanContext, clip: &Clip, column: usize) -> Result<ArrayRef> {
    let table = &context.plan.spec.table;
    let missing = || Error::internal(format!("there is no dimension {column}"));
    let dimension = table
        .snapshot
        .schema
        .dimensions
        .get(column)
        .ok_or_else(missing)?;
    let ty = table.types.get(column).ok_or_else(missing)?;
    let order = dense_plan(&context.plan)?.grid.cell_order();
    let coordinates = Coordinates::new(&clip.cells, order, column)?;
    let values = with_native!(
        dimension.datatype,
        T => {
            let mut values: Vec<T> = Vec::new();
            coordinates.fill(0, clip.rows, &mut values, T::from_key);
            MutableBuffer::from(values)
        },
        _ => return Err(missing())
    );
    let cells = Cells {
        len: clip.rows,
        data: CellData::Fixed(values),
        nulls: None,
    };
    ty.to_array(cells)
        .map_err(|e| e.with("dimension", &dimension.name))
}

/// The rows of each clip as a batch.
fn emit(context: &ScanContext, states: &[ClipState]) -> Result<Vec<RecordBatch>> {
    let with_rows = states.iter().filter(|s| !s.selection.is_empty());
    with_rows
        .map(|state| batch(context, &state.selection, &state.columns))
        .collect()
}
