//! [`DimRanges`] are the selected values of one dimension: a list of ranges, or all values.

use serde::{Deserialize, Serialize};

use super::lists::DisjointSpans;
use super::{BytesRange, KeyRange};
use crate::geometry::domain::DimensionExtent;

/// The selected values of one dimension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "DimRangesAsLists", into = "DimRangesAsLists")]
pub enum DimRanges {
    /// Every value.
    All,
    /// The keys of these ranges, of a fixed-size dimension.
    Keys(DisjointSpans<KeyRange>),
    /// The strings of these ranges.
    Bytes(DisjointSpans<BytesRange>),
}

/// [`DimRanges`] as they are written: reading them restores the canonical form, whatever was written.
#[derive(Debug, Serialize, Deserialize)]
enum DimRangesAsLists {
    All,
    Keys(Vec<KeyRange>),
    Bytes(Vec<BytesRange>),
}

impl From<DimRangesAsLists> for DimRanges {
    fn from(lists: DimRangesAsLists) -> Self {
        match lists {
            DimRangesAsLists::All => Self::All,
            DimRangesAsLists::Keys(ranges) => Self::from_keys(ranges),
            DimRangesAsLists::Bytes(ranges) => Self::from_bytes(ranges),
        }
    }
}

impl From<DimRanges> for DimRangesAsLists {
    fn from(ranges: DimRanges) -> Self {
        match ranges {
            DimRanges::All => Self::All,
            DimRanges::Keys(ranges) => Self::Keys(ranges.as_slice().to_vec()),
            DimRanges::Bytes(ranges) => Self::Bytes(ranges.as_slice().to_vec()),
        }
    }
}

impl DimRanges {
    /// Every value.
    pub const fn all() -> Self {
        Self::All
    }

    /// No value, of a dimension of either kind.
    pub const fn none() -> Self {
        Self::Keys(DisjointSpans::none())
    }

    /// The union of ranges of keys, in any order; those with `lo > hi` are empty.
    pub fn from_keys(ranges: Vec<KeyRange>) -> Self {
        Self::keys(DisjointSpans::from_ranges(ranges))
    }

    /// The keys `lo..=hi`.
    pub fn key_range(lo: u64, hi: u64) -> Self {
        Self::from_keys(vec![KeyRange { lo, hi }])
    }

    /// A set of keys, in any order.
    pub fn from_points(points: impl IntoIterator<Item = u64>) -> Self {
        Self::from_keys(points.into_iter().map(KeyRange::point).collect())
    }

    /// The union of ranges of strings, in any order.
    pub fn from_bytes(ranges: Vec<BytesRange>) -> Self {
        Self::bytes(DisjointSpans::from_ranges(ranges))
    }

    fn keys(spans: DisjointSpans<KeyRange>) -> Self {
        if spans.is_everything() {
            Self::All
        } else {
            Self::Keys(spans)
        }
    }

    fn bytes(spans: DisjointSpans<BytesRange>) -> Self {
        if spans.is_everything() {
            Self::All
        } else if spans.is_empty() {
            Self::none()
        } else {
            Self::Bytes(spans)
        }
    }

    /// The values in both.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, x) | (x, Self::All) => x.clone(),
            (Self::Keys(a), Self::Keys(b)) => Self::keys(a.intersect(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Self::bytes(a.intersect(b)),
            // Only an empty list has no kind.
            _ => Self::none(),
        }
    }

