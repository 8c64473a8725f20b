//! Tests on fragment metadata that releases 1.4 to 2.7 wrote (format versions 1 to 11), intact and damaged.

use super::footer::{Footer, OLD_SCHEMA_NAME};
use super::monolithic::MonolithicMetadata;
use super::rtree::Mbrs;
use super::slots::FieldSlots;
use crate::format::fixtures::{bytes, refuses_every_prefix, survives_bit_flips};
use crate::format::schema::ArraySchema;
use crate::format::version::FormatVersion;

fn schema(version: u32, array: &str) -> ArraySchema {
    ArraySchema::decode(&bytes(&format!("v{version}.{array}.schema"))).unwrap()
}

/// The size of a metadata file, most significant byte first.
fn size_of_file(name: &str) -> u64 {
    let size = bytes(&format!("{name}.size"));
    size.iter()
        .fold(0, |size, byte| size << 8 | u64::from(*byte))
}

fn i32s(lo: i32, hi: i32) -> (Vec<u8>, Vec<u8>) {
    (lo.to_le_bytes().to_vec(), hi.to_le_bytes().to_vec())
}

/// Cells in `[1, 12]` and `[-8, 8]`: two tiles of 7, one of 6.
fn expect_twenty_cells(footer: &Footer, schema: &ArraySchema) {
    assert!(!footer.dense && !footer.has_timestamps && !footer.has_delete_metadata);
    assert_eq!(footer.sparse_cell_count(schema), 20);
    assert_eq!(
        (footer.sparse_tile_count, footer.last_tile_cell_count),
        (3, 6)
    );
    let domain: Vec<_> = footer
        .non_empty_domain
        .as_ref()
        .unwrap()
        .iter()
        .map(|r| (r.lo.clone(), r.hi.clone()))
        .collect();
    assert_eq!(domain, [i32s(1, 12), i32s(-8, 8)]);
}

/// The tiles' rectangles in the first dimension.
fn first_ranges(mbrs: &Mbrs) -> Vec<(Vec<u8>, Vec<u8>)> {
    let ranges = (0..mbrs.len()).map(|tile| mbrs.range(tile, 0));
    ranges.map(|(lo, hi)| (lo.to_vec(), hi.to_vec())).collect()
}

#[test]
fn metadata_of_one_tile() {
    let schema = schema(2, "sparse");
    let tile = bytes("v2.sparse.metadata");
    let metadata = MonolithicMetadata::decode(&tile, &schema, false).unwrap();
    let footer = &metadata.footer;
    assert_eq!(footer.version, FormatVersion::known(2));
    assert_eq!(footer.schema_name, OLD_SCHEMA_NAME);
    expect_twenty_cells(footer, &schema);
    assert_eq!(
        first_ranges(&metadata.mbrs),
        [i32s(1, 5), i32s(1, 11), i32s(11, 12)]
    );
    // The files of a, f and s, then that of the coordinates.
    assert_eq!(footer.file_sizes, [140, 220, 222, 392]);
    assert_eq!(footer.var_file_sizes, [0, 0, 132]);
    assert_eq!(metadata.tile_offsets.len(), 4);
    assert!(metadata.tile_offsets.iter().all(|list| list.len() == 3));
    assert_eq!(metadata.tile_offsets[0].as_slice(), [0, 48, 96]);
    assert_eq!(metadata.var_sizes[2].len(), 3);
    assert!(metadata.memory_bytes() > 100);
    refuses_every_prefix(&tile, |tile| {
        MonolithicMetadata::decode(tile, &schema, false)
    });
    survives_bit_flips(&tile, |tile| {
        MonolithicMetadata::decode(tile, &schema, false)
    });
    let error = MonolithicMetadata::decode(&tile, &schema, true).unwrap_err();
    assert!(
        error.to_string().contains("no file __coords.tdb"),
        "{error}"
    );
    let mut newer = tile;
    newer[0] = 3;
    let error = MonolithicMetadata::decode(&newer, &schema, false).unwrap_err();
    assert!(error.to_string().contains("\"version\" is 3"), "{error}");
}

#[test]
fn metadata_of_the_first_version() {
    let schema = schema(1, "sparse");
    let tile = bytes("v1.sparse.metadata");
    let metadata = MonolithicMetadata::decode(&tile, &schema, false).unwrap();
    assert_eq!(metadata.footer.version, FormatVersion::known(1));
    assert_eq!(metadata.footer.sparse_cell_count(&schema), 4);
    assert_eq!(first_ranges(&metadata.mbrs), [i32s(1, 4)]);
    assert_eq!(metadata.footer.file_sizes, [36, 64]);
    survives_bit_flips(&tile, |tile| {
        MonolithicMetadata::decode(tile, &schema, false)
    });
}

