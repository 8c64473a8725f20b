//! A checked little-endian cursor over untrusted bytes.
//!
//! Every read is checked against the remaining bytes; a count is checked *before* anything is allocated for it. All
//! multi-byte integers of the format are little-endian (the few exceptions are in `filter/`).

use crate::error::{Error, Result};
#[cfg(test)]
use crate::fuzzed::{Kind, note};

/// Reads values off the front of a byte slice.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
    what: &'static str,
}

macro_rules! read_number {
    ($($name:ident: $t:ty),*) => {$(
        #[doc = concat!("Reads one little-endian `", stringify!($t), "`; `field` names it in the error.")]
        pub fn $name(&mut self, field: &'static str) -> Result<$t> {
            self.array(field).map(<$t>::from_le_bytes)
        }
    )*};
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`; `what` names the structure in errors ("array schema").
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self {
            bytes,
            position: 0,
            what,
        }
    }

    read_number!(u8: u8, u16: u16, u32: u32, u64: u64, i32: i32, i64: i64, f32: f32, f64: f64);

    /// Reads `N` bytes.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        let bytes = self.bytes(N, field)?;
        #[cfg(test)]
        note(bytes, Kind::Number, field);
        <[u8; N]>::try_from(bytes).map_err(|_| Error::internal("a slice changed its length"))
    }

    /// Reads `len` bytes without copying.
    pub fn bytes(&mut self, len: usize, field: &'static str) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let taken = rest.get(..len).ok_or_else(|| {
            Error::corrupt(format!(
                "{}: field \"{field}\" needs {len} bytes at offset {} but {} remain: the data is truncated",
                self.what,
                self.position,
                rest.len()
            ))
        })?;
        self.position += len;
        #[cfg(test)]
        note(taken, Kind::Bytes, field);
        Ok(taken)
    }

    /// Reads `len` bytes where `len` came from storage as a `u64`.
    pub fn bytes_u64(&mut self, len: u64, field: &'static str) -> Result<&'a [u8]> {
        let len = usize::try_from(len).map_err(|_| {
            Error::corrupt(format!(
                "{}: field \"{field}\" claims {len} bytes but {} remain",
                self.what,
                self.remaining()
            ))
        })?;
        self.bytes(len, field)
    }

    /// Reads a count of elements that take at least `min_element_bytes` each, and checks that the remaining bytes can
    /// hold them.
    pub fn count_u64(&mut self, min_element_bytes: usize, field: &'static str) -> Result<usize> {
        let count = self.u64(field)?;
        #[cfg(test)]
        self.note_count(8, field);
        self.check_count(count, min_element_bytes, field)
    }

    /// As [`Self::count_u64`], for a count stored as a `u32`.
    pub fn count_u32(&mut self, min_element_bytes: usize, field: &'static str) -> Result<usize> {
        let count = self.u32(field)?;
        #[cfg(test)]
        self.note_count(4, field);
        self.check_count(u64::from(count), min_element_bytes, field)
    }

    /// Tells a test that the last number was a count.
    #[cfg(test)]
    fn note_count(&self, width: usize, field: &'static str) {
        let start = self.position.saturating_sub(width);
        let bytes = self.bytes.get(start..self.position);
        note(bytes.unwrap_or_default(), Kind::Count, field);
    }

    fn check_count(
        &self,
        count: u64,
        min_element_bytes: usize,
        field: &'static str,
    ) -> Result<usize> {
        usize::try_from(count)
            .ok()
            .filter(|n| {
                n.checked_mul(min_element_bytes.max(1))
                    .is_some_and(|needed| needed <= self.remaining())
            })
            .ok_or_else(|| {
                Error::corrupt(format!(
                    "{}: \"{field}\" is {count} but only {} bytes follow: the data is corrupt or truncated",
                    self.what,
                    self.remaining()
                ))
            })
    }

    /// Reads a `u32` length and that many bytes of UTF-8.
    pub fn string_u32(&mut self, field: &'static str) -> Result<String> {
        let len = self.u32(field)?;
        self.utf8(u64::from(len), field)
    }

    /// Reads a `u64` length and that many bytes of UTF-8.
    pub fn string_u64(&mut self, field: &'static str) -> Result<String> {
        let len = self.u64(field)?;
        self.utf8(len, field)
    }

    fn utf8(&mut self, len: u64, field: &'static str) -> Result<String> {
        let bytes = self.bytes_u64(len, field)?;
        String::from_utf8(bytes.to_vec()).map_err(|e| {
            self.invalid(field, "bytes that are not UTF-8", "UTF-8")
                .with_source(e)
        })
    }

    /// Reads a `u8` that must be 0 or 1.
    pub fn bool(&mut self, field: &'static str) -> Result<bool> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.invalid(field, other, "0 or 1")),
        }
    }

    /// The error for a field with an invalid value.
    pub fn invalid(
        &self,
        field: &str,
        found: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) -> Error {
        Error::corrupt(format!(
            "{}: \"{field}\" is {found}, expected {expected} (before offset {})",
            self.what, self.position
        ))
    }

    /// Bytes consumed so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes not yet consumed.
    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    /// All bytes not yet consumed, without consuming them.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_refuses_to_read_past_the_end() {
        let mut cursor = Cursor::new(&[1, 2, 0, 0, 0, 9], "test");
        assert_eq!(cursor.u8("a").unwrap(), 1);
        assert_eq!(cursor.u32("b").unwrap(), 2);
        assert!(cursor.u16("c").unwrap_err().to_string().contains("\"c\""));
        assert_eq!(cursor.remaining(), 1);
    }

    #[test]
    fn a_count_is_bounded_by_what_follows() {
        let bytes = u64::MAX.to_le_bytes();
        assert!(Cursor::new(&bytes, "test").count_u64(8, "n").is_err());
        let mut ok = 1u64.to_le_bytes().to_vec();
        ok.extend([0; 8]);
        assert_eq!(Cursor::new(&ok, "test").count_u64(8, "n").unwrap(), 1);
    }
}
