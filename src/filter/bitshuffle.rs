//! Bit shuffle (specification: "Bitshuffle Filter").
//!
//! Metadata: the part list of [`super::parts`]; a part whose size is no multiple of 8 was stored as two entries, head
//! and tail. An entry that is not a multiple of both 8 and the element width is copied; otherwise it was processed
//! in blocks of **8192 bytes** (the last one shorter). In a block only the largest multiple of 8 elements is
//! transposed, the others follow unchanged. For byte k of the element and bit b of that byte there is one row, in
//! which element i is bit `i % 8` of byte `i / 8`.
//!
//! The eight rows of one byte therefore are, eight bytes interleaved, 8x8 bit matrices on end: interleaving and
//! transposing them gives the planes of a byte shuffle.

use super::byteshuffle::{interleave_8, unshuffle};
use super::parts::{for_each_part, take_front};
use super::word::Width;
use crate::error::Result;
use crate::format::cursor::Cursor;

const FILTER: &str = "bitshuffle";
/// Bytes transposed together.
const BLOCK_BYTES: usize = 8192;

/// Decodes into `out`, which is as long as `input`.
pub(super) fn decode_into(
    width: Width,
    metadata: &mut Cursor<'_>,
    input: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let mut rest = out;
    for_each_part(metadata, input, FILTER, |part| {
        let out = take_front(&mut rest, part.len(), FILTER)?;
        if part.len().is_multiple_of(width.bytes()) && part.len().is_multiple_of(8) {
            let blocks = part.chunks(BLOCK_BYTES);
            for (block, out) in blocks.zip(out.chunks_mut(BLOCK_BYTES)) {
                untranspose(width, block, out);
            }
        } else {
            out.copy_from_slice(part);
        }
        Ok(())
    })
}

/// Restores one block; `out` is as long as `block`.
fn untranspose(width: Width, block: &[u8], out: &mut [u8]) {
    let elements = block.len() / width.bytes() / 8 * 8;
    let (rows, copied) = block
        .split_at_checked(elements * width.bytes())
        .unwrap_or((block, &[]));
    let (out, out_copied) = out.split_at_mut(rows.len());
    out_copied.copy_from_slice(copied);
    if elements == 0 {
        return;
    }
    if width == Width::One {
        interleave_8(rows, out, transpose_8x8);
        return;
    }
    let mut planes = [0; BLOCK_BYTES];
    let (planes, _) = planes.split_at_mut(rows.len());
    let by_plane = rows.chunks_exact(elements);
    for (rows, plane) in by_plane.zip(planes.chunks_exact_mut(elements)) {
        interleave_8(rows, plane, transpose_8x8);
    }
    unshuffle(width, planes, out);
}

/// Transposes an 8x8 matrix of bits: bit j of byte i becomes bit i of byte j.
#[inline(always)]
fn transpose_8x8(matrix: u64) -> u64 {
    let mut x = matrix;
    let mut swap = |shift: u32, mask: u64| {
        let t = (x ^ (x >> shift)) & mask;
        x = x ^ t ^ (t << shift);
    };
    swap(7, 0x00AA_00AA_00AA_00AA);
    swap(14, 0x0000_CCCC_0000_CCCC);
    swap(28, 0x0000_0000_F0F0_F0F0);
    x
}
