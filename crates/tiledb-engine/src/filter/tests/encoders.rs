//! Encoders for the filters, only for tests: simple, slow, and written from the specification.
#![expect(clippy::big_endian_bytes, reason = "run lengths are stored big-endian")]

use std::io::Write;

use md5::{Digest, Md5};
use sha2::Sha256;

use crate::format::datatype::Datatype;
use crate::format::filter_list::Filter;

/// A chunk while it is encoded: metadata parts, newest first, and data parts.
#[derive(Clone, Default)]
pub(super) struct Encoded {
    pub(super) metadata: Vec<Vec<u8>>,
    pub(super) data: Vec<Vec<u8>>,
}

/// Applies `filters` to one part of data; `datatype` is the input type of the first filter.
pub(super) fn encode(filters: &[Filter], datatype: Datatype, cell: usize, data: &[u8]) -> Encoded {
    let chunk = Encoded {
        metadata: Vec::new(),
        data: vec![data.to_vec()],
    };
    encode_chunk(filters, datatype, cell, chunk)
}

/// As [`encode`], for a chunk that other filters have already encoded.
pub(super) fn encode_chunk(
    filters: &[Filter],
    mut datatype: Datatype,
    cell: usize,
    mut chunk: Encoded,
) -> Encoded {
    for filter in filters {
        let width = datatype.size();
        chunk = match filter {
            Filter::None => chunk,
            Filter::ByteShuffle => parts(chunk, |part| vec![byteshuffle(part, width)]),
            Filter::BitShuffle => parts(chunk, |part| bitshuffle(part, width)),
            Filter::Xor => {
                datatype = signed(width);
                parts(chunk, |part| vec![xor(part, width)])
            }
            Filter::PositiveDelta if width == 1 && !datatype.is_integer() => chunk,
            Filter::PositiveDelta => positive_delta(chunk, width),
            Filter::BitWidthReduction if width == 1 => chunk,
            Filter::BitWidthReduction => reduce(chunk, width),
            Filter::Md5 => checksum(chunk, |part| Md5::digest(part).to_vec()),
            Filter::Sha256 => checksum(chunk, |part| Sha256::digest(part).to_vec()),
            Filter::Delta(to) => {
                datatype = to.unwrap_or(datatype);
                compress(chunk, |part| delta(part, datatype.size()))
            }
            Filter::DoubleDelta(to) => {
                datatype = to.unwrap_or(datatype);
                compress(chunk, |part| double_delta(part, datatype.size()))
            }
            Filter::Rle => compress(chunk, |part| rle(part, cell)),
            other => compress(chunk, |part| library(other, part)),
        };
    }
    chunk
}

fn library(filter: &Filter, part: &[u8]) -> Vec<u8> {
    match filter {
        Filter::Zstd => zstd::bulk::compress(part, 1).unwrap(),
        Filter::Lz4 => lz4_flex::block::compress(part),
        Filter::Gzip => {
            let mut writer =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            writer.write_all(part).unwrap();
            writer.finish().unwrap()
        }
        Filter::Bzip2 => {
            let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            writer.write_all(part).unwrap();
            writer.finish().unwrap()
        }
        other => panic!("{} has no encoder here", other.name()),
    }
}

fn u32s(values: &[usize]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|v| (*v as u32).to_le_bytes())
        .collect()
}

fn signed(width: usize) -> Datatype {
    match width {
        1 => Datatype::Int8,
        2 => Datatype::Int16,
        4 => Datatype::Int32,
        _ => Datatype::Int64,
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, b| sum << 8 | u64::from(*b))
}

fn words(part: &[u8], width: usize) -> Vec<u64> {
    part.chunks(width).map(word).collect()
}

fn store(value: u64, width: usize) -> Vec<u8> {
    value.to_le_bytes()[..width].to_vec()
}

fn prepend(own: Vec<u8>, mut metadata: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    metadata.insert(0, own);
    metadata
}

fn parts(chunk: Encoded, encode: impl Fn(&[u8]) -> Vec<Vec<u8>>) -> Encoded {
    let encoded: Vec<_> = chunk.data.iter().flat_map(|part| encode(part)).collect();
    let mut own = u32s(&[encoded.len()]);
    own.extend(u32s(&encoded.iter().map(Vec::len).collect::<Vec<_>>()));
    Encoded {
        metadata: prepend(own, chunk.metadata),
        data: vec![encoded.concat()],
    }
}

