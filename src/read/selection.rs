//! Which cells of a tile become rows.

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;

use crate::error::{Error, Result};

/// A subset of the cells of a tile, in order.
#[derive(Debug, Clone)]
pub struct Selection {
    len: usize,
    selected: usize,
    /// `None`: all of them.
    mask: Option<BooleanBuffer>,
}

impl Selection {
    /// All of `len` cells.
    pub fn all(len: usize) -> Self {
        Self {
            len,
            selected: len,
            mask: None,
        }
    }

    /// The cells whose bit is set.
    pub fn from_mask(mask: BooleanBuffer) -> Self {
        let (len, selected) = (mask.len(), mask.count_set_bits());
        let mask = (selected < len).then_some(mask);
        Self {
            len,
            selected,
            mask,
        }
    }

    /// The cells marked `true`.
    pub fn from_bools(bools: &[bool]) -> Self {
        Self::from_mask(BooleanBuffer::from(bools))
    }

    /// Cells selected.
    pub fn count(&self) -> usize {
        self.selected
    }

    /// Whether no cell is selected.
    pub fn is_empty(&self) -> bool {
        self.selected == 0
    }

    /// Of the cells selected so far, those for which `keep` (one value each) is true and not NULL.
    pub fn and_then(&self, keep: &BooleanArray) -> Result<Self> {
        if keep.len() != self.selected {
            return Err(Error::internal(format!(
                "a predicate gave {} values for {} rows",
                keep.len(),
                self.selected
            )));
        }
        let kept = match keep.nulls() {
            Some(nulls) => keep.values() & nulls.inner(),
            None => keep.values().clone(),
        };
        let Some(mask) = &self.mask else {
            return Ok(Self::from_mask(kept));
        };
        let mut bits = vec![false; self.len];
        for (cell, keep) in mask.set_indices().zip(kept.iter()) {
            if let Some(bit) = bits.get_mut(cell) {
                *bit = keep;
            }
        }
        Ok(Self::from_bools(&bits))
    }

    /// The selected values of a column of the tile.
    pub fn apply(&self, column: &ArrayRef) -> Result<ArrayRef> {
        let Some(mask) = &self.mask else {
            return Ok(ArrayRef::clone(column));
        };
        filter(column, &BooleanArray::new(mask.clone(), None))
            .map_err(|e| Error::internal("the selected cells cannot be copied").with_source(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_predicate_narrows_what_is_selected() {
        let selection = Selection::from_bools(&[true, false, true, true]);
        let keep = BooleanArray::from(vec![Some(false), Some(true), None]);
        let narrowed = selection.and_then(&keep).unwrap();
        assert_eq!(narrowed.count(), 1);
        let column: ArrayRef =
            std::sync::Arc::new(arrow::array::Int32Array::from(vec![1, 2, 3, 4]));
        let values = narrowed.apply(&column).unwrap();
        assert_eq!(
            values.as_ref(),
            &arrow::array::Int32Array::from(vec![3]) as &dyn Array
        );
    }
}
