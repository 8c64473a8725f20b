//! How fast does each filter give back the cells of a tile?
//!
//! ```text
//! cargo bench --bench decode              # all; or with a part of a name: cargo bench --bench decode -- shuffle
//! ```
//!
//! Every tile has 400,000 cells in chunks of 64 KiB, which stay in the cache, as they do in a scan; the line `copy` is
//! the limit, a tile without filters. One thread; there is no twin.

#![allow(
    missing_docs,
    dead_code,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a benchmark prints, and stops at the first surprise"
)]

mod common;
#[path = "../crates/tiledb-engine/src/filter/tests/encoders.rs"]
mod encoders;

use common::{Bench, Volume, time};
use tiledb_engine::filter::{FilterScratch, Pipeline, TileContext};
// The encoders know it by this name.
use encoders::{dictionary_strings, encode, rle_strings};
use format::datatype::Datatype;
use format::filter_list::{Filter, FilterList};
use format::version::FormatVersion;
use tiledb_engine::format;

// Where speed means nothing, a few will do.
const CELLS: usize = if cfg!(debug_assertions) {
    20_000
} else {
    400_000
};
const CHUNK_BYTES: usize = 65536;

/// What the cells of a tile look like.
#[derive(Clone, Copy)]
enum Values {
    /// Any number of so many bits.
    Noise(u32),
    /// Ever larger, in steps of so many bits.
    Rising(u32),
    /// Runs of equal numbers, of so many cells on average.
    Runs(u64),
}

fn fixed() -> Vec<(&'static str, Datatype, Vec<Filter>, Values)> {
    use Filter as F;
    use Values::{Noise, Rising, Runs};
    vec![
        ("copy", Datatype::UInt64, vec![], Noise(40)),
        (
            "byteshuffle, 2 bytes",
            Datatype::UInt16,
            vec![F::ByteShuffle],
            Noise(10),
        ),
        (
            "byteshuffle, 4 bytes",
            Datatype::UInt32,
            vec![F::ByteShuffle],
            Noise(20),
        ),
        (
            "byteshuffle, 8 bytes",
            Datatype::UInt64,
            vec![F::ByteShuffle],
            Noise(40),
        ),
        (
            "bitshuffle, 1 byte",
            Datatype::UInt8,
            vec![F::BitShuffle],
            Noise(4),
        ),
        (
            "bitshuffle, 2 bytes",
            Datatype::UInt16,
            vec![F::BitShuffle],
            Noise(10),
        ),
        (
            "bitshuffle, 4 bytes",
            Datatype::UInt32,
            vec![F::BitShuffle],
            Noise(20),
        ),
        (
            "bitshuffle, 8 bytes",
            Datatype::UInt64,
            vec![F::BitShuffle],
            Noise(40),
        ),
        ("xor, 4 bytes", Datatype::UInt32, vec![F::Xor], Noise(20)),
        ("xor, 8 bytes", Datatype::UInt64, vec![F::Xor], Noise(40)),
        (
            "delta, 4 bytes",
            Datatype::UInt32,
            vec![F::Delta(None)],
            Rising(4),
        ),
        (
            "delta, 8 bytes",
            Datatype::UInt64,
            vec![F::Delta(None)],
            Rising(20),
        ),
        (
            "double delta, 4 bytes",
            Datatype::UInt32,
            vec![F::DoubleDelta(None)],
            Noise(6),
        ),
        (
            "double delta, 8 bytes",
            Datatype::UInt64,
            vec![F::DoubleDelta(None)],
            Rising(6),
        ),
        (
            "positive delta, 8 bytes",
            Datatype::UInt64,
            vec![F::PositiveDelta],
            Rising(6),
        ),
        (
            "bit width reduction to 8",
            Datatype::UInt64,
            vec![F::BitWidthReduction],
            Noise(7),
        ),
        (
            "bit width reduction to 16",
            Datatype::UInt64,
            vec![F::BitWidthReduction],
            Noise(12),
        ),
        (
            "rle, 4 bytes, short runs",
            Datatype::UInt32,
            vec![F::Rle],
            Runs(3),
        ),
        (
            "rle, 4 bytes, long runs",
            Datatype::UInt32,
            vec![F::Rle],
            Runs(100),
        ),
        ("zstd", Datatype::UInt32, vec![F::Zstd], Noise(12)),
        (
            "byteshuffle and zstd",
            Datatype::UInt32,
            vec![F::ByteShuffle, F::Zstd],
            Noise(12),
        ),
        (
            "byteshuffle and lz4",
            Datatype::UInt32,
            vec![F::ByteShuffle, F::Lz4],
            Noise(12),
        ),
        (
            "byteshuffle and gzip",
            Datatype::UInt32,
            vec![F::ByteShuffle, F::Gzip],
            Noise(12),
        ),
        (
            "delta, byteshuffle and zstd",
            Datatype::UInt64,
            vec![F::Delta(None), F::ByteShuffle, F::Zstd],
            Rising(6),
        ),
        ("md5", Datatype::UInt32, vec![F::Md5], Noise(12)),
        ("sha256", Datatype::UInt32, vec![F::Sha256], Noise(12)),
    ]
}