    /// The values in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Keys(a), Self::Keys(b)) => Self::keys(a.union(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Self::bytes(a.union(b)),
            (Self::Keys(none), x) | (x, Self::Keys(none)) if none.is_empty() => x.clone(),
            _ => Self::All,
        }
    }

    /// The union of many: one sort, however many there are.
    pub fn union_all<'a>(many: impl IntoIterator<Item = &'a Self>) -> Self {
        let (mut keys, mut bytes) = (Vec::new(), Vec::new());
        for ranges in many {
            match ranges {
                Self::All => return Self::All,
                Self::Keys(ranges) => keys.extend_from_slice(ranges.as_slice()),
                Self::Bytes(ranges) => bytes.extend_from_slice(ranges.as_slice()),
            }
        }
        Self::from_keys(keys).union(&Self::from_bytes(bytes))
    }

    /// The intersection of many, at the same cost.
    pub fn intersect_all<'a>(many: impl IntoIterator<Item = &'a Self>) -> Self {
        let others: Vec<Self> = many.into_iter().map(Self::complement).collect();
        Self::union_all(&others).complement()
    }

    /// All other values.
    #[must_use]
    pub fn complement(&self) -> Self {
        match self {
            Self::All => Self::none(),
            Self::Keys(ranges) => Self::keys(ranges.complement()),
            Self::Bytes(ranges) => Self::bytes(ranges.complement()),
        }
    }

    /// Whether no value matches.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::All => false,
            Self::Keys(ranges) => ranges.is_empty(),
            Self::Bytes(ranges) => ranges.is_empty(),
        }
    }

    /// Whether every value matches.
    pub fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Number of ranges; 1 for all values.
    pub fn len(&self) -> usize {
        match self {
            Self::All => 1,
            Self::Keys(ranges) => ranges.as_slice().len(),
            Self::Bytes(ranges) => ranges.as_slice().len(),
        }
    }

    /// An upper bound of the number of different values that match.
    pub fn distinct_values(&self) -> u64 {
        let of_keys = |r: &KeyRange| (r.hi - r.lo).saturating_add(1);
        let of_bytes = |r: &BytesRange| {
            let point = r.end.as_deref().and_then(<[u8]>::split_last);
            if point == Some((&0, r.start.as_slice())) {
                1
            } else {
                u64::MAX
            }
        };
        match self {
            Self::All => u64::MAX,
            Self::Keys(ranges) => {
                let ranges = ranges.as_slice().iter().map(of_keys);
                ranges.fold(0, u64::saturating_add)
            }
            Self::Bytes(ranges) => {
                let ranges = ranges.as_slice().iter().map(of_bytes);
                ranges.fold(0, u64::saturating_add)
            }
        }
    }

    /// The ranges of keys in ascending order; one range for all values. Empty for ranges of strings.
    pub fn key_ranges(&self) -> &[KeyRange] {
        match self {
            Self::All => &[KeyRange::ALL],
            Self::Keys(ranges) => ranges.as_slice(),
            Self::Bytes(_) => &[],
        }
    }

    /// The ranges of strings in ascending order; one range for all values. Empty for ranges of keys.
    pub fn bytes_ranges(&self) -> &[BytesRange] {
        const ALL: &[BytesRange] = &[BytesRange::ALL];
        match self {
            Self::All => ALL,
            Self::Keys(_) => &[],
            Self::Bytes(ranges) => ranges.as_slice(),
        }
    }

    /// The ranges with a key in `lo..=hi`, ascending.
    pub fn overlapping_keys(&self, lo: u64, hi: u64) -> &[KeyRange] {
        let ranges = self.key_ranges();
        let from = ranges.partition_point(|r| r.hi < lo);
        let to = ranges.partition_point(|r| r.lo <= hi);
        ranges.get(from..to).unwrap_or_default()
    }

    /// The ranges with a string in `lo..=hi`, ascending.
    pub fn overlapping_bytes(&self, lo: &[u8], hi: &[u8]) -> &[BytesRange] {
        let ranges = self.bytes_ranges();
        let from = ranges.partition_point(|r| r.end.as_deref().is_some_and(|end| end <= lo));
        let to = ranges.partition_point(|r| r.start.as_slice() <= hi);
        ranges.get(from..to).unwrap_or_default()
    }

    /// The matching part of `lo..=hi`, range by range, ascending.
    pub fn clip_keys(
        &self,
        lo: u64,
        hi: u64,
    ) -> impl DoubleEndedIterator<Item = KeyRange> + Clone + '_ {
        self.overlapping_keys(lo, hi).iter().map(move |r| KeyRange {
            lo: r.lo.max(lo),
            hi: r.hi.min(hi),
        })
    }

    /// Whether some key in `lo..=hi` matches.
    pub fn intersects_keys(&self, lo: u64, hi: u64) -> bool {
        !self.overlapping_keys(lo, hi).is_empty()
    }

    /// Whether every key in `lo..=hi` matches. (Ranges of the list never touch, so one of them must cover all.)
    pub fn covers_keys(&self, lo: u64, hi: u64) -> bool {
        matches!(self.overlapping_keys(lo, hi), [one] if one.lo <= lo && hi <= one.hi)
    }

    /// Whether `key` matches.
    #[inline]
    pub fn contains_key(&self, key: u64) -> bool {
        match self {
            Self::All => true,
            Self::Keys(ranges) => match ranges.as_slice() {
                [one] => one.lo <= key && key <= one.hi,
                many => many
                    .get(many.partition_point(|r| r.hi < key))
                    .is_some_and(|r| r.lo <= key),
            },
            Self::Bytes(_) => false,
        }
    }

    /// Whether some string in `lo..=hi` matches.
    pub fn intersects_bytes(&self, lo: &[u8], hi: &[u8]) -> bool {
        !self.overlapping_bytes(lo, hi).is_empty()
    }

    /// Whether every string in `lo..=hi` matches.
    pub fn covers_bytes(&self, lo: &[u8], hi: &[u8]) -> bool {
        matches!(self.overlapping_bytes(lo, hi), [one]
            if one.start.as_slice() <= lo && one.end.as_deref().is_none_or(|end| hi < end))
    }

    /// Whether the string matches.
    #[inline]
    pub fn contains_bytes(&self, value: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Bytes(ranges) => {
                let ranges = ranges.as_slice();
                let above = |r: &BytesRange| r.end.as_deref().is_some_and(|end| end <= value);
                ranges
                    .get(ranges.partition_point(above))
                    .is_some_and(|r| r.start.as_slice() <= value)
            }
            Self::Keys(_) => false,
        }
    }

    /// Whether some value within `bounds` matches.
    pub fn intersects(&self, bounds: &DimensionExtent) -> bool {
        match bounds {
            DimensionExtent::Keys { lo, hi } => self.intersects_keys(*lo, *hi),
            DimensionExtent::Bytes { lo, hi } => self.intersects_bytes(lo, hi),
        }
    }

    /// Whether every value within `bounds` matches.
    pub fn covers(&self, bounds: &DimensionExtent) -> bool {
        match bounds {
            DimensionExtent::Keys { lo, hi } => self.covers_keys(*lo, *hi),
            DimensionExtent::Bytes { lo, hi } => self.covers_bytes(lo, hi),
        }
    }
}
