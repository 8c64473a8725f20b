//! Tests on fragment metadata that libtiledb wrote, intact and damaged.

use super::consolidated;
use super::footer::Footer;
use super::offsets::{TileExtents, decode_u64s};
use super::rtree::{MbrColumn, Mbrs};
use super::slots::FieldSlots;
use super::statistics::{FragmentStatistics, TileMinMax};
use crate::format::delete_condition::decode_processed_conditions;
use crate::format::fixtures::{
    bytes, refuses_every_prefix, starting_with, survives_bit_flips, unhex,
};
use crate::format::schema::ArraySchema;
use crate::format::version::FormatVersion;

const NEW: FormatVersion = FormatVersion::known(22);

/// A fragment of the fixtures: footer, file size and the footer's range.
struct Fragment {
    schema: ArraySchema,
    footer_bytes: Vec<u8>,
    footer: Footer,
    footer_start: u64,
}

fn fragment(schema: &str, name: &str) -> Fragment {
    let schema = ArraySchema::decode(&bytes(&format!("{schema}.schema"))).unwrap();
    let tail = bytes(&format!("{name}.tail"));
    let footer_bytes = tail[..tail.len() - 8].to_vec();
    let size = bytes(&format!("{name}.size"));
    let size = size
        .iter()
        .fold(0, |size, byte| size << 8 | u64::from(*byte));
    let range = Footer::footer_range(&tail, size).unwrap();
    assert_eq!(range.end - range.start, footer_bytes.len() as u64);
    assert_eq!(range.end + 8, size);
    Fragment {
        footer: Footer::decode(&footer_bytes, &schema).unwrap(),
        schema,
        footer_bytes,
        footer_start: range.start,
    }
}

fn u64s(values: &[u64]) -> Vec<u8> {
    let mut bytes = (values.len() as u64).to_le_bytes().to_vec();
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    bytes
}

#[test]
fn slots_count_the_dead_one() {
    let schema = ArraySchema::decode(&bytes("sparse.schema")).unwrap();
    let plain = FieldSlots::new(&schema, NEW, false, false);
    assert_eq!(
        (plain.count(), plain.attribute(1), plain.dimension(0)),
        (6, 1, 3)
    );
    assert_eq!(
        (plain.timestamps(), plain.delete_timestamps()),
        (None, None)
    );
    let all = FieldSlots::new(&schema, NEW, true, true);
    assert_eq!((all.count(), all.timestamps()), (9, Some(6)));
    assert_eq!(
        (all.delete_timestamps(), all.delete_condition_index()),
        (Some(7), Some(8))
    );
    let deletes = FieldSlots::new(&schema, NEW, false, true);
    assert_eq!(
        (
            deletes.delete_timestamps(),
            deletes.delete_condition_index()
        ),
        (Some(6), Some(7))
    );
}

#[test]
fn a_sparse_fragment_of_twelve_tiles() {
    let Fragment {
        schema,
        footer_bytes,
        footer,
        footer_start,
    } = fragment("sparse", "sparse.fragment");
    let (version, name) = Footer::peek_schema_name(&footer_bytes).unwrap();
    assert_eq!(
        (version, &name),
        (FormatVersion::known(22), &footer.schema_name)
    );
    assert!(!footer.dense && !footer.has_timestamps && !footer.has_delete_metadata);
    assert_eq!(
        (footer.sparse_tile_count, footer.last_tile_cell_count),
        (12, 1)
    );
    assert_eq!(footer.sparse_cell_count(&schema), 23);
    let domain = footer.non_empty_domain.as_ref().unwrap();
    assert_eq!(
        (domain[0].lo.as_slice(), domain[0].hi.as_slice()),
        (&b"k00"[..], &b"k22"[..])
    );
    assert_eq!(domain[1].hi, 22i64.to_le_bytes());
    assert_eq!(domain[2].hi, (22f64 / 16.0).to_le_bytes());

    // Sections are contiguous: each ends where the next one starts.
    let sections: Vec<u64> = starting_with("sparse.fragment@")
        .iter()
        .map(|(at, _)| at.parse().unwrap())
        .collect();
    let starts = footer.section_starts();
    for pair in sections.windows(2) {
        assert_eq!(starts.end(pair[0], footer_start), pair[1]);
    }
    assert_eq!(
        starts.end(*sections.last().unwrap(), footer_start),
        footer_start
    );

    let mbrs = Mbrs::decode(&bytes("sparse.fragment@0"), &schema, NEW, 12).unwrap();
    assert_eq!((footer.sections.rtree, mbrs.len()), (0, 12));
    assert_eq!(mbrs.range(0, 0), (&b"k00"[..], &b"k01"[..]));
    assert_eq!(mbrs.range(11, 0), (&b"k22"[..], &b"k22"[..]));
    assert_eq!(
        mbrs.range(5, 1),
        (&10i64.to_le_bytes()[..], &11i64.to_le_bytes()[..])
    );
    assert_eq!(
        mbrs.range(11, 2),
        (&1.375f64.to_le_bytes()[..], &1.375f64.to_le_bytes()[..])
    );
    assert!(matches!(
        mbrs.dimension(1),
        Some(MbrColumn::Fixed { width: 8, .. })
    ));
    assert!(mbrs.memory_bytes() >= 12 * (6 + 16 + 16));
}

