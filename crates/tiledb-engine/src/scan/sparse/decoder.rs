//! The fields of one tile, decoded.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};

use super::fragment;
use crate::arrow::{TileStrings, UnfilteredCells};
use crate::error::Result;
use crate::filter::{ChunkChoice, EncodedStrings};
use crate::scan::context::ScanContext;
use crate::scan::plan::sparse_units::TileRef;
use crate::tile::decode::{ColumnDecoder, NeededCells};
use crate::tile::fetch::{FetchedBytes, TileTicket};
use crate::tile::fields::{ColumnRequest, FragmentScan, TileOf};
use crate::tile::needles::{NeedleMatches, NeedleSet};
use crate::tile::selection;
use crate::tile::tile_memory::DecodeScratch;

/// Decodes the fields of a tile.
pub(super) struct TileDecoder<'a> {
    pub context: &'a ScanContext,
    pub scan: &'a FragmentScan,
    pub of: TileOf<'a>,
    fetched: &'a FetchedBytes,
    /// Whether the tile has been counted as decoded.
    counted: bool,
}

impl<'a> TileDecoder<'a> {
    pub fn new(
        context: &'a ScanContext,
        tile: &TileRef,
        fetched: &'a FetchedBytes,
    ) -> Result<Self> {
        Ok(Self {
            context,
            scan: fragment(&context.plan, tile)?,
            of: TileOf {
                table: &context.plan.spec.table,
                tile: tile.tile,
                cells: tile.cells,
            },
            fetched,
            counted: false,
        })
    }

    /// The stored cells of a field, those that the mask selects; an empty mask selects all. The values of other cells
    /// are undefined.
    pub fn cells(
        &mut self,
        request: &ColumnRequest,
        kept: &[bool],
        scratch: &mut DecodeScratch,
    ) -> Result<UnfilteredCells> {
        let any_kept = |cells: Range<usize>| kept.get(cells).is_none_or(selection::any_selected);
        let needed = if kept.is_empty() {
            NeededCells::All
        } else {
            NeededCells::Where(&any_kept)
        };
        self.decode(request, needed, scratch)
    }

    /// The stored cells of a field, decoded as far as a search chooses chunks. The values of cells in other chunks are
    /// undefined.
    pub fn search(
        &mut self,
        request: &ColumnRequest,
        choice: &mut dyn ChunkChoice,
        scratch: &mut DecodeScratch,
    ) -> Result<UnfilteredCells> {
        self.decode(request, NeededCells::Chosen(choice), scratch)
    }

    fn decode(
        &mut self,
        request: &ColumnRequest,
        needed: NeededCells<'_>,
        scratch: &mut DecodeScratch,
    ) -> Result<UnfilteredCells> {
        self.count_decoded();
        let (fetched, of) = (self.fetched, self.of);
        self.scan
            .decode_cells(request, fetched, of, needed, scratch)
    }

    /// The strings of a text field, and where needles begin in their bytes; `None` if no needle occurs.
    pub fn strings(
        &mut self,
        request: &ColumnRequest,
        needles: Option<&NeedleSet>,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<(TileStrings, NeedleMatches)>> {
        self.count_decoded();
        let (fetched, of) = (self.fetched, self.of);
        self.scan
            .decode_strings(request, needles, fetched, of, scratch)
    }

    /// Each distinct string that [`Self::strings`] returned, stored once; `None` if they are not all text.
    pub fn each_string(&self, column: usize, strings: &EncodedStrings) -> Result<Option<ArrayRef>> {
        let each = |decoder: &ColumnDecoder| decoder.each_string(strings);
        self.scan.of_strings(column, self.of, each)
    }

    /// The strings of some cells, out of those that [`Self::strings`] returned.
    pub fn strings_of(
        &self,
        column: usize,
        strings: &TileStrings,
        cells: &[u32],
    ) -> Result<ArrayRef> {
        let some = |decoder: &ColumnDecoder| decoder.strings_of(strings, cells);
        let array = self.scan.of_strings(column, self.of, some)?;
        self.count_bytes(&array);
        Ok(array)
    }

    /// All strings that [`Self::strings`] returned, as an Arrow array.
    pub fn all_strings(&self, column: usize, strings: TileStrings) -> Result<ArrayRef> {
        let all = |decoder: &ColumnDecoder| decoder.all_strings(strings);
        let array = self.scan.of_strings(column, self.of, all)?;
        self.count_bytes(&array);
        Ok(array)
    }

    /// Converts what [`Self::cells`] returned to an Arrow array.
    pub fn to_array(&self, column: usize, cells: UnfilteredCells) -> Result<ArrayRef> {
        let array = self.scan.to_array(column, cells, self.of)?;
        self.count_bytes(&array);
        Ok(array)
    }

    /// A stored column as an Arrow array; the mask selects cells as in [`Self::cells`].
    pub fn column(
        &mut self,
        request: &ColumnRequest,
        kept: &[bool],
        scratch: &mut DecodeScratch,
    ) -> Result<ArrayRef> {
        let cells = self.cells(request, kept, scratch)?;
        self.to_array(request.column, cells)
    }

    /// Cells of a column that the fragment does not store, which all have the same value.
    pub fn repeated(&self, column: usize, cells: usize) -> Result<ArrayRef> {
        let array = self.scan.repeated(self.of.table, column, cells)?;
        self.count_bytes(&array);
        Ok(array)
    }

    /// The times at which cells were written, if the fragment stores them.
    pub fn times(
        &mut self,
        ticket: Option<TileTicket>,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<Vec<u64>>> {
        let Some(ticket) = ticket else {
            return Ok(None);
        };
        self.count_decoded();
        let (fetched, of) = (self.fetched, self.of);
        let times = self.scan.decode_timestamps(ticket, fetched, of, scratch)?;
        Ok(Some(times))
    }

    fn count_decoded(&mut self) {
        if !self.counted {
            self.counted = true;
            self.context.metrics.tiles_decoded.add(1);
            self.context.metrics.cells_decoded.add(self.of.cells);
        }
    }

    fn count_bytes(&self, array: &ArrayRef) {
        let bytes = array.get_array_memory_size();
        self.context.metrics.bytes_decoded.add(bytes);
    }
}