#[test]
fn footers_without_a_length() {
    for version in 3..=11 {
        let schema = schema(version, "sparse");
        let tail = bytes(&format!("v{version}.sparse.tail"));
        let size = size_of_file(&format!("v{version}.sparse"));
        let versions = match version {
            3 | 4 => 3..=4,
            _ => version..=version,
        };
        let range = Footer::range_without_length(&versions, &schema, size).unwrap();
        assert_eq!(range.is_some(), version < 10, "{version}");
        let range = match range {
            Some(range) => range,
            None => Footer::footer_range(&tail, size).unwrap(),
        };
        // The sections are followed by the footer, which includes its length since version 10.
        assert_eq!(range.start, size - tail.len() as u64, "{version}");
        let length = usize::try_from(range.end - range.start).unwrap();
        let footer = Footer::decode(&tail[..length], &schema).unwrap();
        assert_eq!(footer.version, FormatVersion::known(version));
        assert_eq!(footer.schema_name == OLD_SCHEMA_NAME, version < 10);
        expect_twenty_cells(&footer, &schema);
        assert_eq!(footer.sections.mins.is_empty(), version < 11);
        assert_eq!(footer.sections.fragment_statistics, None);
        assert_eq!(footer.sections.validity_offsets.is_empty(), version < 7);
        let slots = footer.slots(&schema);
        assert_eq!(slots.count(), if version < 5 { 4 } else { 6 });
        assert_eq!(slots.dimension(1), if version < 5 { 3 } else { 5 });
        assert_eq!(footer.file_sizes.len(), slots.count());
        assert_eq!(footer.var_file_sizes.len(), slots.var_count());
        refuses_every_prefix(&tail[..length], |b| Footer::decode(b, &schema));
        survives_bit_flips(&tail[..length], |b| Footer::decode(b, &schema));
    }
}

#[test]
fn footers_of_string_dimensions_have_a_length() {
    for version in 5..=11 {
        let schema = schema(version, "mixed");
        let tail = bytes(&format!("v{version}.mixed.tail"));
        let size = size_of_file(&format!("v{version}.mixed"));
        let range = Footer::range_without_length(&(version..=version), &schema, size).unwrap();
        assert_eq!(range, None);
        let range = Footer::footer_range(&tail, size).unwrap();
        assert_eq!(range, size - tail.len() as u64..size - 8);
        let footer = Footer::decode(&tail[..tail.len() - 8], &schema).unwrap();
        assert_eq!(footer.sparse_cell_count(&schema), 24);
        let domain = footer.non_empty_domain.as_ref().unwrap();
        assert_eq!(
            (domain[0].lo.as_slice(), domain[0].hi.as_slice()),
            (&b"x"[..], &b"zzzz"[..])
        );
        assert_eq!(domain[1].lo, (-45i16).to_le_bytes());
        assert_eq!(domain[2].hi, 1f32.to_le_bytes());
    }
}

#[test]
fn a_file_too_short_for_its_footer() {
    let schema = schema(4, "sparse");
    let error = Footer::range_without_length(&(3..=4), &schema, 100).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("100 bytes, expected a footer of"),
        "{message}"
    );
}

#[test]
fn trees_of_both_headers() {
    for version in 3..=11 {
        let schema = schema(version, "sparse");
        let tree = bytes(&format!("v{version}.sparse.rtree"));
        let decode = |tree: &[u8]| Mbrs::decode(tree, &schema, FormatVersion::known(version), 3);
        let ranges = first_ranges(&decode(&tree).unwrap());
        assert_eq!(ranges, [i32s(1, 5), i32s(1, 11), i32s(11, 12)]);
        refuses_every_prefix(&tree, decode);
        survives_bit_flips(&tree, decode);
    }
    let (schema, tree) = (schema(4, "sparse"), bytes("v4.sparse.rtree"));
    for (at, message) in [
        (0, "\"number of dimensions\" is 3"),
        (8, "\"datatype\" is 1"),
    ] {
        let mut wrong = tree.clone();
        wrong[at] = if at == 0 { 3 } else { 1 };
        let error = Mbrs::decode(&wrong, &schema, FormatVersion::known(4), 3).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn coordinates_share_a_slot_before_version_5() {
    let schema = schema(4, "sparse");
    let slots = FieldSlots::new(&schema, FormatVersion::known(4), false, false);
    assert!(!slots.has_separate_dimensions());
    assert_eq!((slots.dimension(0), slots.dimension(1)), (3, 3));
    assert_eq!((slots.count(), slots.var_count()), (4, 3));
    assert_eq!(slots.validity_count(), 0);
    let slots = FieldSlots::new(&schema, FormatVersion::known(6), false, false);
    assert_eq!((slots.count(), slots.var_count()), (6, 6));
    assert_eq!(slots.validity_count(), 0);
    let slots = FieldSlots::new(&schema, FormatVersion::known(7), false, false);
    assert_eq!(slots.validity_count(), 6);
}
