//! Bit-width reduction (specification: "Bit Width Reduction Filter").
//!
//! Metadata: `u32 original bytes, u32 windows`, then per window the offset (its smallest value), `u8 bits` and `u32
//! bytes` of the window **before** reduction. Data: per window `value - offset` in `bits` (8, 16 or 32) bits each, read
//! as signed for signed types. A window whose `bits` reach the type's width, or that is not a whole number of elements,
//! is raw, and its offset is meaningless. On types of one byte, floats and strings, and on dates and times in fragments
//! before version 20, the filter did nothing and wrote no metadata, so the pipeline omits it.

use super::parts::{expect_full, take_front};
use super::positive_delta::windows;
use super::word::FilterWord;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;

const FILTER: &str = "bit_width_reduction";
/// What the metadata say of a window besides a value: its size and the bits of a value.
pub(super) const WINDOW_BYTES: usize = 5;

/// The original size, with which the metadata begin.
pub(super) fn original_bytes(metadata: &Cursor<'_>, input: &[u8]) -> Result<usize> {
    let original = usize::try_from(metadata.clone().u32("original size")?)?;
    // A value of 8 bytes is reduced to at least one.
    if original <= input.len().saturating_mul(8) {
        return Ok(original);
    }
    Err(Error::corrupt(format!(
        "bit_width_reduction: {} bytes cannot hold {original} reduced bytes",
        input.len()
    )))
}

/// Decodes into exactly `out`; `SIGNED` says whether reduced values are sign-extended.
pub(super) fn decode_into<W: FilterWord, const SIGNED: bool>(
    metadata: &mut Cursor<'_>,
    input: &[u8],
    out: &mut [u8],
) -> Result<()> {
    metadata.u32("original size")?;
    let windows = metadata.count_u32(W::BYTES + WINDOW_BYTES, "number of windows")?;
    let (mut input, mut rest) = (input, out);
    for _ in 0..windows {
        let (offset, _) = W::split(metadata.bytes(W::BYTES, "window offset")?);
        let offset = offset.first().map(W::load).unwrap_or_default();
        let bits = metadata.u8("window bits")?;
        let bytes = usize::try_from(metadata.u32("window size")?)?;
        let out = take_front(&mut rest, bytes, FILTER)?;
        let narrow_bytes = narrow_bytes::<W>(bits, bytes)?;
        let (window, tail) = match narrow_bytes {
            Some(narrow) => input.split_at_checked((bytes / W::BYTES).saturating_mul(narrow)),
            None => input.split_at_checked(bytes),
        }
        .ok_or_else(|| truncated(bytes, input))?;
        input = tail;
        match narrow_bytes {
            Some(1) => widen::<W, u8, SIGNED>(window, offset, out),
            Some(2) => widen::<W, u16, SIGNED>(window, offset, out),
            Some(_) => widen::<W, u32, SIGNED>(window, offset, out),
            None => out.copy_from_slice(window),
        }
    }
    expect_full(rest, FILTER)
}

/// Size of a reduced value, or `None` for a raw window.
fn narrow_bytes<W: FilterWord>(bits: u8, window_bytes: usize) -> Result<Option<usize>> {
    if usize::from(bits) >= W::BYTES * 8 || !window_bytes.is_multiple_of(W::BYTES) {
        return Ok(None);
    }
    match bits {
        8 => Ok(Some(1)),
        16 => Ok(Some(2)),
        32 => Ok(Some(4)),
        other => Err(Error::corrupt(format!(
            "bit_width_reduction: a window has {other} bits per value, expected 8, 16, 32 or 64"
        ))),
    }
}

fn widen<W: FilterWord, N: FilterWord, const SIGNED: bool>(
    window: &[u8],
    offset: W,
    out: &mut [u8],
) {
    let (narrow, _) = N::split(window);
    let (values, _) = W::split_mut(out);
    for (value_bytes, bytes) in values.iter_mut().zip(narrow) {
        let value = W::truncate(N::load(bytes).extend::<SIGNED>());
        *value_bytes = value.plus(offset).store();
    }
}

fn truncated(bytes: usize, input: &[u8]) -> Error {
    Error::corrupt(format!(
        "bit_width_reduction: a window of {bytes} bytes does not fit in the {} that remain",
        input.len()
    ))
}

/// Encodes one part in windows of at most `window` bytes; `SIGNED` says how values compare.
pub(super) fn encode<W: FilterWord, const SIGNED: bool>(
    part: &[u8],
    window: u32,
    metadata: &mut Encoder,
    out: &mut Vec<u8>,
) -> Result<()> {
    let windows = windows::<W>(part, window)?;
    metadata.count_u32(part.len(), "original size")?;
    metadata.count_u32(windows.len(), "number of windows")?;
    for window in windows {
        let (words, incomplete) = W::split(window);
        let values = || words.iter().map(W::load);
        let lesser = |a: W, b: W| if b.is_less::<SIGNED>(a) { b } else { a };
        let greater = |a: W, b: W| if a.is_less::<SIGNED>(b) { b } else { a };
        let offset = values().reduce(lesser).unwrap_or_default();
        let largest = values().reduce(greater).unwrap_or_default();
        let bits = bits_of::<W, SIGNED>(largest.minus(offset).extend::<false>());
        metadata.bytes(W::as_slice(&offset.store()));
        metadata.u8(bits);
        metadata.count_u32(window.len(), "window size")?;
        let narrow = usize::from(bits / 8);
        if narrow >= W::BYTES || !incomplete.is_empty() {
            out.extend_from_slice(window);
            continue;
        }
        for value in values() {
            let bytes = value.minus(offset).extend::<false>().to_le_bytes();
            out.extend_from_slice(bytes.get(..narrow).unwrap_or_default());
        }
    }
    Ok(())
}

/// The bits of values up to `range`: a width that libtiledb chooses by `range + 1`, or that of the type.
fn bits_of<W: FilterWord, const SIGNED: bool>(range: u64) -> u8 {
    // The top bit of a signed number is its sign.
    let sign = u32::from(SIGNED);
    let range = range.saturating_add(1);
    let fits = |bits: &u8| range < 1 << (u32::from(*bits) - sign);
    let narrow = [8, 16, 32].into_iter().find(fits).unwrap_or(64);
    narrow.min(u8::try_from(W::BYTES * 8).unwrap_or(64))
}
