//! Tiles that libtiledb 2.30 wrote, and their contents.

use super::*;
use crate::filter::is_empty_tile;

/// A chunk that libtiledb wrote, and its unfiltered bytes.
pub(super) struct Vector {
    pub(super) name: &'static str,
    pub(super) filters: Vec<Filter>,
    pub(super) datatype: Datatype,
    pub(super) metadata: &'static str,
    pub(super) data: &'static str,
    pub(super) expected: Vec<u8>,
}

impl Vector {
    pub(super) fn tile(&self) -> Vec<u8> {
        let chunk = (self.expected.len(), hex(self.metadata), hex(self.data));
        tile(&[chunk])
    }
}

macro_rules! bytes {
    ($type:ty: $($value:expr),*) => {
        [$($value as $type),*].iter().flat_map(|v: &$type| v.to_le_bytes()).collect::<Vec<u8>>()
    };
}

fn vector(
    name: &'static str,
    filters: &[Filter],
    datatype: Datatype,
    metadata: &'static str,
    data: &'static str,
    expected: Vec<u8>,
) -> Vector {
    Vector {
        name,
        filters: filters.to_vec(),
        datatype,
        metadata,
        data,
        expected,
    }
}

/// Lists all vectors of fixed-size cells.
pub(super) fn fixed() -> Vec<Vector> {
    let all = [compressed(), reduced(), shuffled(), scaled(), checked()];
    all.into_iter().flatten().collect()
}

