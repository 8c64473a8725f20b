//! Requests for tiles: a [`ColumnRequest`] asks for one tile of a column, and a fragment decodes what was fetched for
//! it.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::{BooleanBuffer, NullBuffer};

use super::{ColumnSource, FragmentScan, FragmentTiles};
use crate::array::fragment::TileIdx;
use crate::array::table::{ArrayTable, fill_column, filled_bytes};
use crate::arrow::{TileStrings, UnfilteredCells, repeat};
use crate::error::{Error, Result};
use crate::tile::coordinates::MovedTile;
use crate::tile::decode::{ColumnDecoder, NeededCells, cell_numbers_pipeline, decode_u64};
use crate::tile::fetch::{FetchList, FetchedBytes, TileTicket};
use crate::tile::needles::{NeedleMatches, NeedleSet};
use crate::tile::tile_memory::DecodeScratch;

/// A request for one tile of a column.
#[derive(Debug, Clone)]
pub struct ColumnRequest {
    /// The table column.
    pub column: usize,
    /// Where its bytes will be, and the unfiltered size of its variable-sized data; `None` for fill values.
    stored: Option<(TileTicket, usize)>,
    /// The tile's order of cells, if bitsort moved them.
    moved: Option<Arc<MovedTile>>,
}

impl ColumnRequest {
    /// Whether the fragment stores it.
    pub fn is_stored(&self) -> bool {
        self.stored.is_some()
    }

    /// The unfiltered size of its variable-sized data.
    pub fn var_bytes(&self) -> usize {
        self.stored.map_or(0, |(_, var_bytes)| var_bytes)
    }
}

/// The tile that is decoded, and its table.
#[derive(Debug, Clone, Copy)]
pub struct TileOf<'a> {
    /// The array as a table.
    pub table: &'a ArrayTable,
    /// The tile.
    pub tile: TileIdx,
    /// Number of cells in it.
    pub cells: usize,
}

impl FragmentScan {
    /// Requests a tile of some columns.
    pub fn ask(
        &self,
        tiles: &FragmentTiles,
        columns: &[usize],
        tile: TileIdx,
        list: &mut FetchList,
    ) -> Result<Vec<ColumnRequest>> {
        let mut requests = Vec::with_capacity(columns.len());
        let mut moved = None;
        for column in columns {
            let mut request = ColumnRequest {
                column: *column,
                stored: None,
                moved: None,
            };
            if let ColumnSource::Stored { decoder, .. } = self.source(*column)? {
                let field = tiles.column(*column).ok_or_else(|| {
                    Error::internal(format!("the tiles of column {column} were not loaded"))
                })?;
                request.stored = Some((list.tile(field, tile)?, field.var_bytes(tile)?));
                if decoder.bitsort().is_some() {
                    if moved.is_none() {
                        moved = Some(Arc::new(MovedTile::ask(&tiles.coordinates, tile, list)?));
                    }
                    request.moved.clone_from(&moved);
                }
            }
            requests.push(request);
        }
        Ok(requests)
    }

    /// About how many bytes the decoded tile will take.
    pub fn decoded_bytes(
        &self,
        table: &ArrayTable,
        request: &ColumnRequest,
        cells: usize,
    ) -> Result<usize> {
        Ok(match (self.source(request.column)?, request.stored) {
            (ColumnSource::Stored { decoder, .. }, Some((_, var_bytes))) => {
                decoder.decoded_bytes(cells, var_bytes)
            }
            _ => cells.saturating_mul(filled_bytes(table, request.column)),
        })
    }

    /// Cells of a column that the fragment does not store, which all have the same value.
    pub fn repeated(&self, table: &ArrayTable, column: usize, cells: usize) -> Result<ArrayRef> {
        match self.source(column)? {
            ColumnSource::Stored { .. } => Err(Error::internal("stored values are not the same")),
            ColumnSource::Constant(value) => repeat(value, cells),
            ColumnSource::Fill => fill_column(table, column, cells),
        }
    }

    /// Unfilters a tile and converts it to Arrow.
    pub fn decode(
        &self,
        request: &ColumnRequest,
        fetched: &FetchedBytes,
        of: TileOf<'_>,
        scratch: &mut DecodeScratch,
    ) -> Result<ArrayRef> {
        match (self.source(request.column)?, request.stored) {
            (ColumnSource::Stored { decoder, .. }, Some(_)) => self
                .decode_cells(request, fetched, of, NeededCells::All, scratch)
                .and_then(|cells| decoder.to_array(cells).map_err(|e| self.locate(e, of.tile))),
            _ => self.repeated(of.table, request.column, of.cells),
        }
    }

    /// Unfilters a tile without converting it to Arrow; the values of cells that are not needed are undefined.
    pub fn decode_cells(
        &self,
        request: &ColumnRequest,
        fetched: &FetchedBytes,
        of: TileOf<'_>,
        needed: NeededCells<'_>,
        scratch: &mut DecodeScratch,
    ) -> Result<UnfilteredCells> {
        let (ColumnSource::Stored { decoder, .. }, Some((ticket, var_bytes))) =
            (self.source(request.column)?, request.stored)
        else {
            return Err(Error::internal("values that are not stored are no cells"));
        };
        let tile = fetched.tile(ticket)?;
        let cells = match request.moved.as_ref().zip(decoder.bitsort()) {
            Some((moved, bitsort)) => moved
                .order(bitsort, fetched, of.cells, self.duplicates())
                .and_then(|order| decoder.decode_moved(&tile, order, scratch)),
            None => decoder.decode_cells(&tile, of.cells, var_bytes, needed, scratch),
        };
        cells.map_err(|e| self.locate(e, of.tile))
    }

