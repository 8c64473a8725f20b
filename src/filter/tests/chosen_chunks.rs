//! Tests that chunks that are not wanted, or not chosen, are not decoded.

use super::encoders::encode;
use super::*;
use crate::filter::{ChunkChoice, Unwanted};

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
    let scratch = &mut Scratch::default();
    let mut out = [0xAA; 48];
    let tile = tile(&chunks);
    assert!(pipeline.decode(&tile, &mut out, scratch).is_err());
    let wanted = |bytes: std::ops::Range<usize>| {
        assert_eq!(bytes.len(), 16);
        bytes.contains(&20)
    };
    pipeline
        .decode_wanted(&tile, &mut out, wanted, Unwanted::Zeros, scratch)
        .unwrap();
    let expected = [[0; 4], [5, 6, 7, 8], [0; 4]].concat();
    let expected: Vec<u8> = expected
        .iter()
        .flat_map(|v: &u32| v.to_le_bytes())
        .collect();
    assert_eq!(out.as_slice(), expected);
    pipeline
        .decode_wanted(&tile, &mut out, wanted, Unwanted::Anything, scratch)
        .unwrap();
    assert_eq!(out[16..32], expected[16..32]);
    assert!(
        pipeline
            .decode_wanted(&tile, &mut out[..40], |_| false, Unwanted::Zeros, scratch)
            .is_err()
    );

    // Chunks can be chosen in any order.
    let mut decode = |numbers: &[usize], tile: &[u8], out: &mut [u8]| {
        let mut choice = Numbers::new(numbers);
        let decoded = pipeline.decode_chosen(tile, out, &mut choice, Unwanted::Zeros, scratch);
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
