//! The system fields of a fragment: timestamps of cells and of deletes, and indexes of delete conditions.
//!
//! All are one `u64` per cell, filtered by the schema's coords filters.

use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};

use crate::error::{Error, Result, ResultExt};
use crate::filter::{EncryptionKey, Pipeline, TileContext, expect_unfiltered_bytes};
use crate::format::datatype::Datatype;
use crate::format::schema::ArraySchema;
use crate::format::version::FormatVersion;
use crate::tile::tile_memory::DecodeScratch;

/// What the filters of the files `t`, `dt` and `dci` of a fragment with this schema depend on.
///
/// With schemas before version 5, in which all dimensions have one type, releases from version 20 on run these filters
/// as over coordinates, although the numbers are wider.
pub fn cell_numbers_context(schema: &ArraySchema, fragment_version: FormatVersion) -> TileContext {
    let as_coordinates = !schema.version.since(5) && fragment_version.since(20);
    let dimension = schema.dimensions.first().filter(|_| as_coordinates);
    TileContext {
        datatype: dimension.map_or(Datatype::UInt64, |dimension| dimension.datatype),
        cell_bytes: Datatype::UInt64.size(),
        schema_version: schema.version,
        fragment_version,
        var_data: false,
    }
}

/// The pipeline of these files: the coordinates' filters.
pub fn cell_numbers_pipeline(
    schema: &ArraySchema,
    fragment_version: FormatVersion,
    key: Option<&Arc<EncryptionKey>>,
) -> Result<Pipeline> {
    let context = cell_numbers_context(schema, fragment_version);
    Pipeline::new(&schema.coords_filters, &context, key).context("filters", || "coords")
}

/// The numbers of a tile of `cells` cells.
pub fn decode_u64(
    pipeline: &Pipeline,
    filtered: &[u8],
    cells: usize,
    scratch: &mut DecodeScratch,
) -> Result<Vec<u64>> {
    expect_unfiltered_bytes(filtered, cells.saturating_mul(size_of::<u64>()))?;
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(cells).map_err(|e| {
        Error::out_of_memory(format!("{cells} numbers of a tile were refused")).with_source(e)
    })?;
    numbers.resize(cells, 0u64);
    // Arrow's buffers give access to a vector's memory as bytes, and return it uncopied.
    let mut buffer = MutableBuffer::from(numbers);
    pipeline.decode(filtered, buffer.as_slice_mut(), &mut scratch.filters)?;
    let mut numbers = Buffer::from(buffer)
        .into_vec::<u64>()
        .unwrap_or_else(|shared| shared.typed_data::<u64>().to_vec());
    if cfg!(target_endian = "big") {
        numbers.iter_mut().for_each(|n| *n = n.swap_bytes());
    }
    Ok(numbers)
}
