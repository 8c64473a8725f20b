//! Fuzzing of filters and stacks of them, strings, images, and generic tiles.
//!
//! The outer filters of a stack hide the inner ones: whatever is changed, compressed bytes no longer decompress, and digests
//! do not fit. So an input is a tile as it was behind some of its filters, and the others are applied again. What the inner
//! filters alone make of it, the whole stack must make of it, too.

use std::sync::Arc;

use super::encoders::{Encoded, encode_chunk};
use super::encryption::{NO_FILTERS, ONE_GZIP, boxed};
use super::*;
use crate::error::{Error, ErrorKind};
use crate::filter::chunk::TileChunks;
use crate::filter::{EncryptionKey, generic_tile};
use crate::format::filter_list::PixelFormat;
use crate::fuzzed::{Limits, Outcome, fuzz};

/// Decompressors have contexts of a few MiB.
const LIMITS: Limits = Limits {
    bytes: 12 << 20,
    bytes_per_byte: 128,
};
/// Larger tiles are not decoded.
const MOST_BYTES: usize = 256 << 10;

const TYPES: [Datatype; 8] = [
    Datatype::UInt8,
    Datatype::Int16,
    Datatype::UInt16,
    Datatype::Int32,
    Datatype::Float32,
    Datatype::Int64,
    Datatype::UInt64,
    Datatype::DateTimeMs,
];
const STACKS: [&str; 32] = [
    "",
    "gzip",
    "zstd",
    "lz4",
    "bzip2",
    "rle",
    "delta",
    "double_delta",
    "positive_delta",
    "bit_width_reduction",
    "byteshuffle",
    "bitshuffle",
    "xor",
    "checksum_md5",
    "checksum_sha256",
    "float_scale(0.5, 1.0, 2)",
    "float_scale(0.25, 3.0, 8)",
    "delta(INT8)",
    "double_delta(UINT16)",
    "byteshuffle, zstd",
    "bitshuffle, lz4",
    "rle, checksum_md5",
    "rle, gzip",
    "delta, zstd, checksum_sha256",
    "double_delta, bzip2",
    "positive_delta(64), gzip",
    "bit_width_reduction(16), zstd",
    "positive_delta, bit_width_reduction, checksum_md5, lz4",
    "xor, byteshuffle, lz4",
    "checksum_md5, zstd, zstd, gzip",
    "byteshuffle, bitshuffle, checksum_sha256, checksum_md5, zstd",
    "float_scale(0.5, 1.0, 4), bit_width_reduction, bitshuffle, zstd",
];

/// A stack for cells of a type.
struct Stack {
    list: FilterList,
    context: TileContext,
}

impl Stack {
    fn new(text: &str, datatype: Datatype) -> Self {
        let parsed = FilterList::parse(text).unwrap();
        Self {
            list: parsed,
            context: context(datatype, false),
        }
    }

    /// The first filters alone, as they are compiled, and the type that they put out.
    fn inner(&self, filters: usize) -> Result<(Pipeline, Datatype)> {
        let stages = self
            .list
            .stages()
            .take(filters)
            .map(|(filter, setting)| (filter.clone(), setting.clone()));
        let list = FilterList::of(stages);
        let out = list
            .filters
            .iter()
            .fold(self.context.datatype, |datatype, filter| {
                match (filter, datatype.size()) {
                    (Filter::Delta(Some(to)) | Filter::DoubleDelta(Some(to)), _) => *to,
                    (Filter::Xor, 1) => Datatype::Int8,
                    (Filter::Xor, 2) => Datatype::Int16,
                    (Filter::Xor, 4) => Datatype::Int32,
                    (Filter::Xor, _) => Datatype::Int64,
                    (Filter::ScaleFloat { byte_width, .. }, _) => match byte_width {
                        2 => Datatype::Int16,
                        4 => Datatype::Int32,
                        _ => Datatype::Int64,
                    },
                    _ => datatype,
                }
            });
        Ok((Pipeline::new(&list, &self.context, None)?, out))
    }

    fn whole(&self) -> Result<Pipeline> {
        Pipeline::new(&self.list, &self.context, None)
    }
}

/// Some cells of `width` bytes: numbers that ascend, are alike, or are in no order.
fn cells(kind: usize, width: usize, count: u64) -> Vec<u8> {
    let value = |i: u64| match kind {
        0 => i * 3 + i / 5,
        1 => i / 7,
        _ => i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 5,
    };
    let cells = (0..count).flat_map(|i| value(i).to_le_bytes()[..width].to_vec());
    cells.collect()
}

