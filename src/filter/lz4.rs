//! LZ4 (specification: "Compression Filters").
//!
//! Each part is one raw LZ4 **block**: no frame, no magic number, no size before it.

use lz4_flex::block::{compress, decompress_into};

use crate::error::{Error, Result};

/// A byte of a block decodes to at most this many bytes.
const LARGEST_RATIO: usize = 255;

/// The largest size that a block of `input` bytes can decode to.
pub(super) fn largest_output(input: &[u8]) -> usize {
    input.len().saturating_mul(LARGEST_RATIO)
}

/// Decompresses into exactly `out`.
pub(super) fn decode_into(input: &[u8], out: &mut [u8]) -> Result<()> {
    let written = decompress_into(input, out)
        .map_err(|e| Error::corrupt("lz4: the block is damaged").with_source(e))?;
    if written == out.len() {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "lz4: {written} bytes come out where {} are expected",
        out.len()
    )))
}

/// Appends a block of `part`.
pub(super) fn encode(part: &[u8], out: &mut Vec<u8>) {
    out.extend(compress(part));
}
