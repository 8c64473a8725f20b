//! Tests of whole pipelines: vectors from libtiledb, round trips through encoders written from the specification, and
//! hostile tiles.
#![expect(
    clippy::cast_possible_truncation,
    reason = "the sizes of test tiles are small"
)]

mod encoders;
mod encryption;
mod fuzz;
mod hostile;
mod round_trip;
mod vectors;
mod webp;

use super::{FilterScratch, Pipeline, TileContext, TileEncoder};
use crate::error::Result;
use crate::format::datatype::Datatype;
use crate::format::filter_list::{Filter, FilterList};
use crate::format::version::FormatVersion;

/// A context for fixed-size cells of one value, or for the data of a variable-size field.
fn context(datatype: Datatype, var_data: bool) -> TileContext {
    TileContext {
        datatype,
        cell_bytes: datatype.size(),
        schema_version: FormatVersion::known(22),
        fragment_version: FormatVersion::known(22),
        var_data,
    }
}

fn pipeline(filters: &[Filter], context: &TileContext) -> Result<Pipeline> {
    let list = FilterList {
        max_chunk_bytes: 65536,
        filters: filters.to_vec(),
        ..FilterList::default()
    };
    Pipeline::new(&list, context, None)
}

/// A tile of chunks, each given as original size, metadata, data.
fn tile(chunks: &[(usize, Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = (chunks.len() as u64).to_le_bytes().to_vec();
    for (original, metadata, data) in chunks {
        for size in [*original, data.len(), metadata.len()] {
            bytes.extend_from_slice(&(size as u32).to_le_bytes());
        }
        bytes.extend_from_slice(metadata);
        bytes.extend_from_slice(data);
    }
    bytes
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn decode(
    filters: &[Filter],
    context: &TileContext,
    filtered: &[u8],
    out_bytes: usize,
) -> Result<Vec<u8>> {
    let mut out = vec![0xAA; out_bytes];
    pipeline(filters, context)?.decode(filtered, &mut out, &mut FilterScratch::default())?;
    Ok(out)
}
