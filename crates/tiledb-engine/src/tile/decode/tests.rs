//! Handmade tiles through empty pipelines: `u64 chunks`, then per chunk three `u32` sizes and the data.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int32Array, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Int8Type};
use bytes::Bytes;

use super::*;
use crate::arrow::{ColumnType, InvalidUtf8, TypeOptions, fill_array};
use crate::format::datatype::Datatype;
use crate::format::enumeration::Enumeration;
use crate::format::filter_list::{Filter, FilterList};
use crate::format::schema::{
    ArraySchema, ArrayType, Attribute, CellValNum, DataOrder, Dimension, Layout,
};
use crate::format::version::FormatVersion;
use crate::tile::tile_memory::DecodeScratch;

const VERSION: FormatVersion = FormatVersion::known(22);

/// An unfiltered tile, in chunks.
pub(super) fn tile(chunks: &[&[u8]]) -> Bytes {
    let mut bytes = u64::try_from(chunks.len()).unwrap().to_le_bytes().to_vec();
    for chunk in chunks {
        let len = u32::try_from(chunk.len()).unwrap().to_le_bytes();
        bytes.extend([len, len, [0; 4]].concat());
        bytes.extend_from_slice(chunk);
    }
    bytes.into()
}

fn offsets(starts: &[u64]) -> Bytes {
    tile(&[&starts
        .iter()
        .flat_map(|s| s.to_le_bytes())
        .collect::<Vec<u8>>()])
}

pub(super) fn attribute(datatype: Datatype, cell_val_num: CellValNum, nullable: bool) -> Attribute {
    Attribute {
        name: "a".into(),
        datatype,
        cell_val_num,
        filters: FilterList::default(),
        fill_value: datatype.default_fill(),
        nullable,
        fill_valid: false,
        order: DataOrder::Unordered,
        enumeration: None,
        problem: None,
    }
}

pub(super) fn schema(attribute: &Attribute) -> ArraySchema {
    ArraySchema {
        version: VERSION,
        array_type: ArrayType::Sparse,
        tile_order: Layout::RowMajor,
        cell_order: Layout::RowMajor,
        capacity: 10,
        allows_duplicates: false,
        coords_filters: FilterList::default(),
        offsets_filters: FilterList::default(),
        validity_filters: FilterList::default(),
        dimensions: vec![Dimension {
            name: "d".into(),
            datatype: Datatype::Int32,
            cell_val_num: CellValNum::Fixed(1),
            filters: FilterList::default(),
            domain: None,
            extent: None,
        }],
        attributes: vec![attribute.clone()],
        labels: Vec::new(),
        enumerations: Vec::new(),
        current_domain: None,
    }
}

pub(super) fn column_type(attribute: &Attribute) -> ColumnType {
    ColumnType::of_attribute(attribute, None, &TypeOptions::default()).unwrap()
}

fn decoder(attribute: &Attribute) -> ColumnDecoder {
    ColumnDecoder::for_attribute(
        &schema(attribute),
        0,
        VERSION,
        &column_type(attribute),
        None,
    )
    .unwrap()
}

fn fixed(values: Bytes) -> TileBytes {
    TileBytes {
        values,
        var: None,
        validity: None,
    }
}

fn assert_shared<T: Send + Sync>(_: &T) {}

#[test]
fn a_fixed_tile_in_two_chunks_with_nulls() {
    let nullable = attribute(Datatype::Int32, CellValNum::Fixed(1), true);
    let decoder = decoder(&nullable);
    assert_shared(&decoder);
    let first: Vec<u8> = [i32::MIN, -1]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let bytes = TileBytes {
        values: tile(&[&first, &i32::MAX.to_le_bytes()]),
        var: None,
        validity: Some(tile(&[&[1, 0, 1]])),
    };
    let array = decoder
        .decode(&bytes, 3, 0, &mut DecodeScratch::default())
        .unwrap();
    assert_eq!(
        array.as_ref(),
        &Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)])
    );
    let all = TileBytes {
        validity: Some(tile(&[&[1, 1, 1]])),
        ..bytes.clone()
    };
    let array = decoder
        .decode(&all, 3, 0, &mut DecodeScratch::default())
        .unwrap();
    assert!(array.nulls().is_none());

    for truncated in [tile(&[&[1, 1]]), tile(&[]), Bytes::from_static(&[1, 0, 0])] {
        let bytes = TileBytes {
            validity: Some(truncated),
            ..bytes.clone()
        };
        let error = decoder
            .decode(&bytes, 3, 0, &mut DecodeScratch::default())
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("attribute a") && text.contains("validity"),
            "{text}"
        );
    }
    let missing = TileBytes {
        validity: None,
        ..bytes.clone()
    };
    assert!(
        decoder
            .decode(&missing, 3, 0, &mut DecodeScratch::default())
            .is_err()
    );
    assert!(
        decoder
            .decode(&bytes, 2, 0, &mut DecodeScratch::default())
            .is_err()
    );
    assert!(
        decoder
            .decode(&bytes, usize::MAX, 0, &mut DecodeScratch::default())
            .is_err()
    );
}