#[test]
fn the_sections_of_a_sparse_fragment() {
    let Fragment { schema, footer, .. } = fragment("sparse", "sparse.fragment");
    let slots = footer.slots(&schema);
    let section = |at: u64| bytes(&format!("sparse.fragment@{at}"));
    let n = slots.attribute(0);
    let offsets = decode_u64s(&section(footer.sections.tile_offsets[n]), "tile offsets").unwrap();
    let extents = TileExtents::new(offsets, footer.file_sizes[n], 12, "a0.tdb").unwrap();
    assert_eq!(extents.range(11).unwrap().end, footer.file_sizes[n]);
    let mins = TileMinMax::decode(&section(footer.sections.mins[n]), "tile mins").unwrap();
    mins.check(12, Some(2)).unwrap();
    assert_eq!(mins.value(11, Some(2)), Some(&[22u8, 0][..]));
    let l = slots.attribute(1);
    let maxes = TileMinMax::decode(&section(footer.sections.maxes[l]), "tile maxes").unwrap();
    maxes.check(12, None).unwrap();
    // Lengths 1, 2 | 3, 1 | 2, 3 …
    assert_eq!(
        (maxes.value(0, None), maxes.value(1, None)),
        (Some(&b"vv"[..]), Some(&b"vvv"[..]))
    );
    assert_eq!(maxes.value(11, None), Some(&b"vv"[..]));
    assert_eq!(maxes.value(12, None), None);
    let sums = decode_u64s(&section(footer.sections.sums[n]), "sums").unwrap();
    assert_eq!((sums[0], sums[11]), (1, 22));
    let statistics = FragmentStatistics::decode(
        &section(footer.sections.fragment_statistics.unwrap()),
        slots.count(),
    )
    .unwrap();
    assert_eq!(
        (statistics.slots[n].max.as_slice(), statistics.slots[n].sum),
        (&[22u8, 0][..], 253i64.to_le_bytes())
    );
    assert_eq!(statistics.slots[l].max, b"vvv");
}

#[test]
fn a_dense_fragment() {
    let Fragment { schema, footer, .. } = fragment("dense", "dense.fragment");
    assert!(footer.dense);
    assert_eq!(
        (footer.sparse_tile_count, footer.last_tile_cell_count),
        (0, 10)
    );
    let domain = footer.non_empty_domain.as_ref().unwrap();
    let i32s = |v: i32| v.to_le_bytes().to_vec();
    assert_eq!((&domain[0].lo, &domain[0].hi), (&i32s(1), &i32s(3)));
    assert_eq!((&domain[1].lo, &domain[1].hi), (&i32s(3), &i32s(7)));
    let slots = footer.slots(&schema);
    assert!(footer.validity_file_sizes[slots.attribute(0)] > 0);
    assert!(footer.var_file_sizes[slots.attribute(1)] > 0);
    assert_eq!(footer.file_sizes[slots.dimension(0)], 0);
    // No levels at all.
    let mbrs = Mbrs::decode(&unhex("0a000000 00000000"), &schema, NEW, 0).unwrap();
    assert!(mbrs.is_empty());
}

