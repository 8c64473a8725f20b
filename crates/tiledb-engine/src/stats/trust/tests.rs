//! Tests of what statistics prove, and that they prove nothing where NaN, NULL or a saturated sum may hide.

use super::{integer, *};
use crate::format::schema::DataOrder;

fn attribute(datatype: Datatype, cell_val_num: CellValNum, nullable: bool) -> Attribute {
    Attribute {
        name: "a".to_owned(),
        datatype,
        cell_val_num,
        nullable,
        filters: Default::default(),
        fill_value: datatype.default_fill(),
        fill_valid: false,
        order: DataOrder::Unordered,
        enumeration: None,
        problem: None,
    }
}

fn trust(datatype: Datatype) -> FieldTrust {
    let one = CellValNum::Fixed(1);
    FieldTrust::of_stored(&attribute(datatype, one, false), false)
}

const BOUNDS: RequestedAggregates = RequestedAggregates {
    column: 0,
    min: true,
    max: true,
    sum: None,
};
const SUM: RequestedAggregates = RequestedAggregates {
    column: 0,
    min: false,
    max: false,
    sum: Some(SumAs::Integer),
};
const FLOAT_SUM: RequestedAggregates = RequestedAggregates {
    sum: Some(SumAs::Float),
    ..SUM
};
const COUNT: RequestedAggregates = RequestedAggregates { sum: None, ..SUM };

fn stored<'a>(min: &'a [u8], max: &'a [u8], sum: TileSum) -> StoredTileStatistics<'a> {
    StoredTileStatistics {
        min: Some(min),
        max: Some(max),
        sum: Some(sum),
        null_count: None,
    }
}

fn f64s(min: f64, max: f64, sum: f64) -> ([u8; 8], [u8; 8], TileSum) {
    (min.to_le_bytes(), max.to_le_bytes(), TileSum::Float(sum))
}

#[test]
fn a_float_sum_that_is_not_finite_or_saturated_hides_a_nan() {
    let trust = trust(Datatype::Float64);
    let check = |min, max, sum| {
        let (min, max, sum) = f64s(min, max, sum);
        trust.check(&BOUNDS, 4, stored(&min, &max, sum)).is_some()
    };
    assert!(check(1.0, 5.0, 9.0));
    // [1, NaN, 5, 2]: the bounds are those of the values after the NaN.
    assert!(!check(2.0, 5.0, f64::NAN));
    assert!(!check(2.0, 5.0, f64::INFINITY));
    assert!(!check(2.0, 5.0, f64::MAX));
    assert!(!check(2.0, 5.0, f64::MIN));
    // [1e308, 1e308, NaN] in one piece, [-1e308] in the next: the sum saturated, then decreased.
    assert!(!check(-1e308, -1e308, f64::MAX - 1e308));
    assert!(!check(f64::NAN, f64::NAN, 1.0));
    assert!(!check(5.0, 1.0, 1.0));
}

#[test]
fn what_rules_tiles_out_is_proven_like_what_answers() {
    let floats = trust(Datatype::Float64);
    let limits = |min, max, sum| {
        let (min, max, sum) = f64s(min, max, sum);
        floats.limits(4, &stored(&min, &max, sum)).is_some()
    };
    assert!(limits(1.0, 5.0, 9.0) && limits(0.0, 0.0, 0.0));
    assert!(!limits(2.0, 5.0, f64::NAN) && !limits(2.0, 5.0, f64::MAX));
    // [1e308, 1e308, NaN] in one piece, [-1e308] in the next.
    assert!(!limits(-1e308, -1e308, f64::MAX - 1e308));
    let chars = attribute(Datatype::Char, CellValNum::Fixed(1), false);
    let chars = FieldTrust::of_stored(&chars, false);
    // As signed numbers 0xC3 comes before 'A'.
    let none = stored(b"\xc3", b"A", TileSum::UInt(0));
    assert_eq!(
        (chars.limits(2, &none), chars.check(&BOUNDS, 2, none)),
        (None, None)
    );
    let nullable = attribute(Datatype::Int32, CellValNum::Fixed(1), true);
    let nullable = FieldTrust::of_stored(&nullable, false);
    let zero = 0_i32.to_le_bytes();
    let nulls = |n| StoredTileStatistics {
        null_count: Some(n),
        ..stored(&zero, &zero, TileSum::Int(0))
    };
    assert!(nullable.limits(5, &nulls(4)).is_some());
    assert!(nullable.limits(5, &nulls(5)).is_none());
    assert!(
        nullable
            .limits(5, &StoredTileStatistics::default())
            .is_none()
    );
}

