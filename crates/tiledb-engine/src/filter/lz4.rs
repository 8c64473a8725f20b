//! LZ4 (specification: "Compression Filters").
//!
//! Each part is one raw LZ4 **block**: no frame, no magic number, no size before it.

use lz4_flex::block::{compress, decompress_into};

use super::buffer::DecodeWork;
use crate::error::{Error, Result};

/// A byte of a block decodes to at most this many bytes.
const LARGEST_RATIO: usize = 255;

/// The largest size that a block of `input` bytes can decode to.
pub(super) fn largest_output(input: &[u8]) -> usize {
    input.len().saturating_mul(LARGEST_RATIO)
}

/// Decompresses into exactly `out`.
pub(super) fn decode_into(input: &[u8], out: &mut [u8]) -> Result<()> {
    let written = decompress_into(input, out)
        .map_err(|e| Error::corrupt("lz4: the block is damaged").with_source(e))?;
    if written == out.len() {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "lz4: {written} bytes come out where {} are expected",
        out.len()
    )))
}

/// Appends a block of `part`.
pub(super) fn encode(part: &[u8], out: &mut Vec<u8>) {
    out.extend(compress(part));
}

/// The work of decoding a block: its parts that are copied from what is there, as far as the block is not damaged.
pub(super) fn work(block: &[u8]) -> DecodeWork {
    let mut work = DecodeWork::default();
    let mut bytes = block.iter().copied();
    while let Some(token) = bytes.next() {
        work.sequences += 1;
        let mut length = usize::from(token >> 4);
        if length == LONG {
            length = length.saturating_add(rest_of_length(&mut bytes));
        }
        // The literals, and the distance of the copy, which the last sequence lacks.
        if length > 0 {
            bytes.nth(length - 1);
        }
        bytes.nth(1);
        if usize::from(token & 15) == LONG {
            rest_of_length(&mut bytes);
        }
    }
    work
}

/// A length that goes on in further bytes.
const LONG: usize = 15;

fn rest_of_length(bytes: &mut impl Iterator<Item = u8>) -> usize {
    let mut length = 0_usize;
    for byte in bytes.by_ref() {
        length = length.saturating_add(usize::from(byte));
        if byte != u8::MAX {
            break;
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_tell_the_work_of_a_block() {
        let sequences = |block: &[u8]| work(block).sequences;
        assert_eq!(sequences(&[]), 0);
        // Three literals, and a copy of 4 + 15 + 255 + 2 bytes; then two literals.
        let mut block = vec![0x3F, 1, 2, 3, 1, 0, 255, 2, 0x20, 8, 9];
        let mut out = vec![0; 3 + 276 + 2];
        decode_into(&block, &mut out).unwrap();
        assert_eq!(sequences(&block), 2);
        for end in 0..block.len() {
            assert!(sequences(&block[..end]) <= 2);
        }
        // 15 + 4 literals.
        block = [&[0xF0, 4][..], &[5; 19]].concat();
        decode_into(&block, &mut [0; 19]).unwrap();
        assert_eq!(sequences(&block), 1);
    }
}