#[test]
fn a_dimension_and_its_pipeline() {
    let schema = schema(&attribute(Datatype::Int8, CellValNum::Fixed(1), false));
    let dimension = &schema.dimensions[0];
    let ty = ColumnType::of_dimension(dimension, &TypeOptions::default()).unwrap();
    let decoder = ColumnDecoder::for_dimension(&schema, 0, VERSION, &ty, None).unwrap();
    let array = decoder.decode(
        &fixed(tile(&[&7i32.to_le_bytes()])),
        1,
        0,
        &mut DecodeScratch::default(),
    );
    assert_eq!(array.unwrap().as_ref(), &Int32Array::from(vec![7]));
    assert!(ColumnDecoder::for_dimension(&schema, 1, VERSION, &ty, None).is_err());
    assert!(ColumnDecoder::for_attribute(&schema, 1, VERSION, &ty, None).is_err());
    // The attribute is INT8, the column INT32.
    assert!(ColumnDecoder::for_attribute(&schema, 0, VERSION, &ty, None).is_err());
}

#[test]
fn timestamps_with_nat() {
    let decoder = decoder(&attribute(
        Datatype::DateTimeMs,
        CellValNum::Fixed(1),
        false,
    ));
    let values: Vec<u8> = [5, i64::MIN]
        .iter()
        .flat_map(|v: &i64| v.to_le_bytes())
        .collect();
    let array = decoder
        .decode(
            &fixed(tile(&[&values])),
            2,
            0,
            &mut DecodeScratch::default(),
        )
        .unwrap();
    assert_eq!(
        array.as_ref(),
        &TimestampMillisecondArray::from(vec![Some(5), None])
    );
}

#[test]
fn strings_with_nulls_and_hostile_offsets() {
    let decoder = decoder(&attribute(Datatype::StringUtf8, CellValNum::Var, true));
    let text = "żółw\0a long string of ASCII";
    let bytes = TileBytes {
        values: offsets(&[0, 7, 7, 8]),
        var: Some(tile(&[text.as_bytes()])),
        validity: Some(tile(&[&[1, 0, 1, 1]])),
    };
    let array = decoder
        .decode(&bytes, 4, text.len(), &mut DecodeScratch::default())
        .unwrap();
    let expected = [
        Some("żółw"),
        None,
        Some("\0"),
        Some("a long string of ASCII"),
    ];
    assert_eq!(array.as_ref(), &StringViewArray::from(expected.to_vec()));
    assert!(decoder.decoded_bytes(4, text.len()) >= 4 * size_of::<u128>() + text.len());

    for starts in [
        &[0, 8, 7, 8][..],
        &[0, 7, 7, 1000],
        &[0, 7, 7],
        &[0, 1, 1, u64::MAX],
    ] {
        let bytes = TileBytes {
            values: offsets(starts),
            ..bytes.clone()
        };
        let error = decoder
            .decode(&bytes, 4, text.len(), &mut DecodeScratch::default())
            .unwrap_err();
        assert!(error.to_string().contains("attribute a"), "{error}");
    }
    assert!(
        decoder
            .decode(&bytes, 4, text.len() + 1, &mut DecodeScratch::default())
            .is_err()
    );
    let missing = TileBytes { var: None, ..bytes };
    assert!(
        decoder
            .decode(&missing, 4, text.len(), &mut DecodeScratch::default())
            .is_err()
    );
    // All cells empty: a tile without chunks, as format versions up to 10 have it.
    let empty = TileBytes {
        values: offsets(&[0, 0]),
        var: Some(tile(&[])),
        validity: Some(tile(&[&[1, 1]])),
    };
    let array = decoder
        .decode(&empty, 2, 0, &mut DecodeScratch::default())
        .unwrap();
    assert_eq!(array.as_ref(), &StringViewArray::from(vec!["", ""]));
}

