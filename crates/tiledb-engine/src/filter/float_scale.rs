//! Float scaling (specification: "Float Scaling Filter").
//!
//! Metadata: the part list of [`super::parts`], with the sizes of the integers. Data: signed integers of 1, 2, 4 or 8
//! bytes, little-endian. `value = T(scale * f64(T(integer)) + offset)`: the integer is converted to the float type
//! first, the arithmetic is `f64`, and the result is rounded to the float type once. The float type depends only on the
//! width of the filter's input type.

use super::parts::{for_each_part, take_front};
use super::word::{FilterWord, WordWidth};
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::datatype::Datatype;
use crate::format::filter_list::{Filter, FilterList};

const FILTER: &str = "float_scale";

/// The parameters of the filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScaleParameters {
    pub(super) scale: f64,
    pub(super) offset: f64,
    /// The width of the stored integers.
    pub(super) integer: WordWidth,
    pub(super) double: bool,
}

impl ScaleParameters {
    /// The width of the floats.
    pub(super) fn float_bytes(&self) -> usize {
        if self.double { 8 } else { 4 }
    }

    /// Size of the floats that `input_bytes` of integers decode to.
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
                WordWidth::One => self.part::<u8>(part, out),
                WordWidth::Two => self.part::<u16>(part, out),
                WordWidth::Four => self.part::<u32>(part, out),
                WordWidth::Eight => self.part::<u64>(part, out),
            }
            Ok(())
        })?;
        super::parts::expect_full(rest, FILTER)
    }

    /// Encodes one part.
    ///
    /// # Errors
    /// A value has no integer of the width: it is too large, infinite or NaN.
    pub(super) fn encode(&self, part: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let put = |value: f64, out: &mut Vec<u8>| {
            let integer = self.integer_of(value)?.to_le_bytes();
            out.extend_from_slice(integer.get(..self.integer.bytes()).unwrap_or_default());
            Ok(())
        };
        if self.double {
            let mut values = part
                .as_chunks()
                .0
                .iter()
                .map(|bytes| f64::from_le_bytes(*bytes));
            values.try_for_each(|value| put(value, out))
        } else {
            let mut values = part
                .as_chunks()
                .0
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes));
            values.try_for_each(|value| put(value.into(), out))
        }
    }

    fn integer_of(self, value: f64) -> Result<i64> {
        let rounded = self.quotient(value).round();
        let bits = i32::try_from(8 * self.integer.bytes())?;
        // Both ends are powers of two, and so are floats.
        let end = 2_f64.powi(bits - 1);
        if !(-end..end).contains(&rounded) {
            return Err(Error::invalid(format!(
                "the value {value} does not fit the filter float_scale({:?}, {:?}, {}): it stores integers of {bits} bits",
                self.scale,
                self.offset,
                self.integer.bytes()
            )));
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is between the ends")]
        Ok(rounded as i64)
    }

    /// The number that is rounded to an integer when a value is written.
    #[expect(clippy::cast_possible_truncation, reason = "writers round here")]
    fn quotient(self, value: f64) -> f64 {
        let Self { scale, offset, .. } = self;
        if self.double {
            (value - offset) / scale
        } else {
            f64::from((value as f32 - offset as f32) / scale as f32)
        }
    }

    fn restored(self, integer: i64) -> f64 {
        if self.double {
            self.to_f64(integer)
        } else {
            f64::from(self.to_f32(integer))
        }
    }

    fn part<N: FilterWord>(&self, part: &[u8], out: &mut [u8]) {
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

/// The float scaling of a field, used to convert bounds of written values to bounds of values read back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloatScale(ScaleParameters);

impl FloatScale {
    /// The float scaling of a field if no other filter changes values, and none before it changes their bytes.
    pub fn alone(filters: &FilterList, datatype: Datatype) -> Option<Self> {
        let mut stages = filters.filters.iter().filter(|f| **f != Filter::None);
        let Filter::ScaleFloat {
            scale,
            offset,
            byte_width,
        } = stages.next()?
        else {
            return None;
        };
        let lossy = |f: &Filter| matches!(f, Filter::ScaleFloat { .. } | Filter::WebP(_));
        let integer = WordWidth::from_bytes(usize::try_from(*byte_width).ok()?).ok()?;
        let alone = datatype.is_float() && !stages.any(lossy);
        alone.then_some(Self(ScaleParameters {
            scale: *scale,
            offset: *offset,
            integer,
            double: datatype == Datatype::Float64,
        }))
    }

    /// Bounds of the values read back for numbers written between `lo` and `hi`; `None` if there are none. Each step of
    /// writing and reading keeps the order of values, or reverses it, as long as integers do not overflow. One more
    /// integer on both sides allows for writers that round differently.
    pub fn restored_between(&self, lo: f64, hi: f64) -> Option<(f64, f64)> {
        let bits = 8 * u32::try_from(self.0.integer.bytes()).ok()?;
        let limit = 2_f64.powi(i32::try_from(bits.min(63)).ok()? - 1) - 2.0;
        let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
        for end in [lo, hi] {
            let integer = self.0.quotient(end).round();
            if integer.is_nan() || integer.abs() >= limit {
                return None;
            }
            #[expect(clippy::cast_possible_truncation, reason = "it is below the limit")]
            let integer = integer as i64;
            for integer in [integer - 1, integer + 1] {
                let restored = self.0.restored(integer);
                if !restored.is_finite() {
                    return None;
                }
                lowest = lowest.min(restored);
                highest = highest.max(restored);
            }
        }
        Some((lowest, highest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scaling(scale: f64, offset: f64, byte_width: u64, datatype: Datatype) -> FloatScale {
        let mut filters = FilterList::default();
        filters.filters.push(Filter::ScaleFloat {
            scale,
            offset,
            byte_width,
        });
        FloatScale::alone(&filters, datatype).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_read_back_lies_between_the_ends_read_back(
            scale in prop_oneof![-10.0..-1e-4_f64, 1e-4..10.0_f64],
            offset in -1000.0..1000.0_f64,
            mut values in prop::array::uniform3(-1e5..1e5_f64),
            double: bool,
        ) {
            let datatype = if double { Datatype::Float64 } else { Datatype::Float32 };
            if !double {
                values = values.map(|value| f64::from(value as f32));
            }
            values.sort_by(f64::total_cmp);
            let scaling = scaling(scale, offset, 8, datatype);
            let [lo, value, hi] = values;
            let (from, to) = scaling.restored_between(lo, hi).unwrap();
            let read = scaling.0.restored(scaling.0.quotient(value).round() as i64);
            prop_assert!(from <= read && read <= to, "{read} is not in [{from}, {to}]");
        }
    }

    #[test]
    fn nothing_is_known_beyond_the_integers_or_of_other_filters() {
        let small = scaling(0.1, 0.0, 1, Datatype::Float64);
        assert!(small.restored_between(-12.0, 12.0).is_some());
        assert_eq!(small.restored_between(0.0, 12.7), None);
        assert_eq!(small.restored_between(f64::NAN, 1.0), None);
        assert_eq!(small.restored_between(0.0, f64::INFINITY), None);
        let none = scaling(0.0, 0.0, 8, Datatype::Float64);
        assert_eq!(none.restored_between(0.0, 1.0), None);
        let scale = Filter::ScaleFloat {
            scale: 0.1,
            offset: 0.0,
            byte_width: 4,
        };
        let alone = |stages: &[&Filter], datatype| {
            let mut filters = FilterList::default();
            filters.filters.extend(stages.iter().map(|f| (*f).clone()));
            FloatScale::alone(&filters, datatype).is_some()
        };
        assert!(alone(&[&scale, &Filter::Zstd], Datatype::Float32));
        assert!(!alone(&[&scale], Datatype::Int64));
        assert!(!alone(&[&Filter::Zstd, &scale], Datatype::Float64));
        assert!(!alone(&[&scale, &scale], Datatype::Float64));
    }
}
