//! Tests on forged tiles: truncated, with flipped bits, with wrong sizes. Errors are fine, panics and large allocations
//! are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;

use super::encoders::{Encoded, encode, encode_chunk};
use super::encryption::{NO_FILTERS, ONE_GZIP, boxed};
use super::vectors::{fixed, strings};
use super::*;
use crate::error::{Error, ErrorKind};
use crate::filter::generic_tile;
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;
use crate::memory::budget::{Grant, MemoryBudget};

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
            let result = pipeline.decode_strings(filtered, 6, 8, &mut FilterScratch::default());
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
            let decoded = pipeline.decode_strings(&flipped, 6, 8, &mut FilterScratch::default());
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

/// A budget in bytes, to which every grant returns.
#[derive(Debug)]
struct Limited(Arc<AtomicUsize>);

impl MemoryBudget for Limited {
    fn reserve(&self, bytes: usize) -> Result<Grant> {
        let left = Arc::clone(&self.0);
        let take = |left: usize| left.checked_sub(bytes);
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map_err(|_| Error::out_of_memory("the budget is too small"))?;
        Ok(Grant::new(bytes, move |bytes| {
            left.fetch_add(bytes, Ordering::Relaxed);
        }))
    }
}

#[test]
fn a_chunk_cannot_be_larger_between_its_filters_than_a_writer_makes_it() {
    // What is inside the outer compressor expands to far more than two bytes and their filters can need.
    let shuffles = vec![Filter::ByteShuffle; 7];
    for size in [40_000_u32, 1 << 20, 1 << 30] {
        let zeros = vec![0; size.min(1 << 20) as usize];
        let inner = encode(&[Filter::Zstd], Datatype::UInt16, 2, &zeros);
        let mut metadata = inner.metadata.concat();
        metadata[8..12].copy_from_slice(&size.to_le_bytes());
        let inner = Encoded {
            metadata: vec![metadata],
            ..inner
        };
        let outer = encode_chunk(&[Filter::Zstd], Datatype::UInt16, 2, inner);
        let filters = [shuffles.clone(), vec![Filter::Zstd; 2]].concat();
        let filtered = tile(&[(64, outer.metadata.concat(), outer.data.concat())]);
        let error = decode(&filters, &context(Datatype::UInt16, false), &filtered, 64).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("more than a chunk of this size can need"),
            "{size}: {message}"
        );
    }
}

#[test]
fn dictionaries_and_runs_of_many_strings_pass_all_filters() {
    let strings = (0..5000_u32)
        .map(|i| format!("{i:*>9}").into_bytes())
        .collect::<Vec<_>>();
    let expected = strings.concat();
    let mut position = 0;
    let starts = strings
        .iter()
        .map(|string| {
            position += string.len() as u64;
            position - string.len() as u64
        })
        .collect::<Vec<_>>();
    for text in [
        "dictionary",
        "dictionary, zstd(3)",
        "dictionary, checksum_md5, gzip(1), lz4",
        "rle",
        "rle, zstd(3), checksum_sha256",
    ] {
        let list = FilterList::parse(text).unwrap();
        let context = context(Datatype::StringAscii, true);
        let mut encoder = TileEncoder::new(&list, &context).unwrap();
        let written = encoder.encode_strings(&expected, &starts).unwrap();
        let pipeline = Pipeline::new(&list, &context, None).unwrap();
        let read = pipeline.decode_strings(
            &written,
            5000,
            expected.len(),
            &mut FilterScratch::default(),
        );
        assert_eq!(read.unwrap().cells().unwrap().0, expected, "{text}");
    }
}

#[test]
fn large_chunks_ask_for_what_lies_between_their_filters() {
    let data = vec![7; 8 << 20];
    let one = vec![Filter::Zstd];
    let two = vec![Filter::ByteShuffle, Filter::Zstd];
    let three = vec![Filter::ByteShuffle, Filter::BitShuffle, Filter::Zstd];
    // A single filter decodes into its place. Of two, one puts out what the other takes in; of three, both are there at a time.
    for (filters, budget, enough, asks) in [
        (&one, 0, true, false),
        (&two, 6 << 20, false, true),
        (&two, 7 << 20, true, true),
        (&three, 14 << 20, false, true),
        (&three, 15 << 20, true, true),
    ] {
        let chunk = encode(filters, Datatype::UInt16, 2, &data);
        let filtered = tile(&[(data.len(), chunk.metadata.concat(), chunk.data.concat())]);
        let pipeline = pipeline(filters, &context(Datatype::UInt16, false)).unwrap();
        let left = Arc::new(AtomicUsize::new(budget));
        let mut scratch = FilterScratch::default();
        scratch.account_in(Arc::new(Limited(Arc::clone(&left))));
        let mut out = vec![0; data.len()];
        let decoded = pipeline.decode(&filtered, &mut out, &mut scratch);
        if enough {
            decoded.unwrap();
            assert_eq!(out, data);
            assert_eq!(left.load(Ordering::Relaxed) < budget, asks);
        } else {
            assert_eq!(decoded.unwrap_err().kind(), ErrorKind::OutOfMemory)
        }
        scratch.settle();
        assert_eq!(left.load(Ordering::Relaxed), budget);
    }
}

