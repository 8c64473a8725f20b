//! The part list at the start of the chunk metadata of the shuffles, XOR and float scaling.
//!
//! `u32 number of parts, u32 bytes` each. The counts are untrusted: a list longer than the metadata, or parts that do
//! not add up to the data, are an error. The list may be empty if there are no data.

use crate::error::{Error, Result};
use crate::format::cursor::Cursor;

/// Calls `each` with every part of `input`.
pub(super) fn for_each_part(
    metadata: &mut Cursor<'_>,
    input: &[u8],
    filter: &'static str,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut rest = input;
    let count = metadata.count_u32(4, "number of parts")?;
    for _ in 0..count {
        let bytes = usize::try_from(metadata.u32("part size")?)?;
        let (part, tail) = rest.split_at_checked(bytes).ok_or_else(|| {
            Error::corrupt(format!(
                "{filter}: a part has {bytes} bytes but {} remain",
                rest.len()
            ))
        })?;
        each(part)?;
        rest = tail;
    }
    if rest.is_empty() {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{filter}: the parts hold {} of {} bytes",
        input.len().saturating_sub(rest.len()),
        input.len()
    )))
}

/// Splits off the first `len` bytes of `out`.
pub(super) fn take_front<'a>(
    out: &mut &'a mut [u8],
    len: usize,
    filter: &'static str,
) -> Result<&'a mut [u8]> {
    let all = std::mem::take(out);
    let available = all.len();
    let (front, tail) = all.split_at_mut_checked(len).ok_or_else(|| {
        Error::corrupt(format!(
            "{filter}: {len} bytes come out where {available} are expected"
        ))
    })?;
    *out = tail;
    Ok(front)
}

/// Fails unless all of the output was written.
pub(super) fn expect_full(rest: &[u8], filter: &'static str) -> Result<()> {
    if rest.is_empty() {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{filter}: {} bytes fewer come out than expected",
        rest.len()
    )))
}
