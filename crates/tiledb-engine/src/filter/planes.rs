//! Interleaving of planes of bytes, and the way back, sixteen elements at a time.
//!
//! A *plane* holds one byte of every element. The vectors of N planes become N vectors of whole elements by log2(N)
//! rounds of interleaving two vectors byte by byte: first the planes with even and those with odd index, each among
//! themselves, then both results.
//!
//! On the way back, the first half of N vectors of whole elements is interleaved with the second half, four times. Each time
//! the number of a byte among the 16 N is rotated to the left by one bit; four times bring the number of the element, which
//! has four bits, behind the number of the plane.

use wide::u8x16;

/// Elements read from each plane at a time.
pub(super) const LANES: usize = 16;

type PlaneLanes = [u8; LANES];

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

/// Splits the elements of `part` into N consecutive planes; bytes after the last whole element are copied. `out` is as long as
/// `part`, N is a power of two, and `change` changes one vector of each plane.
#[inline(always)]
pub(super) fn split<const N: usize>(
    part: &[u8],
    out: &mut [u8],
    change: impl Fn([u8x16; N]) -> [u8x16; N],
) {
    let (elements, incomplete) = part.as_chunks::<N>();
    let (planes, copied) = out.split_at_mut(part.len() - incomplete.len());
    copied.copy_from_slice(incomplete);
    let mut planes = planes.chunks_exact_mut(elements.len().max(1));
    let mut planes: [_; N] = std::array::from_fn(|_| {
        let plane = planes.next().unwrap_or_default();
        plane.as_chunks_mut::<LANES>()
    });
    let split = |block: &[[u8; N]]| {
        let (loaded, _) = block.as_flattened().as_chunks::<LANES>();
        let mut vectors = [u8x16::ZERO; N];
        for (vector, bytes) in vectors.iter_mut().zip(loaded) {
            *vector = u8x16::new(*bytes);
        }
        for _ in 0..LANES.ilog2() {
            vectors = halves_interleaved(vectors);
        }
        change(vectors)
    };
    let (blocks, last) = elements.as_chunks::<LANES>();
    for (i, block) in blocks.iter().enumerate() {
        for (vector, (plane, _)) in split(block).into_iter().zip(&mut planes) {
            if let Some(slot) = plane.get_mut(i) {
                *slot = vector.to_array();
            }
        }
    }
    if last.is_empty() {
        return;
    }
    // The last elements are padded to whole vectors.
    let mut padded = [[0; N]; LANES];
    for (slot, element) in padded.iter_mut().zip(last) {
        *slot = *element;
    }
    for (vector, (_, rest)) in split(&padded).into_iter().zip(&mut planes) {
        for (slot, byte) in rest.iter_mut().zip(vector.to_array()) {
            *slot = byte;
        }
    }
}

/// Interleaves the bytes of the first half of the vectors with those of the second half.
#[inline(always)]
fn halves_interleaved<const N: usize>(vectors: [u8x16; N]) -> [u8x16; N] {
    let (first, second) = vectors.split_at(N / 2);
    let mut woven = [u8x16::ZERO; N];
    let (pairs, _) = woven.as_chunks_mut::<2>();
    for (pair, (a, b)) in pairs.iter_mut().zip(first.iter().zip(second)) {
        *pair = weave_2([*a, *b]);
    }
    woven
}

#[inline(always)]
fn store<const N: usize>(vectors: [u8x16; N], slots: &mut [PlaneLanes]) {
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
