//! Coordinates in fragments before version 5, where one tile holds those of all dimensions (specification: "Data File",
//! history).
//!
//! Such a tile is split: all of the first dimension come before all of the second, and each dimension has its own
//! chunks. The subtle thing: version 1 splits only tiles with a compressor; the others are stored cell after cell.

use crate::arrow::TileBuffer;
use crate::error::Result;
use crate::filter::{Pipeline, expect_unfiltered_bytes};
use crate::format::filter_list::{Filter, FilterList};
use crate::format::fragment::slots::SEPARATE_DIMENSIONS_SINCE;
use crate::format::version::FormatVersion;
use crate::tile::tile_memory::DecodeScratch;

/// Tiles are always split since this version.
const ALWAYS_SPLIT_SINCE: u32 = 2;

/// One dimension of a tile that holds the coordinates of all dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoordsTile {
    dimension: usize,
    /// The number of dimensions.
    dimensions: usize,
    split: bool,
}

impl CoordsTile {
    /// For fragments of this version; `None` if every dimension has its own tiles.
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

    /// Size of a cell, given the size of one coordinate.
    pub fn cell_bytes(self, coordinate_bytes: usize) -> usize {
        coordinate_bytes.saturating_mul(self.dimensions)
    }

    /// Bytes needed in addition to the result, while a tile is decoded.
    pub fn extra_bytes(self, cells: usize, coordinate_bytes: usize) -> usize {
        if self.split {
            0
        } else {
            cells.saturating_mul(self.cell_bytes(coordinate_bytes))
        }
    }

    /// Decodes the coordinates of this dimension for `cells` cells.
    pub fn decode(
        self,
        pipeline: &Pipeline,
        filtered: &[u8],
        cells: usize,
        coordinate_bytes: usize,
        scratch: &mut DecodeScratch,
    ) -> Result<TileBuffer> {
        let bytes = cells.saturating_mul(coordinate_bytes);
        let all_bytes = bytes.saturating_mul(self.dimensions);
        expect_unfiltered_bytes(filtered, all_bytes)?;
        let mut out = scratch.buffer(bytes)?;
        if self.split {
            let before = bytes.saturating_mul(self.dimension);
            pipeline.decode_part(filtered, before, out.as_slice_mut(), &mut scratch.filters)?;
            return Ok(out);
        }
        let mut all = scratch.buffer(all_bytes)?;
        pipeline.decode(filtered, all.as_slice_mut(), &mut scratch.filters)?;
        let coordinates = all.as_slice().chunks_exact(coordinate_bytes.max(1));
        let ours = coordinates
            .skip(self.dimension)
            .step_by(self.dimensions.max(1));
        let slots = out.as_slice_mut().chunks_exact_mut(coordinate_bytes.max(1));
        slots
            .zip(ours)
            .for_each(|(slot, coordinate)| slot.copy_from_slice(coordinate));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::TileContext;
    use crate::format::datatype::Datatype;
    use crate::format::fixtures::{bytes, survives_bit_flips, unhex};
    use crate::format::schema::ArraySchema;

    /// Decodes one dimension of the first tile of a fragment.
    fn decode(version: u32, tile: &[u8], cells: usize, dimension: usize) -> Result<Vec<i32>> {
        let schema = ArraySchema::decode(&bytes(&format!("v{version}.sparse.schema")))?;
        let version = FormatVersion::known(version);
        let coords = CoordsTile::new(version, &schema.coords_filters, dimension, 2).unwrap();
        let context = TileContext {
            datatype: Datatype::Int32,
            cell_bytes: coords.cell_bytes(4),
            schema_version: schema.version,
            fragment_version: version,
            var_data: false,
        };
        let pipeline = Pipeline::new(&schema.coords_filters, &context, None)?;
        let mut scratch = DecodeScratch::default();
        let decoded = coords.decode(&pipeline, tile, cells, 4, &mut scratch)?;
        let values = decoded.as_slice().as_chunks::<4>().0.iter();
        Ok(values.map(|v| i32::from_le_bytes(*v)).collect())
    }

    #[test]
    fn version_1_holds_cell_after_cell() {
        let tile = bytes("v1.sparse.coords");
        assert_eq!(decode(1, &tile, 4, 0).unwrap(), [1, 2, 3, 4]);
        assert_eq!(decode(1, &tile, 4, 1).unwrap(), [10, 10, 10, 10]);
        assert!(decode(1, &tile, 5, 0).is_err());
        survives_bit_flips(&tile, |tile| decode(1, tile, 4, 1));
    }

    #[test]
    fn later_versions_hold_dimension_after_dimension() {
        for version in 2..=4 {
            let tile = bytes(&format!("v{version}.sparse.coords"));
            let y = decode(version, &tile, 7, 0).unwrap();
            let x = decode(version, &tile, 7, 1).unwrap();
            assert_eq!(y, [1, 1, 1, 5, 1, 1, 2]);
            assert_eq!(x, [-8, -4, -3, -4, -1, 0, 3]);
            survives_bit_flips(&tile, |tile| decode(version, tile, 7, 1));
            for len in 0..8 {
                assert!(decode(version, &tile[..len], 7, 0).is_err());
            }
        }
    }

    #[test]
    fn version_1_is_split_for_a_compressor() {
        let new = |version, filters: &[Filter]| {
            let list = FilterList {
                filters: filters.to_vec(),
                ..Default::default()
            };
            CoordsTile::new(FormatVersion::known(version), &list, 0, 2).map(|c| c.split)
        };
        assert_eq!(new(1, &[]), Some(false));
        assert_eq!(new(1, &[Filter::ByteShuffle]), Some(false));
        assert_eq!(new(1, &[Filter::ByteShuffle, Filter::Lz4]), Some(true));
        assert_eq!(new(2, &[]), Some(true));
        assert_eq!(new(5, &[]), None);
    }

    #[test]
    fn a_chunk_of_two_dimensions_is_refused() {
        let list = FilterList::default();
        let coords = CoordsTile::new(FormatVersion::known(4), &list, 1, 2).unwrap();
        let context = TileContext {
            datatype: Datatype::UInt8,
            cell_bytes: 2,
            schema_version: FormatVersion::known(4),
            fragment_version: FormatVersion::known(4),
            var_data: false,
        };
        let pipeline = Pipeline::new(&list, &context, None).unwrap();
        let mut scratch = DecodeScratch::default();
        let mut decode = |tile: &str| coords.decode(&pipeline, &unhex(tile), 2, 1, &mut scratch);
        let own =
            "0200000000000000 02000000 02000000 00000000 0102 02000000 02000000 00000000 0304";
        assert_eq!(decode(own).unwrap().as_slice(), [3, 4]);
        let shared =
            "0200000000000000 03000000 03000000 00000000 010203 01000000 01000000 00000000 04";
        let error = decode(shared).unwrap_err().to_string();
        assert!(error.contains("begins in one part of the tile"), "{error}");
    }
}