#[test]
fn floats_without_sums_and_sums_without_bounds_prove_nothing() {
    let trust = trust(Datatype::Float64);
    let (min, max, sum) = f64s(1.0, 5.0, 9.0);
    let no_sum = StoredTileStatistics {
        sum: None,
        ..stored(&min, &max, sum)
    };
    assert_eq!(trust.check(&BOUNDS, 4, no_sum), None);
    let no_bounds = StoredTileStatistics {
        min: None,
        ..stored(&min, &max, sum)
    };
    assert_eq!(trust.check(&FLOAT_SUM, 4, no_bounds), None);
    assert!(
        trust
            .check(&COUNT, 4, StoredTileStatistics::default())
            .is_some()
    );
    let whole = trust.check(&FLOAT_SUM, 4, stored(&min, &max, sum)).unwrap();
    assert_eq!(whole.sum, Some(sum));
}

#[test]
fn exact_answers_leave_out_sums_of_floats_and_zeros_of_unknown_sign() {
    let exact = FieldTrust {
        rounding: SumRounding::Exact,
        ..trust(Datatype::Float64)
    };
    let (min, max, sum) = f64s(0.0, 5.0, 9.0);
    assert_eq!(exact.check(&FLOAT_SUM, 4, stored(&min, &max, sum)), None);
    assert_eq!(exact.check(&BOUNDS, 4, stored(&min, &max, sum)), None);
    let only_max = RequestedAggregates {
        min: false,
        ..BOUNDS
    };
    assert!(exact.check(&only_max, 4, stored(&min, &max, sum)).is_some());
    // The sign of a zero is unknown with either kind of rounding.
    let usual = trust(Datatype::Float64);
    assert_eq!(usual.check(&BOUNDS, 4, stored(&min, &max, sum)), None);
    let no_zero = f64s(1.0, 5.0, 9.0);
    let no_zero = stored(&no_zero.0, &no_zero.1, no_zero.2);
    assert!(usual.check(&BOUNDS, 4, no_zero).is_some());
    assert!(exact.check(&BOUNDS, 4, no_zero).is_some());
}

#[test]
fn sums_of_large_integers_may_have_stopped_at_the_limit() {
    let trust = trust(Datatype::Int64);
    let (one, large) = (1_i64.to_le_bytes(), (i64::MAX / 3).to_le_bytes());
    let sum = TileSum::Int(7);
    assert!(trust.check(&SUM, 3, stored(&one, &large, sum)).is_some());
    assert_eq!(trust.check(&SUM, 4, stored(&one, &large, sum)), None);
    let lowest = i64::MIN.to_le_bytes();
    assert_eq!(trust.check(&SUM, 1, stored(&lowest, &one, sum)), None);
    // For small integers the sum can only overflow with impossibly many cells.
    let small = self::trust(Datatype::Int16);
    let alone = StoredTileStatistics {
        sum: Some(sum),
        ..StoredTileStatistics::default()
    };
    assert!(small.check(&SUM, 1 << 40, alone).is_some());
    assert_eq!(small.check(&SUM, 1 << 50, alone), None);
}

#[test]
fn a_tile_of_nulls_has_no_bounds_whatever_is_stored() {
    let nullable = attribute(Datatype::Int32, CellValNum::Fixed(1), true);
    let trust = FieldTrust::of_stored(&nullable, false);
    let zero = 0_i32.to_le_bytes();
    let nulls = |n| StoredTileStatistics {
        null_count: Some(n),
        ..stored(&zero, &zero, TileSum::Int(0))
    };
    let none = trust.check(&BOUNDS, 5, nulls(5)).unwrap();
    assert_eq!((none.count, none.min, none.max), (0, None, None));
    let some = trust.check(&BOUNDS, 5, nulls(3)).unwrap();
    assert_eq!((some.count, some.min), (2, Some(zero.as_slice())));
    assert_eq!(trust.check(&BOUNDS, 5, nulls(6)), None);
    assert_eq!(
        trust.check(&COUNT, 5, StoredTileStatistics::default()),
        None
    );
}

