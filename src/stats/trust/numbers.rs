//! Stored bounds and sums as numbers, and which floats are far from the limits at which sums saturate.

use crate::array::fragment::boxes::LARGE_FLOAT;
use crate::array::fragment::statistics::Sum;
use crate::format::datatype::Datatype;

/// A sum of floats far from the limits at which sums saturate: no value was NaN, unless some values were near the
/// limits themselves.
pub(super) fn small_sum(sum: Option<Sum>) -> Option<f64> {
    match sum {
        Some(Sum::Float(sum)) => Some(sum).filter(|sum| is_small(*sum)),
        _ => None,
    }
}

/// Bounds of floats whose sums cannot get near the limits.
pub(super) fn small_bounds(datatype: Datatype, min: &[u8], max: &[u8]) -> Option<(f64, f64)> {
    let (min, max) = (float(datatype, min)?, float(datatype, max)?);
    (is_small(min) && is_small(max) && min <= max).then_some((min, max))
}

/// Whether a float is far from the limits; false for NaN.
fn is_small(value: f64) -> bool {
    value.abs() < LARGE_FLOAT
}

pub(super) fn integer(datatype: Datatype, bytes: &[u8]) -> Option<i128> {
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    if !datatype.is_signed() {
        return Some(i128::from(unsigned));
    }
    let unused = u32::try_from(64 - 8 * bytes.len()).ok()?;
    let value = unsigned.checked_shl(unused)?.cast_signed() >> unused;
    Some(i128::from(value))
}

fn float(datatype: Datatype, bytes: &[u8]) -> Option<f64> {
    Some(match datatype {
        Datatype::Float32 => f64::from(f32::from_le_bytes(bytes.try_into().ok()?)),
        _ => f64::from_le_bytes(bytes.try_into().ok()?),
    })
}
