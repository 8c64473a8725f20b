//! The cells of one field of one tile, as stored bytes: nothing is converted, so copies keep every bit.

use std::ops::Range;

use crate::arrow::{CellData, StoredCells, TileBuffer, UnfilteredCells};
use crate::error::{Error, Result};

/// Decoded cells; offsets are known to ascend and to lie inside the data.
#[derive(Debug)]
pub struct DecodedColumn {
    /// The number of cells.
    pub len: usize,
    cells: UnfilteredCells,
    /// Size of a cell; 0 if cells differ in size.
    size: usize,
    /// The first offset, which some old releases did not make 0.
    base: u64,
}

impl DecodedColumn {
    /// Checks offsets.
    pub fn new(cells: UnfilteredCells, size: Option<usize>) -> Result<Self> {
        let mut base = 0;
        if let CellData::Var { offsets, data } = &cells.data {
            base = check_offsets(offsets, cells.len, data.len())?;
        }
        Ok(Self {
            len: cells.len,
            cells,
            size: size.unwrap_or(0),
            base,
        })
    }

    /// The numbers of a system field.
    pub fn of_numbers(numbers: &[u64]) -> Result<Self> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let cells = UnfilteredCells {
            len: numbers.len(),
            data: CellData::Fixed(TileBuffer::copy_of(&bytes)?),
            nulls: None,
        };
        Self::new(cells, Some(size_of::<u64>()))
    }

    /// The bytes of a cell; empty beyond the last.
    pub fn cell(&self, index: usize) -> &[u8] {
        match &self.cells.data {
            CellData::Fixed(bytes) => {
                let start = index.saturating_mul(self.size);
                let cell = bytes.as_slice().get(start..start.saturating_add(self.size));
                cell.unwrap_or_default()
            }
            CellData::Var { offsets, data } => {
                let at = |index: usize| self.start(offsets, data, index);
                let range = at(index)..at(index.saturating_add(1));
                data.as_slice().get(range).unwrap_or_default()
            }
            CellData::Encoded(strings) => strings.cell(index),
        }
    }

    /// Whether a cell is NULL.
    pub fn is_null(&self, index: usize) -> bool {
        let nulls = self.cells.nulls.as_ref();
        nulls.is_some_and(|nulls| index < nulls.len() && nulls.is_null(index))
    }

    /// Whether any cell is NULL.
    pub fn has_nulls(&self) -> bool {
        self.cells
            .nulls
            .as_ref()
            .is_some_and(|n| n.null_count() > 0)
    }

    /// About how many bytes the cells take when each is stored by itself.
    pub fn bytes(&self) -> usize {
        let values = match &self.cells.data {
            CellData::Fixed(bytes) => bytes.len(),
            CellData::Var { data, .. } => data.len().saturating_add(self.len.saturating_mul(8)),
            CellData::Encoded(strings) => {
                let lengths = (0..self.len).map(|cell| strings.cell(cell).len().saturating_add(8));
                lengths.sum()
            }
        };
        values.saturating_add(self.len)
    }

    /// The cells as they were decoded.
    pub fn cells(&self) -> &UnfilteredCells {
        &self.cells
    }

    /// Appends a run of cells, which exist. Validity is only copied to a field that has some.
    pub fn append_to(&self, run: Range<usize>, to: &mut StoredCells) {
        to.len = to.len.saturating_add(run.len());
        if let Some(validity) = &mut to.validity {
            match &self.cells.nulls {
                None => validity.resize(validity.len().saturating_add(run.len()), 1),
                Some(_) => validity.extend(run.clone().map(|cell| u8::from(!self.is_null(cell)))),
            }
        }
        match &self.cells.data {
            CellData::Fixed(bytes) => {
                let range = run.start.saturating_mul(self.size)..run.end.saturating_mul(self.size);
                let bytes = bytes.as_slice().get(range).unwrap_or_default();
                to.values.extend_from_slice(bytes);
            }
            CellData::Var { offsets, data } => {
                let (first, end) = (
                    self.start(offsets, data, run.start),
                    self.start(offsets, data, run.end),
                );
                if let Some(starts) = &mut to.starts {
                    let base = to.values.len() as u64;
                    let of_run = offsets.typed_data::<u64>().get(run).unwrap_or_default();
                    let first = of_run.first().copied().unwrap_or(0);
                    starts.extend(of_run.iter().map(|start| base + (start - first)));
                }
                to.values
                    .extend_from_slice(data.as_slice().get(first..end).unwrap_or_default());
            }
            CellData::Encoded(strings) => {
                for cell in run {
                    if let Some(starts) = &mut to.starts {
                        starts.push(to.values.len() as u64);
                    }
                    to.values.extend_from_slice(strings.cell(cell));
                }
            }
        }
    }

    /// Where a variable-sized cell starts.
    fn start(&self, offsets: &TileBuffer, data: &TileBuffer, cell: usize) -> usize {
        if cell >= self.len {
            return data.len();
        }
        let start = offsets
            .typed_data::<u64>()
            .get(cell)
            .copied()
            .unwrap_or(u64::MAX);
        usize::try_from(start.saturating_sub(self.base)).unwrap_or(usize::MAX)
    }

    /// All bytes, of cells of one size.
    pub fn fixed(&self) -> Option<&[u8]> {
        match &self.cells.data {
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
