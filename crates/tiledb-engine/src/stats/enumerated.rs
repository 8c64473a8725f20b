//! The smallest and the largest value among a range of codes of an enumeration.
//!
//! Statistics are over codes, conditions over values, and the two have different orders. The smallest value of a range
//! of codes is found in tables of ranges whose lengths are powers of two, built once per enumeration.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::sort_to_indices;

use crate::error::{Error, Result};

/// For larger enumerations, only codes are compared.
const LARGEST: usize = 1 << 17;

/// The order of an enumeration's values: which code of a range has the smallest value, and which the largest.
#[derive(Debug)]
pub(super) struct ValueOrder {
    values: usize,
    /// The rank of each code's value; then, by level, the smallest rank of two, four, … consecutive codes.
    smallest: Vec<Vec<u32>>,
    largest: Vec<Vec<u32>>,
    /// The code of each rank.
    codes: UInt32Array,
}

impl ValueOrder {
    /// Sorts the values of an enumeration.
    pub(super) fn new(values: &ArrayRef) -> Result<Self> {
        let len = values.len();
        let (mut codes, mut ranks) = (UInt32Array::from(Vec::<u32>::new()), Vec::new());
        if len <= LARGEST {
            codes = sort_to_indices(values, None, None).map_err(|e| {
                Error::internal("the values of an enumeration have no order").with_source(e)
            })?;
            ranks = vec![0_u32; len];
            for (rank, code) in (0_u32..).zip(codes.values()) {
                if let Some(slot) = ranks.get_mut(*code as usize) {
                    *slot = rank;
                }
            }
        }
        Ok(Self {
            values: len,
            smallest: levels(ranks.clone(), u32::min),
            largest: levels(ranks, u32::max),
            codes,
        })
    }

    /// The number of values.
    pub(super) fn len(&self) -> u64 {
        self.values as u64
    }

    /// The codes of the smallest and of the largest value of the codes `lo..=hi`.
    pub(super) fn ends(&self, lo: u64, hi: u64) -> Option<(u64, u64)> {
        let (lo, hi) = (usize::try_from(lo).ok()?, usize::try_from(hi).ok()?);
        let smallest = of_range(&self.smallest, lo, hi, u32::min)?;
        let largest = of_range(&self.largest, lo, hi, u32::max)?;
        let code = |rank: u32| self.codes.values().get(rank as usize).copied();
        Some((code(smallest)?.into(), code(largest)?.into()))
    }
}

/// Applies `pick` to each range of 1, 2, 4, … consecutive codes.
fn levels(ranks: Vec<u32>, pick: fn(u32, u32) -> u32) -> Vec<Vec<u32>> {
    let mut width = 1_usize;
    let mut levels = vec![ranks];
    while let Some(last) = levels.last() {
        let next = last
            .iter()
            .zip(last.iter().skip(width))
            .map(|(a, b)| pick(*a, *b))
            .collect::<Vec<_>>();
        if next.is_empty() {
            break;
        }
        levels.push(next);
        width *= 2;
    }
    levels
}

fn of_range(levels: &[Vec<u32>], lo: usize, hi: usize, pick: fn(u32, u32) -> u32) -> Option<u32> {
    let level = (hi.checked_sub(lo)? + 1).ilog2();
    let ranges = levels.get(level as usize)?;
    let left = *ranges.get(lo)?;
    let right = *ranges.get((hi + 1).checked_sub(1 << level)?)?;
    Some(pick(left, right))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn the_ends_of_every_range_are_those_of_its_values() {
        let names = ["moored", "anchored", "under way", "fishing", "aground"];
        let values: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
        let order = ValueOrder::new(&values).unwrap();
        for lo in 0..names.len() {
            for hi in lo..names.len() {
                let codes = lo..=hi;
                let smallest = codes.clone().min_by_key(|c| names[*c]).unwrap();
                let largest = codes.max_by_key(|c| names[*c]).unwrap();
                let ends = order.ends(lo as u64, hi as u64);
                assert_eq!(ends, Some((smallest as u64, largest as u64)), "{lo}..={hi}");
            }
        }
        assert_eq!(order.ends(0, 5), None);
        assert_eq!(order.ends(3, 2), None);
    }
}
