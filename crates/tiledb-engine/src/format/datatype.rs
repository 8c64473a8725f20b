//! The datatypes of the format (specification: "Array Schema", table of datatypes).
//!
//! The numbers are stored as one byte everywhere. 43 is the largest valid one.

use std::fmt;

use crate::error::{Error, Result};

macro_rules! datatypes {
    ($($variant:ident = $code:literal, $name:literal, $size:literal;)*) => {
        /// The type of one element of a field.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Datatype {
            $(#[doc = concat!("`", $name, "`, ", $size, " byte(s) an element")] $variant = $code,)*
        }

        impl Datatype {
            /// Every datatype, in the order of its code.
            pub const ALL: &'static [Datatype] = &[$(Datatype::$variant),*];

            /// The datatype with a stored code.
            pub fn from_code(code: u8) -> Result<Self> {
                match code {
                    $($code => Ok(Self::$variant),)*
                    other => Err(Error::corrupt(format!("datatype code is {other}, expected 0 to 43"))),
                }
            }

            /// The name as libtiledb prints it, such as `DATETIME_MS`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Bytes of one element.
            pub const fn size(self) -> usize {
                match self { $(Self::$variant => $size,)* }
            }
        }
    };
}

datatypes! {
    Int32 = 0, "INT32", 4;
    Int64 = 1, "INT64", 8;
    Float32 = 2, "FLOAT32", 4;
    Float64 = 3, "FLOAT64", 8;
    Char = 4, "CHAR", 1;
    Int8 = 5, "INT8", 1;
    UInt8 = 6, "UINT8", 1;
    Int16 = 7, "INT16", 2;
    UInt16 = 8, "UINT16", 2;
    UInt32 = 9, "UINT32", 4;
    UInt64 = 10, "UINT64", 8;
    StringAscii = 11, "STRING_ASCII", 1;
    StringUtf8 = 12, "STRING_UTF8", 1;
    StringUtf16 = 13, "STRING_UTF16", 2;
    StringUtf32 = 14, "STRING_UTF32", 4;
    StringUcs2 = 15, "STRING_UCS2", 2;
    StringUcs4 = 16, "STRING_UCS4", 4;
    Any = 17, "ANY", 1;
    DateTimeYear = 18, "DATETIME_YEAR", 8;
    DateTimeMonth = 19, "DATETIME_MONTH", 8;
    DateTimeWeek = 20, "DATETIME_WEEK", 8;
    DateTimeDay = 21, "DATETIME_DAY", 8;
    DateTimeHr = 22, "DATETIME_HR", 8;
    DateTimeMin = 23, "DATETIME_MIN", 8;
    DateTimeSec = 24, "DATETIME_SEC", 8;
    DateTimeMs = 25, "DATETIME_MS", 8;
    DateTimeUs = 26, "DATETIME_US", 8;
    DateTimeNs = 27, "DATETIME_NS", 8;
    DateTimePs = 28, "DATETIME_PS", 8;
    DateTimeFs = 29, "DATETIME_FS", 8;
    DateTimeAs = 30, "DATETIME_AS", 8;
    TimeHr = 31, "TIME_HR", 8;
    TimeMin = 32, "TIME_MIN", 8;
    TimeSec = 33, "TIME_SEC", 8;
    TimeMs = 34, "TIME_MS", 8;
    TimeUs = 35, "TIME_US", 8;
    TimeNs = 36, "TIME_NS", 8;
    TimePs = 37, "TIME_PS", 8;
    TimeFs = 38, "TIME_FS", 8;
    TimeAs = 39, "TIME_AS", 8;
    Blob = 40, "BLOB", 1;
    Bool = 41, "BOOL", 1;
    GeomWkb = 42, "GEOM_WKB", 1;
    GeomWkt = 43, "GEOM_WKT", 1;
}

impl Datatype {
    /// The stored code.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// A point in time (`DATETIME_*`), an `i64` since the epoch.
    pub const fn is_datetime(self) -> bool {
        matches!(self.code(), 18..=30)
    }

    /// A time of day (`TIME_*`), an `i64`.
    pub const fn is_time(self) -> bool {
        matches!(self.code(), 31..=39)
    }

    /// Text in any encoding, `CHAR` and well-known text included.
    pub const fn is_string(self) -> bool {
        matches!(
            self,
            Self::Char
                | Self::StringAscii
                | Self::StringUtf8
                | Self::StringUtf16
                | Self::StringUtf32
                | Self::StringUcs2
                | Self::StringUcs4
                | Self::GeomWkt
        )
    }

    /// Opaque bytes.
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::Blob | Self::GeomWkb | Self::Any)
    }

    /// `FLOAT32` or `FLOAT64`.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    /// `INT8` to `UINT64`.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Self::Int8
                | Self::Int16
                | Self::Int32
                | Self::Int64
                | Self::UInt8
                | Self::UInt16
                | Self::UInt32
                | Self::UInt64
        )
    }

    /// `INT8` to `INT64`, and every date and time.
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
            || self.is_datetime()
            || self.is_time()
    }

    /// The value of a cell that was never written, unless the schema sets another (one element).
    pub fn default_fill(self) -> Vec<u8> {
        match self {
            Self::Int8 | Self::Char => vec![0x80],
            Self::UInt8 => vec![0xFF],
            Self::Int16 => i16::MIN.to_le_bytes().to_vec(),
            Self::UInt16 => u16::MAX.to_le_bytes().to_vec(),
            Self::Int32 => i32::MIN.to_le_bytes().to_vec(),
            Self::UInt32 => u32::MAX.to_le_bytes().to_vec(),
            Self::UInt64 => u64::MAX.to_le_bytes().to_vec(),
            // The quiet NaNs libtiledb stores, bit for bit.
            Self::Float32 => 0x7FC0_0000_u32.to_le_bytes().to_vec(),
            Self::Float64 => 0x7FF8_0000_0000_0000_u64.to_le_bytes().to_vec(),
            Self::Int64 => i64::MIN.to_le_bytes().to_vec(),
            other if other.is_datetime() || other.is_time() => i64::MIN.to_le_bytes().to_vec(),
            other => vec![0; other.size()],
        }
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_44_is_refused() {
        for &datatype in Datatype::ALL {
            assert_eq!(Datatype::from_code(datatype.code()).unwrap(), datatype);
            assert_eq!(datatype.default_fill().len(), datatype.size());
        }
        assert_eq!(Datatype::ALL.len(), 44);
        assert!(Datatype::from_code(44).is_err());
    }
}
