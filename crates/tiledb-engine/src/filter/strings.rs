//! Strings encoded with their offsets (run lengths and dictionaries; specification: "RLE" and "Dictionary" under
//! "Compression Filters").
//!
//! Variable-sized fields of `STRING_ASCII` and `STRING_UTF8` have no separate offsets under these two filters: the
//! offsets tile has no chunks, and both are decoded together. Chunk metadata begin with `u32 0, u32 1, u32 string
//! bytes, u32 encoded bytes, u32 offsets bytes` (8 per cell). Integers inside the encoded data are **big-endian**, of
//! the widths in the metadata.
//!
//! The run-length form is decoded here: its metadata continue with `u8 run width, u8 length width`; data are repeated
//! `run, length, bytes`. Empty strings are valid, so run counts are limited by the number of cells, not by the bytes.

use super::dictionary;
use std::iter::Peekable;

use super::encoded_strings::{
    EncodedStrings, StringChunkSize, big_endian, integer_width, put_big_endian, width_of,
};
use super::word::WordWidth;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;

/// Size of an offset in an offsets tile.
const OFFSET_BYTES: usize = 8;

/// How strings and offsets were encoded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StringForm {
    Rle,
    Dictionary,
}

/// Decodes the strings of one chunk of `original_bytes`, and subtracts its contents from what is `left` to decode.
pub(super) fn decode_chunk(
    form: StringForm,
    metadata: &mut Cursor<'_>,
    input: &[u8],
    original_bytes: usize,
    left: &mut StringChunkSize,
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
    let claimed = StringChunkSize {
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
    claimed: StringChunkSize,
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
        left = left.less(StringChunkSize { cells, bytes }).ok_or_else(|| {
            Error::corrupt(format!(
                "the strings do not fit: {cells} cells of {} bytes more than expected",
                value.len()
            ))
        })?;
        strings.add_run(value, cells)?;
    }
    left.expect_none()
}

/// Encodes the strings of a tile, `bytes` in total: their data and metadata.
pub(super) fn encode<'a>(
    form: StringForm,
    strings: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    bytes: usize,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut data = Vec::new();
    let own = match form {
        StringForm::Rle => encode_runs(strings.clone(), &mut data),
        StringForm::Dictionary => dictionary::encode(strings.clone(), &mut data)?,
    };
    let mut metadata = Encoder::new();
    metadata.u32(0);
    metadata.u32(1);
    metadata.count_u32(bytes, "string bytes")?;
    metadata.count_u32(data.len(), "encoded bytes")?;
    metadata.count_u32(strings.len().saturating_mul(OFFSET_BYTES), "offsets bytes")?;
    metadata.bytes(&own);
    Ok((data, metadata.finish()))
}

fn encode_runs<'a>(
    strings: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    out: &mut Vec<u8>,
) -> Vec<u8> {
    let runs = || StringRuns(strings.clone().peekable());
    let longest_run = runs().map(|(_, run)| run).max().unwrap_or_default();
    let longest = strings.clone().map(<[u8]>::len).max().unwrap_or_default();
    let (run_width, length_width) = (width_of(longest_run), width_of(longest));
    for (string, run) in runs() {
        put_big_endian(run, run_width, out);
        put_big_endian(string.len(), length_width, out);
        out.extend_from_slice(string);
    }
    [run_width, length_width].map(WordWidth::code).to_vec()
}

/// Each string that differs from the one before, and how often it comes.
struct StringRuns<'a, I: Iterator<Item = &'a [u8]>>(Peekable<I>);

impl<'a, I: Iterator<Item = &'a [u8]>> Iterator for StringRuns<'a, I> {
    type Item = (&'a [u8], usize);

    fn next(&mut self) -> Option<Self::Item> {
        let string = self.0.next()?;
        let mut run = 1;
        while self.0.next_if_eq(&string).is_some() {
            run += 1;
        }
        Some((string, run))
    }
}
