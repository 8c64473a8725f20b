//! Float scaling (specification: "Float Scaling Filter").
//!
//! Metadata: the part list of [`super::parts`], sizes being those of the integers. Data: signed integers of 1, 2, 4
//! or 8 bytes, little-endian. `value = T(scale * f64(T(integer)) + offset)`: the integer goes through the float type
//! first, the arithmetic is `f64`, the result is rounded to the float type once. The float type is chosen by the
//! width of the filter's input type alone.

use super::parts::{for_each_part, take_front};
use super::word::{Width, Word};
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;

const FILTER: &str = "float_scale";

/// The parameters of the filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub(super) scale: f64,
    pub(super) offset: f64,
    /// Of the stored integers.
    pub(super) integer: Width,
    pub(super) double: bool,
}

impl Scale {
    fn float_bytes(&self) -> usize {
        if self.double { 8 } else { 4 }
    }

    /// Bytes of the floats that `input_bytes` of integers restore to.
    pub(super) fn output_bytes(&self, input_bytes: usize) -> Result<usize> {
        (input_bytes / self.integer.bytes())
            .checked_mul(self.float_bytes())
            .ok_or_else(|| Error::corrupt("float_scale: more values than fit in memory"))
    }

    /// Decodes into exactly `out`.
    pub(super) fn decode_into(
        &self,
        metadata: &mut Cursor<'_>,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let mut rest = out;
        for_each_part(metadata, input, FILTER, |part| {
            if !part.len().is_multiple_of(self.integer.bytes()) {
                return Err(Error::corrupt(format!(
                    "float_scale: a part has {} bytes, expected a multiple of {}",
                    part.len(),
                    self.integer.bytes()
                )));
            }
            let out = take_front(&mut rest, self.output_bytes(part.len())?, FILTER)?;
            match self.integer {
                Width::One => self.part::<u8>(part, out),
                Width::Two => self.part::<u16>(part, out),
                Width::Four => self.part::<u32>(part, out),
                Width::Eight => self.part::<u64>(part, out),
            }
            Ok(())
        })?;
        super::parts::expect_full(rest, FILTER)
    }

    fn part<N: Word>(&self, part: &[u8], out: &mut [u8]) {
        let integers = N::split(part)
            .0
            .iter()
            .map(|bytes| N::load(bytes).extend::<true>().cast_signed());
        if self.double {
            for (value, integer) in out.as_chunks_mut().0.iter_mut().zip(integers) {
                *value = self.to_f64(integer).to_le_bytes();
            }
        } else {
            for (value, integer) in out.as_chunks_mut().0.iter_mut().zip(integers) {
                *value = self.to_f32(integer).to_le_bytes();
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "the format rounds here")]
    fn to_f64(self, integer: i64) -> f64 {
        self.scale * (integer as f64) + self.offset
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the format rounds here"
    )]
    fn to_f32(self, integer: i64) -> f32 {
        (self.scale * f64::from(integer as f32) + self.offset) as f32
    }
}
