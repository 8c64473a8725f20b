//! One inclusive range of one dimension as raw bytes (specification: "Fragment Metadata File", MBRs and non-empty
//! domains; "Array Schema File", current domain).
//!
//! Fixed-size values: `lo, hi`. Variable-sized: `u64 total bytes, u64 bytes of lo, lo, hi`. The subtle thing is order:
//! the raw bytes are little-endian, so they are compared only through [`compare_values`] with their datatype. The high
//! end of old string ranges that begin with the empty string cannot be trusted: see `high_end`.

use std::cmp::Ordering;

use super::cursor::Cursor;
use super::datatype::Datatype;
use super::encoder::Encoder;
use super::version::FormatVersion;
use crate::error::{Error, Result};

/// Since this version, the high end of a string range is correct.
const HIGH_ENDS_KEPT: u32 = 12;
/// Greater than every string of text.
const ABOVE_TEXT: [u8; 16] = [0xFF; 16];

/// An inclusive range of one dimension, as raw little-endian bytes or as a pair of strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainRange {
    /// The smallest value.
    pub lo: Vec<u8>,
    /// The largest value.
    pub hi: Vec<u8>,
}

impl DomainRange {
    /// Reads `lo` and `hi` of `size` bytes each.
    pub fn decode_fixed(cursor: &mut Cursor<'_>, size: usize) -> Result<Self> {
        Ok(Self {
            lo: cursor.bytes(size, "range low")?.to_vec(),
            hi: cursor.bytes(size, "range high")?.to_vec(),
        })
    }

    /// Reads a variable-sized pair.
    pub fn decode_var(cursor: &mut Cursor<'_>) -> Result<Self> {
        let (lo, hi) = read_var_pair(cursor)?;
        Ok(Self {
            lo: lo.to_vec(),
            hi: hi.to_vec(),
        })
    }

    /// Writes `lo` and `hi` of fixed size.
    pub fn encode_fixed(&self, to: &mut Encoder) {
        to.bytes(&self.lo);
        to.bytes(&self.hi);
    }

    /// Writes a variable-sized pair.
    pub fn encode_var(&self, to: &mut Encoder) {
        to.count_u64(self.lo.len().saturating_add(self.hi.len()));
        to.count_u64(self.lo.len());
        self.encode_fixed(to);
    }

    /// Fails unless `lo <= hi` in the order of `datatype` (so neither is NaN).
    pub fn check_order(&self, datatype: Datatype, what: &str) -> Result<()> {
        check_order(datatype, &self.lo, &self.hi, what)
    }
}

/// The two values of a variable-sized range, borrowed.
pub(crate) fn read_var_pair<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a [u8], &'a [u8])> {
    let total = cursor.u64("range bytes")?;
    let lo_bytes = cursor.u64("range low bytes")?;
    let hi_bytes = total.checked_sub(lo_bytes).ok_or_else(|| {
        cursor.invalid(
            "range low bytes",
            lo_bytes,
            format_args!("at most the range's {total} bytes"),
        )
    })?;
    let lo = cursor.bytes_u64(lo_bytes, "range low")?;
    let hi = cursor.bytes_u64(hi_bytes, "range high")?;
    Ok((lo, hi))
}

/// The high end of a string range in the metadata of a fragment of this version.
///
/// libtiledb 2.0 to 2.2 treated a range that begins with the empty string as unbounded: the next string became its high
/// end, however small. Such a range is extended here to all strings.
pub(crate) fn high_end<'a>(version: FormatVersion, lo: &[u8], hi: &'a [u8]) -> &'a [u8] {
    if lo.is_empty() && !version.since(HIGH_ENDS_KEPT) {
        return &ABOVE_TEXT;
    }
    hi
}

/// Fails unless `lo <= hi` in the order of `datatype`.
pub(crate) fn check_order(datatype: Datatype, lo: &[u8], hi: &[u8], what: &str) -> Result<()> {
    match compare_values(datatype, lo, hi) {
        Some(Ordering::Less | Ordering::Equal) => Ok(()),
        _ => Err(Error::corrupt(format!(
            "{what} is [{}, {}], expected a range whose low end is not above its high end",
            show_value(datatype, lo),
            show_value(datatype, hi)
        ))),
    }
}

/// Compares two stored values; `None` if one is NaN or differs in width from `datatype`.
///
/// Strings compare by unsigned bytes, dates and times as `i64`.
pub fn compare_values(datatype: Datatype, left: &[u8], right: &[u8]) -> Option<Ordering> {
    macro_rules! compare {
        ($t:ty) => {{
            let left = <$t>::from_le_bytes(left.try_into().ok()?);
            let right = <$t>::from_le_bytes(right.try_into().ok()?);
            left.partial_cmp(&right)
        }};
    }
    match datatype {
        Datatype::Int8 => compare!(i8),
        Datatype::Int16 => compare!(i16),
        Datatype::Int32 => compare!(i32),
        Datatype::UInt8 => compare!(u8),
        Datatype::UInt16 => compare!(u16),
        Datatype::UInt32 => compare!(u32),
        Datatype::UInt64 => compare!(u64),
        Datatype::Float32 => compare!(f32),
        Datatype::Float64 => compare!(f64),
        Datatype::Int64 => compare!(i64),
        other if other.is_datetime() || other.is_time() => compare!(i64),
        _ => Some(left.cmp(right)),
    }
}

