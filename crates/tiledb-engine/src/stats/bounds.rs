//! Bounds that need care: those of strings in tiles, and the two zeros of floats.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, Float32Array, Float64Array, StringViewBuilder,
};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

/// A lower bound of the strings of an attribute.
///
/// libtiledb compares the strings of attributes up to their first NUL byte, so of `"a"` and `"a\0z"` either may be
/// stored as the smallest or as the largest. Up to that byte the bounds are right: no string is smaller than the
/// stored minimum cut at its first NUL, and every string is smaller than the stored maximum cut there and followed by
/// a byte `1`.
pub(super) fn text_lower(min: &[u8]) -> Vec<u8> {
    up_to_nul(min).to_vec()
}

/// An upper bound of the strings of an attribute.
pub(super) fn text_upper(max: &[u8]) -> Vec<u8> {
    let mut bound = up_to_nul(max).to_vec();
    bound.push(1);
    bound
}

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Strings as values of a column; invalid text becomes NULL.
pub(super) fn text_array(values: impl Iterator<Item = Option<Vec<u8>>>, to: &DataType) -> ArrayRef {
    if to == &DataType::BinaryView {
        let mut builder = BinaryViewBuilder::new();
        values.for_each(|value| builder.append_option(value));
        return Arc::new(builder.finish());
    }
    let mut builder = StringViewBuilder::new();
    values.for_each(|value| builder.append_option(value.and_then(|v| String::from_utf8(v).ok())));
    Arc::new(builder.finish())
}

/// Widens bounds that are zero to the outer of the two zeros. The writer of the bound may have stored either zero for
/// the other, and a comparison may treat them as equal (`=` of DataFusion) or not (a comparator of arrow).
pub fn outer_zeros(bounds: &ArrayRef, upper: bool) -> ArrayRef {
    match bounds.data_type() {
        DataType::Float32 => {
            let zero = if upper { 0.0 } else { -0.0 };
            let outer = |v: f32| if v == 0.0 { zero } else { v };
            let array: Float32Array = bounds.as_primitive::<Float32Type>().unary(outer);
            Arc::new(array)
        }
        DataType::Float64 => {
            let zero = if upper { 0.0 } else { -0.0 };
            let outer = |v: f64| if v == 0.0 { zero } else { v };
            let array: Float64Array = bounds.as_primitive::<Float64Type>().unary(outer);
            Arc::new(array)
        }
        _ => Arc::clone(bounds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_whatever_follows_a_nul() {
        let all: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"a\0z", b"a\x01", b"b"];
        let c_string = |s: &[u8]| up_to_nul(s).to_vec();
        for min in all {
            for max in all {
                for cell in all {
                    let inside = c_string(min) <= c_string(cell) && c_string(cell) <= c_string(max);
                    if inside {
                        assert!(
                            text_lower(min).as_slice() <= cell
                                && cell <= text_upper(max).as_slice()
                        );
                    }
                }
            }
        }
    }
}
