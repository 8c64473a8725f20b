//! Marks of cells, one `bool` each, looked at many at a time.

use arrow::buffer::{BooleanBuffer, Buffer};

/// How many are looked at before one that is found ends the search: enough for the widest registers.
pub const AT_ONCE: usize = 1024;
/// Moves bit 0 of byte `i` to bit `56 + i`.
const GATHER: u64 = 0x0102_0408_1020_4080;
/// Copies a byte into all eight.
const EVERY_BYTE: u64 = 0x0101_0101_0101_0101;
const BIT_I_OF_BYTE_I: u64 = 0x8040_2010_0804_0201;

/// Whether one is set.
pub fn any(marks: &[bool]) -> bool {
    let mut runs = marks.chunks(AT_ONCE);
    runs.any(|run| run.iter().fold(false, |any, mark| any | mark))
}

/// The marks as bits.
pub fn pack(marks: &[bool]) -> BooleanBuffer {
    let (eights, rest) = marks.as_chunks::<8>();
    let mut bits = Vec::with_capacity(eights.len() + 1);
    bits.extend(eights.iter().map(pack_eight));
    let mut last = [false; 8];
    last.iter_mut().zip(rest).for_each(|(to, mark)| *to = *mark);
    bits.push(pack_eight(&last));
    BooleanBuffer::new(Buffer::from_vec(bits), 0, marks.len())
}

fn pack_eight(marks: &[bool; 8]) -> u8 {
    let word = u64::from_le_bytes(marks.map(u8::from));
    let [.., packed] = word.wrapping_mul(GATHER).to_le_bytes();
    packed
}

/// The bits as marks.
pub fn unpack(bits: &BooleanBuffer) -> Vec<bool> {
    let mut marks = Vec::with_capacity(bits.len().next_multiple_of(8));
    let chunks = bits.bit_chunks();
    let words = chunks
        .iter()
        .chain(std::iter::once(chunks.remainder_bits()));
    for byte in words.flat_map(u64::to_le_bytes) {
        marks.extend_from_slice(&unpack_eight(byte));
    }
    marks.truncate(bits.len());
    marks
}

/// The mark of bit `i` is byte `i`.
fn unpack_eight(bits: u8) -> [bool; 8] {
    let each_its_own = u64::from(bits).wrapping_mul(EVERY_BYTE) & BIT_I_OF_BYTE_I;
    each_its_own.to_le_bytes().map(|bit| bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_any_say_what_marks_say() {
        for len in (0..40).chain([1023, 1024, 1025, 3000]) {
            let none = vec![false; len];
            assert!(!any(&none));
            assert_eq!(pack(&none).count_set_bits(), 0);
            for step in [1, 3, 7, 2000] {
                let marks: Vec<bool> = (0..len).map(|i| (i + 1) % step == 0).collect();
                assert_eq!(any(&marks), marks.contains(&true), "{len} by {step}");
                let bits = pack(&marks);
                assert_eq!(bits.iter().collect::<Vec<_>>(), marks);
                assert_eq!(unpack(&bits), marks);
                let from = len / 3;
                assert_eq!(unpack(&bits.slice(from, len - from)), marks[from..]);
            }
        }
    }
}
