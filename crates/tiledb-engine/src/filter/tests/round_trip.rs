//! `decode(encode(x)) == x` for stacks of filters; chunks that are not wanted, or not chosen, are not decoded.

use proptest::prelude::*;

use super::encoders::{dictionary_strings, encode, encode_chunk, rle_strings};
use super::*;
use crate::error::{Error, ErrorKind};
use crate::filter::{ChunkChoice, SkippedContents};

fn any_filter() -> impl Strategy<Value = Filter> {
    prop::sample::select(vec![
        Filter::None,
        Filter::Gzip,
        Filter::Zstd,
        Filter::Lz4,
        Filter::Bzip2,
        Filter::ByteShuffle,
        Filter::BitShuffle,
        Filter::Xor,
        Filter::Md5,
        Filter::Sha256,
    ])
}

/// Filters that need whole elements, so they must come first.
fn leading_filter() -> impl Strategy<Value = Vec<Filter>> {
    prop::sample::select(vec![
        vec![],
        vec![Filter::Rle],
        vec![Filter::Delta(None)],
        vec![Filter::DoubleDelta(None)],
        vec![Filter::PositiveDelta],
        vec![Filter::BitWidthReduction],
        vec![Filter::PositiveDelta, Filter::Zstd],
        vec![Filter::Delta(Some(Datatype::UInt16))],
        vec![Filter::ByteShuffle, Filter::Md5, Filter::BitShuffle],
    ])
}

fn unsigned_type() -> impl Strategy<Value = Datatype> {
    prop::sample::select(vec![
        Datatype::UInt8,
        Datatype::UInt16,
        Datatype::UInt32,
        Datatype::UInt64,
    ])
}

/// Elements with few or many significant bytes.
fn values() -> impl Strategy<Value = Vec<u64>> {
    let len = prop_oneof![0..20_usize, 60..140_usize, 1000..3000_usize];
    let bits = prop_oneof![Just(3_u32), Just(9), Just(30), Just(64)];
    (len, bits).prop_flat_map(|(len, bits)| {
        prop::collection::vec(any::<u64>().prop_map(move |v| v >> (64 - bits)), len)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn stacks_restore_what_went_in(
        values in values(),
        datatype in unsigned_type(),
        leading in leading_filter(),
        following in prop::collection::vec(any_filter(), 0..4),
        cut in 0..4_usize,
    ) {
        let width = datatype.size();
        // A reinterpreted input must be whole elements of the other type.
        prop_assume!(width >= 2 || !leading.contains(&Filter::Delta(Some(Datatype::UInt16))));
        let filters = [leading, following].concat();
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()[..width].to_vec()).collect();
        let split = values.len() * cut / 4 * width;
        let chunks: Vec<_> = [&data[..split], &data[split..]]
            .into_iter()
            .map(|part| {
                let chunk = encode(&filters, datatype, width, part);
                (part.len(), chunk.metadata.concat(), chunk.data.concat())
            })
            .collect();
        let out = decode(&filters, &context(datatype, false), &tile(&chunks), data.len());
        prop_assert_eq!(out.unwrap(), data);
    }

    #[test]
    fn what_is_written_is_read(
        values in prop::collection::vec(any::<u64>(), 0..4000),
        scale in 0..64_u32,
        leading in leading_filter(),
        following in prop::collection::vec(any_filter(), 0..4),
        datatype in prop::sample::select(vec![Datatype::UInt16, Datatype::UInt32, Datatype::UInt64]),
    ) {
        let mut values: Vec<u64> = values.into_iter().map(|v| v >> scale).collect();
        // Positive delta refuses values that decrease.
        values.sort_unstable();
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()[..datatype.size()].to_vec());
        let data: Vec<u8> = match datatype {
            Datatype::UInt64 => bytes.collect(),
            // The low bytes of large values are in no order.
            _ => values.iter().map(|v| v % 60_000).collect::<std::collections::BTreeSet<_>>().into_iter()
                .flat_map(|v| v.to_le_bytes()[..datatype.size()].to_vec()).collect(),
        };
        let filters = [leading, following].concat();
        let list = FilterList { max_chunk_bytes: 65536, filters: filters.clone(), ..FilterList::default() };
        let context = context(datatype, false);
        // Filters that need whole values may not stand behind others.
        if let Ok(written) = TileEncoder::new(&list, &context).unwrap().encode(&data) {
            let read = decode(&filters, &context, &written, data.len());
            prop_assert_eq!(read.unwrap(), data);
        }
    }

    #[test]
    fn signed_values_up_to_the_limits_of_their_type_are_written_and_read(
        values in prop::collection::vec(prop_oneof![any::<i64>(), -3..3_i64, Just(i64::MIN), Just(i64::MAX)], 0..2000),
        filter in prop::sample::select(vec![
            Filter::Delta(None), Filter::DoubleDelta(None), Filter::BitWidthReduction, Filter::PositiveDelta,
        ]),
        narrow in 0..64_u32,
        datatype in prop::sample::select(vec![
            Datatype::Int8, Datatype::Int16, Datatype::Int32, Datatype::Int64, Datatype::DateTimeMs,
        ]),
    ) {
        let width = datatype.size();
        let limit = 64 - 8 * width as u32;
        // Some values of a type, a few of which may be its limits.
        let mut values: Vec<i64> = values.into_iter().map(|v| v >> narrow.max(limit)).collect();
        values.extend([i64::MIN >> limit, i64::MAX >> limit]);
        if filter == Filter::PositiveDelta {
            values.sort_unstable();
        }
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()[..width].to_vec()).collect();
        let list = FilterList { max_chunk_bytes: 65536, filters: vec![filter.clone()], ..FilterList::default() };
        let context = context(datatype, false);
        let written = TileEncoder::new(&list, &context).unwrap().encode(&data).unwrap();
        prop_assert_eq!(decode(&[filter], &context, &written, data.len()).unwrap(), data);
    }

    #[test]
    fn strings_restore_with_their_offsets(
        strings in prop::collection::vec("[ab]{0,3}|x{0,40}", 1..400),
        widths in (0..4_u32, 0..4_u32),
        following in prop::collection::vec(any_filter(), 0..3),
        dictionary: bool,
        two_chunks: bool,
    ) {
        let strings: Vec<Vec<u8>> = strings.into_iter().map(String::into_bytes).collect();
        let (a, b) = (1 << widths.0, 1 << widths.1);
        // One byte can number at most 256 entries.
        let a = if dictionary { a.max(2) } else { a };
        let filter = if dictionary { Filter::Dictionary } else { Filter::Rle };
        let (head, tail) = strings.split_at(if two_chunks { strings.len() / 2 } else { 0 });
        let chunks: Vec<_> = [head, tail]
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(|part| {
                let first = if dictionary { dictionary_strings(part, a, b) } else { rle_strings(part, a, b) };
                let chunk = encode_chunk(&following, Datatype::StringAscii, 1, first);
                (part.concat().len(), chunk.metadata.concat(), chunk.data.concat())
            })
            .collect();
        let filters = [vec![filter], following].concat();
        let expected = strings.concat();
        let mut position = 0;
        let starts: Vec<u64> = strings.iter().map(|s| { position += s.len() as u64; position - s.len() as u64 }).collect();
        let decoded = pipeline(&filters, &context(Datatype::StringAscii, true)).unwrap()
            .decode_strings(&tile(&chunks), strings.len(), expected.len(), &mut FilterScratch::default()).unwrap();
        for (cell, string) in strings.iter().enumerate() {
            prop_assert_eq!(decoded.cell(cell), &string[..]);
        }
        prop_assert_eq!(decoded.cells().unwrap(), (expected, starts));
    }
}

