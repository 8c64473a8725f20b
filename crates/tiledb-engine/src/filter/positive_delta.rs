//! Positive-delta encoding (specification: "Positive Delta Encoding Filter").
//!
//! Metadata: `u32 windows`, then per window the first value and `u32 bytes` of the window. Data: per window the
//! differences, the first of which is 0 (to the value in the metadata). A window that is not a whole number of elements
//! is copied. On types that the filter does not support (floats, `CHAR`, strings), and on dates and times in fragments
//! before version 20, it did nothing and wrote no metadata, so the pipeline omits it.

use std::slice::Chunks;

use super::parts::{expect_full, take_front};
use super::word::FilterWord;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;

const FILTER: &str = "positive_delta";
/// What the metadata say of a window besides a value: its size.
pub(super) const WINDOW_BYTES: usize = 4;

/// Decodes into `out`, which is as long as `input`.
pub(super) fn decode_into<W: FilterWord>(
    metadata: &mut Cursor<'_>,
    input: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let windows = metadata.count_u32(W::BYTES + WINDOW_BYTES, "number of windows")?;
    let (mut input, mut rest) = (input, out);
    for _ in 0..windows {
        let (first, _) = W::split(metadata.bytes(W::BYTES, "first value of a window")?);
        let bytes = usize::try_from(metadata.u32("window size")?)?;
        let (window, tail) = input.split_at_checked(bytes).ok_or_else(|| {
            Error::corrupt(format!(
                "positive_delta: a window has {bytes} bytes but {} remain",
                input.len()
            ))
        })?;
        input = tail;
        let out = take_front(&mut rest, bytes, FILTER)?;
        if !bytes.is_multiple_of(W::BYTES) {
            out.copy_from_slice(window);
            continue;
        }
        let mut value = first.first().map(W::load).unwrap_or_default();
        let (differences, _) = W::split(window);
        let (values, _) = W::split_mut(out);
        for (value_bytes, difference) in values.iter_mut().zip(differences) {
            value = value.plus(W::load(difference));
            *value_bytes = value.store();
        }
    }
    expect_full(rest, FILTER)
}

/// Encodes one part in windows of at most `window` bytes; `SIGNED` says how values compare.
///
/// # Errors
/// The values decrease.
pub(super) fn encode<W: FilterWord, const SIGNED: bool>(
    part: &[u8],
    window: u32,
    metadata: &mut Encoder,
    out: &mut Vec<u8>,
) -> Result<()> {
    let windows = windows::<W>(part, window)?;
    metadata.count_u32(windows.len(), "number of windows")?;
    for window in windows {
        let (values, incomplete) = W::split(window);
        let first = values
            .first()
            .filter(|_| incomplete.is_empty())
            .map(W::load)
            .unwrap_or_default();
        metadata.bytes(W::as_slice(&first.store()));
        metadata.count_u32(window.len(), "window size")?;
        if !incomplete.is_empty() {
            out.extend_from_slice(window);
            continue;
        }
        let mut before = first;
        for bytes in values {
            let value = W::load(bytes);
            if value.is_less::<SIGNED>(before) {
                return Err(Error::invalid(
                    "the values decrease, which the filter positive_delta cannot store: use delta",
                ));
            }
            out.extend_from_slice(W::as_slice(&value.minus(before).store()));
            before = value;
        }
    }
    Ok(())
}

/// Cuts a part into windows of at most `bytes` bytes, and of whole words.
pub(super) fn windows<W: FilterWord>(part: &[u8], bytes: u32) -> Result<Chunks<'_, u8>> {
    let bytes = usize::try_from(bytes)?.min(part.len());
    Ok(part.chunks((bytes / W::BYTES * W::BYTES).max(W::BYTES)))
}