#[test]
fn nullability_that_changed_with_the_schema() {
    let nullable = attribute(Datatype::Int32, CellValNum::Fixed(1), true);
    let required = attribute(Datatype::Int32, CellValNum::Fixed(1), false);
    let scratch = &mut DecodeScratch::default();
    let value = tile(&[&1i32.to_le_bytes()]);
    let old_required = ColumnDecoder::for_attribute(
        &schema(&required),
        0,
        VERSION,
        &column_type(&nullable),
        None,
    )
    .unwrap();
    assert_eq!(
        old_required
            .decode(&fixed(value.clone()), 1, 0, scratch)
            .unwrap()
            .null_count(),
        0
    );
    let old_nullable = ColumnDecoder::for_attribute(
        &schema(&nullable),
        0,
        VERSION,
        &column_type(&required),
        None,
    )
    .unwrap();
    let valid = |byte| TileBytes {
        values: value.clone(),
        var: None,
        validity: Some(tile(&[&[byte]])),
    };
    assert!(old_nullable.decode(&valid(1), 1, 0, scratch).is_ok());
    assert!(old_nullable.decode(&valid(0), 1, 0, scratch).is_err());
}

#[test]
fn strings_that_bring_their_offsets() {
    // The form of format-version 12 and later: "aa" twice, then "b"; run lengths and lengths are big-endian.
    let mut attribute = attribute(Datatype::StringAscii, CellValNum::Var, false);
    attribute.filters = FilterList {
        max_chunk_bytes: 65536,
        filters: vec![Filter::Rle],
        ..FilterList::default()
    };
    let decoder = decoder(&attribute);
    let data = [2, 2, b'a', b'a', 1, 1, b'b'];
    let metadata: Vec<u8> = [0u32, 1, 5, 7, 24]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .chain([1, 1])
        .collect();
    let sizes = [5u32, 7, 22].map(u32::to_le_bytes).concat();
    let var = [&1u64.to_le_bytes()[..], &sizes, &metadata, &data].concat();
    let bytes = TileBytes {
        values: tile(&[]),
        var: Some(var.into()),
        validity: None,
    };
    let expected = StringViewArray::from(vec!["aa", "aa", "b"]);
    let scratch = &mut DecodeScratch::default();
    let array = decoder.decode(&bytes, 3, 5, scratch).unwrap();
    assert_eq!(array.as_ref(), &expected);

    // libtiledb also writes that form into arrays of old versions, with a stub as offsets tile.
    for (datatype, version) in [(Datatype::StringAscii, 11), (Datatype::StringUtf8, 16)] {
        attribute.datatype = datatype;
        let mut old = schema(&attribute);
        old.version = FormatVersion::known(version);
        let ty = column_type(&attribute);
        let decoder = ColumnDecoder::for_attribute(&old, 0, old.version, &ty, None).unwrap();
        let array = decoder.decode(&bytes, 3, 5, scratch).unwrap();
        assert_eq!(array.as_ref(), &expected);
        // The form of such a version itself: run lengths of bytes, and offsets.
        let ordinary = [&[b'a', 0, 4, b'b', 0, 1][..]].concat();
        let metadata = [0u32, 1, 5, 6].map(u32::to_le_bytes).concat();
        let sizes = [5u32, 6, 16].map(u32::to_le_bytes).concat();
        let var = [&1u64.to_le_bytes()[..], &sizes, &metadata, &ordinary].concat();
        let bytes = TileBytes {
            values: offsets(&[0, 2, 4]),
            var: Some(var.into()),
            validity: None,
        };
        let array = decoder.decode(&bytes, 3, 5, scratch).unwrap();
        assert_eq!(array.as_ref(), &expected);
    }
}

