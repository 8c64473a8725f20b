//! Tests on schemas that libtiledb wrote, and on damaged ones.

use super::*;
use crate::format::filter_list::Filter;
use crate::format::fixtures::{bytes, refuses_every_prefix, survives_bit_flips, unhex};

fn i32s(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn schema(name: &str) -> ArraySchema {
    ArraySchema::decode(&bytes(name)).unwrap()
}

/// Sparse, capacity 2; `d` INT32 [1, 9] extent 3; `a` INT16 nullable.
fn small() -> Vec<u8> {
    unhex(
        "16000000 00 01 00 00 0200000000000000
         00000100 01000000 02 05000000 02 ffffffff
         00000100 01000000 02 05000000 02 ffffffff
         00000100 01000000 04 05000000 04 ffffffff
         01000000
         01000000 64 00 01000000 00000100 00000000
         0800000000000000 01000000 09000000 00 03000000
         01000000
         01000000 61 07 01000000 00000100 00000000
         0200000000000000 0080 01 00 00 00000000
         00000000 00000000 00000000 01",
    )
}

/// Bytes to write at offsets of [`small`], and part of the expected error.
type Case<'a> = (&'a [(usize, &'a [u8])], &'a str);

/// Offsets in [`small`].
const ARRAY_TYPE: usize = 5;
const TILE_ORDER: usize = 6;
const CELL_ORDER: usize = 7;
const CAPACITY: usize = 8;
const DIMENSION_COUNT: usize = 70;
const DIMENSION_TYPE: usize = 79;
const DOMAIN_LOW: usize = 100;
const EXTENT: usize = 109;
const ATTRIBUTE_NAME: usize = 121;
const FILL_BYTES: usize = 135;

#[test]
fn a_small_sparse_schema() {
    let schema = ArraySchema::decode(&small()).unwrap();
    assert_eq!(schema.version, FormatVersion::known(22));
    assert_eq!(schema.array_type, ArrayType::Sparse);
    assert!(!schema.is_dense() && !schema.allows_duplicates);
    assert_eq!(
        (schema.tile_order, schema.cell_order),
        (Layout::RowMajor, Layout::RowMajor)
    );
    assert_eq!(schema.capacity, 2);
    assert_eq!(schema.validity_filters.filters, [Filter::Rle]);
    let [d] = schema.dimensions.as_slice() else {
        panic!()
    };
    assert_eq!(
        (d.name.as_str(), d.datatype, d.cell_val_num),
        ("d", Datatype::Int32, CellValNum::Fixed(1))
    );
    assert_eq!(d.domain, Some((i32s(&[1]), i32s(&[9]))));
    assert_eq!(d.extent_steps(), Some(3));
    assert!(d.filters.is_empty());
    assert_eq!(
        schema.dimension_filters(0, schema.version).filters,
        [Filter::Zstd]
    );
    let [a] = schema.attributes.as_slice() else {
        panic!()
    };
    assert_eq!(
        (a.name.as_str(), a.datatype, a.cell_size()),
        ("a", Datatype::Int16, Some(2))
    );
    assert_eq!(a.fill_value, i16::MIN.to_le_bytes());
    assert!(a.nullable && !a.fill_valid && a.enumeration.is_none());
    assert_eq!(a.order, DataOrder::Unordered);
    assert_eq!(schema.current_domain, None);
    assert_eq!(
        (schema.attribute_index("a"), schema.dimension_index("a")),
        (Some(0), None)
    );
}

#[test]
fn every_truncation_fails_and_no_bit_flip_panics() {
    let names = [
        "dense", "sparse", "deleted", "current", "labels", "wide", "point", "hilbert",
    ];
    for name in names {
        refuses_every_prefix(&bytes(&format!("{name}.schema")), ArraySchema::decode);
        survives_bit_flips(&bytes(&format!("{name}.schema")), ArraySchema::decode);
    }
    refuses_every_prefix(&small(), ArraySchema::decode);
    survives_bit_flips(&small(), ArraySchema::decode);
}

#[test]
fn dense_with_enumeration_and_several_kinds_of_attributes() {
    let schema = schema("dense.schema");
    assert!(schema.is_dense());
    assert_eq!(
        (schema.tile_order, schema.cell_order),
        (Layout::RowMajor, Layout::ColMajor)
    );
    assert_eq!(schema.dense_tile_cells().unwrap(), 10);
    let x = &schema.dimensions[1];
    assert_eq!(x.domain, Some((i32s(&[0]), i32s(&[14]))));
    let names: Vec<_> = schema.attributes.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["f", "s", "m", "e"]);
    let [f, s, m, e] = schema.attributes.as_slice() else {
        panic!()
    };
    assert!(f.nullable && !s.nullable);
    assert_eq!(f.fill_value, [0, 0, 0xC0, 0x7F]);
    assert_eq!(
        (s.datatype, s.cell_val_num, s.cell_size()),
        (Datatype::StringUtf8, CellValNum::Var, None)
    );
    assert_eq!(s.fill_value, [0]);
    assert_eq!(
        (m.cell_val_num, m.cell_size()),
        (CellValNum::Fixed(3), Some(12))
    );
    assert_eq!(m.fill_value, i32s(&[i32::MIN; 3]));
    assert_eq!(
        (e.fill_value.as_slice(), e.enumeration.as_deref()),
        (&[7u8][..], Some("colours"))
    );
    let mut enumerations: Vec<_> = schema
        .enumerations
        .iter()
        .map(|e| e.name.as_str())
        .collect();
    enumerations.sort_unstable();
    assert_eq!(enumerations, ["colours", "sizes"]);
    assert!(
        schema
            .enumeration("colours")
            .unwrap()
            .file
            .starts_with("__")
    );
}

#[test]
fn sparse_with_dimensions_of_three_types() {
    let schema = schema("sparse.schema");
    assert!(schema.allows_duplicates);
    let [name, at, v] = schema.dimensions.as_slice() else {
        panic!()
    };
    assert_eq!(
        (name.datatype, name.is_var()),
        (Datatype::StringAscii, true)
    );
    assert_eq!((&name.domain, &name.extent), (&None, &None));
    assert_eq!(name.filters.filters, [Filter::Rle]);
    assert_eq!(
        schema.dimension_filters(0, schema.version).filters,
        [Filter::Rle]
    );
    assert_eq!(
        (at.datatype, at.extent_steps()),
        (Datatype::DateTimeMs, Some(1000))
    );
    assert_eq!(
        v.domain,
        Some((
            (-1.5f64).to_le_bytes().to_vec(),
            1.5f64.to_le_bytes().to_vec()
        ))
    );
    assert_eq!(v.extent, Some(1f64.to_le_bytes().to_vec()));
    assert_eq!(v.extent_steps(), None);
}

#[test]
fn a_current_domain() {
    let schema = schema("current.schema");
    let ranges = schema.current_domain.unwrap().ranges;
    assert_eq!(
        (ranges[0].lo.as_slice(), ranges[0].hi.as_slice()),
        (&b"b"[..], &b"yes"[..])
    );
    assert_eq!(
        (ranges[1].lo.as_slice(), ranges[1].hi.as_slice()),
        (&[5u8, 0][..], &[60u8, 0][..])
    );
}

#[test]
fn labels() {
    let mut labels = schema("labels.schema").labels;
    labels.sort_by(|a, b| a.name.cmp(&b.name));
    let [height, tag] = labels.as_slice() else {
        panic!()
    };
    assert_eq!(
        (
            height.name.as_str(),
            height.dimension,
            height.attribute.as_str()
        ),
        ("height", 0, "label")
    );
    assert_eq!(
        (height.datatype, height.cell_val_num),
        (Datatype::Float64, CellValNum::Fixed(1))
    );
    assert_eq!(
        (height.order, tag.order),
        (DataOrder::Increasing, DataOrder::Decreasing)
    );
    assert_eq!(
        (tag.datatype, tag.cell_val_num),
        (Datatype::StringAscii, CellValNum::Var)
    );
    assert!(height.relative && !height.external && height.uri.starts_with("__labels/l"));
}

#[test]
fn extents_that_stand_for_none() {
    // An INT64 extent of all ones is the unsigned size of the widest domain, not -1.
    assert_eq!(
        schema("wide.schema").dimensions[0].extent_steps(),
        Some(u64::MAX)
    );
    assert_eq!(
        schema("point.schema").dimensions[0].extent,
        Some(vec![0; 8])
    );
    let hilbert = schema("hilbert.schema");
    assert_eq!(hilbert.cell_order, Layout::Hilbert);
    assert_eq!(hilbert.dimensions[0].extent, None);
    assert_eq!(hilbert.attributes[0].name, "");
}

#[test]
fn every_version_reads_the_same() {
    for version in 12..=21 {
        let bytes = bytes(&format!("v{version}.schema"));
        let schema = ArraySchema::decode(&bytes).unwrap();
        assert_eq!(schema.version, FormatVersion::known(version));
        assert_eq!(schema.capacity, 2);
        assert_eq!((schema.dimensions.len(), schema.attributes.len()), (2, 2));
        assert!(schema.attributes[0].nullable && schema.attributes[1].is_var());
        assert!(schema.dimensions[1].is_var());
        refuses_every_prefix(&bytes, ArraySchema::decode);
    }
}

#[test]
fn first_versions_lack_what_later_ones_have() {
    for version in 2..=11 {
        let bytes = bytes(&format!("v{version}.sparse.schema"));
        let schema = ArraySchema::decode(&bytes).unwrap();
        assert_eq!(schema.version, FormatVersion::known(version));
        assert_eq!((schema.capacity, schema.is_dense()), (7, false));
        assert_eq!(
            (schema.tile_order, schema.cell_order),
            (Layout::RowMajor, Layout::RowMajor)
        );
        assert!(!schema.allows_duplicates);
        assert_eq!(schema.validity_filters.is_empty(), version < 7);
        let [y, x] = schema.dimensions.as_slice() else {
            panic!()
        };
        assert_eq!((y.name.as_str(), y.datatype), ("y", Datatype::Int32));
        assert_eq!(y.domain, Some((i32s(&[1]), i32s(&[12]))));
        assert_eq!(x.domain, Some((i32s(&[-8]), i32s(&[8]))));
        assert_eq!((y.extent_steps(), x.extent_steps()), (Some(5), Some(6)));
        assert_eq!(schema.coords_filters.filters, [Filter::Zstd]);
        // A release that writes version 19 with an older schema applies the coordinates' filters, one that writes
        // version 20 does not.
        let written = |fragment| schema.dimension_filters(1, FormatVersion::new(fragment).unwrap());
        assert!(!written(19).is_empty());
        assert_eq!(written(20).is_empty(), version < 5);
        let [a, f, s] = schema.attributes.as_slice() else {
            panic!()
        };
        assert_eq!(a.fill_value, i32s(&[i32::MIN]));
        assert_eq!(f.fill_value, Datatype::Float64.default_fill());
        assert!(s.is_var() && !s.fill_value.is_empty());
        assert!(!a.nullable && !f.nullable && !s.nullable);
        refuses_every_prefix(&bytes, ArraySchema::decode);
        survives_bit_flips(&bytes, ArraySchema::decode);
    }
    let schema = schema("v1.sparse.schema");
    assert_eq!(schema.version, FormatVersion::known(1));
    assert_eq!(schema.cell_order, Layout::ColMajor);
    assert_eq!(
        schema.dimensions[1].domain,
        Some((i32s(&[0]), i32s(&[10000])))
    );
    survives_bit_flips(&bytes("v1.sparse.schema"), ArraySchema::decode);
}

#[test]
fn dimensions_have_types_of_their_own_since_version_5() {
    for version in 5..=11 {
        let schema = schema(&format!("v{version}.mixed.schema"));
        let types: Vec<_> = schema.dimensions.iter().map(|d| d.datatype).collect();
        let wanted = [Datatype::StringAscii, Datatype::Int16, Datatype::Float32];
        assert_eq!(types, wanted);
        assert_eq!((schema.capacity, schema.dimensions[0].is_var()), (5, true));
        assert_eq!(schema.dimensions[0].domain, None);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let changed = |changes: &[(usize, &[u8])]| {
        let mut bytes = small();
        for (at, new) in changes {
            bytes[*at..*at + new.len()].copy_from_slice(new);
        }
        ArraySchema::decode(&bytes)
    };
    let cases: &[Case<'_>] = &[
        (&[(0, &[24])], "newer than 23"),
        (&[(0, &[0])], "older than 1"),
        (&[(4, &[2])], "\"allows duplicates\" is 2"),
        (&[(ARRAY_TYPE, &[2])], "\"array type\" is 2"),
        (&[(TILE_ORDER, &[4])], "tile order is hilbert"),
        (&[(CELL_ORDER, &[2])], "\"cell order\" is 2"),
        (
            &[(ARRAY_TYPE, &[0]), (CELL_ORDER, &[4])],
            "dense with hilbert",
        ),
        (
            &[(ARRAY_TYPE, &[0]), (4, &[1])],
            "dense and allows duplicates",
        ),
        (&[(CAPACITY, &[0])], "capacity 0"),
        (&[(DIMENSION_COUNT, &[0xff; 4])], "number of dimensions"),
        (
            &[(DIMENSION_TYPE, &[9]), (DOMAIN_LOW, &[10])],
            "the domain is [10, 9]",
        ),
        (&[(DIMENSION_TYPE, &[14])], "expected an integer, a float"),
        (&[(DIMENSION_TYPE, &[11])], "2: two STRING_ASCII values"),
        (&[(EXTENT, &[0])], "the tile extent is 0, expected 1 to 9"),
        (&[(EXTENT, &[10])], "the tile extent is 10, expected 1 to 9"),
        (&[(ATTRIBUTE_NAME, b"d")], "two fields called \"d\""),
        (
            &[
                (ARRAY_TYPE, &[0]),
                (DIMENSION_TYPE, &[2]),
                (DOMAIN_LOW, &[0; 4]),
            ],
            "expected one integer, date or time",
        ),
    ];
    for (changes, message) in cases {
        let error = changed(changes).unwrap_err().to_string();
        assert!(error.contains(message), "{error} should contain {message}");
    }
    // An error in one attribute is a problem of that attribute only.
    let schema = changed(&[(FILL_BYTES - 13, &[0])]).unwrap();
    let problem = schema.attributes[0].problem.as_deref();
    let expected = "its fill value has 2 bytes, expected the 4 of a cell";
    assert_eq!(problem, Some(expected));
}

#[test]
fn the_last_dense_tile_may_end_beyond_the_type() {
    let mut bytes = small();
    bytes[ARRAY_TYPE] = 0;
    bytes[DOMAIN_LOW + 4..DOMAIN_LOW + 8].copy_from_slice(&i32::MAX.to_le_bytes());
    // [1, 2^31 - 1] in steps of 4 ends at 2^31.
    for extent in [1, 4] {
        bytes[EXTENT] = extent;
        let schema = ArraySchema::decode(&bytes).unwrap();
        assert_eq!(schema.dense_tile_cells().unwrap(), u64::from(extent));
    }
}

#[test]
fn an_attribute_must_find_its_enumeration() {
    let mut bytes = bytes("dense.schema");
    let name = b"colours";
    let at = bytes.windows(name.len()).position(|w| w == name).unwrap();
    bytes[at] = b'k';
    let schema = ArraySchema::decode(&bytes).unwrap();
    let problem = |name| {
        let attribute = schema.attribute_index(name).unwrap();
        schema.attributes[attribute].problem.clone()
    };
    let expected = "its enumeration \"kolours\" is not among the 2 of the array schema";
    assert_eq!(problem("e").as_deref(), Some(expected));
    assert_eq!(problem("f"), None);
}

#[test]
fn a_current_domain_stays_inside_the_domain() {
    let mut bytes = bytes("current.schema");
    let high = bytes.len() - 2;
    assert_eq!(bytes[high..], [60, 0]);
    bytes[high] = 100;
    let error = ArraySchema::decode(&bytes).unwrap_err().to_string();
    assert!(
        error.contains("the current domain is [5, 100], expected a part of the domain [0, 99]"),
        "{error}"
    );
    bytes[high] = 4;
    let error = ArraySchema::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("the current domain is [5, 4]"), "{error}");
}

#[test]
fn what_was_read_is_written_again() {
    assert_eq!(
        ArraySchema::decode(&small()).unwrap().encode().unwrap(),
        small()
    );
    for name in [
        "dense", "sparse", "current", "labels", "wide", "point", "hilbert",
    ] {
        let stored = bytes(&format!("{name}.schema"));
        let written = ArraySchema::decode(&stored).unwrap().encode().unwrap();
        assert_eq!(written, stored, "{name}");
    }
}

#[test]
fn a_schema_that_is_not_known_whole_is_not_written() {
    let mut schema = schema("dense.schema");
    schema.attributes[0].problem = Some("the type is unknown".to_owned());
    let error = schema.encode().unwrap_err();
    assert!(
        error
            .message()
            .contains("cannot be written: the type is unknown"),
        "{error}"
    );
}

/// Found by fuzzing: the few bytes of an old schema made the writer ask for 32 GiB.
#[test]
fn a_fill_value_that_an_old_schema_implies_is_written_up_to_a_limit() {
    let mut schema = ArraySchema::decode(&bytes("v5.sparse.schema")).unwrap();
    let name = schema.attributes[0].name.clone();
    let element = schema.attributes[0].fill_value.len();
    let most = u32::try_from((16 << 20) / element).unwrap();
    for (count, is_written) in [
        (1, true),
        (most, true),
        (most + 1, false),
        (u32::MAX - 1, false),
    ] {
        schema.attributes[0].cell_val_num = CellValNum::Fixed(count);
        let encoded = schema.encode();
        if is_written {
            let again = ArraySchema::decode(&encoded.unwrap()).unwrap();
            let bytes = count as usize * element;
            assert_eq!(again.attributes[0].fill_value.len(), bytes);
        } else {
            let error = encoded.unwrap_err();
            let words = [
                &name,
                "before version 6",
                "16777216 bytes",
                "drop the attribute",
            ];
            assert!(
                words.iter().all(|w| error.message().contains(*w)),
                "{error}"
            );
        }
    }
}
