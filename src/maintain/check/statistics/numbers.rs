//! Stored bytes as numbers.

use crate::format::datatype::Datatype;

/// A stored integer, date, time, boolean or character.
#[inline]
pub fn integer(datatype: Datatype, bytes: &[u8]) -> Option<i128> {
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    if !is_signed(datatype) {
        return Some(i128::from(unsigned));
    }
    let unused = u32::try_from(64_usize.checked_sub(bytes.len().checked_mul(8)?)?).ok()?;
    let value = unsigned.checked_shl(unused)?.cast_signed() >> unused;
    Some(i128::from(value))
}

/// Whether integers of this type are summed as signed numbers.
pub fn is_signed(datatype: Datatype) -> bool {
    datatype.is_signed() || datatype == Datatype::Char
}

/// Whether values of this type are integers to its statistics.
pub fn is_integer(datatype: Datatype) -> bool {
    let dated = datatype.is_datetime() || datatype.is_time();
    let small = matches!(datatype, Datatype::Bool | Datatype::Char);
    datatype.is_integer() || dated || small
}

/// A stored float.
#[inline]
pub fn float(datatype: Datatype, bytes: &[u8]) -> Option<f64> {
    match datatype {
        Datatype::Float32 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        _ => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
    }
}

/// The limits of sums.
pub fn sum_limits(datatype: Datatype) -> (i128, i128) {
    match is_signed(datatype) {
        true => (i128::from(i64::MIN), i128::from(i64::MAX)),
        false => (0, i128::from(u64::MAX)),
    }
}

/// A stored sum of integers.
pub fn stored_sum(datatype: Datatype, bits: u64) -> i128 {
    match is_signed(datatype) {
        true => i128::from(bits.cast_signed()),
        false => i128::from(bits),
    }
}

/// The largest and the lowest value of a type, with which writers begin a minimum and a maximum.
pub fn sentinels(datatype: Datatype) -> (f64, f64) {
    match datatype {
        Datatype::Float32 => (f64::from(f32::MAX), f64::from(f32::MIN)),
        _ => (f64::MAX, f64::MIN),
    }
}

/// Whether two floats are the same to a reader of statistics: numbers, or both NaN.
pub fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width() {
        assert_eq!(integer(Datatype::Int8, &[0xff]), Some(-1));
        assert_eq!(integer(Datatype::Char, &[0x80]), Some(-128));
        assert_eq!(integer(Datatype::UInt8, &[0xff]), Some(255));
        assert_eq!(integer(Datatype::Bool, &[1]), Some(1));
        let lowest = i64::MIN.to_le_bytes();
        assert_eq!(
            integer(Datatype::DateTimeMs, &lowest),
            Some(i64::MIN.into())
        );
        assert_eq!(integer(Datatype::UInt64, &[0xff; 8]), Some(u64::MAX.into()));
        assert_eq!(integer(Datatype::UInt64, &[0; 9]), None);
    }
}