#[test]
fn fill_values_of_every_shape() {
    let fixed = attribute(Datatype::Int32, CellValNum::Fixed(1), false);
    let array = fill_array(&fixed, &column_type(&fixed), 3).unwrap();
    assert_eq!(array.as_ref(), &Int32Array::from(vec![i32::MIN; 3]));
    let mut nullable = attribute(Datatype::Int32, CellValNum::Fixed(1), true);
    assert_eq!(
        fill_array(&nullable, &column_type(&nullable), 3)
            .unwrap()
            .null_count(),
        3
    );
    nullable.fill_valid = true;
    assert_eq!(
        fill_array(&nullable, &column_type(&nullable), 3)
            .unwrap()
            .null_count(),
        0
    );
    let pair = attribute(Datatype::Int32, CellValNum::Fixed(2), false);
    let array = fill_array(&pair, &column_type(&pair), 2).unwrap();
    let items = array.as_fixed_size_list().values();
    assert_eq!(items.as_ref(), &Int32Array::from(vec![i32::MIN; 4]));
    let mut text = attribute(Datatype::StringUtf8, CellValNum::Var, false);
    let array = fill_array(&text, &column_type(&text), 2).unwrap();
    assert_eq!(array.as_ref(), &StringViewArray::from(vec!["\0", "\0"]));
    text.fill_value = b"nothing was ever written".to_vec();
    let array = fill_array(&text, &column_type(&text), 2).unwrap();
    assert_eq!(array.as_string_view().value(1), "nothing was ever written");
    let list = attribute(Datatype::UInt8, CellValNum::Var, false);
    let array = fill_array(&list, &column_type(&list), 2).unwrap();
    assert_eq!(array.as_list::<i32>().value_length(1), 1);
    let time = attribute(Datatype::DateTimeMs, CellValNum::Fixed(1), false);
    assert_eq!(
        fill_array(&time, &column_type(&time), 2)
            .unwrap()
            .null_count(),
        2
    );
    assert_eq!(fill_array(&time, &column_type(&time), 0).unwrap().len(), 0);
    let mut wrong = attribute(Datatype::Int32, CellValNum::Fixed(1), false);
    wrong.fill_value = vec![1, 2, 3];
    assert!(fill_array(&wrong, &column_type(&wrong), 1).is_err());
}

#[test]
fn the_fill_of_char_is_no_text() {
    let char = attribute(Datatype::Char, CellValNum::Var, false);
    let array = fill_array(&char, &column_type(&char), 2).unwrap();
    assert_eq!((array.len(), array.null_count()), (2, 2));
    let three = attribute(Datatype::Char, CellValNum::Fixed(3), false);
    let array = fill_array(&three, &column_type(&three), 2).unwrap();
    assert_eq!(array.null_count(), 2);
    let mut own = attribute(Datatype::Char, CellValNum::Var, false);
    own.fill_value = b"\x80\x80".to_vec();
    let error = fill_array(&own, &column_type(&own), 1)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("fill value") && error.contains("tiledb.invalid_utf8"),
        "{error}"
    );
    let options = TypeOptions {
        invalid_utf8: InvalidUtf8::Binary,
        ..TypeOptions::default()
    };
    let ty = ColumnType::of_attribute(&char, None, &options).unwrap();
    let array = fill_array(&char, &ty, 1).unwrap();
    assert_eq!(array.as_binary_view().value(0), b"\x80");
}

#[test]
fn the_fill_of_an_enumeration_is_null_over_the_same_values() {
    let mut coded = attribute(Datatype::Int8, CellValNum::Fixed(1), false);
    coded.enumeration = Some("e".into());
    let values = Enumeration {
        name: "e".into(),
        file: "f".into(),
        datatype: Datatype::StringUtf8,
        cell_val_num: CellValNum::Var,
        ordered: false,
        data: b"ab".to_vec(),
        offsets: Some(vec![0, 1]),
    };
    let ty = ColumnType::of_attribute(&coded, Some(&values), &TypeOptions::default()).unwrap();
    let array = fill_array(&coded, &ty, 2).unwrap();
    assert_eq!((array.null_count(), array.data_type()), (2, ty.data_type()));
    assert!(matches!(array.data_type(), DataType::Dictionary(_, _)));
    let dictionary = array.as_dictionary::<Int8Type>();
    assert!(Arc::ptr_eq(
        dictionary.values(),
        ty.enumeration_values().unwrap()
    ));
}

#[test]
fn numbers_of_cells() {
    let schema = schema(&attribute(Datatype::Int8, CellValNum::Fixed(1), false));
    let pipeline = cell_numbers_pipeline(&schema, VERSION, None).unwrap();
    let scratch = &mut DecodeScratch::default();
    let decoded = decode_u64(&pipeline, &offsets(&[1, u64::MAX]), 2, scratch).unwrap();
    assert_eq!(decoded, [1, u64::MAX]);
    assert!(decode_u64(&pipeline, &offsets(&[1]), 2, scratch).is_err());
    assert!(decode_u64(&pipeline, &offsets(&[1]), usize::MAX, scratch).is_err());
}