/// The sizes of the chunks of a tile, if it is small enough to be decoded.
fn sizes(tile: &[u8]) -> Result<(usize, usize)> {
    let chunks = TileChunks::new(tile)?.collect::<Result<Vec<_>>>()?;
    let original = chunks
        .iter()
        .map(|chunk| chunk.original_bytes)
        .fold(0, usize::saturating_add);
    if original <= MOST_BYTES {
        Ok((original, chunks.len()))
    } else {
        Err(Error::corrupt("the tile is too large to be tried"))
    }
}

fn refused(error: Error) -> Outcome {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::Internal => Outcome::Wrong(message),
        _ => Outcome::Refused(message),
    }
}

#[test]
fn filters() {
    let mut stacks = Vec::new();
    let mut seeds = Vec::new();
    for text in STACKS {
        for datatype in TYPES {
            let stack = Stack::new(text, datatype);
            let Ok(mut encoder) = TileEncoder::new(&stack.list, &stack.context) else {
                continue;
            };
            let number = stacks.len() as u8;
            let before = seeds.len();
            for kind in 0..3 {
                let data = cells(kind, datatype.size(), 40);
                // Positive delta refuses numbers that decrease, and floats are not scaled to whatever integers.
                if let Ok(tile) = encoder.encode(&data) {
                    seeds.push([&[number, u8::MAX], &tile[..]].concat());
                }
            }
            for filters in 0..stack.list.filters.len() {
                let list = stack.list.stages().take(filters);
                let list = FilterList::of(list.map(|(f, s)| (f.clone(), s.clone())));
                let mut encoder = TileEncoder::new(&list, &stack.context).unwrap();
                let data = cells(0, datatype.size(), 40);
                if let Ok(tile) = encoder.encode(&data) {
                    seeds.push([&[number, filters as u8], &tile[..]].concat());
                }
            }
            if seeds.len() > before {
                stacks.push(stack);
            }
        }
    }
    assert!(stacks.len() > 150 && stacks.len() < 256, "{}", stacks.len());
    let scratch = std::cell::RefCell::new(FilterScratch::default());
    fuzz("filters", seeds, LIMITS, |input| {
        let (head, tile) = input.split_at_checked(2).unwrap_or((&[0, 0], &[]));
        let stack = &stacks[usize::from(head[0]) % stacks.len()];
        let filters = stack.list.filters.len();
        let inner = match usize::from(head[1]) {
            255 => filters,
            n => n % (filters + 1),
        };
        let tried = try_stack(stack, inner, tile, &mut scratch.borrow_mut());
        tried.unwrap_or_else(refused)
    });
}

fn try_stack(
    stack: &Stack,
    inner: usize,
    tile: &[u8],
    scratch: &mut FilterScratch,
) -> Result<Outcome> {
    let (expected, chunks) = sizes(tile)?;
    let (pipeline, datatype) = stack.inner(inner)?;
    let mut out = vec![0xAA; expected];
    let decoded = pipeline.decode(tile, &mut out, scratch);
    let is_lossy = stack
        .list
        .filters
        .iter()
        .any(|f| matches!(f, Filter::ScaleFloat { .. }));
    let outer = &stack.list.filters[inner..];
    // Most chunks of a tile that claims many are empty.
    if !outer.is_empty() && chunks < 64 && takes(outer, datatype, tile)? {
        let whole = behind(outer, datatype, stack.context.cell_bytes, tile)?;
        let mut through = vec![0x55; expected];
        let all = stack.whole()?.decode(&whole, &mut through, scratch);
        let bounds = |e: &Error| e.to_string().contains("than a chunk of this size can need");
        match (&decoded, &all) {
            (Ok(()), Ok(())) if out == through => {}
            (Err(_), Err(_)) => {}
            // Nobody writes so much between two filters.
            (Ok(()), Err(e)) if bounds(e) => {}
            _ => {
                return Ok(Outcome::Wrong(format!(
                    "{} of the filters {} make {decoded:?} of it, all of them {all:?}",
                    inner, stack.list
                )));
            }
        }
    }
    decoded?;
    if is_lossy {
        return Ok(Outcome::Decoded);
    }
    // Some filters do not take whatever they could put out.
    if let Ok(again) = TileEncoder::new(&stack.list, &stack.context)?.encode(&out) {
        let mut second = vec![0x55; expected];
        let read = stack.whole()?.decode(&again, &mut second, scratch);
        if read.is_err() || second != out {
            let list = &stack.list;
            return Ok(Outcome::Wrong(format!(
                "{list}: what is written is read otherwise: {read:?}"
            )));
        }
    }
    Ok(Outcome::Decoded)
}