#[test]
fn a_consolidated_fragment_with_a_delete() {
    let Fragment { schema, footer, .. } = fragment("deleted", "deleted.fragment");
    assert!(footer.has_timestamps && footer.has_delete_metadata);
    let slots = footer.slots(&schema);
    assert_eq!((slots.count(), footer.file_sizes.len()), (6, 6));
    assert!(footer.file_sizes[slots.delete_condition_index().unwrap()] > 0);
    let at = footer.sections.processed_conditions.unwrap();
    let conditions =
        decode_processed_conditions(&bytes(&format!("deleted.fragment@{at}"))).unwrap();
    assert_eq!(conditions.len(), 1);
    assert!(conditions[0].starts_with("__commits/__30_30_") && conditions[0].ends_with("_22.del"));
    let at = footer.sections.fragment_statistics.unwrap();
    let statistics =
        FragmentStatistics::decode(&bytes(&format!("deleted.fragment@{at}")), slots.count())
            .unwrap();
    let times = &statistics.slots[slots.timestamps().unwrap()];
    assert_eq!(
        (times.min.as_slice(), times.max.as_slice()),
        (&10u64.to_le_bytes()[..], &20u64.to_le_bytes()[..])
    );
    // One cell was deleted at 30, the others never.
    let deletes = &statistics.slots[slots.delete_timestamps().unwrap()];
    assert_eq!(
        (deletes.min.as_slice(), deletes.max.as_slice()),
        (&30u64.to_le_bytes()[..], &[0xff; 8][..])
    );
}

#[test]
fn consolidated_footers() {
    let schema = ArraySchema::decode(&bytes("deleted.schema")).unwrap();
    let tile = bytes("deleted.meta");
    let entries = consolidated::decode(&tile).unwrap();
    assert_eq!(entries.len(), 2);
    for ((name, range), time) in entries.iter().zip([10, 20]) {
        assert!(name.starts_with(&format!("__{time}_{time}_")), "{name}");
        let footer = Footer::decode(&tile[range.clone()], &schema).unwrap();
        assert_eq!(
            (footer.sparse_tile_count, footer.last_tile_cell_count),
            (1, 2)
        );
    }
    assert_eq!(entries[1].1.end, tile.len());
    survives_bit_flips(&tile, consolidated::decode);
    for len in 0..tile.len() {
        // The truncated bytes may be the end of the last footer only.
        if let Ok(entries) = consolidated::decode(&tile[..len]) {
            let last = Footer::decode(&tile[entries[1].1.clone()], &schema);
            assert!(last.is_err());
        }
    }
}

#[test]
fn every_version_reads_the_same() {
    for version in 12..=21 {
        let schema = ArraySchema::decode(&bytes(&format!("v{version}.schema"))).unwrap();
        let tail = bytes(&format!("v{version}.fragment.tail"));
        let footer_bytes = &tail[..tail.len() - 8];
        let footer = Footer::decode(footer_bytes, &schema).unwrap();
        assert_eq!(footer.version, FormatVersion::known(version));
        let domain = footer.non_empty_domain.as_ref().unwrap();
        assert_eq!(domain[0].lo, 1i32.to_le_bytes());
        assert_eq!(domain[0].hi, 6i32.to_le_bytes());
        assert_eq!(
            (domain[1].lo.as_slice(), domain[1].hi.as_slice()),
            (&b"s"[..], &b"z"[..])
        );
        assert!(!footer.dense && !footer.has_delete_metadata);
        assert_eq!(
            footer.sections.processed_conditions.is_some(),
            version >= 16
        );
        let rtree = bytes(&format!("v{version}.fragment.rtree"));
        let mbrs = Mbrs::decode(&rtree, &schema, footer.version, footer.sparse_tile_count).unwrap();
        assert_eq!(mbrs.range(0, 0).0, 1i32.to_le_bytes());
        assert_eq!(mbrs.range(mbrs.len() - 1, 0).1, 6i32.to_le_bytes());
        refuses_every_prefix(footer_bytes, |b| Footer::decode(b, &schema));
        refuses_every_prefix(&rtree, |b| {
            Mbrs::decode(b, &schema, footer.version, footer.sparse_tile_count)
        });
    }
}