    /// The decoder of a column, if its strings can be searched.
    fn text(&self, request: &ColumnRequest) -> Option<&ColumnDecoder> {
        match self.source(request.column) {
            Ok(ColumnSource::Stored { decoder, .. }) => {
                let plain = request.is_stored() && request.moved.is_none();
                (plain && decoder.is_text()).then_some(decoder)
            }
            _ => None,
        }
    }

    /// Whether a column is stored as text, whose bytes can be searched.
    pub fn is_text(&self, request: &ColumnRequest) -> bool {
        self.text(request).is_some()
    }

    /// The strings of a tile of text, and where needles begin in its data; `None` if no needle occurs.
    pub fn decode_strings(
        &self,
        request: &ColumnRequest,
        needles: Option<&NeedleSet>,
        fetched: &FetchedBytes,
        of: TileOf<'_>,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<(TileStrings, NeedleMatches)>> {
        let (Some(decoder), Some((ticket, var_bytes))) = (self.text(request), request.stored)
        else {
            return Err(Error::internal("a column is not stored as text"));
        };
        let tile = fetched.tile(ticket)?;
        decoder
            .decode_strings(&tile, of.cells, var_bytes, needles, scratch)
            .map_err(|e| self.locate(e, of.tile))
    }

    /// Applies `of_strings` to the strings of a tile.
    pub fn of_strings<T>(
        &self,
        column: usize,
        of: TileOf<'_>,
        of_strings: impl FnOnce(&ColumnDecoder) -> Result<T>,
    ) -> Result<T> {
        match self.source(column)? {
            ColumnSource::Stored { decoder, .. } => {
                of_strings(decoder).map_err(|e| self.locate(e, of.tile))
            }
            _ => Err(Error::internal("values that are not stored aren't strings")),
        }
    }

    /// Whether the chunks of a column's tiles can be decoded selectively.
    pub fn can_be_searched(&self, request: &ColumnRequest) -> bool {
        match self.source(request.column) {
            Ok(ColumnSource::Stored { decoder, .. }) => {
                request.is_stored() && decoder.can_be_searched()
            }
            _ => false,
        }
    }

    /// Converts the result of [`Self::decode_cells`] to Arrow.
    pub fn to_array(
        &self,
        column: usize,
        cells: UnfilteredCells,
        of: TileOf<'_>,
    ) -> Result<ArrayRef> {
        match self.source(column)? {
            ColumnSource::Stored { decoder, .. } => {
                decoder.to_array(cells).map_err(|e| self.locate(e, of.tile))
            }
            _ => Err(Error::internal("values that are not stored are no cells")),
        }
    }

    /// As [`Self::to_array`], but cells that are not kept come out as NULL without being converted.
    pub fn to_array_of_kept(
        &self,
        column: usize,
        mut cells: UnfilteredCells,
        of: TileOf<'_>,
        kept: BooleanBuffer,
    ) -> Result<ArrayRef> {
        let Some(ty) = of.table.types.get(column) else {
            return Err(Error::internal("a column has no type"));
        };
        cells.nulls = NullBuffer::union(cells.nulls.as_ref(), Some(&NullBuffer::new(kept)));
        ty.to_array(cells).map_err(|e| self.locate(e, of.tile))
    }

    /// Requests the timestamps of the cells of a tile, if the fragment has them and the scan needs them.
    pub fn ask_timestamps(
        &self,
        tiles: &FragmentTiles,
        tile: TileIdx,
        list: &mut FetchList,
    ) -> Result<Option<TileTicket>> {
        tiles
            .timestamps()
            .map(|field| list.tile(field, tile))
            .transpose()
    }

    /// Requests the times at which the cells of a tile were deleted, if the fragment records them.
    pub fn ask_delete_times(
        &self,
        tiles: &FragmentTiles,
        tile: TileIdx,
        list: &mut FetchList,
    ) -> Result<Option<TileTicket>> {
        tiles
            .delete_times()
            .map(|field| list.tile(field, tile))
            .transpose()
    }

    /// The timestamps of the cells of a tile, or the times at which they were deleted.
    pub fn decode_timestamps(
        &self,
        ticket: TileTicket,
        fetched: &FetchedBytes,
        of: TileOf<'_>,
        scratch: &mut DecodeScratch,
    ) -> Result<Vec<u64>> {
        let fragment = &self.fragment;
        let pipeline = cell_numbers_pipeline(
            &fragment.schema,
            fragment.footer.version,
            of.table.snapshot.storage.encryption_key(),
        )?;
        decode_u64(&pipeline, &fetched.tile(ticket)?.values, of.cells, scratch)
            .map_err(|e| self.locate(e.with("field", "timestamps"), of.tile))
    }

    fn locate(&self, error: Error, tile: TileIdx) -> Error {
        error
            .with("data tile", tile.0)
            .with("fragment", &self.fragment.name.name)
    }
}
