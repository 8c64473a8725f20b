//! The columns of a dense clip: attributes are assembled from the copies that supply them, dimensions are computed.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, MutableArrayData, make_array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::ArrowNativeType;

use super::clip::{ClipPiece, ClipSource, TileClip};
use super::{ClipRequests, dense_plan, fragment};
use crate::array::table::fill_column;
use crate::arrow::{CellData, TileBuffer, UnfilteredCells};
use crate::error::{Error, Result};
use crate::geometry::box_runs::{BoxCoordinates, BoxRuns};
use crate::geometry::key::{NativeKey, with_native};
use crate::memory::budget::MemoryBudget;
use crate::scan::context::{KeptCoordinates, ScanContext};
use crate::scan::rows::DecodedColumns;
use crate::scan::spec::EmptyCells;
use crate::tile::decode::NeededCells;
use crate::tile::fetch::FetchedBytes;
use crate::tile::fields::{ColumnRequest, TileOf};
use crate::tile::selection::Selection;
use crate::tile::tile_memory::DecodeScratch;

/// Cells of the same value are copied from so many at a time.
const SAME_CELLS: usize = 1024;

/// The values that a copy supplies.
enum CopyColumnSource {
    /// Its cells.
    Cells(ArrayRef),
    /// At most [`SAME_CELLS`] of its cells, which all have the same value.
    Same(ArrayRef),
}

impl CopyColumnSource {
    fn array(&self) -> &ArrayRef {
        match self {
            Self::Cells(array) | Self::Same(array) => array,
        }
    }
}

/// The columns of the selected rows of a clip, in their order.
pub(super) fn decode(
    context: &ScanContext,
    clip: &TileClip,
    selection: &Selection,
    requests: &ClipRequests,
    fetched: &FetchedBytes,
    columns: &[usize],
    scratch: &mut DecodeScratch,
) -> Result<DecodedColumns> {
    if selection.is_empty() {
        return Ok(DecodedColumns::new());
    }
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
    let narrowed = clip.narrowed(selection);
    let pieces = narrowed.as_deref().unwrap_or(&clip.pieces);
    let mut decoded = Vec::with_capacity(columns.len());
    let mut attribute = 0;
    for column in columns {
        if *column < table.dimension_count() {
            let coordinates = coordinate_column(context, clip, *column, scratch)?;
            decoded.push((*column, selection.apply(&coordinates)?));
            continue;
        }
        let mut sources = Vec::with_capacity(clip.copies.len());
        for (i, (copy, requests)) in clip.copies.iter().zip(requests).enumerate() {
            let request = requests
                .get(attribute)
                .ok_or_else(|| Error::internal(format!("column {column} was not asked for")))?;
            let wanted = |cells: Range<usize>| clip.wants(pieces, i, &cells);
            sources.push(copied(
                context, clip, copy, request, fetched, &wanted, scratch,
            )?);
        }
        attribute += 1;
        let mut array = gather(context, clip, pieces, *column, &sources)?;
        if narrowed.is_none() {
            array = selection.apply(&array)?;
        }
        context
            .metrics
            .bytes_decoded
            .add(array.get_array_memory_size());
        decoded.push((*column, array));
    }
    Ok(decoded)
}

/// The needed cells of a copy; `rows` is the number of rows of the clip.
fn copied(
    context: &ScanContext,
    clip: &TileClip,
    copy: &ClipSource,
    request: &ColumnRequest,
    fetched: &FetchedBytes,
    wanted: &dyn Fn(Range<usize>) -> bool,
    scratch: &mut DecodeScratch,
) -> Result<CopyColumnSource> {
    let table = &context.plan.spec.table;
    let of = TileOf {
        table,
        tile: copy.tile,
        cells: copy.cells,
    };
    let scan = fragment(&context.plan, copy)?;
    if !request.is_stored() {
        let same = clip.rows.min(SAME_CELLS);
        return Ok(CopyColumnSource::Same(scan.repeated(
            table,
            request.column,
            same,
        )?));
    }
    // A tile that cannot be unfiltered is damaged, and its number of cells may be wrong.
    let needed = || NeededCells::Where(wanted);
    let mut unfilter = || scan.decode_cells(request, fetched, of, needed(), scratch);
    let refused = match scan.to_array(request.column, unfilter()?, of) {
        Ok(array) => return Ok(CopyColumnSource::Cells(array)),
        Err(e) => e,
    };
    let Some(kept) = padding_excluded(context, clip, copy)? else {
        return Err(refused);
    };
    let array = scan.to_array_of_kept(request.column, unfilter()?, of, kept)?;
    Ok(CopyColumnSource::Cells(array))
}

/// The cells of a dense tile that lie inside its fragment's box; `None` if all do. The others are padding, whose bytes
/// need not be valid.
fn padding_excluded(
    context: &ScanContext,
    clip: &TileClip,
    copy: &ClipSource,
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
    let cells = usize::try_from(grid.cells_per_tile())?;
    let _grant = context.memory.reserve(cells)?;
    let mut kept = vec![false; cells];
    for run in BoxRuns::new(grid.extents(), grid.cell_order(), tile.lo(), &written)? {
        if let Some(cells) = kept.get_mut(run.start..run.start + run.len) {
            cells.fill(true);
        }
    }
    Ok(Some(BooleanBuffer::from(kept)))
}

