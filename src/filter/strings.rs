//! Strings whose offsets travel with the data (run lengths and dictionaries; specification: "RLE" and "Dictionary"
//! under "Compression Filters").
//!
//! `STRING_ASCII` and `STRING_UTF8` fields of variable size have no offsets of their own under these two filters: the
//! offsets tile holds no chunks, and both are restored together. Chunk metadata begin `u32 0, u32 1, u32 string bytes,
//! u32 encoded bytes, u32 offsets bytes` (8 per cell). Integers inside the encoded data are **big-endian**, of the
//! widths the metadata state.
//!
//! Here is also the run-length form: metadata go on `u8 run width, u8 length width`; data are repeated `run, length,
//! bytes`. Strings of no bytes are valid, so run counts are bounded by the cells, not by the bytes.

use super::dictionary;
use super::encoded_strings::{Amount, EncodedStrings, big_endian, integer_width};
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;

/// Bytes of an offset in an offsets tile.
const OFFSET_BYTES: usize = 8;

/// How strings and offsets were encoded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StringForm {
    Rle,
    Dictionary,
}

/// Restores the strings of one chunk of `original_bytes`, and takes what it holds off what is `left` to come.
pub(super) fn decode_chunk(
    form: StringForm,
    metadata: &mut Cursor<'_>,
    input: &[u8],
    original_bytes: usize,
    left: &mut Amount,
    strings: &mut EncodedStrings,
) -> Result<()> {
    let metadata_parts = metadata.u32("number of metadata parts")?;
    let data_parts = metadata.u32("number of data parts")?;
    if (metadata_parts, data_parts) != (0, 1) {
        return Err(metadata.invalid(
            "number of parts",
            format!("{metadata_parts} and {data_parts}"),
            "0 and 1 for encoded strings",
        ));
    }
    let string_bytes = usize::try_from(metadata.u32("string bytes")?)?;
    if string_bytes != original_bytes {
        return Err(metadata.invalid("string bytes", string_bytes, original_bytes));
    }
    let encoded_bytes = usize::try_from(metadata.u32("encoded bytes")?)?;
    let offsets_bytes = usize::try_from(metadata.u32("offsets bytes")?)?;
    let encoded = input.get(..encoded_bytes).ok_or_else(|| {
        Error::corrupt(format!(
            "encoded strings claim {encoded_bytes} bytes but the chunk has {}",
            input.len()
        ))
    })?;
    let claimed = Amount {
        cells: offsets_bytes / OFFSET_BYTES,
        bytes: string_bytes,
    };
    *left = left.less(claimed).ok_or_else(|| {
        Error::corrupt(format!(
            "a chunk of strings claims {} cells of {} bytes where {} cells of {} bytes are expected",
            claimed.cells, claimed.bytes, left.cells, left.bytes
        ))
    })?;
    match form {
        StringForm::Rle => decode_runs(metadata, encoded, claimed, strings),
        StringForm::Dictionary => dictionary::decode(metadata, encoded, claimed, strings),
    }
}

fn decode_runs(
    metadata: &mut Cursor<'_>,
    encoded: &[u8],
    claimed: Amount,
    strings: &mut EncodedStrings,
) -> Result<()> {
    let run_width = integer_width(metadata, "run width")?;
    let length_width = integer_width(metadata, "length width")?;
    let mut encoded = Cursor::new(encoded, "run-length encoded strings");
    let mut left = claimed;
    while encoded.remaining() > 0 {
        let run = big_endian(encoded.bytes(run_width, "run")?);
        let length = big_endian(encoded.bytes(length_width, "string length")?);
        let value = encoded.bytes_u64(length, "string")?;
        let cells = usize::try_from(run)?;
        let bytes = cells.saturating_mul(value.len());
        left = left.less(Amount { cells, bytes }).ok_or_else(|| {
            Error::corrupt(format!(
                "the strings do not fit: {cells} cells of {} bytes more than expected",
                value.len()
            ))
        })?;
        strings.add_run(value, cells)?;
    }
    left.expect_none()
}
