//! XOR (specification: "XOR Filter").
//!
//! Metadata: the part list of [`super::parts`]. Data: per part the first element unchanged, then each element XOR the
//! one before, so decoding is a running XOR. The element has the width of the filter's input type; 1, 2, 4 and 8 bytes
//! all occur. A tail shorter than an element is copied.

use super::parts::{for_each_part, take_front};
use super::word::FilterWord;
use crate::error::Result;
use crate::format::cursor::Cursor;

const FILTER: &str = "xor";

/// Decodes into `out`, which is as long as `input`.
pub(super) fn decode_into<W: FilterWord>(
    metadata: &mut Cursor<'_>,
    input: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let mut rest = out;
    for_each_part(metadata, input, FILTER, |part| {
        let out = take_front(&mut rest, part.len(), FILTER)?;
        let (encoded, encoded_tail) = W::split(part);
        let (values, values_tail) = W::split_mut(out);
        let mut value = W::default();
        for (value_bytes, bytes) in values.iter_mut().zip(encoded) {
            value = value.xor(W::load(bytes));
            *value_bytes = value.store();
        }
        values_tail.copy_from_slice(encoded_tail);
        Ok(())
    })
}

/// Encodes one part.
pub(super) fn encode<W: FilterWord>(part: &[u8], out: &mut Vec<u8>) {
    let (values, tail) = W::split(part);
    let mut before = W::default();
    for bytes in values {
        let value = W::load(bytes);
        out.extend_from_slice(W::as_slice(&value.xor(before).store()));
        before = value;
    }
    out.extend_from_slice(tail);
}