fn compressed() -> Vec<Vector> {
    vec![
        vector(
            "rle",
            &[Filter::Rle],
            Datatype::Int32,
            "00000000010000000c0000000c000000",
            "010000000002020000000001",
            bytes!(i32: 1, 1, 2),
        ),
        vector(
            "double delta",
            &[Filter::DoubleDelta(None)],
            Datatype::Int32,
            "00000000010000001800000019000000",
            "07 0600000000000000 0a000000 0c000000 0000000061868301",
            bytes!(i32: 10, 12, 15, 15, 9, 100),
        ),
        vector(
            "double delta of two values",
            &[Filter::DoubleDelta(None)],
            Datatype::Int32,
            "00000000010000000800000011000000",
            "00 0200000000000000 0a000000 0c000000",
            bytes!(i32: 10, 12),
        ),
        vector(
            "delta",
            &[Filter::Delta(None)],
            Datatype::Int32,
            "00000000010000000c00000014000000",
            "0300000000000000 0a000000 02000000 fdffffff",
            bytes!(i32: 10, 12, 9),
        ),
        vector(
            "lz4",
            &[Filter::Lz4],
            Datatype::Int32,
            "0000000001000000280000000e000000",
            "4f0100000004000c500001000000",
            bytes!(i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
        ),
    ]
}

fn reduced() -> Vec<Vector> {
    vec![
        vector(
            "bit-width reduction",
            &[Filter::BitWidthReduction],
            Datatype::Int32,
            "0c000000 01000000 05000000 08 0c000000",
            "007e02",
            bytes!(i32: 5, 131, 7),
        ),
        vector(
            "bit-width reduction, signed",
            &[Filter::BitWidthReduction],
            Datatype::Int32,
            "0c000000 01000000 9cffffff 10 0c000000",
            "0000c8006700",
            bytes!(i32: -100, 100, 3),
        ),
        vector(
            "positive delta",
            &[Filter::PositiveDelta],
            Datatype::UInt32,
            "01000000 05000000 10000000",
            "0000000002000000000000000d000000",
            bytes!(u32: 5, 7, 7, 20),
        ),
    ]
}

fn shuffled() -> Vec<Vector> {
    vec![
        vector(
            "bitshuffle of 16 + 2 bytes",
            &[Filter::BitShuffle],
            Datatype::UInt16,
            "02000000 10000000 02000000",
            "55667880000000000000000000000000 0900",
            bytes!(u16: 1, 2, 3, 4, 5, 6, 7, 8, 9),
        ),
        vector(
            "bitshuffle of 8 + 4 elements",
            &[Filter::BitShuffle],
            Datatype::UInt16,
            "01000000 18000000",
            "55667880000000000000000000000000 09000a000b000c00",
            bytes!(u16: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
        ),
        vector(
            "byteshuffle",
            &[Filter::ByteShuffle],
            Datatype::Int32,
            "01000000 0c000000",
            "010000 000100 000001 000000",
            bytes!(i32: 1, 256, 65536),
        ),
        vector(
            "xor",
            &[Filter::Xor],
            Datatype::Int32,
            "01000000 0c000000",
            "01000000 02000000 01000000",
            bytes!(i32: 1, 3, 2),
        ),
    ]
}

fn scaled() -> Vec<Vector> {
    let scale = Filter::ScaleFloat {
        scale: 0.25,
        offset: 10.0,
        byte_width: 2,
    };
    vec![vector(
        "float scale",
        &[scale],
        Datatype::Float64,
        "01000000 08000000",
        "0000 0100 0300 0400",
        bytes!(f64: 10.0, 10.25, 10.75, 11.0),
    )]
}

fn checked() -> Vec<Vector> {
    vec![
        vector(
            "md5",
            &[Filter::Md5],
            Datatype::Int32,
            "00000000 01000000 0400000000000000 4352d88a78aa39750bf70cd6f27bcaa5",
            "01000000",
            bytes!(i32: 1),
        ),
        vector(
            "byteshuffle, md5",
            &[Filter::ByteShuffle, Filter::Md5],
            Datatype::Int32,
            "01000000 01000000 0800000000000000 9ae45f82d7ebe1ce859031cf790ec957
             0800000000000000 6c5f074f2e32f8d82be656a7d979b961 01000000 08000000",
            "0100000100000000",
            bytes!(i32: 1, 256),
        ),
    ]
}

const RLE_STRINGS: (&str, &str) = (
    "00000000 01000000 08000000 0a000000 30000000 01 01",
    "0301780202797901017a",
);
const DICTIONARY_STRINGS: (&str, &str) = (
    "0000000001000000080000000600000030000000 0101 07000000 0178 027979 017a",
    "000000010102",
);

/// The two encodings of the strings x, x, x, yy, yy, z.
pub(super) fn strings() -> [(Filter, Vec<u8>); 2] {
    [
        (Filter::Rle, RLE_STRINGS),
        (Filter::Dictionary, DICTIONARY_STRINGS),
    ]
    .map(|(filter, (metadata, data))| (filter, tile(&[(8, hex(metadata), hex(data))])))
}

#[test]
fn fixed_vectors_decode_to_what_libtiledb_was_given() {
    for vector in fixed() {
        let context = context(vector.datatype, false);
        let out = decode(
            &vector.filters,
            &context,
            &vector.tile(),
            vector.expected.len(),
        );
        assert_eq!(out.unwrap(), vector.expected, "{}", vector.name);
    }
}

#[test]
fn string_vectors_decode_with_their_offsets() {
    for (filter, filtered) in strings() {
        let pipeline = pipeline(&[filter], &context(Datatype::StringAscii, true)).unwrap();
        assert!(pipeline.produces_offsets());
        let strings = pipeline
            .decode_strings(&filtered, 6, 8, &mut FilterScratch::default())
            .unwrap();
        assert!(strings.strings() < 6, "each string is there once");
        let (data, starts) = strings.cells().unwrap();
        assert_eq!(&data, b"xxxyyyyz");
        assert_eq!(starts, [0, 1, 2, 3, 5, 7]);
    }
}

/// For strings that are all empty, libtiledb 2.9 writes one empty chunk, and then cannot read it.
#[test]
fn nothing_at_all_is_that_many_empty_strings() {
    for (filter, _) in strings() {
        let pipeline = pipeline(&[filter], &context(Datatype::StringAscii, true)).unwrap();
        for chunks in [&[][..], &[(0, vec![], vec![])]] {
            let scratch = &mut FilterScratch::default();
            let strings = pipeline.decode_strings(&tile(chunks), 5, 0, scratch);
            let (data, starts) = strings.unwrap().cells().unwrap();
            assert_eq!((data.len(), starts), (0, vec![0; 5]));
            assert!(
                pipeline
                    .decode_strings(&tile(chunks), 5, 1, scratch)
                    .is_err()
            );
        }
    }
}

/// What libtiledb 2.30 writes of seven empty strings as runs: it never ends reading them if there is no chunk.
#[test]
fn empty_strings_are_written_as_runs() {
    let context = context(Datatype::StringAscii, true);
    for (filter, _) in strings() {
        let list = FilterList {
            max_chunk_bytes: 65536,
            filters: vec![filter.clone()],
            ..FilterList::default()
        };
        let mut encoder = TileEncoder::new(&list, &context).unwrap();
        assert_eq!(encoder.encode_strings(&[], &[]).unwrap(), [0; 8]);
        let written = encoder.encode_strings(&[], &[0; 7]).unwrap();
        if matches!(filter, Filter::Rle) {
            let chunk = [
                1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 22, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0,
                0, 0, 0, 0, 0, 2, 0, 0, 0, 56, 0, 0, 0, 1, 1, 7, 0,
            ];
            assert_eq!(written, chunk);
        }
        let pipeline = pipeline(&[filter], &context).unwrap();
        let strings = pipeline.decode_strings(&written, 7, 0, &mut FilterScratch::default());
        let (data, starts) = strings.unwrap().cells().unwrap();
        assert_eq!((data.len(), starts), (0, vec![0; 7]));
    }
}

#[test]
fn a_wrong_number_of_cells_or_bytes_is_an_error() {
    for (filter, filtered) in strings() {
        let pipeline = pipeline(&[filter], &context(Datatype::StringUtf8, true)).unwrap();
        for (bytes, cells) in [(8, 5), (8, 7), (7, 6), (9, 6), (0, 6), (8, 0)] {
            let result =
                pipeline.decode_strings(&filtered, cells, bytes, &mut FilterScratch::default());
            assert!(result.is_err(), "{bytes} bytes, {cells} cells");
        }
    }
    for vector in fixed() {
        let context = context(vector.datatype, false);
        for len in [0, vector.expected.len() - 1, vector.expected.len() + 1] {
            assert!(decode(&vector.filters, &context, &vector.tile(), len).is_err());
        }
    }
}

#[test]
fn the_schema_version_decides_on_the_string_form() {
    let produces = |filter: Filter, datatype, version, var_data| {
        let context = TileContext {
            schema_version: FormatVersion::known(version),
            ..context(datatype, var_data)
        };
        pipeline(&[filter], &context).map(|p| p.produces_offsets())
    };
    let (ascii, utf8) = (Datatype::StringAscii, Datatype::StringUtf8);
    assert!(!produces(Filter::Rle, ascii, 11, true).unwrap());
    assert!(produces(Filter::Rle, ascii, 12, true).unwrap());
    assert!(!produces(Filter::Rle, utf8, 16, true).unwrap());
    assert!(produces(Filter::Rle, utf8, 17, true).unwrap());
    assert!(!produces(Filter::Rle, ascii, 22, false).unwrap());
    assert!(!produces(Filter::Rle, Datatype::Char, 22, true).unwrap());
    assert!(produces(Filter::Dictionary, ascii, 12, true).is_err());
    assert!(produces(Filter::Dictionary, ascii, 13, true).unwrap());
    assert!(produces(Filter::Dictionary, utf8, 17, true).unwrap());
}

#[test]
fn an_offsets_tile_without_chunks_overrules_the_version() {
    let context = TileContext {
        schema_version: FormatVersion::known(16),
        ..context(Datatype::StringUtf8, true)
    };
    let list = FilterList {
        max_chunk_bytes: 65536,
        filters: vec![Filter::Rle],
        ..FilterList::default()
    };
    assert!(
        !Pipeline::new(&list, &context, None)
            .unwrap()
            .produces_offsets()
    );
    let forced = Pipeline::with_offsets_in_data(&list, &context, None).unwrap();
    assert!(forced.unwrap().produces_offsets());
    assert!(is_empty_tile(&[0; 8]).unwrap());
}

#[test]
fn dates_are_reduced_only_since_version_20() {
    let vector = |version| {
        let context = TileContext {
            fragment_version: FormatVersion::known(version),
            ..context(Datatype::DateTimeDay, false)
        };
        let metadata = hex("01000000 0500000000000000 10000000");
        let reduced = tile(&[(16, metadata, bytes!(i64: 0, 2))]);
        let untouched = tile(&[(16, vec![], bytes!(i64: 5, 7))]);
        (
            decode(&[Filter::PositiveDelta], &context, &reduced, 16),
            decode(&[Filter::PositiveDelta], &context, &untouched, 16),
        )
    };
    assert_eq!(vector(20).0.unwrap(), bytes!(i64: 5, 7));
    assert!(vector(20).1.is_err());
    assert_eq!(vector(19).0.unwrap(), bytes!(i64: 0, 2));
    assert_eq!(vector(19).1.unwrap(), bytes!(i64: 5, 7));
}

#[test]
fn empty_chunks_and_tiles_hold_nothing() {
    let int32 = context(Datatype::Int32, false);
    let one = hex("01000000");
    let with_empty = tile(&[
        (0, hex("0000000001000000"), hex("78 9c 03 00 00 00 00 01")),
        (4, vec![], one.clone()),
        (0, vec![], vec![]),
    ]);
    assert_eq!(decode(&[], &int32, &with_empty, 4).unwrap(), one);
    assert_eq!(
        decode(&[Filter::Gzip], &int32, &[0; 8], 0).unwrap(),
        Vec::<u8>::new()
    );
    let missing = decode(&[Filter::Gzip], &int32, &[0; 8], 4).unwrap_err();
    assert!(missing.to_string().contains("no chunks"), "{missing}");
}

#[test]
fn filters_that_cannot_be_read_are_named() {
    for (filter, name) in [
        (Filter::Unknown(42), "filter unknown (42) cannot be read"),
        (Filter::WebP(None), "filter webp cannot be read"),
    ] {
        let error =
            pipeline(&[Filter::Zstd, filter], &context(Datatype::UInt8, false)).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Unsupported);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn bitsort_is_undone_by_the_order_it_is_told() {
    let uint16 = context(Datatype::UInt16, false);
    let filters = [Filter::Xor, Filter::Bitsort];
    // 7, 5, 6 are 7, 2, 3 under XOR, then sorted.
    let metadata = hex("01000000 06000000 01000000 06000000");
    let stored = tile(&[(6, metadata, hex("0200 0300 0700"))]);
    let compiled = pipeline(&filters, &uint16).unwrap();
    let in_order = |stored: &[u8], order: &[u32]| {
        let mut out = [0; 6];
        let scratch = &mut FilterScratch::default();
        let done = compiled.decode_in_order(stored, order, &mut out, scratch);
        done.map(|()| out)
    };
    assert_eq!(in_order(&stored, &[2, 0, 1]).unwrap(), [7, 0, 5, 0, 6, 0]);
    for wrong in [&[0, 1][..], &[0, 1, 3], &[0, 1, 2, 0], &[]] {
        assert!(in_order(&stored, wrong).is_err());
    }
    for len in 0..stored.len() {
        assert!(in_order(&stored[..len], &[2, 0, 1]).is_err());
    }
    let untold = decode(&filters, &uint16, &stored, 6).unwrap_err();
    assert_eq!(untold.kind(), crate::error::ErrorKind::Unsupported);
    assert!(untold.to_string().contains("bitsort"), "{untold}");
}
