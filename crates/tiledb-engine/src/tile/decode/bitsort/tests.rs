//! Tiles that libtiledb 2.14.0 wrote: seven cells of two `INT32` dimensions, an `INT16` attribute.

use super::*;
use crate::arrow::{CellData, ColumnType, TypeOptions, UnfilteredCells};
use crate::error::ErrorKind;
use crate::format::fixtures::{survives_bit_flips, unhex};
use crate::format::schema::{ArrayType, Layout};
use crate::format::version::FormatVersion;
use crate::tile::decode::{ColumnDecoder, TileBytes, tests as tile_tests};
use crate::tile::tile_memory::DecodeScratch;

const VERSION: FormatVersion = FormatVersion::known(17);

/// The cells in the order of writing.
const FIRST: [i32; 7] = [1, 12, 6, 3, 2, 6, 5];
const SECOND: [i32; 7] = [6, 1, 5, 10, 2, 4, 6];
const VALUES: [i16; 7] = [300, -1, -300, 0, 7, 300, 5];

/// A fragment with one tile.
struct Written {
    cell_order: Layout,
    tile_order: Layout,
    filters: &'static [Filter],
    coordinates: [&'static str; 2],
    values: &'static str,
    /// The cells in global order, by another attribute.
    order: [usize; 7],
}

const BITSORT: Filter = Filter::Bitsort;

const WRITTEN: [Written; 4] = [
    Written {
        cell_order: Layout::RowMajor,
        tile_order: Layout::RowMajor,
        filters: &[BITSORT],
        coordinates: [
            "03000000 05000000 02000000 01000000 06000000 06000000 0c000000",
            "0a000000 06000000 02000000 06000000 04000000 05000000 01000000",
        ],
        values: "0100000000000000 0e000000 0e000000 08000000 01000000 0e000000
                 0000 0500 0700 2c01 2c01 d4fe ffff",
        order: [4, 0, 3, 6, 5, 2, 1],
    },
    Written {
        cell_order: Layout::ColMajor,
        tile_order: Layout::RowMajor,
        filters: &[Filter::ByteShuffle, BITSORT, Filter::Md5],
        coordinates: [
            "06000000 01000000 03000000 06000000 02000000 05000000 0c000000",
            "04000000 06000000 0a000000 05000000 02000000 06000000 01000000",
        ],
        values: "0100000000000000 0e000000 0e000000 60000000 02000000 01000000 0800000000000000
                 ae289baef8e2ed0a0ec1001979242d0e 0800000000000000 ae289baef8e2ed0a0ec1001979242d0e
                 0e00000000000000 89f445ba997920e52de7a873650bef9d 01000000 0e000000 01000000 0e000000
                 0100 0500 ff00 0001 072c 2cd4 feff",
        order: [4, 0, 6, 3, 5, 2, 1],
    },
    Written {
        cell_order: Layout::ColMajor,
        tile_order: Layout::ColMajor,
        filters: &[BITSORT, Filter::Gzip],
        coordinates: [
            "03000000 05000000 02000000 06000000 01000000 06000000 0c000000",
            "0a000000 06000000 02000000 04000000 06000000 05000000 01000000",
        ],
        values: "0100000000000000 0e000000 24000000 18000000 01000000 01000000 08000000 0e000000 0e000000 16000000
                 789c63646060e003620000480010 789c636060656067d061d461bcf2efff7f000c4b0437",
        order: [4, 5, 2, 1, 0, 6, 3],
    },
    Written {
        cell_order: Layout::Hilbert,
        tile_order: Layout::RowMajor,
        filters: &[Filter::Xor, BITSORT],
        coordinates: [
            "02000000 01000000 06000000 03000000 05000000 06000000 0c000000",
            "02000000 06000000 04000000 0a000000 06000000 05000000 01000000",
        ],
        values: "0100000000000000 0e000000 0e000000 10000000 01000000 0e000000 01000000 0e000000
                 0700 2901 2b01 2c01 d1fe f8ff ffff",
        order: [4, 5, 2, 6, 0, 3, 1],
    },
];

/// Two dimensions `d` and `e` of `INT32` from 1 to 12 in tiles of 5, and an attribute.
fn schema(datatype: Datatype, filters: &[Filter]) -> ArraySchema {
    let mut attribute = tile_tests::attribute(datatype, CellValNum::Fixed(1), false);
    attribute.filters.filters = filters.to_vec();
    let mut schema = tile_tests::schema(&attribute);
    let int = |value: i32| value.to_le_bytes().to_vec();
    schema.dimensions[0].domain = Some((int(1), int(12)));
    schema.dimensions[0].extent = Some(int(5));
    let mut second = schema.dimensions[0].clone();
    second.name = "e".to_owned();
    schema.dimensions.push(second);
    schema
}

impl Written {
    fn schema(&self) -> ArraySchema {
        let mut schema = schema(Datatype::Int16, self.filters);
        (schema.cell_order, schema.tile_order) = (self.cell_order, self.tile_order);
        schema
    }

