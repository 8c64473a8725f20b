//! The smallest and the largest string of tiles.
//!
//! libtiledb compares the strings of attributes up to their first NUL byte, so of `"a"` and `"a\0z"` either may be
//! called the smallest, or the largest. Up to there they are right: no string is smaller than the smallest up to its
//! first NUL, and every one is smaller than the largest up to there with a byte `1` behind it.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewBuilder, StringViewBuilder};
use arrow::datatypes::DataType;

/// Below which strings of an attribute cannot lie.
pub(super) fn lower(min: &[u8]) -> Vec<u8> {
    up_to_nul(min).to_vec()
}

/// Above which strings of an attribute cannot lie.
pub(super) fn upper(max: &[u8]) -> Vec<u8> {
    let mut bound = up_to_nul(max).to_vec();
    bound.push(1);
    bound
}

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Strings as a column shows them; what is no text there is NULL.
pub(super) fn array(values: impl Iterator<Item = Option<Vec<u8>>>, to: &DataType) -> ArrayRef {
    if to == &DataType::BinaryView {
        let mut builder = BinaryViewBuilder::new();
        values.for_each(|value| builder.append_option(value));
        return Arc::new(builder.finish());
    }
    let mut builder = StringViewBuilder::new();
    values.for_each(|value| builder.append_option(value.and_then(|v| String::from_utf8(v).ok())));
    Arc::new(builder.finish())
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
                        assert!(lower(min).as_slice() <= cell && cell <= upper(max).as_slice());
                    }
                }
            }
        }
    }
}
