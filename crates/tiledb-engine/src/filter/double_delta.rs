//! Double-delta encoding (specification: "Double Delta Encoder").
//!
//! Each part is `u8 bits, u64 n`. With `bits >= 8 * width - 1` the n values follow as they are. Otherwise the first
//! value, the second (if n > 1), and (if n > 2) a bit stream: per value one sign bit (1 = negative) and `bits` bits of
//! the magnitude of the difference between two successive differences. The stream is packed from the **top bit** of
//! **little-endian u64** words; the last word is padded. Everything wraps around at the type's width.

use super::delta::{check_count, whole_words};
use super::word::{FilterWord, WordWidth};
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;

const FILTER: &str = "double_delta";

/// The largest size that `input` can decode to: two values, then at least one bit each.
pub(super) fn largest_output(input: &[u8], width: WordWidth) -> usize {
    let values = input.len().saturating_mul(8).saturating_add(2);
    values.saturating_mul(width.bytes())
}

/// Decodes into exactly `out`.
pub(super) fn decode_into<W: FilterWord>(input: &[u8], out: &mut [u8]) -> Result<()> {
    let mut cursor = Cursor::new(input, FILTER);
    let bits = u32::from(cursor.u8("bits")?);
    let count = cursor.u64("number of values")?;
    check_count::<W>(count, out.len(), FILTER)?;
    if usize::try_from(bits)?.saturating_add(1) >= W::BYTES.saturating_mul(8) {
        out.copy_from_slice(cursor.bytes(out.len(), "values")?);
        return Ok(());
    }
    let (values, _) = W::split_mut(out);
    let (head, tail) = values.split_at_mut(values.len().min(2));
    let (stored, _) = W::split(cursor.bytes(head.len().saturating_mul(W::BYTES), "first values")?);
    head.copy_from_slice(stored);
    let [before, last] = head else { return Ok(()) };
    let (mut before, mut last) = (W::load(before), W::load(last));
    let mut stream = BitReader::new(cursor.rest());
    let magnitude = (1_u64 << bits) - 1;
    for value_bytes in tail {
        let code = stream.take(bits + 1).ok_or_else(truncated)?;
        let second_difference = if (code >> bits) & 1 == 1 {
            W::truncate(code & magnitude).negated()
        } else {
            W::truncate(code & magnitude)
        };
        let value = second_difference.plus(last.plus(last)).minus(before);
        *value_bytes = value.store();
        (before, last) = (last, value);
    }
    Ok(())
}

trait NegatedDelta {
    fn negated(self) -> Self;
}

impl<W: FilterWord> NegatedDelta for W {
    fn negated(self) -> Self {
        W::default().minus(self)
    }
}

fn truncated() -> Error {
    Error::corrupt("double_delta: the bit stream is shorter than the number of values needs")
}

/// Reads bits from the top of little-endian words.
struct BitReader<'a> {
    words: std::slice::Iter<'a, [u8; 8]>,
    /// The bits not yet read, at the top; zeros below.
    word: u64,
    left: u32,
}

impl<'a> BitReader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            words: bytes.as_chunks().0.iter(),
            word: 0,
            left: 0,
        }
    }

    /// The next `count` bits, 1 to 63 of them.
    #[inline(always)]
    fn take(&mut self, count: u32) -> Option<u64> {
        let mut bits = self.word >> (64 - count);
        if count <= self.left {
            self.word <<= count;
            self.left -= count;
        } else {
            let missing = count - self.left;
            let next = u64::from_le_bytes(*self.words.next()?);
            bits |= next >> (64 - missing);
            self.word = next << missing;
            self.left = 64 - missing;
        }
        Some(bits)
    }
}

/// Encodes one part of whole words; `SIGNED` says how their differences are computed.
///
/// # Errors
/// A difference of differences does not fit 64 bits.
pub(super) fn encode<W: FilterWord, const SIGNED: bool>(
    part: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let words = whole_words::<W>(part, FILTER)?;
    let values = || {
        words
            .iter()
            .map(|bytes| i128::from_word::<W, SIGNED>(bytes))
    };
    let bits = bits_of(values());
    out.push(u8::try_from(bits)?);
    out.extend_from_slice(&(words.len() as u64).to_le_bytes());
    if usize::try_from(bits)?.saturating_add(1) >= W::BYTES.saturating_mul(8) {
        out.extend_from_slice(part);
        return Ok(());
    }
    let first_values = part.len().min(2 * W::BYTES);
    out.extend_from_slice(part.get(..first_values).unwrap_or_default());
    let mut stream = BitWriter::default();
    for second_difference in second_differences(values()) {
        let magnitude = u64::try_from(second_difference.unsigned_abs())?;
        let sign = u64::from(second_difference < 0) << bits;
        stream.put(sign | magnitude, bits + 1, out);
    }
    stream.finish(out);
    Ok(())
}

trait FromWord {
    fn from_word<W: FilterWord, const SIGNED: bool>(bytes: &W::Bytes) -> Self;
}

impl FromWord for i128 {
    fn from_word<W: FilterWord, const SIGNED: bool>(bytes: &W::Bytes) -> Self {
        let value = W::load(bytes).extend::<SIGNED>();
        if SIGNED {
            value.cast_signed().into()
        } else {
            value.into()
        }
    }
}

/// The differences between two successive differences.
fn second_differences(values: impl Iterator<Item = i128>) -> impl Iterator<Item = i128> {
    let mut before = None;
    values.filter_map(move |value| {
        let found = before.and_then(|(last, difference): (i128, Option<i128>)| {
            difference.map(|difference| value - last - difference)
        });
        before = Some((value, before.map(|(last, _)| value - last)));
        found
    })
}

/// The bits that hold the first difference and every difference of differences; 0 for two values or fewer.
fn bits_of(values: impl Iterator<Item = i128> + Clone) -> u32 {
    let mut firsts = values.clone();
    let first = firsts.next().zip(firsts.next()).map(|(a, b)| b - a);
    let mut largest = None;
    for difference in second_differences(values) {
        largest = largest.max(Some(difference.unsigned_abs()));
    }
    let largest = largest.map(|largest| largest.max(first.unwrap_or_default().unsigned_abs()));
    largest.map_or(0, |largest| (u128::BITS - largest.leading_zeros()).max(1))
}

/// Packs bits from the top of little-endian words.
#[derive(Default)]
struct BitWriter {
    word: u64,
    filled: u32,
}

impl BitWriter {
    /// Appends the low `count` bits, 1 to 63 of them.
    fn put(&mut self, bits: u64, count: u32, out: &mut Vec<u8>) {
        let room = u64::BITS - self.filled;
        if count < room {
            self.word |= bits << (room - count);
            self.filled += count;
            return;
        }
        let left = count - room;
        out.extend_from_slice(&(self.word | bits >> left).to_le_bytes());
        self.word = if left == 0 {
            0
        } else {
            bits << (u64::BITS - left)
        };
        self.filled = left;
    }

    fn finish(self, out: &mut Vec<u8>) {
        if self.filled > 0 {
            out.extend_from_slice(&self.word.to_le_bytes());
        }
    }
}