    fn coordinates(&self) -> Vec<Bytes> {
        self.coordinates.map(|tile| unhex(tile).into()).to_vec()
    }
}

fn dimension_decoder(schema: &ArraySchema, d: usize) -> Result<ColumnDecoder> {
    let ty = ColumnType::of_dimension(&schema.dimensions[d], &TypeOptions::default())?;
    ColumnDecoder::for_dimension(schema, d, VERSION, &ty, None)
}

fn attribute_decoder(schema: &ArraySchema) -> Result<ColumnDecoder> {
    let ty = tile_tests::column_type(&schema.attributes[0]);
    ColumnDecoder::for_attribute(schema, 0, VERSION, &ty, None)
}

/// The bytes of a field's cells in global order.
fn restored(
    decoder: &ColumnDecoder,
    stored: &[u8],
    coordinates: &[Bytes],
    cells: usize,
    duplicates: EqualCells,
) -> Result<Vec<u8>> {
    let bitsort = decoder.bitsort().expect("the field is moved");
    let order = bitsort.order(coordinates, cells, duplicates)?;
    let tile = TileBytes {
        values: stored.to_vec().into(),
        var: None,
        validity: None,
    };
    match decoder.decode_moved(&tile, &order, &mut DecodeScratch::default())? {
        UnfilteredCells {
            data: CellData::Fixed(values),
            ..
        } => Ok(values.as_slice().to_vec()),
        _ => panic!("the cells are of fixed size"),
    }
}

fn le<const N: usize>(values: impl Iterator<Item = [u8; N]>) -> Vec<u8> {
    values.flatten().collect()
}

#[test]
fn cells_come_back_into_global_order() {
    for written in &WRITTEN {
        let (schema, coordinates) = (written.schema(), written.coordinates());
        let duplicates = EqualCells::SameHilbertValue;
        let expected = written.order.iter();
        for (d, of) in [FIRST, SECOND].iter().enumerate() {
            let decoder = dimension_decoder(&schema, d).unwrap();
            let found = restored(&decoder, &coordinates[d], &coordinates, 7, duplicates).unwrap();
            assert_eq!(found, le(expected.clone().map(|i| of[*i].to_le_bytes())));
        }
        let decoder = attribute_decoder(&schema).unwrap();
        let found = restored(
            &decoder,
            &unhex(written.values),
            &coordinates,
            7,
            duplicates,
        )
        .unwrap();
        assert_eq!(
            found,
            le(expected.map(|i| VALUES[*i].to_le_bytes())),
            "{:?}",
            written.filters
        );
    }
}

#[test]
fn damaged_tiles_give_errors_or_other_values() {
    for written in &WRITTEN {
        let (schema, coordinates) = (written.schema(), written.coordinates());
        let values = unhex(written.values);
        let decoder = attribute_decoder(&schema).unwrap();
        let restored =
            |values: &[u8], c: &[Bytes]| restored(&decoder, values, c, 7, EqualCells::Harmless);
        survives_bit_flips(&values, |values| restored(values, &coordinates));
        survives_bit_flips(&coordinates[0], |tile| {
            restored(&values, &[tile.to_vec().into(), coordinates[1].clone()])
        });
        for len in 0..values.len() {
            assert!(restored(&values[..len], &coordinates).is_err());
        }
        for len in 0..coordinates[1].len() {
            let short = [coordinates[0].clone(), coordinates[1].slice(..len)];
            let error = restored(&values, &short).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains("dimension e"), "{error}");
        }
    }
}

#[test]
fn tiles_of_several_chunks_have_lost_their_coordinates() {
    let refused = |datatype, cells: usize| {
        let schema = schema(datatype, &[BITSORT]);
        let decoder = attribute_decoder(&schema).unwrap();
        let coordinates = vec![Bytes::from(vec![0; cells.min(1 << 20) * 4]); 2];
        let bitsort = decoder.bitsort().unwrap();
        let order = bitsort.order(&coordinates, cells, EqualCells::Harmless);
        order.err().map(|e| (e.kind(), e.to_string()))
    };
    assert_eq!(refused(Datatype::Int64, 8192), None);
    assert_eq!(refused(Datatype::UInt8, 65536), None);
    for cells in [8193, usize::MAX] {
        let (kind, message) = refused(Datatype::Int64, cells).unwrap();
        assert_eq!(kind, ErrorKind::Unsupported);
        assert!(message.contains("tiles up to 8192 cells"), "{message}");
    }
    // Chunks beyond the stated size.
    let written = &WRITTEN[0];
    let decoder = attribute_decoder(&written.schema()).unwrap();
    let coordinates = written.coordinates();
    let two = tile_tests::tile(&[&[0; 8], &[0; 6]]);
    let error = restored(&decoder, &two, &coordinates, 7, EqualCells::Harmless).unwrap_err();
    assert!(error.to_string().contains("has 2 chunks"), "{error}");
}

