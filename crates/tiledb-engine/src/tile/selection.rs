//! A selection of the cells of a tile: those that become rows.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::compute::{FilterBuilder, FilterPredicate};

use crate::error::{Error, Result};

/// Copying a run costs about as much as testing this many cells.
const CELLS_PER_RUN: usize = 32;

/// A subset of the cells of a tile, in order.
#[derive(Debug, Clone)]
pub struct Selection {
    len: usize,
    selected: usize,
    /// The mask; `None` if all cells are selected.
    mask: Option<BooleanBuffer>,
}

impl Selection {
    /// Selects all of `len` cells.
    pub fn all(len: usize) -> Self {
        Self {
            len,
            selected: len,
            mask: None,
        }
    }

    /// Selects the cells whose bit is set.
    pub fn from_mask(mask: BooleanBuffer) -> Self {
        let (len, selected) = (mask.len(), mask.count_set_bits());
        let mask = (selected < len).then_some(mask);
        Self {
            len,
            selected,
            mask,
        }
    }

    /// Selects the cells whose value is `true`.
    pub fn from_bools(bools: &[bool]) -> Self {
        Self::from_mask(pack_mask(bools))
    }

    /// The mask, one value per cell; empty if all cells are selected.
    pub fn to_bools(&self) -> Vec<bool> {
        self.mask.as_ref().map(unpack_mask).unwrap_or_default()
    }

    /// The indices of the selected cells.
    pub fn indices(&self) -> Vec<u32> {
        match &self.mask {
            None => (0_u32..).take(self.len).collect(),
            Some(mask) => {
                let mut indices = Vec::with_capacity(self.selected);
                for (start, end) in mask.set_slices() {
                    indices.extend((start..end).filter_map(|cell| u32::try_from(cell).ok()));
                }
                indices
            }
        }
    }

    /// The number of selected cells.
    pub fn count(&self) -> usize {
        self.selected
    }

    /// Whether no cell is selected.
    pub fn is_empty(&self) -> bool {
        self.selected == 0
    }

    /// The cells that both select; `further` covers only the cells selected so far.
    pub fn and(&self, further: &Self) -> Result<Self> {
        match &further.mask {
            None => Ok(self.clone()),
            Some(mask) => self.and_then(&BooleanArray::new(mask.clone(), None)),
        }
    }

    /// Those of the selected cells for which `keep`, with one value for each of them, is true and not NULL.
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
        let mut bits = BooleanBufferBuilder::new(self.len);
        let mut taken = 0;
        for (start, end) in mask.set_slices() {
            bits.append_n(start - bits.len(), false);
            bits.append_buffer(&kept.slice(taken, end - start));
            taken += end - start;
        }
        bits.append_n(self.len - bits.len(), false);
        Ok(Self::from_mask(bits.finish()))
    }

    /// The runs of selected cells, if they are few enough to be copied one by one.
    pub fn few_runs(&self) -> Option<Vec<Range<usize>>> {
        let mask = self.mask.as_ref()?;
        let most = self.len / CELLS_PER_RUN;
        let runs = mask
            .set_slices()
            .take(most + 1)
            .map(|(start, end)| start..end)
            .collect::<Vec<_>>();
        (runs.len() <= most).then_some(runs)
    }

    /// The selected values of a column of the tile.
    pub fn apply(&self, column: &ArrayRef) -> Result<ArrayRef> {
        self.copier(1).copy(column)
    }

    /// Prepares to copy the selected values of this many columns of the tile.
    pub fn copier(&self, columns: usize) -> SelectionCopier {
        let copier = |mask: &BooleanBuffer| {
            let builder = FilterBuilder::new(&BooleanArray::new(mask.clone(), None));
            // For several columns, the indices are computed once.
            let builder = if columns > 1 {
                builder.optimize()
            } else {
                builder
            };
            builder.build()
        };
        SelectionCopier(self.mask.as_ref().map(copier))
    }
}

/// Copies the selected values of columns.
#[derive(Debug)]
pub struct SelectionCopier(Option<FilterPredicate>);

impl SelectionCopier {
    /// The selected values of a column of the tile.
    pub fn copy(&self, column: &ArrayRef) -> Result<ArrayRef> {
        let Some(filter) = &self.0 else {
            return Ok(ArrayRef::clone(column));
        };
        filter
            .filter(column)
            .map_err(|e| Error::internal("the selected cells cannot be copied").with_source(e))
    }
}

/// Cells that are tested before a search for a selected one can stop: enough for the widest registers.
pub const AT_ONCE: usize = 1024;
/// Moves bit 0 of byte `i` to bit `56 + i`.
const GATHER: u64 = 0x0102_0408_1020_4080;
/// Copies a byte into all eight.
const EVERY_BYTE: u64 = 0x0101_0101_0101_0101;
const BIT_I_OF_BYTE_I: u64 = 0x8040_2010_0804_0201;

