//! Double-delta encoding (specification: "Double Delta Encoder").
//!
//! Each part is `u8 bits, u64 n`. With `bits >= 8 * width - 1` the n values follow as they are. Otherwise the first
//! value, the second (if n > 1), and (if n > 2) a bit stream: per value one sign bit (1 = negative) and `bits` bits of
//! the magnitude of the difference between two successive differences. The stream is packed from the **top bit** of
//! **little-endian u64** words; the last word is padded. Everything wraps around at the type's width.

use super::delta::check_count;
use super::word::{Width, Word};
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;

const FILTER: &str = "double_delta";

/// The largest size that `input` can decode to: two values, then at least one bit each.
pub(super) fn largest_output(input: &[u8], width: Width) -> usize {
    let values = input.len().saturating_mul(8).saturating_add(2);
    values.saturating_mul(width.bytes())
}

/// Decodes into exactly `out`.
pub(super) fn decode_into<W: Word>(input: &[u8], out: &mut [u8]) -> Result<()> {
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

trait Negated {
    fn negated(self) -> Self;
}

impl<W: Word> Negated for W {
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
