//! The cells of one field of one tile, as stored bytes.

use arrow::buffer::NullBuffer;

use crate::arrow::{CellData, Cells, TileBuffer};
use crate::error::{Error, Result};

/// Decoded cells; offsets are known to ascend and to lie inside the data.
#[derive(Debug)]
pub struct Column {
    pub len: usize,
    data: CellData,
    nulls: Option<NullBuffer>,
    /// Size of a cell; 0 if cells differ in size.
    size: usize,
    /// The first offset, which some old releases did not make 0.
    base: u64,
}

impl Column {
    /// Checks offsets.
    pub fn new(cells: Cells, size: Option<usize>) -> Result<Self> {
        let mut base = 0;
        if let CellData::Var { offsets, data } = &cells.data {
            base = check_offsets(offsets, cells.len, data.len())?;
        }
        Ok(Self {
            len: cells.len,
            data: cells.data,
            nulls: cells.nulls,
            size: size.unwrap_or(0),
            base,
        })
    }

    /// The bytes of a cell; empty beyond the last.
    pub fn cell(&self, index: usize) -> &[u8] {
        match &self.data {
            CellData::Fixed(bytes) => {
                let start = index.saturating_mul(self.size);
                let cell = bytes.as_slice().get(start..start.saturating_add(self.size));
                cell.unwrap_or_default()
            }
            CellData::Var { offsets, data } => {
                let starts = offsets.typed_data::<u64>();
                let at = |index: usize| -> usize {
                    if index >= self.len {
                        return data.len();
                    }
                    let start = starts.get(index).copied().unwrap_or(u64::MAX);
                    usize::try_from(start.saturating_sub(self.base)).unwrap_or(usize::MAX)
                };
                let range = at(index)..at(index.saturating_add(1));
                data.as_slice().get(range).unwrap_or_default()
            }
            CellData::Encoded(strings) => strings.cell(index),
        }
    }

    /// Whether a cell is NULL.
    pub fn is_null(&self, index: usize) -> bool {
        let nulls = self.nulls.as_ref();
        nulls.is_some_and(|nulls| index < nulls.len() && nulls.is_null(index))
    }

    /// All bytes, of cells of one size.
    pub fn fixed(&self) -> Option<&[u8]> {
        match &self.data {
            CellData::Fixed(bytes) => Some(bytes.as_slice()),
            _ => None,
        }
    }
}

/// Offsets ascend from the first, which is returned, and end inside the data.
fn check_offsets(offsets: &TileBuffer, len: usize, data_bytes: usize) -> Result<u64> {
    let starts = offsets.typed_data::<u64>();
    let base = starts.first().copied().filter(|_| len > 0).unwrap_or(0);
    let mut previous = base;
    let end = base.saturating_add(data_bytes as u64);
    for (cell, start) in starts.iter().take(len).enumerate() {
        if *start < previous || *start > end {
            return Err(Error::corrupt(format!(
                "the offset of cell {cell} is {start}, expected {previous} to {end}"
            )));
        }
        previous = *start;
    }
    Ok(base)
}
