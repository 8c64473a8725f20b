//! Byte shuffle (specification: "Byteshuffle Filter").
//!
//! Metadata: the part list of [`super::parts`]. Data: per part all first bytes of the elements, all second bytes, and
//! so on (a *plane* each), then the bytes of an incomplete element. With elements of one byte the data are unchanged,
//! but the metadata still exist.

use super::parts::{for_each_part, take_front};
use super::planes::{interleave, split, weave_2, weave_4, weave_8};
use super::word::WordWidth;
use crate::error::Result;
use crate::format::cursor::Cursor;

const FILTER: &str = "byteshuffle";

/// Decodes into `out`, which is as long as `input`.
pub(super) fn decode_into(
    width: WordWidth,
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

/// Verifies the metadata if the data are unchanged.
pub(super) fn check(metadata: &mut Cursor<'_>, input: &[u8]) -> Result<()> {
    for_each_part(metadata, input, FILTER, |_| Ok(()))
}

/// Interleaves the planes of one part; `out` is as long as `part`.
pub(super) fn unshuffle(width: WordWidth, part: &[u8], out: &mut [u8]) {
    match width {
        WordWidth::One => out.copy_from_slice(part),
        WordWidth::Two => interleave(part, out, weave_2),
        WordWidth::Four => interleave(part, out, weave_4),
        WordWidth::Eight => interleave(part, out, weave_8),
    }
}

/// Encodes one part, in the place of what `out` holds.
pub(super) fn encode(width: WordWidth, part: &[u8], out: &mut Vec<u8>) {
    // What is there already need not be zeroed.
    out.resize(part.len(), 0);
    shuffle(width, part, out);
}

/// Splits one part into planes; `out` is as long as `part`.
pub(super) fn shuffle(width: WordWidth, part: &[u8], out: &mut [u8]) {
    match width {
        WordWidth::One => out.copy_from_slice(part),
        WordWidth::Two => split::<2>(part, out, |planes| planes),
        WordWidth::Four => split::<4>(part, out, |planes| planes),
        WordWidth::Eight => split::<8>(part, out, |planes| planes),
    }
}
