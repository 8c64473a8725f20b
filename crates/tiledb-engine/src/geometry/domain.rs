//! Boxes: the domain, the current domain, non-empty domains and MBRs as keys (specification: "Domain", "MBRs").
//!
//! A [`KeyBox`] covers only fixed-size dimensions and has the arithmetic of dense arrays; [`DimensionExtent`] is the range of
//! one dimension of any kind, as sparse MBRs need. Both ends are inclusive everywhere. The subtle thing: a box over the
//! full range of `u64` has one more cell than a `u64` can count, so counts are checked.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::domain_range::DomainRange;

use crate::geometry::key;

/// An inclusive box of keys. `lo <= hi` holds in every dimension.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(Vec<u64>, Vec<u64>)", into = "(Vec<u64>, Vec<u64>)")]
pub struct KeyBox {
    lo: Vec<u64>,
    hi: Vec<u64>,
}

impl TryFrom<(Vec<u64>, Vec<u64>)> for KeyBox {
    type Error = Error;

    fn try_from((lo, hi): (Vec<u64>, Vec<u64>)) -> Result<Self> {
        Self::new(lo, hi).ok_or_else(|| Error::corrupt("the corners are not those of a box"))
    }
}

impl From<KeyBox> for (Vec<u64>, Vec<u64>) {
    fn from(cells: KeyBox) -> Self {
        (cells.lo, cells.hi)
    }
}

impl KeyBox {
    /// A box, unless it is empty or its corners differ in dimensions.
    pub fn new(lo: Vec<u64>, hi: Vec<u64>) -> Option<Self> {
        let valid = lo.len() == hi.len() && lo.iter().zip(&hi).all(|(lo, hi)| lo <= hi);
        valid.then_some(Self { lo, hi })
    }

    /// The box of stored ranges, one per dimension of `datatypes`; all must have keys.
    pub fn from_ranges(datatypes: &[Datatype], ranges: &[DomainRange]) -> Result<Self> {
        if datatypes.len() != ranges.len() {
            return Err(Error::corrupt(format!(
                "a box has {} ranges, expected one for each of {} dimensions",
                ranges.len(),
                datatypes.len()
            )));
        }
        let mut lo = Vec::with_capacity(ranges.len());
        let mut hi = Vec::with_capacity(ranges.len());
        for (&datatype, range) in datatypes.iter().zip(ranges) {
            let (low, high) = key_range(datatype, range)?;
            lo.push(low);
            hi.push(high);
        }
        Ok(Self { lo, hi })
    }

    /// Number of dimensions.
    pub fn ndim(&self) -> usize {
        self.lo.len()
    }

    /// The smallest key of every dimension.
    pub fn lo(&self) -> &[u64] {
        &self.lo
    }

    /// The largest key of every dimension.
    pub fn hi(&self) -> &[u64] {
        &self.hi
    }

    /// The inclusive range of each dimension.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator {
        self.lo.iter().copied().zip(self.hi.iter().copied())
    }

    /// The inclusive range of one dimension.
    pub fn range(&self, dim: usize) -> Option<(u64, u64)> {
        Some((*self.lo.get(dim)?, *self.hi.get(dim)?))
    }

    /// The intersection of both boxes.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let max = |(a, b): (&u64, &u64)| *a.max(b);
        let min = |(a, b): (&u64, &u64)| *a.min(b);
        if self.ndim() != other.ndim() {
            return None;
        }
        Self::new(
            self.lo.iter().zip(&other.lo).map(max).collect(),
            self.hi.iter().zip(&other.hi).map(min).collect(),
        )
    }

    /// Whether the boxes have a cell in common.
    pub fn intersects(&self, other: &Self) -> bool {
        self.ndim() == other.ndim()
            && self
                .ranges()
                .zip(other.ranges())
                .all(|((a, b), (c, d))| a <= d && c <= b)
    }

    /// Whether every cell of `other` is in this box.
    pub fn contains(&self, other: &Self) -> bool {
        self.ndim() == other.ndim()
            && self
                .ranges()
                .zip(other.ranges())
                .all(|((a, b), (c, d))| a <= c && d <= b)
    }

    /// Whether the cell is in this box.
    pub fn contains_cell(&self, cell: &[u64]) -> bool {
        self.ndim() == cell.len()
            && self
                .ranges()
                .zip(cell)
                .all(|((lo, hi), k)| (lo..=hi).contains(k))
    }

    /// The smallest box around both. Boxes of different dimensions give `None`.
    pub fn union(&self, other: &Self) -> Option<Self> {
        if self.ndim() != other.ndim() {
            return None;
        }
        Some(Self {
            lo: self
                .lo
                .iter()
                .zip(&other.lo)
                .map(|(a, b)| *a.min(b))
                .collect(),
            hi: self
                .hi
                .iter()
                .zip(&other.hi)
                .map(|(a, b)| *a.max(b))
                .collect(),
        })
    }

    /// Number of cells (integer dimensions), if it fits in a `u64`.
    pub fn cells(&self) -> Option<u64> {
        self.ranges().try_fold(1u64, |cells, (lo, hi)| {
            cells.checked_mul((hi - lo).checked_add(1)?)
        })
    }

    /// Number of cells, capped at the largest `u128`; for estimates.
    pub fn volume(&self) -> u128 {
        self.ranges().fold(1, |cells: u128, (lo, hi)| {
            cells.saturating_mul(u128::from(hi - lo) + 1)
        })
    }
}

