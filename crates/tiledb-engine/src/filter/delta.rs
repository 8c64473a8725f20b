//! Delta encoding (specification: "Delta Encoder").
//!
//! Each part is `u64 n`, the first value, then n-1 differences, all of the width of the filter's input type.
//! Differences wrap around, so signed and unsigned types are decoded alike. Strings of any character width are read
//! byte by byte.

use super::word::FilterWord;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;

/// Decodes into exactly `out`.
pub(super) fn decode_into<W: FilterWord>(input: &[u8], out: &mut [u8]) -> Result<()> {
    let mut cursor = Cursor::new(input, "delta");
    let count = cursor.u64("number of values")?;
    check_count::<W>(count, out.len(), "delta")?;
    let (differences, _) = W::split(cursor.bytes(out.len(), "differences")?);
    let (values, _) = W::split_mut(out);
    let mut value = W::default();
    for (value_bytes, difference) in values.iter_mut().zip(differences) {
        value = value.plus(W::load(difference));
        *value_bytes = value.store();
    }
    Ok(())
}

/// Fails unless `count` words fill `out_bytes`.
///
/// libtiledb counts whole words only: after a filter whose output is not a whole number of words, delta lost the last
/// bytes.
pub(super) fn check_count<W: FilterWord>(count: u64, out_bytes: usize, filter: &str) -> Result<()> {
    let bytes = usize::try_from(count)
        .ok()
        .and_then(|n| n.checked_mul(W::BYTES));
    if bytes == Some(out_bytes) {
        return Ok(());
    }
    let lost = bytes
        .and_then(|bytes| out_bytes.checked_sub(bytes))
        .filter(|lost| *lost < W::BYTES);
    Err(Error::corrupt(match lost {
        Some(lost) => format!(
            "{filter}: the last {lost} of {out_bytes} bytes were lost when the tile was written, because they aren't a whole value of {} bytes",
            W::BYTES
        ),
        None => format!(
            "{filter}: {count} values of {} bytes come out where {out_bytes} bytes are expected",
            W::BYTES
        ),
    }))
}

/// Encodes one part of whole words; the bytes of an incomplete one would be lost.
pub(super) fn encode<W: FilterWord>(part: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let values = whole_words::<W>(part, "delta")?;
    out.extend_from_slice(&(values.len() as u64).to_le_bytes());
    let mut before = W::default();
    for bytes in values {
        let value = W::load(bytes);
        out.extend_from_slice(W::as_slice(&value.minus(before).store()));
        before = value;
    }
    Ok(())
}

/// The words of a part, which must hold nothing else.
pub(super) fn whole_words<'a, W: FilterWord>(
    part: &'a [u8],
    filter: &str,
) -> Result<&'a [W::Bytes]> {
    match W::split(part) {
        (words, []) => Ok(words),
        _ => Err(Error::unsupported(format!(
            "filter {filter} behind one whose output isn't a whole number of values of {} bytes: put {filter} first",
            W::BYTES
        ))),
    }
}