/// Whether filters can be applied to what others have made: some need whole values, or do nothing to some types.
fn takes(filters: &[Filter], datatype: Datatype, filtered: &[u8]) -> Result<bool> {
    let needs_values = |filter: &Filter| {
        let is_free = matches!(
            filter,
            Filter::Gzip | Filter::Zstd | Filter::Lz4 | Filter::Bzip2 | Filter::ByteShuffle
        );
        let is_free = is_free || matches!(filter, Filter::BitShuffle | Filter::Xor);
        !is_free && !matches!(filter, Filter::Md5 | Filter::Sha256)
    };
    let mut chunks = TileChunks::new(filtered)?;
    let whole = chunks.all(|chunk| {
        chunk.is_ok_and(|c| {
            [c.data, c.metadata]
                .iter()
                .all(|part| part.len().is_multiple_of(8))
        })
    });
    let is_unsigned = datatype.is_integer() && !datatype.is_signed();
    let is_other = filters.iter().any(|filter| match filter {
        Filter::ScaleFloat { .. } => true,
        Filter::PositiveDelta | Filter::BitWidthReduction => !is_unsigned,
        _ => false,
    });
    Ok(!is_other && (whole || !filters.iter().any(needs_values)))
}

/// Applies filters to the chunks of a tile that has passed others.
fn behind(filters: &[Filter], datatype: Datatype, cell: usize, filtered: &[u8]) -> Result<Vec<u8>> {
    let mut chunks = Vec::new();
    for chunk in TileChunks::new(filtered)? {
        let chunk = chunk?;
        // Nothing is made of a chunk without bytes, and nothing is read of it.
        if chunk.original_bytes == 0 || chunk.data.is_empty() {
            chunks.push((
                chunk.original_bytes,
                chunk.metadata.to_vec(),
                chunk.data.to_vec(),
            ));
            continue;
        }
        let encoded = Encoded {
            metadata: vec![chunk.metadata.to_vec()],
            data: vec![chunk.data.to_vec()],
        };
        let encoded = encode_chunk(filters, datatype, cell, encoded);
        chunks.push((
            chunk.original_bytes,
            encoded.metadata.concat(),
            encoded.data.concat(),
        ));
    }
    Ok(tile(&chunks))
}

#[test]
fn strings_with_offsets() {
    const STACKS: [&str; 6] = [
        "rle",
        "dictionary",
        "rle, zstd",
        "dictionary, gzip, checksum_md5",
        "rle, bitshuffle, checksum_sha256",
        "dictionary, lz4",
    ];
    let lists = STACKS.map(|text| FilterList::parse(text).unwrap());
    let contexts = [Datatype::StringAscii, Datatype::StringUtf8].map(|d| context(d, true));
    let texts: [&[&str]; 4] = [
        &["a", "a", "b", "", "ccc", "a", "", ""],
        &["", "", ""],
        &["x", "x", "x", "x", "x", "x", "x"],
        &["one", "two", "three", "two", "one", "é", "two"],
    ];
    let mut seeds = Vec::new();
    for (number, list) in lists.iter().enumerate() {
        for (kind, context) in contexts.iter().enumerate() {
            for text in texts {
                let mut encoder = TileEncoder::new(list, context).unwrap();
                let data = text.concat().into_bytes();
                let starts = text
                    .iter()
                    .scan(0, |end, s| {
                        *end += s.len() as u64;
                        Some(*end - s.len() as u64)
                    })
                    .collect::<Vec<_>>();
                let tile = encoder.encode_strings(&data, &starts).unwrap();
                let head = [(number + lists.len() * kind) as u8, text.len() as u8, 0];
                seeds.push([&head, &tile[..]].concat());
            }
        }
    }
    fuzz("strings with offsets", seeds, LIMITS, |input| {
        let (head, tile) = input.split_at_checked(3).unwrap_or((&[0; 3], &[]));
        let number = usize::from(head[0]);
        let list = &lists[number % lists.len()];
        let context = &contexts[number / lists.len() % 2];
        let cells = usize::from(head[1]) + (usize::from(head[2]) << 8);
        try_strings(list, context, cells, tile).unwrap_or_else(refused)
    });
}