/// The inclusive range of one dimension, as in an MBR, a non-empty domain or a current domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DimensionExtent {
    /// A fixed-size dimension.
    Keys {
        /// The smallest key.
        lo: u64,
        /// The largest key.
        hi: u64,
    },
    /// A string dimension, in the order of unsigned bytes.
    Bytes {
        /// The smallest string.
        lo: Vec<u8>,
        /// The largest string.
        hi: Vec<u8>,
    },
}

impl DimensionExtent {
    /// The bounds of a stored range; a range whose low end is above its high end is corrupt.
    pub fn from_range(datatype: Datatype, range: &DomainRange) -> Result<Self> {
        if key::has_key(datatype) {
            let (lo, hi) = key_range(datatype, range)?;
            return Ok(Self::Keys { lo, hi });
        }
        range.check_order(datatype, "a range")?;
        Ok(Self::Bytes {
            lo: range.lo.clone(),
            hi: range.hi.clone(),
        })
    }

    /// Whether the ranges have a value in common; true for ranges of different kinds.
    pub fn intersects(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Keys { lo: a, hi: b }, Self::Keys { lo: c, hi: d }) => a <= d && c <= b,
            (Self::Bytes { lo: a, hi: b }, Self::Bytes { lo: c, hi: d }) => a <= d && c <= b,
            _ => true,
        }
    }

    /// Whether every value of `other` is in this range.
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Keys { lo: a, hi: b }, Self::Keys { lo: c, hi: d }) => a <= c && d <= b,
            (Self::Bytes { lo: a, hi: b }, Self::Bytes { lo: c, hi: d }) => a <= c && d <= b,
            _ => false,
        }
    }

    /// Grows this range to hold `other`.
    pub fn extend(&mut self, other: &Self) {
        match (self, other) {
            (Self::Keys { lo: a, hi: b }, Self::Keys { lo: c, hi: d }) => {
                *a = (*a).min(*c);
                *b = (*b).max(*d);
            }
            (Self::Bytes { lo: a, hi: b }, Self::Bytes { lo: c, hi: d }) => {
                if c < a {
                    a.clone_from(c);
                }
                if d > b {
                    b.clone_from(d);
                }
            }
            _ => debug_assert!(false, "bounds of two kinds for one dimension"),
        }
    }
}

fn key_range(datatype: Datatype, range: &DomainRange) -> Result<(u64, u64)> {
    let (lo, hi) = (
        key::key(datatype, &range.lo)?,
        key::key(datatype, &range.hi)?,
    );
    if lo > hi {
        return Err(Error::corrupt(format!(
            "a range is [{}, {}], expected a low end that is not above the high end",
            key::show(datatype, lo),
            key::show(datatype, hi)
        )));
    }
    Ok((lo, hi))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn boxes() -> impl Strategy<Value = KeyBox> {
        prop::collection::vec((0u64..8, 0u64..8), 2).prop_map(|sides| {
            let lo = sides.iter().map(|(a, b)| *a.min(b)).collect();
            let hi = sides.iter().map(|(a, b)| *a.max(b)).collect();
            KeyBox::new(lo, hi).unwrap()
        })
    }

    fn cells() -> impl Iterator<Item = [u64; 2]> {
        (0..8).flat_map(|a| (0..8).map(move |b| [a, b]))
    }

    proptest! {
        #[test]
        fn boxes_are_sets_of_cells(a in boxes(), b in boxes()) {
            let both = a.intersect(&b);
            let around = a.union(&b).unwrap();
            prop_assert_eq!(both.is_some(), a.intersects(&b));
            for cell in cells() {
                let (in_a, in_b) = (a.contains_cell(&cell), b.contains_cell(&cell));
                prop_assert_eq!(both.as_ref().is_some_and(|x| x.contains_cell(&cell)), in_a && in_b);
                prop_assert!(!(in_a || in_b) || around.contains_cell(&cell));
            }
            let all = cells().filter(|c| b.contains_cell(c)).all(|c| a.contains_cell(&c));
            prop_assert_eq!(a.contains(&b), all);
            let count = cells().filter(|c| a.contains_cell(c)).count() as u64;
            prop_assert_eq!(a.cells(), Some(count));
            prop_assert_eq!(a.volume(), u128::from(count));
        }
    }

    #[test]
    fn the_largest_box_has_more_cells_than_a_u64_counts() {
        let all = KeyBox::new(vec![0], vec![u64::MAX]).unwrap();
        assert_eq!((all.cells(), all.volume()), (None, 1 << 64));
        let square = KeyBox::new(vec![0; 3], vec![u64::MAX; 3]).unwrap();
        assert_eq!((square.cells(), square.volume()), (None, u128::MAX));
        assert_eq!(KeyBox::new(vec![1], vec![0]), None);
    }

    #[test]
    fn stored_ranges_become_boxes() {
        let range = |lo: i8, hi: i8| DomainRange {
            lo: vec![lo.cast_unsigned()],
            hi: vec![hi.cast_unsigned()],
        };
        let found = KeyBox::from_ranges(&[Datatype::Int8], &[range(-2, 3)]).unwrap();
        assert_eq!(found.cells(), Some(6));
        assert!(KeyBox::from_ranges(&[Datatype::Int8], &[range(3, -2)]).is_err());
        assert!(KeyBox::from_ranges(&[Datatype::Int8; 2], &[range(0, 1)]).is_err());
        assert!(KeyBox::from_ranges(&[Datatype::Int16], &[range(0, 1)]).is_err());
    }
}
