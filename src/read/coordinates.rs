//! The coordinates of a tile's cells while they are tested and compared: keys of numbers, or bytes of strings.

use std::sync::Arc;

use crate::array::key;
use crate::array::subarray::DimRanges;
use crate::array::types::{CellData, Cells, TileBuffer};
use crate::error::{Error, Result};
use crate::filter::EncodedStrings;
use crate::format::datatype::Datatype;

/// One dimension of the cells of a tile.
#[derive(Debug)]
pub enum DimCells {
    /// Order-preserving keys, one a cell.
    Keys {
        /// The keys; that of -0.0 is that of 0.0.
        keys: Vec<u64>,
        /// Which cells are -0.0, if any is.
        negative_zeros: Option<Vec<bool>>,
    },
    /// Strings: as many starts as cells, then the end, all checked.
    Bytes {
        /// Where each starts; one more closes the last.
        offsets: Vec<usize>,
        /// The bytes.
        data: Vec<u8>,
    },
    /// Strings, equal ones stored once.
    Encoded(Arc<EncodedStrings>),
}

impl DimCells {
    /// Takes the coordinates out of unfiltered cells.
    pub fn new(datatype: Datatype, cells: &Cells) -> Result<Self> {
        match &cells.data {
            CellData::Fixed(values) => {
                let mut keys = Vec::with_capacity(cells.len);
                key::keys(datatype, values.as_slice(), &mut keys)?;
                let negative_zeros = negative_zeros(datatype, values.as_slice());
                Ok(Self::Keys {
                    keys,
                    negative_zeros,
                })
            }
            CellData::Var { offsets, data } => Ok(Self::Bytes {
                offsets: starts(offsets, cells.len, data.len())?,
                data: data.as_slice().to_vec(),
            }),
            CellData::Encoded(strings) => Ok(Self::Encoded(Arc::clone(strings))),
        }
    }

    /// The string of a cell; empty for a dimension of numbers.
    pub fn bytes(&self, cell: usize) -> &[u8] {
        match self {
            Self::Keys { .. } => &[],
            Self::Bytes { offsets, data } => offsets
                .get(cell)
                .zip(offsets.get(cell + 1))
                .and_then(|(start, end)| data.get(*start..*end))
                .unwrap_or_default(),
            Self::Encoded(strings) => strings.cell(cell),
        }
    }

    /// The key of a cell; 0 for a dimension of strings.
    pub fn key(&self, cell: usize) -> u64 {
        match self {
            Self::Keys { keys, .. } => keys.get(cell).copied().unwrap_or(0),
            Self::Bytes { .. } | Self::Encoded(_) => 0,
        }
    }

    /// Whether two cells have the same coordinate. As in libtiledb, -0.0 and 0.0 are two places, although no range
    /// tells them apart.
    pub fn same(&self, cell: usize, other: &Self, other_cell: usize) -> bool {
        match self {
            Self::Keys { .. } => {
                self.key(cell) == other.key(other_cell)
                    && self.is_negative_zero(cell) == other.is_negative_zero(other_cell)
            }
            Self::Bytes { .. } | Self::Encoded(_) => self.bytes(cell) == other.bytes(other_cell),
        }
    }

    fn is_negative_zero(&self, cell: usize) -> bool {
        match self {
            Self::Keys {
                negative_zeros: Some(zeros),
                ..
            } => zeros.get(cell).copied().unwrap_or(false),
            _ => false,
        }
    }

    /// Clears the mark of every cell outside `ranges`.
    pub fn mark_inside(&self, ranges: &DimRanges, mask: &mut [bool]) {
        if ranges.is_all() {
            return;
        }
        match (self, ranges) {
            (Self::Keys { keys, .. }, DimRanges::Keys(list)) => match list.as_slice() {
                [one] => {
                    for (mark, key) in mask.iter_mut().zip(keys) {
                        *mark &= (one.lo <= *key) & (*key <= one.hi);
                    }
                }
                _ => {
                    for (mark, key) in mask.iter_mut().zip(keys) {
                        *mark = *mark && ranges.contains_key(*key);
                    }
                }
            },
            (Self::Bytes { .. }, DimRanges::Bytes(_)) => {
                for (cell, mark) in mask.iter_mut().enumerate() {
                    *mark = *mark && ranges.contains_bytes(self.bytes(cell));
                }
            }
            (Self::Encoded(strings), DimRanges::Bytes(_)) => {
                let inside = (0..strings.strings())
                    .map(|number| ranges.contains_bytes(strings.string(number)))
                    .collect::<Vec<_>>();
                for (mark, key) in mask.iter_mut().zip(strings.keys()) {
                    *mark &= inside.get(*key as usize).copied().unwrap_or(false);
                }
            }
            // Ranges of the other kind can hold no cell of this dimension.
            _ => mask.fill(false),
        }
    }
}

/// Where each of `cells` cells starts, then the end of the last, all checked.
pub(super) fn starts(offsets: &TileBuffer, cells: usize, data: usize) -> Result<Vec<usize>> {
    let stored = offsets.typed_data::<u64>().iter().take(cells);
    let mut checked = Vec::with_capacity(cells.saturating_add(1));
    for start in stored {
        checked.push(usize::try_from(*start)?);
    }
    // Tiles of old writers may count from the start of the file.
    let first = checked.first().copied().unwrap_or(0);
    checked
        .iter_mut()
        .for_each(|offset| *offset = offset.wrapping_sub(first));
    checked.push(data);
    if !checked.is_sorted() {
        return Err(Error::corrupt(format!(
            "the offsets of strings decrease or pass the tile's {data} bytes"
        )));
    }
    Ok(checked)
}

/// Which of the stored floats are -0.0; `None` if none is.
fn negative_zeros(datatype: Datatype, values: &[u8]) -> Option<Vec<bool>> {
    let zeros: Vec<bool> = match datatype {
        Datatype::Float32 => values
            .as_chunks::<4>()
            .0
            .iter()
            .map(|v| f32::from_le_bytes(*v).to_bits() == (-0.0_f32).to_bits())
            .collect(),
        Datatype::Float64 => values
            .as_chunks::<8>()
            .0
            .iter()
            .map(|v| f64::from_le_bytes(*v).to_bits() == (-0.0_f64).to_bits())
            .collect(),
        _ => return None,
    };
    zeros.contains(&true).then_some(zeros)
}
