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
#![expect(
    clippy::big_endian_bytes,
    reason = "integers inside string encodings are stored big-endian"
)]

use super::dictionary;
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

/// Where strings are restored to: the cells of a tile not yet written.
pub(super) struct Cells<'a> {
    data: &'a mut [u8],
    offsets: &'a mut [u64],
    /// The offset of the next cell.
    position: u64,
}

impl<'a> Cells<'a> {
    pub(super) fn new(data: &'a mut [u8], offsets: &'a mut [u64]) -> Self {
        Self {
            data,
            offsets,
            position: 0,
        }
    }

    /// Takes the next `bytes` and `cells` off, to be filled by one chunk.
    fn split(&mut self, bytes: usize, cells: usize) -> Result<Cells<'a>> {
        let (available_bytes, available_cells) = (self.data.len(), self.offsets.len());
        let data = std::mem::take(&mut self.data).split_at_mut_checked(bytes);
        let offsets = std::mem::take(&mut self.offsets).split_at_mut_checked(cells);
        let (Some((data, data_rest)), Some((offsets, offsets_rest))) = (data, offsets) else {
            return Err(Error::corrupt(format!(
                "a chunk of strings claims {cells} cells of {bytes} bytes where {available_cells} cells of {available_bytes} bytes are expected"
            )));
        };
        (self.data, self.offsets) = (data_rest, offsets_rest);
        let position = self.position;
        self.position = self.position.saturating_add(u64::try_from(bytes)?);
        Ok(Cells {
            data,
            offsets,
            position,
        })
    }

    /// Writes `count` cells of `value`.
    #[inline]
    pub(super) fn push(&mut self, value: &[u8], count: usize) -> Result<()> {
        let bytes = value.len().checked_mul(count);
        let data =
            bytes.and_then(|bytes| std::mem::take(&mut self.data).split_at_mut_checked(bytes));
        let offsets = std::mem::take(&mut self.offsets).split_at_mut_checked(count);
        let (Some((data, data_rest)), Some((offsets, offsets_rest))) = (data, offsets) else {
            return Err(Error::corrupt(format!(
                "the strings do not fit: {count} cells of {} bytes more than expected",
                value.len()
            )));
        };
        (self.data, self.offsets) = (data_rest, offsets_rest);
        let step = u64::try_from(value.len())?;
        for offset in offsets {
            *offset = self.position;
            self.position = self.position.wrapping_add(step);
        }
        if !value.is_empty() {
            for cell in data.chunks_exact_mut(value.len()) {
                cell.copy_from_slice(value);
            }
        }
        Ok(())
    }

    /// The error unless everything expected was written.
    pub(super) fn expect_full(&self) -> Result<()> {
        if self.data.is_empty() && self.offsets.is_empty() {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "{} cells and {} bytes of strings are missing",
            self.offsets.len(),
            self.data.len()
        )))
    }
}

/// Restores the strings of one chunk of `original_bytes`.
pub(super) fn decode_chunk(
    form: StringForm,
    metadata: &mut Cursor<'_>,
    input: &[u8],
    original_bytes: usize,
    cells: &mut Cells<'_>,
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
    let mut cells = cells.split(string_bytes, offsets_bytes / OFFSET_BYTES)?;
    match form {
        StringForm::Rle => decode_runs(metadata, encoded, &mut cells)?,
        StringForm::Dictionary => dictionary::decode(metadata, encoded, &mut cells)?,
    }
    cells.expect_full()
}

fn decode_runs(metadata: &mut Cursor<'_>, encoded: &[u8], cells: &mut Cells<'_>) -> Result<()> {
    let run_width = integer_width(metadata, "run width")?;
    let length_width = integer_width(metadata, "length width")?;
    let mut encoded = Cursor::new(encoded, "run-length encoded strings");
    while encoded.remaining() > 0 {
        let run = big_endian(encoded.bytes(run_width, "run")?);
        let length = big_endian(encoded.bytes(length_width, "string length")?);
        let value = encoded.bytes_u64(length, "string")?;
        cells.push(value, usize::try_from(run)?)?;
    }
    Ok(())
}

/// A stored width of integers: 1, 2, 4 or 8.
pub(super) fn integer_width(metadata: &mut Cursor<'_>, field: &'static str) -> Result<usize> {
    match metadata.u8(field)? {
        width @ (1 | 2 | 4 | 8) => Ok(usize::from(width)),
        other => Err(metadata.invalid(field, other, "1, 2, 4 or 8")),
    }
}

/// The value of a big-endian integer of up to 8 bytes.
#[inline(always)]
pub(super) fn big_endian(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        _ => bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    }
}
