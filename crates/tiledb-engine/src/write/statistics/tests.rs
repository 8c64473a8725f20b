//! Expected values come from first principles, and the kinds from what libtiledb stores.

use super::numbers::{BLOCK, SaturatingTotal, SummedNumber, summarise, summarise_blocks};
use super::*;

const ONE: CellValNum = CellValNum::Fixed(1);

fn cells<const N: usize>(values: &[[u8; N]], validity: Option<&[u8]>) -> StoredCells {
    StoredCells {
        len: values.len(),
        values: values.concat(),
        starts: None,
        validity: validity.map(<[u8]>::to_vec),
    }
}

fn all(cells: &StoredCells) -> Vec<Range<usize>> {
    std::iter::once(0..cells.len).collect()
}

fn of_doubles(values: &[f64]) -> (f64, f64, f64) {
    let kind = WrittenStatisticsKind::of_attribute(Datatype::Float64, ONE, false);
    let stored = values.iter().map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    let cells = cells(&stored, None);
    let found = kind.of_cells(&cells, &all(&cells));
    let double = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
    (double(&found.min), double(&found.max), double(&found.sum))
}

#[test]
fn nan_is_told_by_the_sum_alone() {
    let (min, max, sum) = of_doubles(&[1.0, f64::NAN, 5.0, 2.0]);
    assert!(min == 1.0 && max == 5.0 && sum.is_nan());
    let (min, max, sum) = of_doubles(&[f64::NAN]);
    assert!(min.is_nan() && max.is_nan() && sum.is_nan());
    let (min, max, sum) = of_doubles(&[f64::INFINITY, 1.0]);
    assert!(min == 1.0 && max == f64::INFINITY && sum == f64::MAX);
    let (_, _, sum) = of_doubles(&[f64::MIN, f64::MIN, f64::NAN]);
    assert!(sum == f64::MIN, "a sum that has stopped stays");
    let (_, _, sum) = of_doubles(&[f64::NEG_INFINITY, 1.0]);
    assert!(sum == f64::NEG_INFINITY, "the sign differs from that of 0");
    let (_, _, sum) = of_doubles(&[f64::NEG_INFINITY, 1.0, f64::NAN]);
    assert!(sum.is_nan());
}

#[test]
fn sums_of_integers_stop_at_their_limits() {
    let kind = WrittenStatisticsKind::of_attribute(Datatype::Int64, ONE, false);
    let stored = [i64::MAX, 1, -5].map(i64::to_le_bytes);
    let cells = cells(&stored, None);
    let found = kind.of_cells(&cells, &all(&cells));
    assert_eq!(i64::from_le_bytes(found.sum), i64::MAX);
    let fragment = kind.of_tiles(&[found.clone(), found]);
    assert_eq!(i64::from_le_bytes(fragment.sum), i64::MAX);
    assert_eq!(fragment.min, (-5_i64).to_le_bytes());
}

#[test]
fn nulls_and_padding_do_not_count() {
    let kind = WrittenStatisticsKind::of_attribute(Datatype::Int16, ONE, true);
    let stored = [7_i16, -3, 9, 100].map(i16::to_le_bytes);
    let cells = cells(&stored, Some(&[1, 0, 1, 1]));
    let found = kind.of_cells(&cells, &[0..1, 1..3]);
    assert_eq!(found.min, 7_i16.to_le_bytes());
    assert_eq!(found.max, 9_i16.to_le_bytes());
    assert_eq!(i64::from_le_bytes(found.sum), 16);
    assert_eq!((found.null_count, found.is_all_null), (1, false));
    let nothing = kind.of_cells(&cells, std::slice::from_ref(&(1..2)));
    assert_eq!(
        (nothing.min.as_slice(), nothing.max.as_slice()),
        (&[0, 0][..], &[0, 0][..])
    );
    assert!(nothing.is_all_null);
    let fragment = kind.of_tiles(&[nothing, found]);
    assert_eq!(
        (fragment.min, fragment.null_count),
        (7_i16.to_le_bytes().to_vec(), 2)
    );
}

#[test]
fn strings_are_compared_by_all_their_bytes() {
    let kind = WrittenStatisticsKind::of_attribute(Datatype::StringAscii, CellValNum::Var, true);
    let values = StoredCells {
        len: 4,
        values: b"b\0za\xFFb\0a".to_vec(),
        starts: Some(vec![0, 3, 5, 5]),
        validity: Some(vec![1, 1, 0, 1]),
    };
    let found = kind.of_cells(&values, &all(&values));
    assert_eq!(found.min, b"a\xFF");
    assert_eq!(found.max, b"b\0z");
    assert_eq!((found.sum, found.null_count), ([0; 8], 1));
    let nothing = kind.of_cells(&values, std::slice::from_ref(&(2..3)));
    assert!(nothing.min.is_empty() && nothing.max.is_empty());
}