/// Assembles the pieces of a clip; a clip that is one whole tile, or one run of it, is not copied.
fn gather(
    context: &ScanContext,
    clip: &TileClip,
    pieces: &[ClipPiece],
    column: usize,
    sources: &[CopyColumnSource],
) -> Result<ArrayRef> {
    if let ([CopyColumnSource::Cells(source)], [piece]) = (sources, pieces)
        && !clip.is_empty_piece(piece)
    {
        return Ok(source.slice(piece.start, piece.len));
    }
    let longest_empty = pieces
        .iter()
        .filter(|p| clip.is_empty_piece(p))
        .map(|p| p.len)
        .max();
    let mut data = sources
        .iter()
        .map(|s| s.array().to_data())
        .collect::<Vec<ArrayData>>();
    if let Some(len) = longest_empty {
        data.push(empty_cells(context, column, len.min(SAME_CELLS))?.to_data());
    }
    let with_nulls = data.iter().any(|d| d.null_count() > 0);
    let rows = pieces.iter().map(|p| p.len).sum();
    let mut merged = MutableArrayData::new(data.iter().collect(), with_nulls, rows);
    for piece in pieces {
        match sources.get(piece.copy) {
            Some(CopyColumnSource::Cells(_)) => {
                merged.try_extend(piece.copy, piece.start, piece.start + piece.len)
            }
            same => {
                let source = same.map_or(sources.len(), |_| piece.copy);
                let runs = (0..piece.len).step_by(SAME_CELLS);
                let mut lens = runs.map(|start| SAME_CELLS.min(piece.len - start));
                lens.try_for_each(|len| merged.try_extend(source, 0, len))
            }
        }
        .map_err(|e| {
            Error::internal("the copies of a tile cannot be put together").with_source(e)
        })?;
    }
    Ok(make_array(merged.freeze()))
}

/// `len` cells that no fragment wrote.
fn empty_cells(context: &ScanContext, column: usize, len: usize) -> Result<ArrayRef> {
    let spec = &context.plan.spec;
    let ty = spec.table.types.get(column);
    match (spec.empty_cells, ty) {
        (EmptyCells::Null | EmptyCells::Skip, Some(ty)) => Ok(new_null_array(ty.data_type(), len)),
        _ => fill_column(&spec.table, column, len),
    }
}

/// Shorter columns are faster to compute than to look up.
const SMALLEST_KEPT_ROWS: usize = 1024;
/// The values of a dimension over the cells of a clip.
///
/// Tiles in one row of the grid have the same values in all dimensions but one, so most of these columns can be
/// reused. The memory of kept columns is accounted for, and released before a query runs out of memory.
fn coordinate_column(
    context: &ScanContext,
    clip: &TileClip,
    dimension: usize,
    scratch: &DecodeScratch,
) -> Result<ArrayRef> {
    let order = dense_plan(&context.plan)?.grid.cell_order();
    let coordinates = BoxCoordinates::new(&clip.cells, order, dimension)?;
    if clip.rows < SMALLEST_KEPT_ROWS {
        return compute(context, dimension, &coordinates, scratch);
    }
    let columns = &context.coordinates;
    if let Some(column) = columns.get(dimension, &coordinates) {
        return Ok(column);
    }
    let column = compute(context, dimension, &coordinates, scratch)?;
    let bytes = column.get_array_memory_size();
    if let Ok(grant) = context.memory.reserve(bytes) {
        columns.keep(KeptCoordinates {
            dimension,
            coordinates,
            column: Arc::clone(&column),
            bytes,
            grant,
        });
    }
    Ok(column)
}

fn compute(
    context: &ScanContext,
    dimension: usize,
    coordinates: &BoxCoordinates,
    scratch: &DecodeScratch,
) -> Result<ArrayRef> {
    let table = &context.plan.spec.table;
    let missing = || Error::internal(format!("there is no dimension {dimension}"));
    let ty = table.types.get(dimension).ok_or_else(missing)?;
    let schema = &table.snapshot.schema;
    let dimension = schema.dimensions.get(dimension).ok_or_else(missing)?;
    let values = with_native!(
        dimension.datatype,
        T => values::<T>(coordinates, scratch)?,
        _ => return Err(missing())
    );
    let cells = UnfilteredCells {
        len: coordinates.cells(),
        data: CellData::Fixed(values),
        nulls: None,
    };
    ty.to_array(cells)
        .map_err(|e| e.with("dimension", &dimension.name))
}

fn values<T: NativeKey + ArrowNativeType>(
    coordinates: &BoxCoordinates,
    scratch: &DecodeScratch,
) -> Result<TileBuffer> {
    let mut values = scratch.buffer(coordinates.cells().saturating_mul(size_of::<T>()))?;
    coordinates.fill(0, values.typed_data_mut::<T>(), T::from_key);
    if cfg!(target_endian = "big") {
        // Values are written as tiles store them.
        let stored = values.as_slice_mut().chunks_exact_mut(size_of::<T>());
        stored.for_each(<[u8]>::reverse);
    }
    Ok(values)
}