fn compress(chunk: Encoded, encode: impl Fn(&[u8]) -> Vec<u8>) -> Encoded {
    let mut own = u32s(&[chunk.metadata.len(), chunk.data.len()]);
    let mut data = Vec::new();
    for part in chunk.metadata.iter().chain(&chunk.data) {
        let encoded = encode(part);
        own.extend(u32s(&[part.len(), encoded.len()]));
        data.extend(encoded);
    }
    Encoded {
        metadata: vec![own],
        data: vec![data],
    }
}

fn checksum(chunk: Encoded, digest: impl Fn(&[u8]) -> Vec<u8>) -> Encoded {
    let mut own = u32s(&[chunk.metadata.len(), chunk.data.len()]);
    for part in chunk.metadata.iter().chain(&chunk.data) {
        own.extend((part.len() as u64).to_le_bytes());
        own.extend(digest(part));
    }
    own.extend(chunk.metadata.concat());
    Encoded {
        metadata: vec![own],
        data: chunk.data,
    }
}

fn byteshuffle(part: &[u8], width: usize) -> Vec<u8> {
    let whole = part.len() / width * width;
    let mut out = Vec::new();
    for k in 0..width {
        out.extend(part[..whole].iter().skip(k).step_by(width));
    }
    out.extend(&part[whole..]);
    out
}

fn bitshuffle(part: &[u8], width: usize) -> Vec<Vec<u8>> {
    let (head, tail) = part.split_at(part.len() / 8 * 8);
    let mut out: Vec<Vec<u8>> = Vec::new();
    for entry in [head, tail].iter().filter(|e| !e.is_empty()) {
        if entry.len() % width != 0 || entry.len() % 8 != 0 {
            out.push(entry.to_vec());
        } else {
            out.push(
                entry
                    .chunks(8192)
                    .flat_map(|b| bitshuffle_block(b, width))
                    .collect(),
            );
        }
    }
    out
}

fn bitshuffle_block(block: &[u8], width: usize) -> Vec<u8> {
    let elements = block.len() / width / 8 * 8;
    let mut out = Vec::new();
    for k in 0..width {
        for bit in 0..8 {
            let mut row = vec![0_u8; elements / 8];
            for i in 0..elements {
                row[i / 8] |= (block[i * width + k] >> bit & 1) << (i % 8);
            }
            out.extend(row);
        }
    }
    out.extend(&block[elements * width..]);
    out
}

fn xor(part: &[u8], width: usize) -> Vec<u8> {
    let whole = part.len() / width * width;
    let mut before = 0;
    let mut out = Vec::new();
    for value in words(&part[..whole], width) {
        out.extend(store(value ^ before, width));
        before = value;
    }
    out.extend(&part[whole..]);
    out
}

/// Windows of 12 bytes, so that some are not a whole number of 8-byte elements.
const WINDOW: usize = 12;

fn positive_delta(chunk: Encoded, width: usize) -> Encoded {
    let part = chunk.data.concat();
    let mut own = u32s(&[part.chunks(WINDOW).len()]);
    let mut data = Vec::new();
    for window in part.chunks(WINDOW) {
        let whole = window.len() % width == 0;
        let first = if whole { word(&window[..width]) } else { 0 };
        own.extend(store(first, width));
        own.extend(u32s(&[window.len()]));
        if !whole {
            data.extend(window);
            continue;
        }
        let mut before = first;
        for value in words(window, width) {
            data.extend(store(value.wrapping_sub(before), width));
            before = value;
        }
    }
    Encoded {
        metadata: prepend(own, chunk.metadata),
        data: vec![data],
    }
}

/// Reduces unsigned types.
fn reduce(chunk: Encoded, width: usize) -> Encoded {
    let part = chunk.data.concat();
    let mut own = u32s(&[part.len(), part.chunks(WINDOW).len()]);
    let mut data = Vec::new();
    for window in part.chunks(WINDOW) {
        let values = words(window, width);
        let min = *values.iter().min().unwrap();
        let range = values.iter().max().unwrap() - min;
        let bits = [8, 16, 32]
            .into_iter()
            .find(|b| range < 1 << b)
            .unwrap_or(64);
        own.extend(store(min, width));
        own.push(bits);
        own.extend(u32s(&[window.len()]));
        if usize::from(bits) >= width * 8 || window.len() % width != 0 {
            data.extend(window);
        } else {
            values
                .iter()
                .for_each(|v| data.extend(store(v - min, usize::from(bits) / 8)));
        }
    }
    Encoded {
        metadata: prepend(own, chunk.metadata),
        data: vec![data],
    }
}

