//! The opposite of a [`Cursor`](super::cursor::Cursor): appends values to the bytes of a structure.

use crate::error::{Error, Result};

/// Appends little-endian values to bytes.
#[derive(Debug, Clone, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

macro_rules! write_number {
    ($($name:ident: $t:ty),*) => {$(
        #[doc = concat!("Appends a little-endian `", stringify!($t), "`.")]
        pub fn $name(&mut self, value: $t) {
            self.bytes(&value.to_le_bytes());
        }
    )*};
}

impl Encoder {
    /// An encoder without bytes.
    pub fn new() -> Self {
        Self::default()
    }

    write_number!(u8: u8, u16: u16, u32: u32, u64: u64, i32: i32, f32: f32, f64: f64);

    /// Appends bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The number of bytes so far.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Reserves room for more bytes.
    pub fn reserve(&mut self, additional: usize) {
        self.bytes.reserve(additional);
    }

    /// Appends 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Appends a number of things as a `u32`; `field` names it in the error.
    ///
    /// # Errors
    /// There are more than 2³² − 1.
    pub fn count_u32(&mut self, count: usize, field: &'static str) -> Result<()> {
        let count = u32::try_from(count).map_err(|_| {
            Error::invalid(format!(
                "\"{field}\" is {count}, of which the format can store at most {}",
                u32::MAX
            ))
        })?;
        self.u32(count);
        Ok(())
    }

    /// Appends a number of things as a `u64`.
    pub fn count_u64(&mut self, count: usize) {
        self.u64(count as u64);
    }

    /// Appends a `u32` length and that many bytes.
    ///
    /// # Errors
    /// As [`Self::count_u32`].
    pub fn bytes_u32(&mut self, bytes: &[u8], field: &'static str) -> Result<()> {
        self.count_u32(bytes.len(), field)?;
        self.bytes(bytes);
        Ok(())
    }

    /// Appends a `u64` length and that many bytes.
    pub fn bytes_u64(&mut self, bytes: &[u8]) {
        self.count_u64(bytes.len());
        self.bytes(bytes);
    }

    /// The bytes so far.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::cursor::Cursor;

    #[test]
    fn a_cursor_reads_what_was_appended() {
        let mut encoder = Encoder::new();
        encoder.u8(7);
        encoder.bool(true);
        encoder.u32(8);
        encoder.i32(-1);
        encoder.f64(0.5);
        encoder.bytes_u32("né".as_bytes(), "text").unwrap();
        encoder.bytes_u64(b"");
        encoder.count_u64(3);
        let bytes = encoder.finish();
        let mut cursor = Cursor::new(&bytes, "test");
        assert_eq!(cursor.u8("a").unwrap(), 7);
        assert!(cursor.bool("b").unwrap());
        assert_eq!(cursor.u32("c").unwrap(), 8);
        assert_eq!(cursor.i32("d").unwrap(), -1);
        assert_eq!(cursor.f64("e").unwrap(), 0.5);
        assert_eq!(cursor.string_u32("f").unwrap(), "né");
        assert_eq!(cursor.string_u64("g").unwrap(), "");
        assert_eq!(cursor.u64("h").unwrap(), 3);
        assert_eq!(cursor.remaining(), 0);
    }

    #[test]
    fn a_count_that_cannot_be_stored_is_an_error() {
        let error = Encoder::new().count_u32(1 << 32, "names").unwrap_err();
        assert!(error.message().contains("\"names\" is 4294967296"));
    }
}
