//! The machine words the filters compute in.
//!
//! Differences, XOR and windows wrap around, so signed and unsigned fields of one width share their code; the only
//! filter that depends on the sign (bit-width reduction) extends it itself.

use crate::error::{Error, Result};

/// The width of an element that a filter works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordWidth {
    One,
    Two,
    Four,
    Eight,
}

impl WordWidth {
    /// The width of `bytes` bytes.
    pub(super) fn from_bytes(bytes: usize) -> Result<Self> {
        match bytes {
            1 => Ok(Self::One),
            2 => Ok(Self::Two),
            4 => Ok(Self::Four),
            8 => Ok(Self::Eight),
            other => Err(Error::unsupported(format!(
                "element width is {other} bytes, expected 1, 2, 4 or 8"
            ))),
        }
    }

    /// The number of bytes, as string encodings store it.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// Calls a function generic over [`FilterWord`] with the word of a [`WordWidth`].
macro_rules! with_word {
    ($width:expr, $function:ident($($argument:expr),*)) => {
        match $width {
            $crate::filter::word::WordWidth::One => $function::<u8>($($argument),*),
            $crate::filter::word::WordWidth::Two => $function::<u16>($($argument),*),
            $crate::filter::word::WordWidth::Four => $function::<u32>($($argument),*),
            $crate::filter::word::WordWidth::Eight => $function::<u64>($($argument),*),
        }
    };
}
pub(super) use with_word;

/// As [`with_word`], for a function that also depends on whether the word is signed.
macro_rules! with_number {
    ($width:expr, $signed:expr, $($function:ident)::+($($argument:expr),*)) => {
        match ($width, $signed) {
            ($crate::filter::word::WordWidth::One, false) => $($function)::+::<u8, false>($($argument),*),
            ($crate::filter::word::WordWidth::Two, false) => $($function)::+::<u16, false>($($argument),*),
            ($crate::filter::word::WordWidth::Four, false) => $($function)::+::<u32, false>($($argument),*),
            ($crate::filter::word::WordWidth::Eight, false) => $($function)::+::<u64, false>($($argument),*),
            ($crate::filter::word::WordWidth::One, true) => $($function)::+::<u8, true>($($argument),*),
            ($crate::filter::word::WordWidth::Two, true) => $($function)::+::<u16, true>($($argument),*),
            ($crate::filter::word::WordWidth::Four, true) => $($function)::+::<u32, true>($($argument),*),
            ($crate::filter::word::WordWidth::Eight, true) => $($function)::+::<u64, true>($($argument),*),
        }
    };
}
pub(super) use with_number;

/// An unsigned integer stored little-endian.
pub(super) trait FilterWord: Copy + Default {
    /// Bytes of the word.
    const BYTES: usize;
    /// The stored form.
    type Bytes: Copy;

    /// Splits bytes into words and a tail shorter than a word.
    fn split(bytes: &[u8]) -> (&[Self::Bytes], &[u8]);
    /// As [`FilterWord::split`], for writing.
    fn split_mut(bytes: &mut [u8]) -> (&mut [Self::Bytes], &mut [u8]);
    /// The stored form as a slice.
    fn as_slice(bytes: &Self::Bytes) -> &[u8];
    fn load(bytes: &Self::Bytes) -> Self;
    fn store(self) -> Self::Bytes;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// The low bits of `value`.
    fn truncate(value: u64) -> Self;
    /// The value, with its top bit repeated upwards if `SIGNED`.
    fn extend<const SIGNED: bool>(self) -> u64;

    /// Whether the value is below another.
    #[inline(always)]
    fn is_less<const SIGNED: bool>(self, other: Self) -> bool {
        let (a, b) = (self.extend::<SIGNED>(), other.extend::<SIGNED>());
        if SIGNED {
            a.cast_signed() < b.cast_signed()
        } else {
            a < b
        }
    }
}

macro_rules! words {
    ($($word:ty),*) => {$(
        impl FilterWord for $word {
            const BYTES: usize = size_of::<$word>();
            type Bytes = [u8; size_of::<$word>()];

            #[inline(always)]
            fn split(bytes: &[u8]) -> (&[Self::Bytes], &[u8]) {
                bytes.as_chunks()
            }

            #[inline(always)]
            fn split_mut(bytes: &mut [u8]) -> (&mut [Self::Bytes], &mut [u8]) {
                bytes.as_chunks_mut()
            }

            #[inline(always)]
            fn as_slice(bytes: &Self::Bytes) -> &[u8] {
                bytes
            }

            #[inline(always)]
            fn load(bytes: &Self::Bytes) -> Self {
                Self::from_le_bytes(*bytes)
            }

            #[inline(always)]
            fn store(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }

            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "the low bits are what is asked for")]
            fn truncate(value: u64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn extend<const SIGNED: bool>(self) -> u64 {
                if SIGNED {
                    i64::from(self.cast_signed()).cast_unsigned()
                } else {
                    u64::from(self)
                }
            }
        }
    )*};
}

words!(u8, u16, u32, u64);
