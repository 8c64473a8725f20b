//! Sorted lists of disjoint ranges over any type of ends that can be compared.
//!
//! A range is treated as half-open `[start, end)`; the end of a range of keys that reaches the largest key is
//! "unbounded", like that of strings, so nothing overflows. Lists are reference-counted, so a clone is cheap.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{BytesRange, KeyRange};

/// A range of a list.
pub trait ListSpan: Clone {
    /// A border between values.
    type Edge: Ord + Clone;
    /// The border below every value.
    fn bottom() -> Self::Edge;
    /// The lower border; the range starts at the value above it.
    fn start(&self) -> Self::Edge;
    /// The border above the range's last value; `None` if the range is unbounded.
    fn end(&self) -> Option<Self::Edge>;
    /// The range between two different borders.
    fn between(start: Self::Edge, end: Option<Self::Edge>) -> Self;
    /// Compares the starts of two ranges.
    fn compare_starts(&self, other: &Self) -> Ordering;
    /// Whether the range contains no value.
    fn is_empty(&self) -> bool;
}

impl ListSpan for KeyRange {
    type Edge = u64;
    fn bottom() -> u64 {
        0
    }
    fn start(&self) -> u64 {
        self.lo
    }
    fn end(&self) -> Option<u64> {
        self.hi.checked_add(1)
    }
    fn between(start: u64, end: Option<u64>) -> Self {
        Self {
            lo: start,
            hi: end.map_or(u64::MAX, |end| end.saturating_sub(1)),
        }
    }
    fn compare_starts(&self, other: &Self) -> Ordering {
        self.lo.cmp(&other.lo)
    }
    fn is_empty(&self) -> bool {
        self.lo > self.hi
    }
}

impl ListSpan for BytesRange {
    type Edge = Vec<u8>;
    fn bottom() -> Vec<u8> {
        Vec::new()
    }
    fn start(&self) -> Vec<u8> {
        self.start.clone()
    }
    fn end(&self) -> Option<Vec<u8>> {
        self.end.clone()
    }
    fn between(start: Vec<u8>, end: Option<Vec<u8>>) -> Self {
        Self { start, end }
    }
    fn compare_starts(&self, other: &Self) -> Ordering {
        self.start.cmp(&other.start)
    }
    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// Ranges in ascending order with a gap between any two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisjointSpans<R>(Option<Arc<[R]>>);

impl<R> DisjointSpans<R> {
    /// An empty list.
    pub const fn none() -> Self {
        Self(None)
    }

    /// The ranges.
    pub fn as_slice(&self) -> &[R] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}

#[allow(private_bounds, reason = "only the two kinds of ranges exist")]
impl<R: ListSpan> DisjointSpans<R> {
    /// The union of ranges in any order.
    pub(super) fn from_ranges(mut ranges: Vec<R>) -> Self {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by(R::compare_starts);
        Self::merged(ranges)
    }

    /// Merges non-empty ranges in ascending order of their starts.
    fn merged(ranges: impl IntoIterator<Item = R>) -> Self {
        let mut list: Vec<R> = Vec::new();
        for range in ranges {
            match list.last_mut() {
                Some(last) if touches(last.end().as_ref(), &range.start()) => {
                    let end = later(last.end(), range.end());
                    *last = R::between(last.start(), end);
                }
                _ => list.push(range),
            }
        }
        Self((!list.is_empty()).then(|| list.into()))
    }

    /// Whether the list contains every value.
    pub(super) fn is_everything(&self) -> bool {
        matches!(self.as_slice(), [one] if one.start() == R::bottom() && one.end().is_none())
    }

    /// The values in both lists.
    pub(super) fn intersect(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.as_slice(), other.as_slice());
        let mut both = Vec::new();
        while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
            let end = earlier(a.end(), b.end());
            let range = R::between(a.start().max(b.start()), end.clone());
            if starts_before(&range.start(), end.as_ref()) {
                both.push(range);
            }
            if a.end() == end {
                left = left_rest;
            } else {
                right = right_rest;
            }
        }
        Self::merged(both)
    }

    /// The values in either list.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut all = Vec::with_capacity(self.as_slice().len() + other.as_slice().len());
        all.extend_from_slice(self.as_slice());
        all.extend_from_slice(other.as_slice());
        Self::from_ranges(all)
    }

    /// The values that are not in the list.
    pub(super) fn complement(&self) -> Self {
        let mut gaps = Vec::with_capacity(self.as_slice().len() + 1);
        let mut from = Some(R::bottom());
        for range in self.as_slice() {
            if let Some(from) = from.filter(|from| *from < range.start()) {
                gaps.push(R::between(from, Some(range.start())));
            }
            from = range.end();
        }
        gaps.extend(from.map(|from| R::between(from, None)));
        Self((!gaps.is_empty()).then(|| gaps.into()))
    }
}

fn touches<E: Ord>(end: Option<&E>, start: &E) -> bool {
    end.is_none_or(|end| end >= start)
}

fn starts_before<E: Ord>(start: &E, end: Option<&E>) -> bool {
    end.is_none_or(|end| start < end)
}

fn earlier<E: Ord>(a: Option<E>, b: Option<E>) -> Option<E> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

fn later<E: Ord>(a: Option<E>, b: Option<E>) -> Option<E> {
    a.zip(b).map(|(a, b)| a.max(b))
}
