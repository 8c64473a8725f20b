//! Order-preserving `u64` keys of fixed-size dimension values, on which all geometry is done.
//!
//! Unsigned integers are their own key; signed integers, dates and times are widened to `i64` with the sign bit flipped; floats
//! are their IEEE total-order bits. For integers the key is affine: a difference of keys is the difference of values, computed
//! without overflow on domains wider than half the type (specification: "Domain"). The subtle thing: `-0.0` has the key of
//! `0.0`, and every NaN has the same key, above all numbers, so a key doesn't determine its float.

mod show;

pub use show::show;

use std::cmp::Ordering;

use crate::error::{Error, Result};
use crate::format::datatype::Datatype;

const SIGN: u64 = 1 << 63;

/// A native value with an order-preserving key.
pub trait NativeKey: Copy + Send + Sync + 'static {
    /// The key of this value.
    fn to_key(self) -> u64;
    /// Like [`Self::to_key`], but different for NaNs of different bits: as coordinates they are different cells, while `-0.0`
    /// and `0.0` are one cell.
    #[inline]
    fn to_cell_key(self) -> u64 {
        self.to_key()
    }
    /// Whether two values are equal in the global order as libtiledb compares them: equal numbers, zeros of either
    /// sign, and NaN with any value.
    #[inline]
    fn ties(self, other: Self) -> bool {
        self.to_key() == other.to_key()
    }
    /// The value of a key; for a key outside the type's range, its low bits.
    fn from_key(key: u64) -> Self;
    /// The value as libtiledb's Hilbert order uses it.
    fn to_f64(self) -> f64;
}