#[test]
fn every_truncation_fails_and_no_bit_flip_panics() {
    for name in ["dense", "sparse", "deleted"] {
        let Fragment {
            schema,
            footer_bytes,
            footer,
            ..
        } = fragment(name, &format!("{name}.fragment"));
        refuses_every_prefix(&footer_bytes, |b| Footer::decode(b, &schema));
        survives_bit_flips(&footer_bytes, |b| Footer::decode(b, &schema));
        let slots = footer.slots(&schema).count();
        for (_, section) in starting_with(&format!("{name}.fragment@")) {
            survives_bit_flips(&section, |b| decode_u64s(b, "tile offsets"));
            survives_bit_flips(&section, |b| TileMinMax::decode(b, "tile mins"));
            survives_bit_flips(&section, |b| FragmentStatistics::decode(b, slots));
            survives_bit_flips(&section, decode_processed_conditions);
        }
    }
    let Fragment { schema, footer, .. } = fragment("sparse", "sparse.fragment");
    let section = |at: u64| bytes(&format!("sparse.fragment@{at}"));
    survives_bit_flips(&section(0), |b| Mbrs::decode(b, &schema, NEW, 12));
    refuses_every_prefix(&section(0), |b| Mbrs::decode(b, &schema, NEW, 12));
    refuses_every_prefix(&section(footer.sections.tile_offsets[0]), |b| {
        decode_u64s(b, "tile offsets")
    });
    refuses_every_prefix(&section(footer.sections.mins[1]), |b| {
        TileMinMax::decode(b, "tile mins")
    });
    refuses_every_prefix(
        &section(footer.sections.fragment_statistics.unwrap()),
        |b| FragmentStatistics::decode(b, 6),
    );
    let Fragment { footer, .. } = fragment("deleted", "deleted.fragment");
    let at = footer.sections.processed_conditions.unwrap();
    refuses_every_prefix(
        &bytes(&format!("deleted.fragment@{at}")),
        decode_processed_conditions,
    );
}

#[test]
fn footers_of_version_23_and_with_bytes_behind() {
    let Fragment {
        schema,
        mut footer_bytes,
        footer,
        ..
    } = fragment("deleted", "deleted.fragment");
    let mut longer = footer_bytes.clone();
    longer.extend([0; 8]);
    assert_eq!(Footer::decode(&longer, &schema).unwrap(), footer);

    footer_bytes[0] = 23;
    // An unknown section, then the bounds of the one dimension.
    footer_bytes.extend(unhex("02000000 0900000000000000 03000000 aabbcc"));
    footer_bytes.extend(unhex(
        "0000000000000000 10000000 0700000000000000 0800000000000000",
    ));
    let newer = Footer::decode(&footer_bytes, &schema).unwrap();
    let bounds = newer.sections.global_order_bounds.as_ref().unwrap();
    assert_eq!(
        (bounds.mins.as_slice(), bounds.maxes.as_slice()),
        (&[7][..], &[8][..])
    );
    assert_eq!(newer.section_starts().end(0, 1000), 7);
    refuses_every_prefix(&footer_bytes, |b| Footer::decode(b, &schema));
}

#[test]
fn where_the_footer_is() {
    let length = 100u64.to_le_bytes();
    assert_eq!(Footer::footer_range(&length, 200).unwrap(), 92..192);
    assert_eq!(Footer::footer_range(&length, 108).unwrap(), 0..100);
    assert!(Footer::footer_range(&length, 107).is_err());
    assert!(Footer::footer_range(&[0; 8], 107).is_err());
    assert!(Footer::footer_range(&[0xff; 8], u64::MAX).is_err());
    assert!(Footer::footer_range(&[1; 7], 7).is_err());
}

