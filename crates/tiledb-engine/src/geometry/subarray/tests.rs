use proptest::prelude::*;

use super::*;
use crate::format::datatype::Datatype;
use crate::geometry::key::{self, NativeKey};

/// Small sets of keys, some at the top of the range.
fn keys() -> impl Strategy<Value = DimRanges> {
    let end = prop_oneof![0u64..12, (u64::MAX - 3)..=u64::MAX];
    prop::collection::vec((end.clone(), end), 0..5).prop_map(|r| {
        DimRanges::from_keys(r.into_iter().map(|(lo, hi)| KeyRange { lo, hi }).collect())
    })
}

fn key_universe() -> impl Iterator<Item = u64> {
    (0..13).chain(u64::MAX - 4..=u64::MAX)
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(b'a'), Just(u8::MAX)], 0..3)
}

fn strings() -> impl Strategy<Value = DimRanges> {
    prop::collection::vec((text(), prop::option::of(text())), 0..4).prop_map(|r| {
        DimRanges::from_bytes(
            r.into_iter()
                .map(|(start, end)| BytesRange { start, end })
                .collect(),
        )
    })
}

fn string_universe() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = vec![vec![]];
    for len in 0..3 {
        let longer: Vec<Vec<u8>> = all
            .iter()
            .filter(|s| s.len() == len)
            .flat_map(|s| [0, b'a', u8::MAX].map(|b| [s.as_slice(), &[b]].concat()))
            .collect();
        all.extend(longer);
    }
    all.sort();
    all
}

proptest! {
    #[test]
    fn lists_of_keys_are_sets(a in keys(), b in keys(), c in keys()) {
        let (both, either, not) = (a.intersect(&b), a.union(&b), a.complement());
        for k in key_universe() {
            let (x, y) = (a.contains_key(k), b.contains_key(k));
            prop_assert_eq!(both.contains_key(k), x && y);
            prop_assert_eq!(either.contains_key(k), x || y);
            prop_assert_eq!(not.contains_key(k), !x);
        }
        prop_assert_eq!(not.complement(), a.clone());
        prop_assert_eq!(&both, &b.intersect(&a));
        prop_assert_eq!(either.clone(), b.union(&a));
        prop_assert_eq!(a.union(&b.intersect(&c)), either.intersect(&a.union(&c)));
        prop_assert_eq!(either.complement(), not.intersect(&b.complement()));
        prop_assert_eq!(DimRanges::union_all([&a, &b, &c]), either.union(&c));
        prop_assert_eq!(DimRanges::intersect_all([&a, &b, &c]), both.intersect(&c));
        for pair in a.key_ranges().windows(2) {
            prop_assert!(pair[0].hi + 1 < pair[1].lo);
        }
    }

    #[test]
    fn lists_of_strings_are_sets(a in strings(), b in strings()) {
        let (both, either, not) = (a.intersect(&b), a.union(&b), a.complement());
        for s in string_universe() {
            let (x, y) = (a.contains_bytes(&s), b.contains_bytes(&s));
            prop_assert_eq!(both.contains_bytes(&s), x && y);
            prop_assert_eq!(either.contains_bytes(&s), x || y);
            prop_assert_eq!(not.contains_bytes(&s), !x);
        }
        prop_assert_eq!(not.complement(), a.clone());
        prop_assert_eq!(both, b.intersect(&a));
        prop_assert_eq!(either.complement(), not.intersect(&b.complement()));
    }

    #[test]
    fn questions_about_keys_agree_with_the_set(a in keys(), lo in 0u64..13, width in 0u64..5) {
        let hi = lo + width;
        let inside: Vec<bool> = (lo..=hi).map(|k| a.contains_key(k)).collect();
        prop_assert_eq!(a.intersects_keys(lo, hi), inside.contains(&true));
        prop_assert_eq!(a.covers_keys(lo, hi), !inside.contains(&false));
        let clipped: Vec<u64> = a.clip_keys(lo, hi).flat_map(|r| r.lo..=r.hi).collect();
        let expected: Vec<u64> = (lo..=hi).filter(|k| a.contains_key(*k)).collect();
        prop_assert_eq!(clipped, expected);
    }

    #[test]
    fn questions_about_strings_agree_with_the_set(a in strings(), lo in text(), hi in text()) {
        let (lo, hi) = (lo.clone().min(hi.clone()), lo.max(hi));
        let universe = string_universe();
        let inside: Vec<bool> = universe.iter().filter(|s| **s >= lo && **s <= hi).map(|s| a.contains_bytes(s)).collect();
        if inside.contains(&true) {
            prop_assert!(a.intersects_bytes(&lo, &hi));
        }
        if inside.contains(&false) {
            prop_assert!(!a.covers_bytes(&lo, &hi));
        }
        prop_assert_eq!(a.intersects_bytes(&lo, &lo), a.contains_bytes(&lo));
        prop_assert_eq!(a.covers_bytes(&lo, &lo), a.contains_bytes(&lo));
        prop_assert_eq!(a.covers_bytes(&lo, &hi), !a.complement().intersects_bytes(&lo, &hi));
    }

    #[test]
    fn prefixes_hold_what_starts_with_them(prefix in text(), value in text()) {
        let ranges = DimRanges::from_bytes(vec![BytesRange::prefix(&prefix)]);
        prop_assert_eq!(ranges.contains_bytes(&value), value.starts_with(&prefix));
        let point = DimRanges::from_bytes(vec![BytesRange::point(&prefix)]);
        prop_assert_eq!(point.contains_bytes(&value), value == prefix);
    }

    #[test]
    fn subarrays_are_products(a in keys(), b in keys(), c in keys(), d in keys()) {
        let product = |x: &DimRanges, y: &DimRanges| {
            let mut s = Subarray::all(2);
            s.intersect_dim(0, x);
            s.intersect_dim(1, y);
            s
        };
        let (left, right) = (product(&a, &b), product(&c, &d));
        let holds = |s: &Subarray, x: u64, y: u64| s.dim(0).contains_key(x) && s.dim(1).contains_key(y);
        let (both, hull) = (left.intersect(&right), left.hull(&right));
        for x in key_universe() {
            for y in key_universe() {
                let (l, r) = (holds(&left, x, y), holds(&right, x, y));
                prop_assert_eq!(holds(&both, x, y), l && r);
                prop_assert!(holds(&hull, x, y) || !(l || r));
                let cell = KeyBox::new(vec![x, y], vec![x, y]).unwrap();
                prop_assert_eq!(left.intersects_box(&cell), l);
                prop_assert_eq!(left.covers_box(&cell), l);
                let bounds = [DimensionExtent::Keys { lo: x, hi: x }, DimensionExtent::Keys { lo: y, hi: y }];
                prop_assert_eq!(left.intersects(&bounds), l);
                prop_assert_eq!(left.covers(&bounds), l);
            }
        }
        prop_assert_eq!(left.is_empty(), a.is_empty() || b.is_empty());
    }
}