/// Whether any cell is selected.
pub fn any_selected(mask: &[bool]) -> bool {
    let mut runs = mask.chunks(AT_ONCE);
    runs.any(|run| run.iter().fold(false, |any, bit| any | bit))
}

/// Packs a mask into bits.
fn pack_mask(mask: &[bool]) -> BooleanBuffer {
    let (eights, rest) = mask.as_chunks::<8>();
    let mut bits = Vec::with_capacity(eights.len() + 1);
    bits.extend(eights.iter().map(pack_eight));
    let mut last = [false; 8];
    last.iter_mut().zip(rest).for_each(|(to, bit)| *to = *bit);
    bits.push(pack_eight(&last));
    BooleanBuffer::new(Buffer::from_vec(bits), 0, mask.len())
}

fn pack_eight(mask: &[bool; 8]) -> u8 {
    let word = u64::from_le_bytes(mask.map(u8::from));
    let [.., packed] = word.wrapping_mul(GATHER).to_le_bytes();
    packed
}

/// Unpacks bits into a mask.
fn unpack_mask(bits: &BooleanBuffer) -> Vec<bool> {
    let mut mask = Vec::with_capacity(bits.len().next_multiple_of(8));
    let chunks = bits.bit_chunks();
    let words = chunks
        .iter()
        .chain(std::iter::once(chunks.remainder_bits()));
    for byte in words.flat_map(u64::to_le_bytes) {
        mask.extend_from_slice(&unpack_eight(byte));
    }
    mask.truncate(bits.len());
    mask
}

/// Unpacks bit `i` into byte `i`.
fn unpack_eight(bits: u8) -> [bool; 8] {
    let each_its_own = u64::from(bits).wrapping_mul(EVERY_BYTE) & BIT_I_OF_BYTE_I;
    each_its_own.to_le_bytes().map(|bit| bit != 0)
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

    #[test]
    fn narrowing_twice_is_narrowing_by_both() {
        for seed in 0..50_usize {
            let first: Vec<bool> = (0..200).map(|i| (i * 7 + seed) % 11 < 6).collect();
            let selection = Selection::from_bools(&first);
            let second: Vec<bool> = (0..selection.count())
                .map(|i| (i + seed) % (seed % 7 + 1) == 0)
                .collect();
            let narrowed = selection.and(&Selection::from_bools(&second)).unwrap();
            let mut answers = second.iter();
            let expected: Vec<bool> = first
                .iter()
                .map(|first| *first && *answers.next().unwrap())
                .collect();
            assert_eq!(narrowed.count(), expected.iter().filter(|e| **e).count());
            let cells: ArrayRef = std::sync::Arc::new(arrow::array::UInt32Array::from_iter(0..200));
            let kept = narrowed.apply(&cells).unwrap();
            let expected_values = (0_u32..200).zip(&expected).filter(|(_, e)| **e);
            let expected_values: ArrayRef = std::sync::Arc::new(
                expected_values
                    .map(|(i, _)| Some(i))
                    .collect::<arrow::array::UInt32Array>(),
            );
            assert_eq!(&kept, &expected_values);
        }
        let wrong = Selection::all(3).and(&Selection::from_bools(&[true, false]));
        assert!(wrong.is_err());
    }

    #[test]
    fn runs_are_listed_if_they_are_few() {
        let mut bools = vec![false; 96];
        bools[3..7].fill(true);
        bools[95] = true;
        let selection = Selection::from_bools(&bools);
        assert_eq!(selection.few_runs(), Some(vec![3..7, 95..96]));
        for cell in (10..90).step_by(2) {
            bools[cell] = true;
        }
        assert_eq!(Selection::from_bools(&bools).few_runs(), None);
        assert_eq!(Selection::all(5).few_runs(), None);
    }

    #[test]
    fn bits_and_any_say_what_masks_say() {
        for len in (0..40).chain([1023, 1024, 1025, 3000]) {
            let none = vec![false; len];
            assert!(!any_selected(&none));
            assert_eq!(pack_mask(&none).count_set_bits(), 0);
            for step in [1, 3, 7, 2000] {
                let mask: Vec<bool> = (0..len).map(|i| (i + 1) % step == 0).collect();
                assert_eq!(any_selected(&mask), mask.contains(&true), "{len} by {step}");
                let bits = pack_mask(&mask);
                assert_eq!(bits.iter().collect::<Vec<_>>(), mask);
                assert_eq!(unpack_mask(&bits), mask);
                let from = len / 3;
                assert_eq!(unpack_mask(&bits.slice(from, len - from)), mask[from..]);
            }
        }
    }
}
