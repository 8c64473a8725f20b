//! Bytes to bits: validity tiles and `BOOL` values.
//!
//! The format stores one byte per cell, 0 or not 0; Arrow stores one bit. Eight bytes are packed at a time.

use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
/// Moves bit 0 of byte `i` to bit `56 + i`.
const GATHER: u64 = 0x0102_0408_1020_4080;

/// Packs bytes into bits: bit `i` says whether byte `i` is not 0.
pub(super) fn pack(bytes: &[u8]) -> BooleanBuffer {
    let mut bits = Vec::with_capacity(bytes.len().div_ceil(8));
    let (words, rest) = bytes.as_chunks::<8>();
    bits.extend(
        words
            .iter()
            .map(|word| pack_word(u64::from_le_bytes(*word))),
    );
    if !rest.is_empty() {
        let last = rest.iter().enumerate();
        bits.push(last.fold(0, |bits, (i, byte)| bits | (u8::from(*byte != 0) << i)));
    }
    BooleanBuffer::new(Buffer::from_vec(bits), 0, bytes.len())
}

fn pack_word(word: u64) -> u8 {
    // The high bit of each byte is set if its low seven bits carry into it, or if it was set.
    let not_zero = (((word & !HIGH_BITS) + !HIGH_BITS) | word) & HIGH_BITS;
    let [.., packed] = ((not_zero >> 7) & LOW_BITS)
        .wrapping_mul(GATHER)
        .to_le_bytes();
    packed
}

/// The NULLs of an unfiltered validity tile; `None` if every cell has a value.
pub fn validity_to_nulls(validity: &[u8]) -> Option<NullBuffer> {
    let nulls = NullBuffer::new(pack(validity));
    (nulls.null_count() > 0).then_some(nulls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_every_length_and_every_byte() {
        for len in 0..40 {
            let bytes: Vec<u8> = (0..len).map(|i| if i % 3 == 0 { 0 } else { i }).collect();
            let bits = pack(&bytes);
            assert_eq!(bits.len(), bytes.len());
            for (i, byte) in bytes.iter().enumerate() {
                assert_eq!(bits.value(i), *byte != 0, "bit {i} of {len}");
            }
        }
        for value in 0..=255u8 {
            for position in 0..8 {
                let mut word = [0u8; 8];
                word[position] = value;
                let expected = u8::from(value != 0) << position;
                assert_eq!(pack_word(u64::from_le_bytes(word)), expected);
                let mut word = [255u8; 8];
                word[position] = value;
                let expected = if value == 0 { !(1 << position) } else { 255 };
                assert_eq!(pack_word(u64::from_le_bytes(word)), expected);
            }
        }
    }

    #[test]
    fn no_null_buffer_without_nulls() {
        assert!(validity_to_nulls(&[1; 100]).is_none());
        assert!(validity_to_nulls(&[]).is_none());
        let nulls = validity_to_nulls(&[1, 0, 255]).unwrap();
        assert_eq!(nulls.iter().collect::<Vec<_>>(), [true, false, true]);
    }
}