fn delta(part: &[u8], width: usize) -> Vec<u8> {
    let mut out = ((part.len() / width) as u64).to_le_bytes().to_vec();
    let mut before = 0_u64;
    for value in words(part, width) {
        out.extend(store(value.wrapping_sub(before), width));
        before = value;
    }
    out
}

fn double_delta(part: &[u8], width: usize) -> Vec<u8> {
    let values: Vec<i128> = words(part, width).into_iter().map(i128::from).collect();
    let second = |w: &[i128]| w[2] - 2 * w[1] + w[0];
    let largest = values.windows(3).map(|w| second(w).unsigned_abs()).max();
    let first = values
        .windows(2)
        .next()
        .map(|w| (w[1] - w[0]).unsigned_abs());
    let bits = match largest.max(first.filter(|_| values.len() > 2)) {
        Some(largest) if values.len() > 2 => (128 - largest.leading_zeros()).max(1),
        _ => 0,
    };
    let mut out = vec![bits as u8];
    out.extend((values.len() as u64).to_le_bytes());
    if bits as usize >= 8 * width - 1 {
        out.extend(part);
        return out;
    }
    out.extend(&part[..part.len().min(2 * width)]);
    let mut stream = Vec::new();
    for w in values.windows(3) {
        stream.push(second(w) < 0);
        stream.extend(
            (0..bits)
                .rev()
                .map(|bit| second(w).unsigned_abs() >> bit & 1 == 1),
        );
    }
    for bits in stream.chunks(64) {
        let word = (0..64).fold(0_u64, |word, i| {
            word << 1 | u64::from(bits.get(i) == Some(&true))
        });
        out.extend(word.to_le_bytes());
    }
    out
}

fn rle(part: &[u8], cell: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut cells = part.chunks_exact(cell).peekable();
    while let Some(value) = cells.next() {
        let mut run = 1_u16;
        while run < u16::MAX && cells.next_if_eq(&value).is_some() {
            run += 1;
        }
        out.extend(value);
        out.extend(run.to_be_bytes());
    }
    out
}

fn big_endian(value: usize, width: usize) -> Vec<u8> {
    value.to_be_bytes()[8 - width..].to_vec()
}

fn string_metadata(strings: &[Vec<u8>], encoded: &[u8], widths: [usize; 2]) -> Vec<u8> {
    let bytes = strings.iter().map(Vec::len).sum();
    let mut own = u32s(&[0, 1, bytes, encoded.len(), strings.len() * 8]);
    own.extend(widths.map(|w| w as u8));
    own
}

/// Run lengths over strings, with integers of the given widths.
pub(super) fn rle_strings(strings: &[Vec<u8>], run_width: usize, length_width: usize) -> Encoded {
    let mut data = Vec::new();
    for run in strings.chunk_by(|a, b| a == b) {
        // Runs longer than a byte can count are split.
        for run in run.chunks(255) {
            data.extend(big_endian(run.len(), run_width));
            data.extend(big_endian(run[0].len(), length_width));
            data.extend(&run[0]);
        }
    }
    Encoded {
        metadata: vec![string_metadata(strings, &data, [run_width, length_width])],
        data: vec![data],
    }
}

/// A dictionary over strings, with integers of the given widths.
pub(super) fn dictionary_strings(
    strings: &[Vec<u8>],
    id_width: usize,
    length_width: usize,
) -> Encoded {
    let mut entries: Vec<&Vec<u8>> = Vec::new();
    let mut data = Vec::new();
    for string in strings {
        let id = entries
            .iter()
            .position(|e| *e == string)
            .unwrap_or_else(|| {
                entries.push(string);
                entries.len() - 1
            });
        data.extend(big_endian(id, id_width));
    }
    let dictionary: Vec<u8> = entries
        .iter()
        .flat_map(|e| [big_endian(e.len(), length_width), e.to_vec()].concat())
        .collect();
    let mut own = string_metadata(strings, &data, [id_width, length_width]);
    own.extend(u32s(&[dictionary.len()]));
    own.extend(dictionary);
    Encoded {
        metadata: vec![own],
        data: vec![data],
    }
}
