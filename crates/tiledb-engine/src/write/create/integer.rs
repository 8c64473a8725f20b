//! Domains and extents as numbers, which may span the whole range of a 64-bit type.

use crate::error::{Error, Result};
use crate::format::datatype::Datatype;

/// An inclusive range of integers, dates or times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntegerSpan {
    datatype: Datatype,
    /// The smallest value.
    pub low: i128,
    /// The largest value.
    pub high: i128,
}

impl IntegerSpan {
    /// The range between two stored values.
    ///
    /// # Errors
    /// They aren't integers.
    pub fn new(datatype: Datatype, low: &[u8], high: &[u8]) -> Result<Self> {
        match (value(datatype, low), value(datatype, high)) {
            (Some(low), Some(high)) => Ok(Self {
                datatype,
                low,
                high,
            }),
            _ => Err(Error::internal(format!("{datatype} has no integers"))),
        }
    }

    /// The number of values.
    pub fn size(self) -> i128 {
        self.high - self.low + 1
    }

    /// Whether it has every value of the type.
    pub fn is_whole_type(self) -> bool {
        self.low == min(self.datatype) && self.high == max(self.datatype)
    }

    /// The last value of the last tile.
    pub fn end_of_tiles(self, extent: u64) -> i128 {
        let extent = i128::from(extent).max(1);
        let tiles = (self.high - self.low) / extent + 1;
        self.low + tiles * extent - 1
    }

    /// The largest value of the type.
    pub fn type_max(self) -> i128 {
        max(self.datatype)
    }

    /// Whether the last tile ends within the type.
    pub fn has_room(self, extent: u64) -> bool {
        self.end_of_tiles(extent) <= max(self.datatype)
    }

    /// The largest high end with a last tile that the type can express.
    pub fn highest_end(self, extent: u64) -> i128 {
        let extent = i128::from(extent).max(1);
        let tiles = (max(self.datatype) - self.low + 1) / extent;
        self.low + tiles * extent - 1
    }
}

/// The smallest value of an integer-like type.
pub fn min(datatype: Datatype) -> i128 {
    match (datatype.is_signed(), datatype.size()) {
        (false, _) => 0,
        (true, 1) => i8::MIN.into(),
        (true, 2) => i16::MIN.into(),
        (true, 4) => i32::MIN.into(),
        (true, _) => i64::MIN.into(),
    }
}

/// The largest value of an integer-like type.
pub fn max(datatype: Datatype) -> i128 {
    match (datatype.is_signed(), datatype.size()) {
        (true, 1) => i8::MAX.into(),
        (true, 2) => i16::MAX.into(),
        (true, 4) => i32::MAX.into(),
        (true, _) => i64::MAX.into(),
        (false, 1) => u8::MAX.into(),
        (false, 2) => u16::MAX.into(),
        (false, 4) => u32::MAX.into(),
        (false, _) => u64::MAX.into(),
    }
}

/// A stored value as a number.
fn value(datatype: Datatype, bytes: &[u8]) -> Option<i128> {
    if bytes.len() != datatype.size() {
        return None;
    }
    let negative = datatype.is_signed() && bytes.last().is_some_and(|last| last & 0x80 != 0);
    let mut wide = [if negative { 0xFF } else { 0 }; 16];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i128::from_le_bytes(wide))
}

/// The stored form of a number. A count of steps beyond a signed type's range stays itself in its low bytes.
pub fn bytes(datatype: Datatype, value: i128) -> Vec<u8> {
    let mut bytes = value.to_le_bytes().to_vec();
    bytes.truncate(datatype.size());
    bytes
}

/// A stored float of 4 or 8 bytes.
pub fn float(bytes: &[u8]) -> f64 {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return f64::from(f32::from_le_bytes(bytes));
    }
    <[u8; 8]>::try_from(bytes).map_or(f64::NAN, f64::from_le_bytes)
}

/// The stored size of a domain of floats, computed in its own type as libtiledb does.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the ends of a domain of FLOAT32 are values of that type"
)]
pub fn float_size(datatype: Datatype, low: f64, high: f64) -> Vec<u8> {
    match datatype {
        Datatype::Float32 => (high as f32 - low as f32).to_le_bytes().to_vec(),
        _ => (high - low).to_le_bytes().to_vec(),
    }
}

/// The stored form of a float; for FLOAT32 the nearest one.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the nearest value is asked for"
)]
pub fn float_bytes(datatype: Datatype, value: f64) -> Vec<u8> {
    match datatype {
        Datatype::Float32 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tile_is_whole() {
        let span = |low: i8, high: i8| {
            IntegerSpan::new(Datatype::Int8, &low.to_le_bytes(), &high.to_le_bytes()).unwrap()
        };
        let small = span(-3, 6);
        assert_eq!(
            (small.size(), small.end_of_tiles(4), small.end_of_tiles(5)),
            (10, 8, 6)
        );
        assert_eq!(span(0, 127).end_of_tiles(100), 199);
        assert_eq!(span(0, 127).highest_end(100), 99);
        assert!(span(-128, 127).is_whole_type() && !span(-128, 126).is_whole_type());
        assert!(IntegerSpan::new(Datatype::Int16, &[1], &[2]).is_err());
    }

    #[test]
    fn numbers_keep_their_bits() {
        assert_eq!(bytes(Datatype::Int8, 255), [0xff]);
        assert_eq!(bytes(Datatype::Int16, -2), (-2_i16).to_le_bytes());
        for (datatype, value) in [
            (Datatype::UInt64, i128::from(u64::MAX)),
            (Datatype::DateTimeNs, i128::from(i64::MIN)),
        ] {
            assert_eq!(super::value(datatype, &bytes(datatype, value)), Some(value));
        }
        assert_eq!(
            float_size(Datatype::Float32, f64::from(f32::MIN), f64::from(f32::MAX)),
            f32::INFINITY.to_le_bytes()
        );
    }
}