#[test]
fn text_bounds_with_a_nul_byte_prove_nothing() {
    let var = attribute(Datatype::StringAscii, CellValNum::Var, false);
    let trust = FieldTrust::of_stored(&var, false);
    let none = TileSum::UInt(0);
    assert!(trust.check(&BOUNDS, 2, stored(b"", b"b", none)).is_some());
    assert_eq!(trust.check(&BOUNDS, 2, stored(b"a\0", b"b", none)), None);
    assert_eq!(trust.check(&BOUNDS, 2, stored(b"a", b"b\0c", none)), None);
    assert_eq!(trust.check(&SUM, 2, stored(b"a", b"b", none)), None);
}

#[test]
fn nulls_of_dense_text_and_of_types_without_bounds_are_miscounted() {
    let check = |datatype, cell_val_num, dense| {
        let nullable = attribute(datatype, cell_val_num, true);
        let trust = FieldTrust::of_stored(&nullable, dense);
        let nulls = StoredTileStatistics {
            null_count: Some(1),
            ..StoredTileStatistics::default()
        };
        trust.check(&COUNT, 5, nulls).map(|known| known.count)
    };
    assert_eq!(
        check(Datatype::StringAscii, CellValNum::Var, false),
        Some(4)
    );
    assert_eq!(check(Datatype::StringAscii, CellValNum::Var, true), None);
    assert_eq!(check(Datatype::StringUtf8, CellValNum::Var, false), None);
    assert_eq!(check(Datatype::Int32, CellValNum::Var, false), None);
    assert_eq!(check(Datatype::Int32, CellValNum::Fixed(2), false), None);
    assert_eq!(check(Datatype::Int32, CellValNum::Fixed(1), true), None);
    assert_eq!(check(Datatype::Int32, CellValNum::Fixed(1), false), Some(4));
}

#[test]
fn a_nat_or_a_code_without_a_value_is_a_null_that_nobody_counted() {
    let times = trust(Datatype::DateTimeMs).with_nat(true);
    let (nat, one) = (i64::MIN.to_le_bytes(), 1_i64.to_le_bytes());
    let sum = TileSum::Int(1);
    assert!(times.check(&COUNT, 2, stored(&one, &one, sum)).is_some());
    assert_eq!(times.check(&COUNT, 2, stored(&nat, &one, sum)), None);
    let codes = trust(Datatype::Int8).with_codes(Some(3));
    let check = |lo: i8, hi: i8| {
        let (lo, hi) = (lo.to_le_bytes(), hi.to_le_bytes());
        codes.check(&COUNT, 2, stored(&lo, &hi, sum)).is_some()
    };
    assert!(check(0, 2));
    assert!(!check(-1, 2));
    assert!(!check(0, 3));
    let two = 2_i8.to_le_bytes();
    assert_eq!(codes.check(&BOUNDS, 2, stored(&two, &two, sum)), None);
}

#[test]
fn statistics_are_not_of_what_a_lossy_filter_left() {
    let mut scaled = attribute(Datatype::Float64, CellValNum::Fixed(1), false);
    scaled.filters.filters = vec![Filter::ScaleFloat {
        scale: 0.5,
        offset: 0.0,
        byte_width: 4,
    }];
    let trust = FieldTrust::of_stored(&scaled, false);
    let (min, max, sum) = f64s(1.0, 5.0, 9.0);
    assert_eq!(trust.check(&BOUNDS, 4, stored(&min, &max, sum)), None);
    assert_eq!(trust.check(&FLOAT_SUM, 4, stored(&min, &max, sum)), None);
    assert!(trust.check(&COUNT, 4, stored(&min, &max, sum)).is_some());
}

#[test]
fn integers_of_every_width_are_read_with_their_sign() {
    assert_eq!(integer(Datatype::Int8, &[0xFF]), Some(-1));
    assert_eq!(integer(Datatype::UInt8, &[0xFF]), Some(255));
    assert_eq!(integer(Datatype::Int16, &[0, 0x80]), Some(-32768));
    assert_eq!(
        integer(Datatype::UInt64, &[0xFF; 8]),
        Some(i128::from(u64::MAX))
    );
    assert_eq!(integer(Datatype::Int64, &[0xFF; 8]), Some(-1));
    assert_eq!(integer(Datatype::Int64, &[]), None);
    assert_eq!(integer(Datatype::Int64, &[0; 9]), None);
}