macro_rules! unsigned {
    ($($t:ty),*) => {$(
        impl NativeKey for $t {
            #[inline]
            fn to_key(self) -> u64 {
                u64::from(self)
            }
            #[inline]
            #[allow(clippy::cast_possible_truncation, reason = "the low bits are the value")]
            fn from_key(key: u64) -> Self {
                key as $t
            }
            #[inline]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

macro_rules! signed {
    ($($t:ty),*) => {$(
        impl NativeKey for $t {
            #[inline]
            fn to_key(self) -> u64 {
                i64::from(self).cast_unsigned() ^ SIGN
            }
            #[inline]
            #[allow(clippy::cast_possible_truncation, reason = "the low bits are the value")]
            fn from_key(key: u64) -> Self {
                (key ^ SIGN).cast_signed() as $t
            }
            #[inline]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

unsigned!(u8, u16, u32, u64);
signed!(i8, i16, i32, i64);

impl NativeKey for f64 {
    #[inline]
    fn to_key(self) -> u64 {
        if self.is_nan() {
            return f64::NAN.to_bits() | SIGN;
        }
        self.to_cell_key()
    }
    #[inline]
    fn to_cell_key(self) -> u64 {
        let bits = if self == 0.0 { 0 } else { self.to_bits() };
        if bits & SIGN == 0 { bits | SIGN } else { !bits }
    }
    #[inline]
    fn ties(self, other: Self) -> bool {
        (self == other) | self.is_nan() | other.is_nan()
    }
    #[inline]
    fn from_key(key: u64) -> Self {
        f64::from_bits(if key & SIGN == 0 { !key } else { key ^ SIGN })
    }
    #[inline]
    fn to_f64(self) -> f64 {
        self
    }
}

impl NativeKey for f32 {
    #[inline]
    fn to_key(self) -> u64 {
        if self.is_nan() {
            return u64::from(f32::NAN.to_bits() | SIGN32);
        }
        self.to_cell_key()
    }
    #[inline]
    fn to_cell_key(self) -> u64 {
        let bits = if self == 0.0 { 0 } else { self.to_bits() };
        u64::from(if bits & SIGN32 == 0 {
            bits | SIGN32
        } else {
            !bits
        })
    }
    #[inline]
    fn ties(self, other: Self) -> bool {
        (self == other) | self.is_nan() | other.is_nan()
    }
    #[inline]
    fn from_key(key: u64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a key of this type has 32 bits"
        )]
        let key = key as u32;
        f32::from_bits(if key & SIGN32 == 0 {
            !key
        } else {
            key ^ SIGN32
        })
    }
    #[inline]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

const SIGN32: u32 = 1 << 31;

/// Runs `$body` with `$native` as the Rust type of `$datatype` (dates and times: `i64`), or `$other` for a
/// datatype that no fixed-size dimension has.
macro_rules! with_native {
    ($datatype:expr, $native:ident => $body:expr, _ => $other:expr) => {{
        use $crate::format::datatype::Datatype as D;
        match $datatype {
            D::Int8 => {
                type $native = i8;
                $body
            }
            D::Int16 => {
                type $native = i16;
                $body
            }
            D::Int32 => {
                type $native = i32;
                $body
            }
            D::UInt8 => {
                type $native = u8;
                $body
            }
            D::UInt16 => {
                type $native = u16;
                $body
            }
            D::UInt32 => {
                type $native = u32;
                $body
            }
            D::UInt64 => {
                type $native = u64;
                $body
            }
            D::Float32 => {
                type $native = f32;
                $body
            }
            D::Float64 => {
                type $native = f64;
                $body
            }
            other if other == D::Int64 || other.is_datetime() || other.is_time() => {
                type $native = i64;
                $body
            }
            _ => $other,
        }
    }};
}
pub(crate) use with_native;

/// Whether a dimension of this datatype has fixed-size values, and so has keys.
pub fn has_key(datatype: Datatype) -> bool {
    with_native!(datatype, T => size_of::<T>() > 0, _ => false)
}

/// The key of a stored little-endian value.
pub fn key(datatype: Datatype, bytes: &[u8]) -> Result<u64> {
    with_native!(
        datatype,
        T => bytes
            .try_into()
            .map(|bytes| T::from_le_bytes(bytes).to_key())
            .map_err(|_| Error::corrupt(format!(
                "a value of type {datatype} has {} bytes, expected {}", bytes.len(), datatype.size()
            ))),
        _ => Err(Error::internal(format!("datatype {datatype} has no keys")))
    )
}

/// The stored little-endian value of a key; empty for a datatype without keys.
pub fn from_key(datatype: Datatype, key: u64) -> Vec<u8> {
    with_native!(datatype, T => T::from_key(key).to_le_bytes().to_vec(), _ => Vec::new())
}

/// Appends the key of every value in a stored buffer to `out`.
pub fn keys(datatype: Datatype, bytes: &[u8], out: &mut Vec<u64>) -> Result<()> {
    with_native!(
        datatype,
        T => {
            let (values, rest) = bytes.as_chunks::<{ size_of::<T>() }>();
            if !rest.is_empty() {
                return Err(Error::corrupt(format!(
                    "{} bytes of {datatype} values, expected a multiple of {}", bytes.len(), datatype.size()
                )));
            }
            out.extend(values.iter().map(|v| T::from_le_bytes(*v).to_key()));
            Ok(())
        },
        _ => Err(Error::internal(format!("datatype {datatype} has no keys")))
    )
}

/// The smallest and the largest key of the values in a stored buffer; `None` if there are none, or not of this type.
pub fn least_and_most(datatype: Datatype, bytes: &[u8]) -> Option<(u64, u64)> {
    with_native!(
        datatype,
        T => {
            let (values, _) = bytes.as_chunks::<{ size_of::<T>() }>();
            let keys = values.iter().map(|v| T::from_le_bytes(*v).to_key());
            let ends = keys.map(|key| (key, key));
            ends.reduce(|(least, most), (key, _)| (least.min(key), most.max(key)))
        },
        _ => None
    )
}

/// The smallest key a value of `datatype` can have (for floats, that of minus infinity).
pub fn min_key(datatype: Datatype) -> u64 {
    match datatype {
        Datatype::Float32 => f32::NEG_INFINITY.to_key(),
        Datatype::Float64 => f64::NEG_INFINITY.to_key(),
        Datatype::Int8 => i8::MIN.to_key(),
        Datatype::Int16 => i16::MIN.to_key(),
        Datatype::Int32 => i32::MIN.to_key(),
        _ => 0,
    }
}

/// The largest key a value of `datatype` can have (for floats, that of NaN).
pub fn max_key(datatype: Datatype) -> u64 {
    match datatype {
        Datatype::Float32 => f32::NAN.to_key(),
        Datatype::Float64 => f64::NAN.to_key(),
        Datatype::Int8 => i8::MAX.to_key(),
        Datatype::Int16 => i16::MAX.to_key(),
        Datatype::Int32 => i32::MAX.to_key(),
        Datatype::UInt8 => u64::from(u8::MAX),
        Datatype::UInt16 => u64::from(u16::MAX),
        Datatype::UInt32 => u64::from(u32::MAX),
        _ => u64::MAX,
    }
}

/// The key of NaN, which is above the keys of all numbers; `None` for a type without NaN.
pub fn nan_key(datatype: Datatype) -> Option<u64> {
    match datatype {
        Datatype::Float32 => Some(f32::NAN.to_key()),
        Datatype::Float64 => Some(f64::NAN.to_key()),
        _ => None,
    }
}

/// The extent of a dimension as a difference of keys; stored in the dimension's type, read as unsigned, since an
/// extent of a signed type may exceed its maximum. `None` for floats and datatypes without keys.
pub fn extent(datatype: Datatype, bytes: &[u8]) -> Option<u64> {
    if datatype.is_float() || !has_key(datatype) || bytes.len() != datatype.size() {
        return None;
    }
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(wide))
}

/// One coordinate of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coordinate<'a> {
    /// The key of a fixed-size dimension.
    Key(u64),
    /// The value of a string dimension.
    Bytes(&'a [u8]),
}

impl Coordinate<'_> {
    /// Compares coordinates of one dimension: keys by number, strings by unsigned bytes.
    #[inline]
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Key(a), Self::Key(b)) => a.cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Key(_), Self::Bytes(_)) => Ordering::Less,
            (Self::Bytes(_), Self::Key(_)) => Ordering::Greater,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key_of<T: NativeKey>(value: T) -> u64 {
        value.to_key()
    }

    proptest! {
        #[test]
        fn keys_keep_order_and_come_back(a: i64, b: i64, c: u64, d: u64, e: i16, f: i16) {
            prop_assert_eq!(key_of(a).cmp(&key_of(b)), a.cmp(&b));
            prop_assert_eq!(key_of(c).cmp(&key_of(d)), c.cmp(&d));
            prop_assert_eq!(key_of(e).cmp(&key_of(f)), e.cmp(&f));
            prop_assert_eq!((i64::from_key(a.to_key()), u64::from_key(c.to_key()), i16::from_key(e.to_key())), (a, c, e));
            prop_assert_eq!(key_of(b).wrapping_sub(key_of(a)), b.wrapping_sub(a).cast_unsigned());
        }

        #[test]
        fn float_keys_keep_order(a in any::<f64>(), b in any::<f64>(), c in any::<f32>(), d in any::<f32>()) {
            if let Some(order) = a.partial_cmp(&b) {
                prop_assert_eq!(a.to_key().cmp(&b.to_key()), order);
            }
            if let Some(order) = c.partial_cmp(&d) {
                prop_assert_eq!(c.to_key().cmp(&d.to_key()), order);
            }
            prop_assert!(f64::from_key(a.to_key()) == a || a.is_nan());
            prop_assert!(f32::from_key(c.to_key()) == c || c.is_nan());
        }

        #[test]
        fn stored_values_round_trip(code in 0u8..44, bits: u64) {
            let datatype = Datatype::from_code(code).unwrap();
            if has_key(datatype) {
                let bytes = &bits.to_le_bytes()[..datatype.size()];
                let k = key(datatype, bytes).unwrap();
                prop_assert!((min_key(datatype)..=max_key(datatype)).contains(&k));
                let wide = f64::from_bits(bits);
                let odd = wide == 0.0 || wide.is_nan() || bits as u32 == 1 << 31 || f32::from_bits(bits as u32).is_nan();
                prop_assert!(from_key(datatype, k) == bytes || (datatype.is_float() && odd));
                prop_assert!(key(datatype, &bytes[1..]).is_err());
                let mut many = Vec::new();
                keys(datatype, bytes, &mut many).unwrap();
                prop_assert_eq!(many, vec![k]);
                prop_assert_eq!(least_and_most(datatype, bytes), Some((k, k)));
                let two = [bytes, &vec![0; bytes.len()]].concat();
                let zero = key(datatype, &two[bytes.len()..]).unwrap();
                prop_assert_eq!(least_and_most(datatype, &two), Some((k.min(zero), k.max(zero))));
            } else {
                prop_assert!(key(datatype, &[0]).is_err());
            }
        }
    }

    #[test]
    fn zeros_are_one_cell() {
        assert_eq!((-0.0f64).to_key(), 0.0f64.to_key());
        assert_eq!((-0.0f32).to_key(), 0.0f32.to_key());
        assert_eq!((-0.0f64).to_cell_key(), 0.0f64.to_cell_key());
        assert_eq!((-0.0f32).to_cell_key(), 0.0f32.to_cell_key());
        assert!((-f64::MIN_POSITIVE).to_key() < 0.0f64.to_key());
        assert_eq!(1.5f32.to_cell_key(), 1.5f32.to_key());
    }

    #[test]
    fn every_nan_is_above_all_numbers() {
        assert_eq!(nan_key(Datatype::Int64), None);
        let doubles = nan_key(Datatype::Float64).unwrap();
        let singles = nan_key(Datatype::Float32).unwrap();
        let mut cells = Vec::new();
        for bits in [
            0x7FF8_0000_0000_0000,
            0xFFF8_0000_0000_0000,
            0x7FF0_0000_0000_07A2,
            u64::MAX,
        ] {
            let nan = f64::from_bits(bits);
            assert_eq!(nan.to_key(), doubles);
            assert!(!cells.contains(&nan.to_cell_key()));
            cells.push(nan.to_cell_key());
        }
        for bits in [0x7FC0_0000, 0xFFC0_0000, 0x7F80_07A2, u32::MAX] {
            assert_eq!(f32::from_bits(bits).to_key(), singles);
        }
        for number in [f64::INFINITY, f64::MIN, -0.0, 1.0] {
            assert!(number.to_key() < doubles && (-number).to_key() < doubles);
        }
        for number in [f32::INFINITY, f32::MIN, -0.0, 1.0] {
            assert!(number.to_key() < singles && (-number).to_key() < singles);
        }
    }

    #[test]
    fn extents_are_unsigned() {
        assert_eq!(extent(Datatype::Int8, &[0xC9]), Some(201));
        assert_eq!(extent(Datatype::Float32, &[0; 4]), None);
        assert_eq!(extent(Datatype::Int32, &[1; 8]), None);
    }
}
