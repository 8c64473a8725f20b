//! Unfiltering of a tile into cells, before they are converted to Arrow.

use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::NullBuffer;

use super::{ColumnDecoder, NeededCells, OFFSET_BYTES, TileBytes, unexpected_nulls};
use crate::arrow::{CellData, TileBuffer, TileStrings, UnfilteredCells, validity_to_nulls};
use crate::error::{Error, Result, ResultExt};
use crate::filter::{
    Pipeline, SkippedContents, expect_unfiltered_bytes, is_empty_tile, restore_order,
};
use crate::tile::decode::bitsort::{Bitsort, CellOrder};
use crate::tile::needles::{NeedleMatches, NeedleSet};
use crate::tile::tile_memory::DecodeScratch;

impl ColumnDecoder {
    pub(super) fn unfilter(
        &self,
        tile: &TileBytes,
        len: usize,
        var_bytes: usize,
        needed: NeededCells<'_>,
        scratch: &mut DecodeScratch,
    ) -> Result<UnfilteredCells> {
        let nulls = self
            .nulls(tile, len, scratch)
            .context("tile", || "validity")?;
        let data = match (&self.offsets, self.ty.cell_bytes(), self.coords) {
            (Some(offsets), ..) => {
                let data = self.variable(offsets, tile, len, var_bytes, |_| true, scratch)?;
                data.ok_or_else(|| Error::internal("nobody said to stop"))?
            }
            (None, Some(size), Some(coords)) => {
                let stored = &tile.values;
                CellData::Fixed(coords.decode(&self.values, stored, len, size, scratch)?)
            }
            (None, Some(size), None) => {
                expect_unfiltered_bytes(&tile.values, len.saturating_mul(size))?;
                let mut values = scratch.buffer(len.saturating_mul(size))?;
                let (stored, out) = (&tile.values, values.as_slice_mut());
                let filters = &mut scratch.filters;
                let unwanted = if self.ty.takes_any_bytes() {
                    SkippedContents::Anything
                } else {
                    SkippedContents::Zeros
                };
                match needed {
                    NeededCells::All => self.values.decode(stored, out, filters)?,
                    NeededCells::Where(needed) => {
                        let needed = |bytes: Range<usize>| {
                            needed(bytes.start / size.max(1)..bytes.end.div_ceil(size.max(1)))
                        };
                        self.values
                            .decode_wanted(stored, out, needed, unwanted, filters)?;
                    }
                    NeededCells::Chosen(choice) => {
                        self.values
                            .decode_chosen(stored, out, choice, unwanted, filters)?;
                    }
                }
                CellData::Fixed(values)
            }
            (None, None, _) => return Err(Error::internal("a cell's size is not known")),
        };
        Ok(UnfilteredCells { len, data, nulls })
    }

    /// If offsets are stored separately, `look` gets the data, and decides whether to continue.
    fn variable(
        &self,
        offsets_pipeline: &Pipeline,
        tile: &TileBytes,
        len: usize,
        var_bytes: usize,
        look: impl FnOnce(&[u8]) -> bool,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<CellData>> {
        let var = tile
            .var
            .as_ref()
            .ok_or_else(|| Error::internal("the variable-sized data was not fetched"))?;
        let offsets_bytes = len.saturating_mul(OFFSET_BYTES);
        let stub = len > 0 && is_empty_tile(&tile.values)?;
        let values = match &self.values_with_offsets {
            Some(with_offsets) if stub => with_offsets,
            _ => &self.values,
        };
        if values.produces_offsets() {
            let strings = values.decode_strings(var, len, var_bytes, &mut scratch.filters)?;
            return Ok(Some(CellData::Encoded(Arc::new(strings))));
        }
        expect_unfiltered_bytes(&tile.values, offsets_bytes).context("tile", || "offsets")?;
        expect_unfiltered_bytes(var, var_bytes)?;
        let mut data = scratch.buffer(var_bytes)?;
        values.decode(var, data.as_slice_mut(), &mut scratch.filters)?;
        if !look(data.as_slice()) {
            return Ok(None);
        }
        let mut offsets = scratch.buffer(offsets_bytes.saturating_add(OFFSET_BYTES))?;
        let starts = offsets
            .as_slice_mut()
            .get_mut(..offsets_bytes)
            .unwrap_or_default();
        offsets_pipeline
            .decode(&tile.values, starts, &mut scratch.filters)
            .context("tile", || "offsets")?;
        if cfg!(target_endian = "big") {
            let starts = offsets.typed_data_mut::<u64>().iter_mut();
            starts.for_each(|start| *start = start.swap_bytes());
        }
        Ok(Some(CellData::Var { offsets, data }))
    }

    fn nulls(
        &self,
        tile: &TileBytes,
        len: usize,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<NullBuffer>> {
        let validity = self.validity(tile, len, scratch)?;
        Ok(validity.and_then(|validity| validity_to_nulls(validity.as_slice())))
    }

    /// The validity of a tile's cells, one byte for each; `None` if the field has no validity.
    pub fn validity(
        &self,
        tile: &TileBytes,
        len: usize,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<TileBuffer>> {
        let Some(pipeline) = &self.validity else {
            return Ok(None);
        };
        let stored = tile
            .validity
            .as_ref()
            .ok_or_else(|| Error::internal("the validity tile was not fetched"))?;
        expect_unfiltered_bytes(stored, len)?;
        let mut validity = scratch.buffer(len)?;
        pipeline.decode(stored, validity.as_slice_mut(), &mut scratch.filters)?;
        Ok(Some(validity))
    }

    pub(super) fn find_strings(
        &self,
        tile: &TileBytes,
        len: usize,
        var_bytes: usize,
        needles: Option<&NeedleSet>,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<(TileStrings, NeedleMatches)>> {
        let offsets = self
            .offsets
            .as_ref()
            .ok_or_else(|| Error::internal("these cells aren't strings"))?;
        let mut finds = NeedleMatches::Anywhere;
        let look = |data: &[u8]| {
            if let Some(needles) = needles {
                finds = needles.find_in(data);
            }
            finds != NeedleMatches::At(Vec::new())
        };
        let Some(data) = self.variable(offsets, tile, len, var_bytes, look, scratch)? else {
            return Ok(None);
        };
        let nulls = self
            .nulls(tile, len, scratch)
            .context("tile", || "validity")?;
        let strings = TileStrings::new(UnfilteredCells { len, data, nulls })?;
        if strings.nulls().is_some() && !self.ty.nullable() {
            return Err(unexpected_nulls());
        }
        Ok(Some((strings, finds)))
    }

    pub(super) fn restore(
        &self,
        stored: &[u8],
        order: &CellOrder,
        size: usize,
        scratch: &mut DecodeScratch,
    ) -> Result<UnfilteredCells> {
        let len = order.positions().len();
        let bytes = len.saturating_mul(size);
        let mut values = scratch.buffer(bytes)?;
        if self.bitsort.as_ref().is_some_and(Bitsort::is_bare) {
            restore_order(size, order.positions(), stored, values.as_slice_mut())?;
        } else {
            expect_unfiltered_bytes(stored, bytes)?;
            let filters = &mut scratch.filters;
            self.values.decode_in_order(
                stored,
                order.positions(),
                values.as_slice_mut(),
                filters,
            )?;
        }
        order.check_duplicates(values.as_slice(), size)?;
        Ok(UnfilteredCells {
            len,
            data: CellData::Fixed(values),
            nulls: None,
        })
    }
}