#[test]
fn everything_and_nothing() {
    assert!(DimRanges::key_range(0, u64::MAX).is_all());
    assert!(DimRanges::from_bytes(vec![BytesRange::ALL]).is_all());
    assert!(DimRanges::from_keys(vec![KeyRange { lo: 2, hi: 1 }]).is_empty());
    assert_eq!(DimRanges::from_bytes(vec![]), DimRanges::none());
    let strings = DimRanges::from_bytes(vec![BytesRange::point(b"a")]);
    assert_eq!(DimRanges::none().union(&strings), strings);
    assert!(DimRanges::none().intersect(&strings).is_empty());
    assert!(DimRanges::none().complement().is_all());
    assert!(DimRanges::all().contains_key(7) && DimRanges::all().contains_bytes(b"x"));
}

#[test]
fn many_points_stay_cheap() {
    let points = DimRanges::from_points((0..100_000u64).rev().map(|i| i * 3));
    assert_eq!(points.len(), 100_000);
    assert!(points.contains_key(299_997) && !points.contains_key(299_998));
    assert_eq!(points.overlapping_keys(10, 20).len(), 3);
    assert_eq!(points.complement().complement(), points);
    assert_eq!(DimRanges::from_points(0..100_000).len(), 1);
}

#[test]
fn text_is_short_and_readable() {
    let int = |v: i32| v.to_key();
    let range = |lo, hi| KeyRange {
        lo: int(lo),
        hi: int(hi),
    };
    let describe = |r: Vec<KeyRange>| DimRanges::from_keys(r).describe(Datatype::Int32);
    assert_eq!(describe(vec![range(1, 5), range(9, 9)]), "[1, 5] or [9]");
    assert_eq!(
        describe(vec![KeyRange { lo: 0, hi: int(-3) }]),
        "(-inf, -3]"
    );
    assert_eq!(
        describe(vec![KeyRange {
            lo: int(7),
            hi: key::max_key(Datatype::Int32)
        }]),
        "[7, inf)"
    );
    assert_eq!(describe(vec![]), "nothing");
    let many = DimRanges::from_points((0..100_000u64).map(|i| i * 2)).describe(Datatype::UInt64);
    assert_eq!(
        many,
        "[0] or [2] or [4] or [6] or [8] or [10] or [12] or [14] or 99,992 more"
    );
    let bytes = |start: &[u8], end: Option<&[u8]>| {
        let end = end.map(<[u8]>::to_vec);
        DimRanges::from_bytes(vec![BytesRange {
            start: start.to_vec(),
            end,
        }])
        .describe(Datatype::StringAscii)
    };
    assert_eq!(bytes(b"a", Some(b"b")), r#"["a", "b")"#);
    assert_eq!(bytes(b"a", Some(b"c\0")), r#"["a", "c"]"#);
    assert_eq!(bytes(b"a\xff\"", Some(b"a\xff\"\0")), r#"["a\xff\""]"#);
    assert_eq!(bytes(b"a", None), r#"["a", inf)"#);
    assert_eq!(
        DimRanges::key_range(0u64, 9).describe(Datatype::UInt8),
        "(-inf, 9]"
    );
    assert_eq!(DimRanges::All.describe(Datatype::UInt8), "all");
}

#[test]
fn distinct_values_are_counted_where_they_can_be() {
    assert_eq!(DimRanges::all().distinct_values(), u64::MAX);
    assert_eq!(DimRanges::none().distinct_values(), 0);
    assert_eq!(DimRanges::from_points([3, 9, 4]).distinct_values(), 3);
    assert_eq!(DimRanges::key_range(10, 19).distinct_values(), 10);
    let points = vec![BytesRange::point(b"a"), BytesRange::point(b"")];
    assert_eq!(DimRanges::from_bytes(points).distinct_values(), 2);
    let prefix = DimRanges::from_bytes(vec![BytesRange::prefix(b"a")]);
    assert_eq!(prefix.distinct_values(), u64::MAX);
}