#[test]
fn a_tree_that_contradicts_itself_is_refused() {
    let schema = ArraySchema::decode(&bytes("deleted.schema")).unwrap();
    let good = "0a000000 02000000 0100000000000000 02000000 09000000
                0200000000000000 02000000 05000000 09000000 09000000";
    let mbrs = Mbrs::decode(&unhex(good), &schema, NEW, 2).unwrap();
    assert_eq!(mbrs.range(1, 0), (&[9, 0, 0, 0][..], &[9, 0, 0, 0][..]));
    let refused = |from: &str, to: &str, tiles: u64, message: &str| {
        let changed = good.replacen(from, to, 1);
        let error = Mbrs::decode(&unhex(&changed), &schema, NEW, tiles)
            .unwrap_err()
            .to_string();
        assert!(error.contains(message), "{error}");
    };
    refused(
        "",
        "",
        3,
        "has 2 leaves, but the fragment footer counts 3 tiles",
    );
    refused("0a000000", "01000000", 2, "contradicts its fanout 1");
    refused("0a000000", "00000000", 2, "contradicts its fanout 0");
    refused("02000000 0100", "ffffffff 0100", 2, "number of levels");
    refused("02000000 0100", "01000000 0100", 2, "after the last level");
    refused(
        "0100000000000000",
        "0000000000000000",
        2,
        "root level of the R-tree has 0",
    );
    refused(
        "0200000000000000",
        "ffffffffffffffff",
        2,
        "number of rectangles",
    );
}

/// Some writers stored a low end above the high end for valid cells.
#[test]
fn a_box_that_cannot_be_one_is_read_as_it_is() {
    let schema = ArraySchema::decode(&bytes("deleted.schema")).unwrap();
    let turned = "0a000000 02000000 0100000000000000 02000000 09000000
                  0200000000000000 06000000 05000000 09000000 09000000";
    let mbrs = Mbrs::decode(&unhex(turned), &schema, NEW, 2).unwrap();
    assert_eq!(mbrs.range(0, 0), (&[6, 0, 0, 0][..], &[5, 0, 0, 0][..]));
}

#[test]
fn tile_extents_ascend_inside_the_file() {
    assert_eq!(
        decode_u64s(&u64s(&[0, 24]), "tile offsets").unwrap(),
        [0, 24]
    );
    let mut longer = u64s(&[0, 24]);
    longer.push(0);
    assert!(decode_u64s(&longer, "tile offsets").is_err());
    let extents = TileExtents::new(vec![0, 24], 46, 2, "a0.tdb").unwrap();
    assert_eq!(
        (extents.range(0).unwrap(), extents.range(1).unwrap()),
        (0..24, 24..46)
    );
    assert!(extents.range(2).is_err());
    let refused = |offsets: &[u64], tiles, message: &str| {
        let error = TileExtents::new(offsets.to_vec(), 8000, tiles, "a0.tdb")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(message) && error.contains("file a0.tdb"),
            "{error}"
        );
    };
    refused(
        &[0, 8192],
        2,
        "tile offsets end at 8192 but the file has 8000 bytes",
    );
    refused(&[0, 10, 9], 3, "go back from 10 to 9");
    refused(
        &[0],
        2,
        "there are 1 tile offsets, but the fragment has 2 tiles",
    );
}

#[test]
fn statistics_that_do_not_fit_the_tiles() {
    let statistics = TileMinMax {
        fixed: u64s(&[])[..8].to_vec(),
        var: b"ab".to_vec(),
    };
    assert!(statistics.check(1, None).is_ok());
    assert!(statistics.check(2, None).is_err());
    assert!(statistics.check(u64::MAX, Some(usize::MAX)).is_err());
    let backwards = TileMinMax {
        fixed: u64s(&[2, 1])[8..].to_vec(),
        var: b"ab".to_vec(),
    };
    assert!(backwards.check(2, None).is_err());
    assert_eq!(backwards.value(0, None), None);
    assert!(TileMinMax::default().check(9, Some(4)).is_ok());
}
