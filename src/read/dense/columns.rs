//! The columns of a dense clip: attributes put together from the copies that supply them, dimensions computed.

use arrow::array::{ArrayData, ArrayRef, MutableArrayData, make_array, new_null_array};
use arrow::buffer::BooleanBuffer;

use super::clip::{Clip, Copy};
use super::{ClipRequests, coordinates, dense_plan, fragment};
use crate::array::box_runs::BoxRuns;
use crate::error::{Error, Result};
use crate::read::fetch::Fetched;
use crate::read::fields::{TileOf, fill_column};
use crate::read::rows::Columns;
use crate::read::scratch::Scratch;
use crate::read::spec::EmptyCells;
use crate::read::stream::ScanContext;

/// The columns of a clip, in the order of its rows: attributes from the copies' tiles, dimensions computed.
pub(super) fn decode(
    context: &ScanContext,
    clip: &Clip,
    requests: &ClipRequests,
    fetched: &Fetched,
    columns: &[usize],
    scratch: &mut Scratch,
) -> Result<Columns> {
    let table = &context.plan.spec.table;
    let decodes = requests.iter().any(|r| !r.is_empty());
    if decodes {
        let cells = clip.copies.iter().map(|copy| copy.cells);
        context.metrics.tiles_decoded.add(clip.copies.len());
        context
            .metrics
            .cells_decoded
            .add(cells.fold(0, usize::saturating_add));
    }
    let mut decoded = Vec::with_capacity(columns.len());
    let mut attribute = 0;
    for column in columns {
        if *column < table.dimension_count() {
            decoded.push((
                *column,
                coordinates::column(context, clip, *column, scratch)?,
            ));
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
                cells: copy.cells,
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

/// The cells of a dense tile inside its fragment's box, if others are outside: what is stored there is padding, whose
/// bytes need not even be valid.
fn padding_excluded(
    context: &ScanContext,
    clip: &Clip,
    copy: &Copy,
) -> Result<Option<BooleanBuffer>> {
    if copy.written.is_none() {
        return Ok(None);
    }
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
