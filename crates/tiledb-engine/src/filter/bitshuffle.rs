//! Bit shuffle (specification: "Bitshuffle Filter").
//!
//! Metadata: the part list of [`super::parts`]; a part whose size isn't a multiple of 8 was stored as two entries, head
//! and tail. An entry that is not a multiple of both 8 and the element width is copied; otherwise it was processed
//! in blocks of **8192 bytes** (the last one shorter). In a block only the largest multiple of 8 elements is
//! transposed, the others follow unchanged. For byte k of the element and bit b of that byte there is one row, in
//! which element i is bit `i % 8` of byte `i / 8`.
//!
//! The eight rows of one byte are therefore planes, as in a byte shuffle, except that byte i holds bit b of eight
//! elements instead of element i. So the 8x8 bits of every eight bytes must be transposed. Done before interleaving,
//! this exchanges bits between vectors; the result is the plane of that byte as in a byte shuffle.

use super::byteshuffle::{shuffle, unshuffle};
use super::parts::{for_each_part, take_front};
use super::planes::{interleave, split, weave_8};
use super::word::WordWidth;
use crate::error::Result;
use crate::format::cursor::Cursor;
use wide::{u8x16, u64x2};

const FILTER: &str = "bitshuffle";
/// Size of the blocks that are transposed.
const BLOCK_BYTES: usize = 8192;

/// Decodes into `out`, which is as long as `input`.
pub(super) fn decode_into(
    width: WordWidth,
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
fn untranspose(width: WordWidth, block: &[u8], out: &mut [u8]) {
    let elements = block.len() / width.bytes() / 8 * 8;
    let (rows, copied) = block
        .split_at_checked(elements * width.bytes())
        .unwrap_or((block, &[]));
    let (out, out_copied) = out.split_at_mut(rows.len());
    out_copied.copy_from_slice(copied);
    if elements == 0 {
        return;
    }
    let weave = |rows| weave_8(transpose(rows));
    if width == WordWidth::One {
        interleave(rows, out, weave);
        return;
    }
    let mut planes = [0; BLOCK_BYTES];
    let (planes, _) = planes.split_at_mut(rows.len());
    let by_plane = rows.chunks_exact(elements);
    for (rows, plane) in by_plane.zip(planes.chunks_exact_mut(elements)) {
        interleave(rows, plane, weave);
    }
    unshuffle(width, planes, out);
}

/// Transposes 8x8 matrices of bits, one in each lane: bit j of row i becomes bit i of row j.
#[inline(always)]
fn transpose([mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h]: [u8x16; 8]) -> [u8x16; 8] {
    // Swaps the off-diagonal quarters of matrices of 2x2, of 4x4, and of 8x8 bits.
    for (upper, lower) in [
        (&mut a, &mut b),
        (&mut c, &mut d),
        (&mut e, &mut f),
        (&mut g, &mut h),
    ] {
        exchange(upper, lower, 1, 0x55);
    }
    for (upper, lower) in [
        (&mut a, &mut c),
        (&mut b, &mut d),
        (&mut e, &mut g),
        (&mut f, &mut h),
    ] {
        exchange(upper, lower, 2, 0x33);
    }
    for (upper, lower) in [
        (&mut a, &mut e),
        (&mut b, &mut f),
        (&mut c, &mut g),
        (&mut d, &mut h),
    ] {
        exchange(upper, lower, 4, 0x0F);
    }
    [a, b, c, d, e, f, g, h]
}

/// Swaps the bits of `upper` that are `shift` above those of `mask` with the bits of `lower` in `mask`.
#[inline(always)]
fn exchange(upper: &mut u8x16, lower: &mut u8x16, shift: u32, mask: u8) {
    let different = (each_64(*upper, |bits| bits >> shift) ^ *lower) & u8x16::splat(mask);
    *lower ^= different;
    *upper ^= each_64(different, |bits| bits << shift);
}

/// Shifts 64 bits at a time: there is no instruction for single bytes, and bits that cross bytes are masked.
#[inline(always)]
fn each_64(bytes: u8x16, shift: impl Fn(u64x2) -> u64x2) -> u8x16 {
    bytemuck::cast(shift(bytemuck::cast(bytes)))
}

/// Encodes one part, in the place of what `out` holds, and returns the sizes of its entries: the part, or its head and tail.
pub(super) fn encode(width: WordWidth, part: &[u8], out: &mut Vec<u8>) -> Vec<usize> {
    // What is there already need not be zeroed.
    out.resize(part.len(), 0);
    let (head, tail) = part.split_at(part.len() / 8 * 8);
    // A head is stored even if it is empty, a tail is not.
    let tail = Some(tail).filter(|tail| !tail.is_empty());
    let mut rest = out.as_mut_slice();
    let mut sizes = Vec::with_capacity(2);
    for entry in std::iter::once(head).chain(tail) {
        let (out, behind) = rest.split_at_mut(entry.len());
        rest = behind;
        sizes.push(entry.len());
        if !entry.len().is_multiple_of(width.bytes()) || !entry.len().is_multiple_of(8) {
            out.copy_from_slice(entry);
            continue;
        }
        let blocks = entry.chunks(BLOCK_BYTES);
        for (block, out) in blocks.zip(out.chunks_mut(BLOCK_BYTES)) {
            transpose_block(width, block, out);
        }
    }
    sizes
}

/// Encodes one block; `out` is as long as `block`.
fn transpose_block(width: WordWidth, block: &[u8], out: &mut [u8]) {
    let elements = block.len() / width.bytes() / 8 * 8;
    let (rows, copied) = block.split_at(elements * width.bytes());
    let (out, out_copied) = out.split_at_mut(rows.len());
    out_copied.copy_from_slice(copied);
    if elements == 0 {
        return;
    }
    let mut planes = [0; BLOCK_BYTES];
    let (planes, _) = planes.split_at_mut(rows.len());
    shuffle(width, rows, planes);
    let by_plane = planes.chunks_exact(elements);
    for (plane, rows) in by_plane.zip(out.chunks_exact_mut(elements)) {
        // A transposed matrix that is transposed is what it was.
        split(plane, rows, transpose);
    }
}