#[test]
fn generic_tiles_are_no_larger_than_gzip_makes_them() {
    let zeros = vec![0; 2 << 20];
    // Two stages of gzip.
    let stacked = "00000100 02000000 01 05000000 01 01000000 01 05000000 01 01000000";
    let chunk = encode(&vec![Filter::Gzip; 2], Datatype::Char, 1, &zeros);
    let filtered = tile(&[(zeros.len(), chunk.metadata.concat(), chunk.data.concat())]);
    let bytes = boxed(stacked, zeros.len() as u64, 0, &filtered);
    let error = generic_tile::decode(&bytes, "array schema", None).unwrap_err();
    assert_eq!(
        error.to_string().split(" (").next().unwrap(),
        format!(
            "corrupt data: the header says 2097152 bytes, but gzip, which is what writers use, makes 1048576 at most of {} stored ones",
            filtered.len()
        )
    );
    let once = encode(&[Filter::Gzip], Datatype::Char, 1, &zeros);
    let filtered = tile(&[(zeros.len(), once.metadata.concat(), once.data.concat())]);
    let bytes = boxed(ONE_GZIP, zeros.len() as u64, 0, &filtered);
    let decoded = generic_tile::decode(&bytes, "array schema", None).unwrap();
    assert_eq!(decoded.data, zeros);
}

#[test]
fn pipelines_have_at_most_thirty_two_filters() {
    let filters = |count| ["zstd(1)"].repeat(count).join(", ");
    let most = FilterList::parse(&filters(32)).unwrap();
    let error = FilterList::parse(&filters(33)).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("has 33 filters, expected 32 at most")
    );
    let mut encoder = Encoder::new();
    most.encode(&mut encoder).unwrap();
    let mut stored = encoder.finish();
    let read = |stored: &[u8]| {
        let mut cursor = Cursor::new(stored, "pipeline");
        FilterList::decode(&mut cursor, FormatVersion::WRITTEN)
    };
    assert_eq!(read(&stored).unwrap(), most);
    stored.splice(4..8, 33_u32.to_le_bytes());
    stored.extend([2, 5, 0, 0, 0, 2, 1, 0, 0, 0]);
    let error = read(&stored).unwrap_err().to_string();
    assert!(
        error.contains("\"number of filters\" is 33, expected 32 at most"),
        "{error}"
    );
}

#[test]
fn what_does_not_compress_passes_every_filter_many_times() {
    let mut noise = 1_u64;
    let noise = (0..4096)
        .flat_map(|_| {
            noise = noise.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (noise >> 16).to_le_bytes()
        })
        .collect::<Vec<_>>();
    for (first, again, times) in [
        ("", "gzip(1)", 32),
        ("", "zstd(1)", 32),
        ("", "lz4", 32),
        ("", "bzip2(1)", 8),
        ("rle", "zstd(1)", 8),
        ("", "delta", 32),
        ("", "double_delta", 1),
        ("", "bitshuffle", 32),
        ("", "byteshuffle", 32),
        ("", "xor", 32),
        ("", "checksum_md5", 32),
        ("", "bit_width_reduction(8)", 4),
        ("", "bit_width_reduction(8), zstd(1)", 4),
        ("positive_delta(8)", "zstd(1)", 8),
    ] {
        for datatype in [Datatype::UInt16, Datatype::UInt64] {
            let mut data = noise.clone();
            if first.starts_with("positive") {
                // Positive delta refuses values that decrease.
                data = (0..4096_u64)
                    .flat_map(|v| (v * 15).to_le_bytes()[..datatype.size()].to_vec())
                    .collect();
            }
            let stages = [first]
                .into_iter()
                .filter(|first| !first.is_empty())
                .chain([again].repeat(times))
                .collect::<Vec<_>>();
            let list = FilterList::parse(&stages[..stages.len().min(32)].join(", ")).unwrap();
            let context = context(datatype, false);
            let written = match TileEncoder::new(&list, &context).and_then(|mut e| e.encode(&data))
            {
                Ok(written) => written,
                Err(error) => panic!("{list}: {error}"),
            };
            let pipeline = Pipeline::new(&list, &context, None).unwrap();
            let mut out = vec![0; data.len()];
            pipeline
                .decode(&written, &mut out, &mut FilterScratch::default())
                .unwrap();
            assert!(out == data, "{list}");
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
            let _ = pipeline.decode_strings(&filtered, metadata.len(), original, &mut FilterScratch::default());
        }
    }
}

#[test]
fn decoding_ends_at_the_next_chunk_when_nobody_waits() {
    let stop = Arc::new(AtomicBool::new(false));
    let filters = vec![Filter::Zstd];
    let chunk = encode(&filters, Datatype::UInt16, 2, &[7; 1000]);
    let chunk = (1000, chunk.metadata.concat(), chunk.data.concat());
    let filtered = tile(&[chunk.clone(), chunk]);
    let pipeline = pipeline(&filters, &context(Datatype::UInt16, false)).unwrap();
    let mut scratch = FilterScratch::default();
    let decode = |scratch: &mut FilterScratch| pipeline.decode(&filtered, &mut [0; 2000], scratch);
    scratch.end_when(Arc::clone(&stop));
    decode(&mut scratch).unwrap();
    stop.store(true, Ordering::Relaxed);
    let error = decode(&mut scratch).unwrap_err();
    assert!(error.to_string().contains("nobody waits"), "{error}");
    // The thread goes on with other work.
    scratch.settle();
    decode(&mut scratch).unwrap();
}
