//! The strings of a tile under run-length or dictionary encoding.
//!
//! Strings are not expanded cell by cell: [`EncodedStrings`] has the index of each cell's string, so that a string is
//! validated, compared or converted only once.
#![expect(
    clippy::big_endian_bytes,
    reason = "integers inside string encodings are stored big-endian"
)]

use std::collections::TryReserveError;

use crate::error::{Error, Result};
use crate::filter::word::WordWidth;
use crate::format::cursor::Cursor;

/// The strings of a tile as encoded: each once per run or chunk, and the index of the string in every cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncodedStrings {
    data: Vec<u8>,
    /// The start of each string, then the end of the last.
    ends: Vec<usize>,
    keys: Vec<u32>,
}

impl EncodedStrings {
    /// Without strings, with room for `cells` cells.
    pub(super) fn with_room(cells: usize) -> Result<Self> {
        let mut strings = Self {
            ends: vec![0],
            ..Self::default()
        };
        let room = strings.keys.try_reserve_exact(cells);
        room.map_err(|e| refused(cells.saturating_mul(size_of::<u32>()), e))?;
        Ok(strings)
    }

    /// `cells` empty cells.
    pub(super) fn of_empty_cells(cells: usize) -> Result<Self> {
        let mut strings = Self::with_room(cells)?;
        strings.add_string(&[])?;
        strings.keys.resize(cells, 0);
        Ok(strings)
    }

    /// Encodes cells, with equal ones stored once.
    #[cfg(test)]
    pub(crate) fn of_cells(cells: &[&[u8]]) -> Self {
        let mut strings = Self::with_room(cells.len()).unwrap();
        for cell in cells {
            let known = (0..strings.strings()).find(|number| strings.string(*number) == *cell);
            let number = match known {
                Some(number) => u32::try_from(number).unwrap(),
                None => strings.add_string(cell).unwrap(),
            };
            strings.add_cells(std::iter::once(number));
        }
        strings
    }

    /// The bytes of the strings, concatenated.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The start of each string, then the end of the last.
    pub fn offsets(&self) -> &[usize] {
        &self.ends
    }

    /// The index of each cell's string, always a valid one.
    pub fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// The number of strings.
    pub fn strings(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    /// The string with this index; empty if there is none.
    pub fn string(&self, number: usize) -> &[u8] {
        let bounds = self.ends.get(number).zip(self.ends.get(number + 1));
        bounds
            .and_then(|(start, end)| self.data.get(*start..*end))
            .unwrap_or_default()
    }

    /// The string of a cell; empty if there is no such cell.
    pub fn cell(&self, cell: usize) -> &[u8] {
        let key = self.keys.get(cell).map_or(usize::MAX - 1, |k| *k as usize);
        self.string(key)
    }

    /// The cells one after the other: their bytes, and the start of each.
    pub fn cells(&self) -> Result<(Vec<u8>, Vec<u64>)> {
        let lengths = self.keys.iter().map(|key| self.string(*key as usize).len());
        let bytes = lengths.fold(0_usize, usize::saturating_add);
        let (mut data, mut starts) = (Vec::new(), Vec::new());
        data.try_reserve_exact(bytes)
            .and_then(|()| starts.try_reserve_exact(self.keys.len().saturating_add(1)))
            .map_err(|e| refused(bytes, e))?;
        for key in &self.keys {
            starts.push(data.len() as u64);
            data.extend_from_slice(self.string(*key as usize));
        }
        Ok((data, starts))
    }

    /// Adds a string that cells may refer to, and returns its index.
    pub(super) fn add_string(&mut self, string: &[u8]) -> Result<u32> {
        let number = u32::try_from(self.strings())?;
        self.data.extend_from_slice(string);
        self.ends.push(self.data.len());
        Ok(number)
    }

    /// Adds `count` cells that hold one string.
    pub(super) fn add_run(&mut self, string: &[u8], count: usize) -> Result<()> {
        let number = self.add_string(string)?;
        self.keys
            .resize(self.keys.len().saturating_add(count), number);
        Ok(())
    }

    /// Adds cells by the indices of strings that were added before.
    pub(super) fn add_cells(&mut self, numbers: impl Iterator<Item = u32>) {
        self.keys.extend(numbers);
    }
}

fn refused(bytes: usize, error: TryReserveError) -> Error {
    Error::out_of_memory(format!("{bytes} bytes for strings of a tile were refused"))
        .with_source(error)
}

/// The number of cells and bytes in a chunk of strings, as claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StringChunkSize {
    pub(super) cells: usize,
    pub(super) bytes: usize,
}

impl StringChunkSize {
    /// The difference; `None` if `other` is larger.
    pub(super) fn less(self, other: Self) -> Option<Self> {
        Some(Self {
            cells: self.cells.checked_sub(other.cells)?,
            bytes: self.bytes.checked_sub(other.bytes)?,
        })
    }

    /// Fails unless nothing is left.
    pub(super) fn expect_none(self) -> Result<()> {
        if self.cells == 0 && self.bytes == 0 {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "{} cells and {} bytes of strings are missing",
            self.cells, self.bytes
        )))
    }
}

/// A stored width of integers: 1, 2, 4 or 8.
pub(super) fn integer_width(metadata: &mut Cursor<'_>, field: &'static str) -> Result<usize> {
    match metadata.u8(field)? {
        width @ (1 | 2 | 4 | 8) => Ok(usize::from(width)),
        other => Err(metadata.invalid(field, other, "1, 2, 4 or 8")),
    }
}

/// The smallest width of integers up to `largest`.
pub(super) fn width_of(largest: usize) -> WordWidth {
    match largest {
        0..=0xFF => WordWidth::One,
        0x100..=0xFFFF => WordWidth::Two,
        0x1_0000..=0xFFFF_FFFF => WordWidth::Four,
        _ => WordWidth::Eight,
    }
}

/// Appends a big-endian integer of a width that holds it.
pub(super) fn put_big_endian(value: usize, width: WordWidth, out: &mut Vec<u8>) {
    let bytes = (value as u64).to_be_bytes();
    out.extend_from_slice(bytes.get(8 - width.bytes()..).unwrap_or_default());
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