#[test]
fn fields_have_the_statistics_that_libtiledb_gives_them() {
    use Datatype as D;
    let kind = |datatype, count, nullable| {
        let kind = WrittenStatisticsKind::of_attribute(datatype, count, nullable);
        (kind.has_min_max(), kind.has_sum(), kind.has_null_count())
    };
    let (two, var) = (CellValNum::Fixed(2), CellValNum::Var);
    for number in [
        D::Int8,
        D::UInt64,
        D::Float32,
        D::Bool,
        D::DateTimeDay,
        D::TimeNs,
    ] {
        assert_eq!(kind(number, ONE, true), (true, true, true), "{number}");
        assert_eq!(kind(number, two, true), (false, false, true), "{number}");
        assert_eq!(kind(number, var, false), (false, false, false), "{number}");
    }
    assert_eq!(kind(D::Char, ONE, false), (true, true, false));
    assert_eq!(kind(D::StringAscii, ONE, false), (true, false, false));
    for text in [D::Char, D::StringAscii] {
        assert_eq!(kind(text, two, false), (true, false, false));
        assert_eq!(kind(text, var, true), (true, false, true));
    }
    for other in [
        D::StringUtf8,
        D::StringUtf16,
        D::StringUcs4,
        D::Blob,
        D::GeomWkb,
        D::GeomWkt,
    ] {
        assert_eq!(kind(other, ONE, false), (false, false, false), "{other}");
        assert_eq!(kind(other, var, true), (false, false, true), "{other}");
    }
    let dimension = WrittenStatisticsKind::of_dimension(D::Int32, ONE);
    assert!(dimension.has_sum() && !dimension.has_min_max());
    assert!(!WrittenStatisticsKind::of_dimension(D::StringAscii, var).has_sum());
}

/// Summarising numbers in blocks gives the same statistics, bit for bit, as one by one.
#[test]
fn blocks_change_nothing() {
    fn check<T: SummedNumber + std::fmt::Debug, const N: usize>(
        numbers: &[T],
        stored: impl Fn(T) -> [u8; N],
        read: impl Fn([u8; N]) -> T + Copy,
    ) {
        let cells = numbers.iter().map(|n| stored(*n)).collect::<Vec<_>>();
        let bits = |(min, max, sum): (Option<T>, Option<T>, T::Sum)| {
            (min.map(&stored), max.map(&stored), sum.bytes())
        };
        let expected = bits(summarise(numbers.iter().copied()));
        assert_eq!(bits(summarise_blocks(&cells, read)), expected);
    }

    let mut random = 12345_u64;
    let mut next = || {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        random >> 11
    };
    for case in 0..200 {
        let len = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK][case % 6];
        let rare = 1 + next() % 3000;
        let numbers = (0..len)
            .map(|_| (next(), next() % rare == 0))
            .collect::<Vec<_>>();
        let special = [
            f64::NAN,
            -0.0,
            0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
        ];
        let of = |(n, is_special): (u64, bool)| {
            if is_special {
                special[n as usize % special.len()]
            } else {
                n as f64 / 1e6 - 1e6
            }
        };
        let doubles = numbers.iter().map(|n| of(*n)).collect::<Vec<_>>();
        check(&doubles, f64::to_le_bytes, f64::from_le_bytes);
        let floats = doubles.iter().map(|n| *n as f32).collect::<Vec<_>>();
        check(&floats, f32::to_le_bytes, f32::from_le_bytes);
        let of = |(n, is_special): (u64, bool)| {
            if is_special {
                [i64::MIN, i64::MAX, 0][n as usize % 3]
            } else {
                n as i64 - (1 << 52)
            }
        };
        let integers = numbers.iter().map(|n| of(*n)).collect::<Vec<_>>();
        check(&integers, i64::to_le_bytes, i64::from_le_bytes);
        let unsigned = integers.iter().map(|n| *n as u64).collect::<Vec<_>>();
        check(&unsigned, u64::to_le_bytes, u64::from_le_bytes);
        let small = integers.iter().map(|n| *n as i16).collect::<Vec<_>>();
        check(&small, i16::to_le_bytes, i16::from_le_bytes);
    }
}