fn list(filters: &[Filter]) -> FilterList {
    FilterList {
        max_chunk_bytes: 65536,
        filters: filters.to_vec(),
        ..FilterList::default()
    }
}

fn refused(filters: &[Filter], datatype: Datatype, tile: &[u8]) -> Error {
    let context = context(datatype, false);
    let encoder = TileEncoder::new(&list(filters), &context);
    encoder
        .and_then(|mut encoder| encoder.encode(tile))
        .unwrap_err()
}

fn doubles(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

const SCALE: Filter = Filter::ScaleFloat {
    scale: 0.5,
    offset: 1.0,
    byte_width: 1,
};

#[test]
fn values_that_a_filter_cannot_hold() {
    let ints: Vec<u8> = [3_i32, 2].iter().flat_map(|v| v.to_le_bytes()).collect();
    let error = refused(&[Filter::PositiveDelta], Datatype::Int32, &ints);
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("decrease"), "{error}");
    // The integers -128 and 127 fit, those beside them do not.
    for value in [64.75, -63.25, f64::NAN, f64::INFINITY] {
        let error = refused(&[SCALE], Datatype::Float64, &doubles(&[1.0, value]));
        assert!(error.message().contains("integers of 8 bits"), "{error}");
    }
    let values = doubles(&[64.5, -63.0]);
    let context = context(Datatype::Float64, false);
    let mut encoder = TileEncoder::new(&list(&[SCALE]), &context).unwrap();
    let written = encoder.encode(&values).unwrap();
    assert_eq!(decode(&[SCALE], &context, &written, 16).unwrap(), values);
}

#[test]
fn filters_that_cannot_be_written() {
    for (filter, name) in [
        (Filter::Bitsort, "bitsort"),
        (Filter::WebP(None), "webp"),
        (Filter::Unknown(42), "unknown (42)"),
    ] {
        let error = refused(&[filter], Datatype::UInt8, &[1]);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(name), "{error}");
    }
    // Behind a compressor the cells are no longer whole.
    for filter in [Filter::Rle, Filter::Delta(None)] {
        let error = refused(&[Filter::Gzip, filter], Datatype::UInt64, &[7; 64]);
        assert!(error.message().contains("first"), "{error}");
    }
}