/// A stored value for messages: numbers as numbers, other values as text.
pub(crate) fn show_value(datatype: Datatype, value: &[u8]) -> String {
    macro_rules! show {
        ($t:ty) => {
            value
                .try_into()
                .map(|bytes| <$t>::from_le_bytes(bytes).to_string())
                .unwrap_or_else(|_| format!("{} bytes", value.len()))
        };
    }
    match datatype {
        Datatype::Int8 => show!(i8),
        Datatype::Int16 => show!(i16),
        Datatype::Int32 => show!(i32),
        Datatype::UInt8 => show!(u8),
        Datatype::UInt16 => show!(u16),
        Datatype::UInt32 => show!(u32),
        Datatype::UInt64 => show!(u64),
        Datatype::Float32 => show!(f32),
        Datatype::Float64 => show!(f64),
        Datatype::Int64 => show!(i64),
        other if other.is_datetime() || other.is_time() => show!(i64),
        _ => {
            const SHOWN_BYTES: usize = 64;
            let head = value.get(..SHOWN_BYTES).unwrap_or(value);
            let dots = if value.len() > head.len() { "…" } else { "" };
            format!("{:?}{dots}", String::from_utf8_lossy(head))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn old_ranges_from_the_empty_string_have_no_high_end() {
        let (old, new) = (FormatVersion::known(7), FormatVersion::known(12));
        assert!(high_end(old, b"", b"b") > b"zzz".as_slice());
        assert_eq!(high_end(old, b"a", b"b"), b"b");
        assert_eq!(high_end(new, b"", b"b"), b"b");
    }

    #[test]
    fn reads_pairs_and_refuses_every_prefix() {
        let fixed = [2, 0, 9, 0];
        let range = DomainRange::decode_fixed(&mut Cursor::new(&fixed, "t"), 2).unwrap();
        assert_eq!((range.lo, range.hi), (vec![2, 0], vec![9, 0]));
        let var = [
            3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c',
        ];
        let range = DomainRange::decode_var(&mut Cursor::new(&var, "t")).unwrap();
        assert_eq!((range.lo, range.hi), (b"a".to_vec(), b"bc".to_vec()));
        for len in 0..var.len() {
            assert!(DomainRange::decode_var(&mut Cursor::new(&var[..len], "t")).is_err());
        }
        let mut inside_out = var;
        inside_out[8] = 4;
        assert!(DomainRange::decode_var(&mut Cursor::new(&inside_out, "t")).is_err());
    }

    #[test]
    fn order_is_that_of_the_datatype() {
        let order = |d, a: &[u8], b: &[u8]| compare_values(d, a, b);
        assert_eq!(order(Datatype::Int8, &[0xff], &[1]), Some(Ordering::Less));
        assert_eq!(
            order(Datatype::UInt8, &[0xff], &[1]),
            Some(Ordering::Greater)
        );
        assert_eq!(
            order(Datatype::StringAscii, b"a", b"\xff"),
            Some(Ordering::Less)
        );
        assert_eq!(
            order(Datatype::StringAscii, b"a", b""),
            Some(Ordering::Greater)
        );
        assert_eq!(order(Datatype::UInt16, &[0], &[1, 0]), None);
        let nan = f64::NAN.to_le_bytes();
        assert_eq!(order(Datatype::Float64, &nan, &nan), None);
        let range = DomainRange {
            lo: vec![2, 0],
            hi: vec![1, 0],
        };
        let error = range
            .check_order(Datatype::Int16, "non-empty domain of \"x\"")
            .unwrap_err();
        assert!(
            error
                .message()
                .contains("non-empty domain of \"x\" is [2, 1]"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn integers_order_as_numbers(a: i64, b: i64, c: u16, d: u16) {
            prop_assert_eq!(compare_values(Datatype::DateTimeMs, &a.to_le_bytes(), &b.to_le_bytes()), Some(a.cmp(&b)));
            prop_assert_eq!(compare_values(Datatype::UInt16, &c.to_le_bytes(), &d.to_le_bytes()), Some(c.cmp(&d)));
        }

        #[test]
        fn var_pairs_survive(lo: Vec<u8>, hi: Vec<u8>) {
            let mut bytes = ((lo.len() + hi.len()) as u64).to_le_bytes().to_vec();
            bytes.extend((lo.len() as u64).to_le_bytes());
            bytes.extend(&lo);
            bytes.extend(&hi);
            let range = DomainRange::decode_var(&mut Cursor::new(&bytes, "t")).unwrap();
            prop_assert_eq!((range.lo, range.hi), (lo, hi));
        }
    }
}