fn try_strings(
    list: &FilterList,
    context: &TileContext,
    cells: usize,
    tile: &[u8],
) -> Result<Outcome> {
    let (bytes, _) = sizes(tile)?;
    let pipeline = Pipeline::new(list, context, None)?;
    let scratch = &mut FilterScratch::default();
    let strings = pipeline.decode_strings(tile, cells, bytes, scratch)?;
    let (data, starts) = strings.cells()?;
    let wrong = |what: &str| Ok(Outcome::Wrong(format!("{list}: {what}")));
    if (data.len(), starts.len()) != (bytes, cells) {
        return wrong("other sizes come out than were expected");
    }
    let each = (0..cells).flat_map(|cell| strings.cell(cell).iter().copied());
    if !each.eq(data.iter().copied()) {
        return wrong("the cells are not the data");
    }
    let again = TileEncoder::new(list, context)?.encode_strings(&data, &starts)?;
    let second = pipeline.decode_strings(&again, cells, bytes, scratch);
    match second.and_then(|second| second.cells()) {
        Ok(second) if second == (data, starts) => Ok(Outcome::Decoded),
        other => wrong(&format!("what is written is read otherwise: {other:?}")),
    }
}

#[test]
fn images() {
    let lists = PixelFormat::ALL.map(|format| {
        let text = format!("webp({}, lossless)", format.name());
        FilterList::parse(&text)
            .unwrap()
            .for_images_of(Some((3, 12)))
    });
    let context = context(Datatype::UInt8, false);
    let seeds = lists.iter().enumerate().flat_map(|(number, list)| {
        let mut encoder = TileEncoder::new(list, &context).unwrap();
        [0, 1, 2].map(|kind| {
            let tile = encoder.encode(&cells(kind, 1, 36)).unwrap();
            [&[number as u8], &tile[..]].concat()
        })
    });
    let vectors = super::webp::vectors().map(|(format, tile)| {
        let number = PixelFormat::ALL.iter().position(|f| *f == format);
        [&[number.unwrap() as u8], &tile[..]].concat()
    });
    // A decoder makes room for what one part of a lossy image claims, which is 16 MiB at most, before it reads the part.
    let limits = Limits {
        bytes: LIMITS.bytes + (16 << 20),
        ..LIMITS
    };
    fuzz("images", seeds.chain(vectors), limits, |input| {
        let (number, tile) = input.split_first().unwrap_or((&0, &[]));
        let list = &lists[usize::from(*number) % lists.len()];
        let tried = (|| {
            let mut out = vec![0; sizes(tile)?.0];
            let pipeline = Pipeline::new(list, &context, None)?;
            pipeline.decode(tile, &mut out, &mut FilterScratch::default())
        })();
        tried.map_or_else(refused, |()| Outcome::Decoded)
    });
}

#[test]
fn generic_tiles() {
    let key = Arc::new(EncryptionKey::new(&[7; 32]));
    let stacked = "00000100 02000000 01 05000000 01 01000000 02 05000000 02 01000000";
    let contents = cells(0, 4, 50);
    let plain = tile(&[(contents.len(), Vec::new(), contents.clone())]);
    let chunk =
        super::encoders::encode(&[Filter::Gzip, Filter::Zstd], Datatype::Char, 1, &contents);
    let twice = tile(&[(contents.len(), chunk.metadata.concat(), chunk.data.concat())]);
    let size = contents.len() as u64;
    let once = generic_tile::encode(&contents).unwrap();
    let seeds = [
        once,
        generic_tile::encode_with(&contents, Some(&key)).unwrap(),
        generic_tile::encode(&[]).unwrap(),
        boxed(NO_FILTERS, size, 0, &plain),
        boxed(stacked, size, 0, &twice),
        boxed(ONE_GZIP, 0, 0, &0_u64.to_le_bytes()),
    ];
    let limits = Limits {
        bytes: 8 << 20,
        bytes_per_byte: 3000,
    };
    fuzz("generic tile", seeds, limits, |input| {
        let _ = generic_tile::encoded_len(input);
        let tile = match generic_tile::decode_or_plain(input, "array schema", Some(&key)) {
            Ok(tile) => tile,
            Err(e) => return refused(e),
        };
        if tile.consumed > input.len() {
            return Outcome::Wrong("it is longer than the input".to_owned());
        }
        let key = tile.encrypted.then_some(&key);
        let again = generic_tile::encode_with(&tile.data, key);
        let second = again.and_then(|again| generic_tile::decode(&again, "array schema", key));
        match second {
            Ok(second) if second.data == tile.data => Outcome::Decoded,
            other => Outcome::Wrong(format!("what is written is read otherwise: {other:?}")),
        }
    });
}