#[test]
fn nothing_is_stored_of_a_tile_without_bytes() {
    for filters in [
        vec![],
        vec![Filter::DoubleDelta(None)],
        vec![Filter::BitWidthReduction],
        vec![Filter::Zstd],
    ] {
        let context = context(Datatype::UInt64, true);
        let mut encoder = TileEncoder::new(&list(&filters), &context).unwrap();
        assert_eq!(encoder.encode(&[]).unwrap(), [0; 8]);
        assert_eq!(encoder.encode_var(&[], &[0, 0, 0]).unwrap(), [0; 8]);
    }
}

#[test]
fn chunks_that_nobody_wants_are_not_looked_at() {
    let filters = [Filter::ByteShuffle, Filter::Zstd];
    let chunk = |values: [u32; 4]| {
        let bytes = values.map(u32::to_le_bytes).concat();
        let chunk = encode(&filters, Datatype::UInt32, 4, &bytes);
        (bytes.len(), chunk.metadata.concat(), chunk.data.concat())
    };
    let mut chunks = [
        chunk([1, 2, 3, 4]),
        chunk([5, 6, 7, 8]),
        chunk([9, 10, 11, 12]),
    ];
    let damaged = chunks[0].2.len() / 2;
    chunks[0].2[damaged] ^= 0xFF;
    let pipeline = pipeline(&filters, &context(Datatype::UInt32, false)).unwrap();
    let scratch = &mut FilterScratch::default();
    let mut out = [0xAA; 48];
    let tile = tile(&chunks);
    assert!(pipeline.decode(&tile, &mut out, scratch).is_err());
    let wanted = |bytes: std::ops::Range<usize>| {
        assert_eq!(bytes.len(), 16);
        bytes.contains(&20)
    };
    pipeline
        .decode_wanted(&tile, &mut out, wanted, SkippedContents::Zeros, scratch)
        .unwrap();
    let expected: Vec<u8> = [[0; 4], [5, 6, 7, 8], [0; 4]]
        .concat()
        .iter()
        .flat_map(|v: &u32| v.to_le_bytes())
        .collect();
    assert_eq!(out.as_slice(), expected);
    pipeline
        .decode_wanted(&tile, &mut out, wanted, SkippedContents::Anything, scratch)
        .unwrap();
    assert_eq!(out[16..32], expected[16..32]);
    assert!(
        pipeline
            .decode_wanted(
                &tile,
                &mut out[..40],
                |_| false,
                SkippedContents::Zeros,
                scratch
            )
            .is_err()
    );

    // Chunks can be chosen in any order.
    let mut decode = |numbers: &[usize], tile: &[u8], out: &mut [u8]| {
        let mut choice = Numbers::new(numbers);
        let decoded =
            pipeline.decode_chosen(tile, out, &mut choice, SkippedContents::Zeros, scratch);
        decoded.map(|()| choice.seen)
    };
    out.fill(0xAA);
    let seen = decode(&[2, 1], &tile, &mut out).unwrap();
    let bytes = |values: [u32; 4]| values.map(u32::to_le_bytes).concat();
    assert_eq!(seen, [bytes([9, 10, 11, 12]), bytes([5, 6, 7, 8])]);
    assert_eq!(out[..16], [0; 16]);
    assert_eq!(
        out[16..],
        [bytes([5, 6, 7, 8]), bytes([9, 10, 11, 12])].concat()
    );
    assert!(decode(&[], &tile, &mut out).unwrap().is_empty());
    assert_eq!(out, [0; 48]);
    for wrong in [[0].as_slice(), &[1, 1], &[3], &[usize::MAX]] {
        assert!(decode(wrong, &tile, &mut out).is_err(), "{wrong:?}");
    }
    assert!(decode(&[1], &tile, &mut out[..40]).is_err());
    for len in 0..tile.len() {
        assert!(decode(&[1], &tile[..len], &mut out).is_err(), "{len}");
    }
}

/// Chooses chunks by their numbers, and keeps their contents.
struct Numbers {
    left: Vec<usize>,
    seen: Vec<Vec<u8>>,
}

impl Numbers {
    fn new(numbers: &[usize]) -> Self {
        let left = numbers.iter().rev().copied().collect();
        let seen = Vec::new();
        Self { left, seen }
    }
}

impl ChunkChoice for Numbers {
    fn begin(&mut self, chunks: &[std::ops::Range<usize>]) {
        assert_eq!(chunks, [0..16, 16..32, 32..48]);
    }

    fn next(&mut self) -> Option<usize> {
        self.left.pop()
    }

    fn decoded(&mut self, _chunk: usize, bytes: &[u8]) {
        self.seen.push(bytes.to_vec());
    }
}
