//! Tests of boxes whose cells may be NaN, or dates before and after 1970.

use super::*;
use crate::geometry::key::Native;
use crate::geometry::subarray::{DimRanges, KeyRange};

const F64: Datatype = Datatype::Float64;

fn of(lo: f64, hi: f64, doubtful: bool) -> TileRange<'static> {
    match range(F64, false, &lo.to_le_bytes(), &hi.to_le_bytes(), doubtful) {
        TileRange::Keys { lo, hi, nan } => TileRange::Keys { lo, hi, nan },
        _ => TileRange::Unknown,
    }
}

fn ranges(lo: Option<f64>, hi: Option<f64>) -> DimRanges {
    DimRanges::from_keys(vec![KeyRange {
        lo: lo.map_or(0, Native::to_key),
        hi: hi.map_or(u64::MAX, Native::to_key),
    }])
}

#[test]
fn what_reaches_nan_rules_nothing_out_where_there_may_be_some() {
    let (sure, doubtful) = (of(1.0, 5.0, false), of(1.0, 5.0, true));
    let above = ranges(Some(10.0), None);
    assert!(!sure.touches(&above) && doubtful.touches(&above));
    let below = ranges(None, Some(10.0));
    assert!(sure.lies_in(&below) && !doubtful.lies_in(&below));
    let around = ranges(Some(0.0), Some(10.0));
    assert!(sure.lies_in(&around) && !doubtful.lies_in(&around));
    let apart = ranges(Some(10.0), Some(20.0));
    assert!(!sure.touches(&apart) && !doubtful.touches(&apart));
    assert!(doubtful.lies_in(&DimRanges::all()));
    let nan = DimRanges::from_points([f64::NAN.to_key()]);
    assert!(!sure.touches(&nan) && doubtful.touches(&nan));
    assert_eq!((sure.keys().is_some(), doubtful.keys()), (true, None));
    // Ruling out NaN helps where it changes the selection.
    assert!(doubtful.may_change(&above) && doubtful.may_change(&around));
    assert!(!doubtful.may_change(&apart) && !sure.may_change(&above));
}

#[test]
fn a_range_that_cannot_be_one_is_unknown() {
    assert_eq!(of(f64::NAN, f64::NAN, true), TileRange::Unknown);
    assert_eq!(of(1.0, f64::NAN, false), TileRange::Unknown);
    assert_eq!(of(2.0, 1.0, false), TileRange::Unknown);
    assert_eq!(
        range(F64, false, &[0; 4], &[0; 8], false),
        TileRange::Unknown
    );
    assert_eq!(range(F64, true, b"b", b"a", false), TileRange::Unknown);
    assert!(matches!(
        range(F64, true, b"a", b"b", false),
        TileRange::Bytes { .. }
    ));
    let anywhere = TileRange::Unknown;
    assert!(anywhere.touches(&ranges(Some(1.0), Some(1.0))));
    assert!(!anywhere.touches(&DimRanges::none()));
    assert!(!anywhere.lies_in(&ranges(None, Some(1.0))) && anywhere.lies_in(&DimRanges::all()));
}

#[test]
fn a_sum_far_from_its_limits_proves_that_there_is_no_nan() {
    let proves = |lo: f64, hi: f64, sum: f64| {
        let (lo, hi) = (lo.to_le_bytes(), hi.to_le_bytes());
        proves_no_nan(F64, &lo, &hi, Some(Sum::Float(sum)))
    };
    assert!(proves(-1.0, 5.0, 20.0) && proves(0.0, 0.0, 0.0));
    assert!(!proves(-1.0, 5.0, f64::NAN) && !proves(-1.0, 5.0, f64::MAX));
    assert!(!proves(f64::NAN, f64::NAN, 0.0) && !proves(-1e300, 1e300, 0.0));
    assert!(!proves(f64::NEG_INFINITY, 1.0, 0.0) && !proves(5.0, 1.0, 3.0));
    assert!(!proves_no_nan(F64, &[0; 8], &[0; 8], None));
    assert!(!proves_no_nan(F64, &[0; 8], &[0; 8], Some(Sum::Int(3))));
}

#[test]
fn dates_of_both_signs_are_mixed() {
    let (old, new) = ((-3_i64).to_key(), 5_i64.to_key());
    assert!(signs_differ(old, new) && !signs_differ(new, 0_i64.to_key()));
    assert!(!signs_differ(old, (-1_i64).to_key()));
}