fn main() {
    let mut bench = Bench::new("decode", 0.3);
    for (name, datatype, filters, values) in fixed() {
        fixed_tile(&mut bench, name, datatype, &filters, values);
    }
    string_tile(&mut bench, "strings, rle", &Filter::Rle);
    string_tile(&mut bench, "strings, dictionary", &Filter::Dictionary);
    bench.report();
}

fn fixed_tile(
    bench: &mut Bench,
    name: &str,
    datatype: Datatype,
    filters: &[Filter],
    values: Values,
) {
    let size = datatype.size();
    let data: Vec<u8> = numbers(values)
        .flat_map(|n| n.to_le_bytes().into_iter().take(size))
        .collect();
    let chunks = data.chunks(CHUNK_BYTES).map(|part| {
        let chunk = encode(filters, datatype, size, part);
        (part.len(), chunk.metadata.concat(), chunk.data.concat())
    });
    let tile = tile(&chunks.collect::<Vec<_>>());
    let pipeline = pipeline(filters, datatype, false);
    let mut out = vec![0; data.len()];
    let mut scratch = FilterScratch::default();
    pipeline
        .decode(&tile, &mut out, &mut scratch)
        .expect("the tile decodes");
    assert!(out == data, "{name}: what comes out is what went in");
    bench.alone(name, volume(data.len()), || {
        time(|| pipeline.decode(&tile, &mut out, &mut scratch))
    });
}

/// Names of two hundred places, as often in a row as it happens.
fn string_tile(bench: &mut Bench, name: &str, filter: &Filter) {
    let names = (0..200)
        .map(|i| format!("place number {i}").into_bytes())
        .collect::<Vec<_>>();
    let strings = numbers(Values::Runs(3))
        .map(|n| names[n as usize % names.len()].clone())
        .collect::<Vec<_>>();
    let chunks = strings.chunks(CHUNK_BYTES / 16).map(|part| {
        let chunk = match filter {
            Filter::Rle => rle_strings(part, 1, 1),
            _ => dictionary_strings(part, 1, 1),
        };
        let bytes = part.iter().map(Vec::len).sum();
        (bytes, chunk.metadata.concat(), chunk.data.concat())
    });
    let tile = tile(&chunks.collect::<Vec<_>>());
    let pipeline = pipeline(std::slice::from_ref(filter), Datatype::StringAscii, true);
    let bytes = strings.concat().len();
    let mut scratch = FilterScratch::default();
    let decoded = pipeline.decode_strings(&tile, CELLS, bytes, &mut scratch);
    assert_eq!(decoded.expect("the tile decodes").keys().len(), CELLS);
    bench.alone(name, volume(bytes), || {
        time(|| pipeline.decode_strings(&tile, CELLS, bytes, &mut scratch))
    });
}

fn volume(bytes: usize) -> Volume {
    Volume {
        elements: CELLS as u64,
        bytes: bytes as u64,
    }
}

fn numbers(values: Values) -> impl Iterator<Item = u64> {
    let (mut state, mut last) = (0x9E37_79B9_7F4A_7C15_u64, 0_u64);
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match values {
            Values::Noise(bits) => last = state >> (64 - bits),
            Values::Rising(bits) => last = last.wrapping_add(state >> (64 - bits)),
            Values::Runs(length) if state % length == 0 => last = state >> 32,
            Values::Runs(_) => {}
        }
        last
    })
    .take(CELLS)
}

fn pipeline(filters: &[Filter], datatype: Datatype, var_data: bool) -> Pipeline {
    let list = FilterList {
        max_chunk_bytes: 65536,
        filters: filters.to_vec(),
        ..FilterList::default()
    };
    let context = TileContext {
        datatype,
        cell_bytes: datatype.size(),
        schema_version: FormatVersion::known(22),
        fragment_version: FormatVersion::known(22),
        var_data,
    };
    Pipeline::new(&list, &context, None).expect("a pipeline")
}

/// A tile of chunks given as original size, metadata, data.
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
