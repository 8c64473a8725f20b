//! Masks that select cells, one `bool` each, processed many at a time.

use arrow::buffer::{BooleanBuffer, Buffer};

/// Cells that are tested before a search for a selected one can stop: enough for the widest registers.
pub const AT_ONCE: usize = 1024;
/// Moves bit 0 of byte `i` to bit `56 + i`.
const GATHER: u64 = 0x0102_0408_1020_4080;
/// Copies a byte into all eight.
const EVERY_BYTE: u64 = 0x0101_0101_0101_0101;
const BIT_I_OF_BYTE_I: u64 = 0x8040_2010_0804_0201;

/// Whether any cell is selected.
pub fn any(mask: &[bool]) -> bool {
    let mut runs = mask.chunks(AT_ONCE);
    runs.any(|run| run.iter().fold(false, |any, bit| any | bit))
}

/// Packs a mask into bits.
pub fn pack(mask: &[bool]) -> BooleanBuffer {
    let (eights, rest) = mask.as_chunks::<8>();
    let mut bits = Vec::with_capacity(eights.len() + 1);
    bits.extend(eights.iter().map(pack_eight));
    let mut last = [false; 8];
    last.iter_mut().zip(rest).for_each(|(to, bit)| *to = *bit);
    bits.push(pack_eight(&last));
    BooleanBuffer::new(Buffer::from_vec(bits), 0, mask.len())
}

fn pack_eight(mask: &[bool; 8]) -> u8 {
    let word = u64::from_le_bytes(mask.map(u8::from));
    let [.., packed] = word.wrapping_mul(GATHER).to_le_bytes();
    packed
}

/// Unpacks bits into a mask.
pub fn unpack(bits: &BooleanBuffer) -> Vec<bool> {
    let mut mask = Vec::with_capacity(bits.len().next_multiple_of(8));
    let chunks = bits.bit_chunks();
    let words = chunks
        .iter()
        .chain(std::iter::once(chunks.remainder_bits()));
    for byte in words.flat_map(u64::to_le_bytes) {
        mask.extend_from_slice(&unpack_eight(byte));
    }
    mask.truncate(bits.len());
    mask
}

/// Unpacks bit `i` into byte `i`.
fn unpack_eight(bits: u8) -> [bool; 8] {
    let each_its_own = u64::from(bits).wrapping_mul(EVERY_BYTE) & BIT_I_OF_BYTE_I;
    each_its_own.to_le_bytes().map(|bit| bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_any_say_what_masks_say() {
        for len in (0..40).chain([1023, 1024, 1025, 3000]) {
            let none = vec![false; len];
            assert!(!any(&none));
            assert_eq!(pack(&none).count_set_bits(), 0);
            for step in [1, 3, 7, 2000] {
                let mask: Vec<bool> = (0..len).map(|i| (i + 1) % step == 0).collect();
                assert_eq!(any(&mask), mask.contains(&true), "{len} by {step}");
                let bits = pack(&mask);
                assert_eq!(bits.iter().collect::<Vec<_>>(), mask);
                assert_eq!(unpack(&bits), mask);
                let from = len / 3;
                assert_eq!(unpack(&bits.slice(from, len - from)), mask[from..]);
            }
        }
    }
}
