//! The coordinates of fragments before version 5: one tile holds those of all dimensions (specification: "Data File",
//! history).
//!
//! Such a tile is split, all of the first dimension before all of the second, and each dimension has chunks of its own.
//! The subtle thing: version 1 splits only tiles that a compressor is to gain from; the others hold cell after cell.

use arrow::buffer::MutableBuffer;

use crate::array::types::zeroed;
use crate::error::Result;
use crate::filter::{Pipeline, Scratch, expect_unfiltered_bytes};
use crate::format::filter_list::{Filter, FilterList};
use crate::format::fragment::slots::SEPARATE_DIMENSIONS_SINCE;
use crate::format::version::FormatVersion;

/// All tiles are split since this version.
const ALWAYS_SPLIT_SINCE: u32 = 2;

/// One dimension of a tile of coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoordsTile {
    dimension: usize,
    /// How many there are.
    dimensions: usize,
    split: bool,
}

impl CoordsTile {
    /// Of fragments of this version; `None` if every dimension has tiles of its own.
    pub fn new(
        version: FormatVersion,
        filters: &FilterList,
        dimension: usize,
        dimensions: usize,
    ) -> Option<Self> {
        if version.since(SEPARATE_DIMENSIONS_SINCE) {
            return None;
        }
        Some(Self {
            dimension,
            dimensions,
            split: version.since(ALWAYS_SPLIT_SINCE) || filters.contains(is_compressor),
        })
    }

    /// Bytes of a cell, given those of one coordinate.
    pub fn cell_bytes(self, coordinate_bytes: usize) -> usize {
        coordinate_bytes.saturating_mul(self.dimensions)
    }

    /// Bytes needed besides the result, while a tile is decoded.
    pub fn extra_bytes(self, cells: usize, coordinate_bytes: usize) -> usize {
        match self.split {
            true => 0,
            false => cells.saturating_mul(self.cell_bytes(coordinate_bytes)),
        }
    }

    /// The coordinates of this dimension of `cells` cells.
    pub fn decode(
        self,
        pipeline: &Pipeline,
        filtered: &[u8],
        cells: usize,
        coordinate_bytes: usize,
        scratch: &mut Scratch,
    ) -> Result<MutableBuffer> {
        let bytes = cells.saturating_mul(coordinate_bytes);
        let all_bytes = bytes.saturating_mul(self.dimensions);
        expect_unfiltered_bytes(filtered, all_bytes)?;
        let mut out = zeroed(bytes)?;
        if self.split {
            let before = bytes.saturating_mul(self.dimension);
            pipeline.decode_part(filtered, before, out.as_slice_mut(), scratch)?;
            return Ok(out);
        }
        let mut all = zeroed(all_bytes)?;
        pipeline.decode(filtered, all.as_slice_mut(), scratch)?;
        let coordinates = all.as_slice().chunks_exact(coordinate_bytes.max(1));
        let ours = coordinates
            .skip(self.dimension)
            .step_by(self.dimensions.max(1));
        let places = out.as_slice_mut().chunks_exact_mut(coordinate_bytes.max(1));
        places
            .zip(ours)
            .for_each(|(place, coordinate)| place.copy_from_slice(coordinate));
        Ok(out)
    }
}

fn is_compressor(filter: &Filter) -> bool {
    matches!(
        filter,
        Filter::Gzip
            | Filter::Zstd
            | Filter::Lz4
            | Filter::Bzip2
            | Filter::Rle
            | Filter::DoubleDelta(_)
            | Filter::Delta(_)
            | Filter::Dictionary
    )
}