#[test]
fn cells_with_the_same_coordinates_are_only_read_where_it_does_not_matter() {
    let schema = schema(Datatype::Int16, &[BITSORT]);
    let decoder = attribute_decoder(&schema).unwrap();
    let ints = |values: [i32; 3]| Bytes::from(le(values.iter().map(|v| v.to_le_bytes())));
    let read = |first, second, values: [i16; 3], duplicates| {
        let coordinates = [ints(first), ints(second)];
        let mut tile = unhex("0100000000000000 06000000 06000000 08000000 01000000 06000000");
        tile.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        restored(&decoder, &tile, &coordinates, 3, duplicates).map_err(|e| e.to_string())
    };
    let shared = |values, duplicates| read([3, 4, 3], [9, 9, 9], values, duplicates);
    let values = |values: [i16; 3]| Ok(le(values.iter().map(|v| v.to_le_bytes())));
    assert_eq!(shared([1, 2, 3], EqualCells::Harmless), values([1, 3, 2]));
    assert_eq!(
        shared([1, 2, 1], EqualCells::SameCoordinates),
        values([1, 1, 2])
    );
    let error = shared([1, 2, 3], EqualCells::SameCoordinates).unwrap_err();
    assert!(
        error.contains("2 cells with the same coordinates"),
        "{error}"
    );
    assert!(error.contains("attribute a"), "{error}");
    let apart = read(
        [3, 4, 3],
        [9, 9, 8],
        [1, 2, 3],
        EqualCells::SameHilbertValue,
    );
    assert_eq!(apart, values([3, 1, 2]));
}

#[test]
fn the_same_hilbert_value_sorts_by_the_last_dimension() {
    let mut schema = schema(Datatype::Int16, &[BITSORT]);
    schema.cell_order = Layout::Hilbert;
    for dimension in &mut schema.dimensions {
        dimension.datatype = Datatype::Int64;
        let long = |value: i64| value.to_le_bytes().to_vec();
        dimension.domain = Some((long(0), long(1 << 45)));
        dimension.extent = Some(long(1000));
    }
    let decoder = attribute_decoder(&schema).unwrap();
    let longs = |values: [i64; 3]| Bytes::from(le(values.iter().map(|v| v.to_le_bytes())));
    let order = |duplicates| {
        let coordinates = [longs([1000, 1001, 1000]), longs([2001, 2000, 2000])];
        let bitsort = decoder.bitsort().unwrap();
        bitsort.order(&coordinates, 3, duplicates).unwrap()
    };
    let written = order(EqualCells::SameCoordinates);
    assert_eq!(written.positions(), [2, 1, 0]);
    written.check_duplicates(&[1, 2, 3], 1).unwrap();
    let merged = order(EqualCells::SameHilbertValue);
    merged.check_duplicates(&[1, 1, 1], 1).unwrap();
    assert!(merged.check_duplicates(&[1, 2, 3], 1).is_err());
}

#[test]
fn what_libtiledb_cannot_have_written_is_refused() {
    let scaled = |byte_width| Filter::ScaleFloat {
        scale: 1.0,
        offset: 0.0,
        byte_width,
    };
    let plain = || schema(Datatype::Float64, &[BITSORT, Filter::Zstd]);
    let with = |filters: &[Filter]| schema(Datatype::Float64, filters);
    let mut dense = plain();
    dense.array_type = ArrayType::Dense;
    let mut text = plain();
    (text.dimensions[0].datatype, text.dimensions[0].cell_val_num) =
        (Datatype::StringAscii, CellValNum::Var);
    let mut nullable = plain();
    nullable.attributes[0].nullable = true;
    let mut pairs = plain();
    pairs.attributes[0].cell_val_num = CellValNum::Fixed(2);
    let mut lists = plain();
    lists.attributes[0].cell_val_num = CellValNum::Var;
    let mut two = plain();
    two.attributes.push(two.attributes[0].clone());
    for (schema, why) in [
        (dense, "in a dense array"),
        (text, "dimensions of strings"),
        (nullable, "not one value in each cell"),
        (pairs, "not one value in each cell"),
        (lists, "not one value in each cell"),
        (two, "on several attributes"),
        (with(&[Filter::Gzip, BITSORT]), "behind filter gzip"),
        (with(&[scaled(4), BITSORT]), "behind filter float_scale"),
        (with(&[BITSORT, BITSORT]), "twice"),
    ] {
        for field in [FragmentField::Dimension(1), FragmentField::Attribute(0)] {
            let error = Bitsort::moving(field, &schema).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let error = error.to_string();
            assert!(error.contains(why), "{error}");
            assert!(error.contains("attribute a"), "{error}");
        }
    }
    let field = FragmentField::Attribute(0);
    let moving = Bitsort::moving(field, &with(&[scaled(8), Filter::Md5, BITSORT])).unwrap();
    assert!(moving.is_some_and(|b| !b.is_bare()));
    let other = Bitsort::moving(FragmentField::Attribute(1), &plain()).unwrap();
    assert!(other.is_none());
    let unsorted = Bitsort::moving(FragmentField::Dimension(0), &with(&[Filter::Zstd])).unwrap();
    assert!(unsorted.is_none());
}
