//! Tests on forged tiles: truncated, with flipped bits, with wrong sizes. Errors are fine, panics and large allocations
//! are not.

use proptest::prelude::*;

use super::encoders::encode;
use super::encryption::{NO_FILTERS, ONE_GZIP, boxed};
use super::vectors::{fixed, strings};
use super::*;
use crate::filter::generic_tile;

#[test]
fn every_truncation_of_every_vector_is_an_error() {
    for vector in fixed() {
        let (filtered, context) = (vector.tile(), context(vector.datatype, false));
        for len in 0..filtered.len() {
            let result = decode(
                &vector.filters,
                &context,
                &filtered[..len],
                vector.expected.len(),
            );
            assert!(result.is_err(), "{} cut to {len}", vector.name);
        }
    }
    for (filter, filtered) in strings() {
        let pipeline = pipeline(&[filter], &context(Datatype::StringAscii, true)).unwrap();
        for len in 0..filtered.len() {
            let filtered = &filtered[..len];
            let result = pipeline.decode_strings(filtered, 6, 8, &mut Scratch::default());
            assert!(result.is_err());
        }
    }
}

#[test]
fn every_single_bit_flip_of_every_vector_is_survived() {
    let flips = |filtered: &[u8]| {
        let filtered = filtered.to_vec();
        (0..filtered.len() * 8).map(move |bit| {
            let mut flipped = filtered.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            flipped
        })
    };
    for vector in fixed() {
        let context = context(vector.datatype, false);
        for flipped in flips(&vector.tile()) {
            let _ = decode(&vector.filters, &context, &flipped, vector.expected.len());
        }
    }
    for (filter, filtered) in strings() {
        let pipeline = pipeline(&[filter], &context(Datatype::StringAscii, true)).unwrap();
        for flipped in flips(&filtered) {
            let decoded = pipeline.decode_strings(&flipped, 6, 8, &mut Scratch::default());
            if let Ok(decoded) = decoded {
                let (data, starts) = decoded.cells().unwrap();
                assert_eq!((data.len(), starts.len()), (8, 6));
            }
        }
    }
}

#[test]
fn a_damaged_byte_under_a_checksum_is_found() {
    let filters = [Filter::Md5, Filter::Zstd, Filter::Sha256];
    let chunk = encode(&filters, Datatype::UInt8, 1, b"some data, some data");
    let good = (20, chunk.metadata.concat(), chunk.data.concat());
    let context = context(Datatype::UInt8, false);
    assert!(decode(&filters, &context, &tile(std::slice::from_ref(&good)), 20).is_ok());
    for i in 0..good.2.len() {
        let mut bad = good.clone();
        bad.2[i] ^= 0x10;
        assert!(decode(&filters, &context, &tile(&[bad]), 20).is_err());
    }
}

#[test]
fn a_lying_generic_tile_costs_no_memory() {
    let claim = u32::MAX;
    // A chunk that claims 4 GiB, under gzip and without a filter.
    let mut metadata = [0_u32, 1, claim, 8].map(u32::to_le_bytes).concat();
    let data = hex("78 9c 03 00 00 00 00 01");
    for filters in [ONE_GZIP, NO_FILTERS] {
        let filtered = tile(&[(claim as usize, metadata.clone(), data.clone())]);
        assert!(
            generic_tile::decode(
                &boxed(filters, u64::from(claim), 0, &filtered),
                "test",
                None
            )
            .is_err()
        );
        metadata.clear();
    }
    // There are more chunks than bytes.
    let filtered = u64::MAX.to_le_bytes();
    assert!(generic_tile::decode(&boxed(ONE_GZIP, 1, 0, &filtered), "test", None).is_err());
}

#[test]
fn claims_of_intermediate_sizes_cost_no_memory() {
    // The inner size of a compressor below a byte shuffle is a claim that the output size does not confirm.
    for filter in [
        Filter::Zstd,
        Filter::Gzip,
        Filter::Lz4,
        Filter::Bzip2,
        Filter::Rle,
    ] {
        let filters = [Filter::ByteShuffle, filter];
        let mut chunk = encode(&filters, Datatype::UInt16, 2, &[1; 64]);
        for part in 0..2 {
            let at = 8 + part * 8;
            for claim in [1_u32 << 20, u32::MAX] {
                chunk.metadata[0][at..at + 4].copy_from_slice(&claim.to_le_bytes());
                let filtered = tile(&[(64, chunk.metadata.concat(), chunk.data.concat())]);
                assert!(
                    decode(&filters, &context(Datatype::UInt16, false), &filtered, 64).is_err()
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_damage_is_survived(
        values in prop::collection::vec(0..500_u32, 1..300),
        which in 0..12_usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let stacks: [&[Filter]; 12] = [
            &[Filter::ByteShuffle, Filter::Zstd],
            &[Filter::BitShuffle, Filter::Lz4],
            &[Filter::BitWidthReduction, Filter::Gzip],
            &[Filter::PositiveDelta, Filter::Bzip2],
            &[Filter::DoubleDelta(None)],
            &[Filter::Delta(None), Filter::Zstd],
            &[Filter::Xor, Filter::BitShuffle],
            &[Filter::Rle],
            &[Filter::BitWidthReduction],
            &[Filter::PositiveDelta],
            &[Filter::BitShuffle],
            &[Filter::ByteShuffle, Filter::BitShuffle, Filter::Gzip, Filter::Zstd],
        ];
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let chunk = encode(stacks[which], Datatype::UInt32, 4, &data);
        let mut filtered = tile(&[(data.len(), chunk.metadata.concat(), chunk.data.concat())]);
        for (index, byte) in damage {
            let at = index.index(filtered.len());
            filtered[at] = byte;
        }
        let _ = decode(stacks[which], &context(Datatype::UInt32, false), &filtered, data.len());
    }

    #[test]
    fn noise_is_survived(
        metadata in prop::collection::vec(0..6_u8, 0..80),
        data in prop::collection::vec(any::<u8>(), 0..80),
        original in 0..100_usize,
        which in 0..14_usize,
    ) {
        let filters = [
            Filter::Gzip, Filter::Zstd, Filter::Lz4, Filter::Bzip2, Filter::Rle, Filter::Delta(None),
            Filter::DoubleDelta(None), Filter::PositiveDelta, Filter::BitWidthReduction, Filter::BitShuffle,
            Filter::ByteShuffle, Filter::Xor, Filter::Md5,
            Filter::ScaleFloat { scale: 2.0, offset: 1.0, byte_width: 2 },
        ];
        let filtered = tile(&[(original, metadata.clone(), data.clone())]);
        let filter = filters[which].clone();
        let _ = decode(&[filter], &context(Datatype::Int32, false), &filtered, original);
        for filter in [Filter::Rle, Filter::Dictionary] {
            let pipeline = pipeline(&[filter], &context(Datatype::StringAscii, true)).unwrap();
            let _ = pipeline.decode_strings(&filtered, metadata.len(), original, &mut Scratch::default());
        }
    }
}
