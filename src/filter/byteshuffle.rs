//! Byte shuffle (specification: "Byteshuffle Filter").
//!
//! Metadata: the part list of [`super::parts`]. Data: per part all first bytes of the elements, all second bytes, and
//! so on (a *plane* each), then the bytes that are no whole element. With elements of one byte the data are
//! unchanged, yet the metadata are there.
//!
//! Restoring interleaves the planes. Bytes are merged into 16-bit, those into 32-bit, those into 64-bit words, over
//! blocks of fixed size, which the compiler turns into vector code.

use super::parts::{for_each_part, take_front};
use super::word::Width;
use crate::error::Result;
use crate::format::cursor::Cursor;

const FILTER: &str = "byteshuffle";
/// Elements merged at a time.
const BLOCK: usize = 64;

type Plane = [u8; BLOCK];
type Elements<const N: usize> = [[u8; N]; BLOCK];

/// Decodes into `out`, which is as long as `input`.
pub(super) fn decode_into(
    width: Width,
    metadata: &mut Cursor<'_>,
    input: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let mut rest = out;
    for_each_part(metadata, input, FILTER, |part| {
        unshuffle(width, part, take_front(&mut rest, part.len(), FILTER)?);
        Ok(())
    })
}

/// Verifies the metadata where the data are unchanged.
pub(super) fn check(metadata: &mut Cursor<'_>, input: &[u8]) -> Result<()> {
    for_each_part(metadata, input, FILTER, |_| Ok(()))
}

/// Interleaves the planes of one part; `out` is as long as `part`.
pub(super) fn unshuffle(width: Width, part: &[u8], out: &mut [u8]) {
    match width {
        Width::One => out.copy_from_slice(part),
        Width::Two => interleave(part, out, merge_2),
        Width::Four => interleave(part, out, merge_4),
        Width::Eight => interleave(part, out, |planes, elements| {
            merge_8(planes, elements, |word| word);
        }),
    }
}

/// Interleaves eight planes and sends each word through `finish`; the lengths are a multiple of 8.
#[inline(always)]
pub(super) fn interleave_8(part: &[u8], out: &mut [u8], finish: impl Fn(u64) -> u64 + Copy) {
    interleave(part, out, |planes: [&Plane; 8], elements| {
        merge_8(planes, elements, finish);
    });
    // Elements beyond the last whole block were interleaved one by one, without `finish`.
    let (words, _) = out.as_chunks_mut::<8>();
    let whole = words.len() / BLOCK * BLOCK;
    for word in words.iter_mut().skip(whole) {
        *word = finish(u64::from_le_bytes(*word)).to_le_bytes();
    }
}

#[inline(always)]
fn interleave<const N: usize>(
    part: &[u8],
    out: &mut [u8],
    merge: impl Fn([&Plane; N], &mut Elements<N>),
) {
    let count = part.len() / N;
    let (elements, tail) = out.as_chunks_mut::<N>();
    tail.copy_from_slice(part.get(count * N..).unwrap_or_default());
    let mut planes = part.chunks_exact(count.max(1));
    let planes: [&[u8]; N] = std::array::from_fn(|_| planes.next().unwrap_or_default());
    let mut blocks = planes.map(|plane| plane.as_chunks::<BLOCK>().0.iter());
    let (out_blocks, out_rest) = elements.as_chunks_mut::<BLOCK>();
    for out_block in out_blocks {
        let planes = blocks
            .each_mut()
            .map(|plane| plane.next().unwrap_or(&[0; BLOCK]));
        merge(planes, out_block);
    }
    for (k, plane) in planes.iter().enumerate() {
        let (_, rest) = plane.as_chunks::<BLOCK>();
        for (element, byte) in out_rest.iter_mut().zip(rest) {
            if let Some(place) = element.get_mut(k) {
                *place = *byte;
            }
        }
    }
}

#[inline(always)]
fn pair_bytes(low: &Plane, high: &Plane) -> [u16; BLOCK] {
    let mut words = [0; BLOCK];
    for ((word, low), high) in words.iter_mut().zip(low).zip(high) {
        *word = u16::from(*low) | u16::from(*high) << 8;
    }
    words
}

#[inline(always)]
fn pair_words(low: &[u16; BLOCK], high: &[u16; BLOCK]) -> [u32; BLOCK] {
    let mut words = [0; BLOCK];
    for ((word, low), high) in words.iter_mut().zip(low).zip(high) {
        *word = u32::from(*low) | u32::from(*high) << 16;
    }
    words
}

#[inline(always)]
fn merge_2([a, b]: [&Plane; 2], out: &mut Elements<2>) {
    for (element, word) in out.iter_mut().zip(pair_bytes(a, b)) {
        *element = word.to_le_bytes();
    }
}

#[inline(always)]
fn merge_4([a, b, c, d]: [&Plane; 4], out: &mut Elements<4>) {
    let words = pair_words(&pair_bytes(a, b), &pair_bytes(c, d));
    for (element, word) in out.iter_mut().zip(words) {
        *element = word.to_le_bytes();
    }
}

#[inline(always)]
fn merge_8(
    [a, b, c, d, e, f, g, h]: [&Plane; 8],
    out: &mut Elements<8>,
    finish: impl Fn(u64) -> u64,
) {
    let low = pair_words(&pair_bytes(a, b), &pair_bytes(c, d));
    let high = pair_words(&pair_bytes(e, f), &pair_bytes(g, h));
    for ((element, low), high) in out.iter_mut().zip(low).zip(high) {
        *element = finish(u64::from(low) | u64::from(high) << 32).to_le_bytes();
    }
}
