//! Interleaving of planes of bytes, sixteen elements at a time.
//!
//! A *plane* holds one byte of every element. The vectors of N planes become N vectors of whole elements by log2(N)
//! rounds of interleaving two vectors byte by byte: first the planes with even and those with odd index, each among
//! themselves, then both results.

use wide::u8x16;

/// Elements read from each plane at a time.
pub(super) const LANES: usize = 16;

type Lanes = [u8; LANES];

/// Interleaves the N consecutive planes of `part`; bytes after the last whole element are copied. `out` is as long as
/// `part`, and `weave` turns one vector of each plane into N vectors of elements.
#[inline(always)]
pub(super) fn interleave<const N: usize>(
    part: &[u8],
    out: &mut [u8],
    weave: impl Fn([u8x16; N]) -> [u8x16; N],
) {
    let count = part.len() / N;
    let (elements, copied) = out.as_chunks_mut::<N>();
    copied.copy_from_slice(part.get(count * N..).unwrap_or_default());
    let mut planes = part.chunks_exact(count.max(1));
    let planes: [_; N] = std::array::from_fn(|_| {
        let plane = planes.next().unwrap_or_default();
        plane.as_chunks::<LANES>()
    });
    let (blocks, last) = elements.as_chunks_mut::<LANES>();
    for (i, block) in blocks.iter_mut().enumerate() {
        let mut vectors = [u8x16::ZERO; N];
        for (vector, (plane, _)) in vectors.iter_mut().zip(planes) {
            if let Some(bytes) = plane.get(i) {
                *vector = u8x16::new(*bytes);
            }
        }
        let (slots, _) = block.as_flattened_mut().as_chunks_mut::<LANES>();
        store(weave(vectors), slots);
    }
    if last.is_empty() {
        return;
    }
    // The last elements are padded to a whole vector.
    let mut vectors = [u8x16::ZERO; N];
    for (vector, (_, rest)) in vectors.iter_mut().zip(planes) {
        let mut padded = [0; LANES];
        for (slot, byte) in padded.iter_mut().zip(rest) {
            *slot = *byte;
        }
        *vector = u8x16::new(padded);
    }
    let mut padded = [[0; LANES]; N];
    store(weave(vectors), &mut padded);
    let bytes = padded.as_flattened().iter();
    for (slot, byte) in last.as_flattened_mut().iter_mut().zip(bytes) {
        *slot = *byte;
    }
}

#[inline(always)]
fn store<const N: usize>(vectors: [u8x16; N], slots: &mut [Lanes]) {
    for (slot, vector) in slots.iter_mut().zip(vectors) {
        *slot = vector.to_array();
    }
}

/// Interleaves the bytes of two-byte elements.
#[inline(always)]
pub(super) fn weave_2([a, b]: [u8x16; 2]) -> [u8x16; 2] {
    [u8x16::unpack_low(a, b), u8x16::unpack_high(a, b)]
}

/// Interleaves the bytes of four-byte elements.
#[inline(always)]
pub(super) fn weave_4([a, b, c, d]: [u8x16; 4]) -> [u8x16; 4] {
    let [even_0, even_1] = weave_2([a, c]);
    let [odd_0, odd_1] = weave_2([b, d]);
    let [e, f] = weave_2([even_0, odd_0]);
    let [g, h] = weave_2([even_1, odd_1]);
    [e, f, g, h]
}

/// Interleaves the bytes of eight-byte elements.
#[inline(always)]
pub(super) fn weave_8([a, b, c, d, e, f, g, h]: [u8x16; 8]) -> [u8x16; 8] {
    let [even_0, even_1, even_2, even_3] = weave_4([a, c, e, g]);
    let [odd_0, odd_1, odd_2, odd_3] = weave_4([b, d, f, h]);
    let [a, b] = weave_2([even_0, odd_0]);
    let [c, d] = weave_2([even_1, odd_1]);
    let [e, f] = weave_2([even_2, odd_2]);
    let [g, h] = weave_2([even_3, odd_3]);
    [a, b, c, d, e, f, g, h]
}
