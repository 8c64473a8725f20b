//! The subarray of a query: sorted, disjoint ranges for each dimension, and their cross product.
//!
//! Fixed-size dimensions have inclusive ranges of keys, strings half-open ranges of bytes (the value just above `s` is
//! `s` and a zero byte). Lists have one canonical form (ascending, a gap between any two), so equal sets are equal
//! values and every question is a binary search: a list of 100 000 points stays cheap, and cross products are never
//! enumerated. The subtle thing: an empty list matches nothing, [`DimRanges::All`] matches everything.

mod dim_ranges;
mod lists;

#[cfg(test)]
mod tests;

pub use dim_ranges::DimRanges;
pub use lists::DisjointSpans;

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::format::datatype::Datatype;
use crate::format::schema::ArraySchema;
use crate::geometry::domain::{DimensionExtent, KeyBox};
use crate::geometry::key;

/// Ranges for every dimension; a cell matches when each of its coordinates does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subarray {
    dims: Vec<DimRanges>,
}

impl Subarray {
    /// Every cell of an array of `ndim` dimensions.
    pub fn all(ndim: usize) -> Self {
        Self {
            dims: vec![DimRanges::All; ndim],
        }
    }

    /// The cells of a box.
    pub fn from_box(cells: &KeyBox) -> Self {
        Self {
            dims: cells
                .ranges()
                .map(|(lo, hi)| DimRanges::key_range(lo, hi))
                .collect(),
        }
    }

    /// Number of dimensions.
    pub fn ndim(&self) -> usize {
        self.dims.len()
    }

    /// The ranges of a dimension; all values if it does not exist.
    pub fn dim(&self, dim: usize) -> &DimRanges {
        self.dims.get(dim).unwrap_or(&DimRanges::All)
    }

    /// The ranges of each dimension.
    pub fn dims(&self) -> &[DimRanges] {
        &self.dims
    }

    /// Replaces the ranges of a dimension.
    pub fn set_dim(&mut self, dim: usize, ranges: DimRanges) {
        if let Some(slot) = self.dims.get_mut(dim) {
            *slot = ranges;
        }
    }

    /// Intersects the ranges of a dimension with `ranges`.
    pub fn intersect_dim(&mut self, dim: usize, ranges: &DimRanges) {
        if let Some(slot) = self.dims.get_mut(dim) {
            *slot = slot.intersect(ranges);
        }
    }

    /// The cells in both.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (dim, ranges) in other.dims.iter().enumerate() {
            both.intersect_dim(dim, ranges);
        }
        both
    }

    /// The smallest subarray with all cells of both. It is exactly their union if one contains the other, or if they
    /// differ in only one dimension.
    #[must_use]
    pub fn hull(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        Self {
            dims: self
                .dims
                .iter()
                .zip(&other.dims)
                .map(|(a, b)| a.union(b))
                .collect(),
        }
    }

    /// Whether no cell matches.
    pub fn is_empty(&self) -> bool {
        self.dims.iter().any(DimRanges::is_empty)
    }

    /// Whether every cell matches.
    pub fn is_all(&self) -> bool {
        self.dims.iter().all(DimRanges::is_all)
    }

    /// Whether some cell within `bounds` may match (one range per dimension, as in an MBR).
    pub fn intersects(&self, bounds: &[DimensionExtent]) -> bool {
        self.dims
            .iter()
            .zip(bounds)
            .all(|(ranges, bounds)| ranges.intersects(bounds))
    }

    /// Whether every cell within `bounds` matches.
    pub fn covers(&self, bounds: &[DimensionExtent]) -> bool {
        self.dims.len() == bounds.len()
            && self
                .dims
                .iter()
                .zip(bounds)
                .all(|(ranges, bounds)| ranges.covers(bounds))
    }

    /// The smallest box around the cells of a box that match: ranges that select one interval clip the box itself.
    pub fn shrink(&self, cells: &KeyBox) -> Option<KeyBox> {
        let (mut lo, mut hi) = (cells.lo().to_vec(), cells.hi().to_vec());
        for (d, (lo, hi)) in lo.iter_mut().zip(&mut hi).enumerate() {
            let touched = self.dim(d).overlapping_keys(*lo, *hi);
            *lo = touched.first()?.lo.max(*lo);
            *hi = touched.last()?.hi.min(*hi);
        }
        KeyBox::new(lo, hi)
    }

    /// Whether some cell of the box matches.
    pub fn intersects_box(&self, cells: &KeyBox) -> bool {
        self.dims
            .iter()
            .zip(cells.ranges())
            .all(|(ranges, (lo, hi))| ranges.intersects_keys(lo, hi))
    }

    /// Whether every cell of the box matches.
    pub fn covers_box(&self, cells: &KeyBox) -> bool {
        self.dims.len() == cells.ndim()
            && self
                .dims
                .iter()
                .zip(cells.ranges())
                .all(|(ranges, (lo, hi))| ranges.covers_keys(lo, hi))
    }
}

/// An inclusive range of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyRange {
    /// The smallest key.
    pub lo: u64,
    /// The largest key.
    pub hi: u64,
}

impl KeyRange {
    /// Every key.
    pub const ALL: Self = Self {
        lo: 0,
        hi: u64::MAX,
    };

    /// The range of one key.
    pub const fn point(key: u64) -> Self {
        Self { lo: key, hi: key }
    }
}

/// A half-open range of strings in the order of unsigned bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BytesRange {
    /// The smallest string.
    pub start: Vec<u8>,
    /// The smallest string above the range; `None` if it is unbounded.
    pub end: Option<Vec<u8>>,
}

impl BytesRange {
    /// Every string.
    pub const ALL: Self = Self {
        start: Vec::new(),
        end: None,
    };

    /// The range of one string.
    pub fn point(value: &[u8]) -> Self {
        Self {
            start: value.to_vec(),
            end: Some(successor(value)),
        }
    }

    /// The range of all strings that start with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let last = prefix.iter().rposition(|byte| *byte != u8::MAX);
        let end = last.and_then(|last| prefix.get(..=last)).map(|head| {
            let mut end = head.to_vec();
            if let Some(byte) = end.last_mut() {
                *byte += 1;
            }
            end
        });
        Self {
            start: prefix.to_vec(),
            end,
        }
    }
}

/// The string just above `value`.
pub fn successor(value: &[u8]) -> Vec<u8> {
    let mut above = Vec::with_capacity(value.len() + 1);
    above.extend_from_slice(value);
    above.push(0);
    above
}

/// The most ranges shown of one dimension, and the most bytes of one string.
///
/// The text is pure ASCII, because DataFusion's drawing of a plan as a tree cuts lines by bytes.
const SHOWN_RANGES: usize = 8;
const SHOWN_BYTES: usize = 64;

impl Subarray {
    /// The constrained dimensions by name, with values as numbers, ISO 8601 dates and quoted strings.
    pub fn describe(&self, schema: &ArraySchema) -> String {
        let dims = schema.dimensions.iter().zip(&self.dims);
        let parts: Vec<String> = dims
            .filter(|(_, ranges)| !ranges.is_all())
            .map(|(dimension, ranges)| {
                format!(
                    "{} in {}",
                    dimension.name.escape_default(),
                    ranges.describe(dimension.datatype)
                )
            })
            .collect();
        if parts.is_empty() {
            "all".to_string()
        } else {
            parts.join(", ")
        }
    }
}

impl DimRanges {
    /// The ranges as text, limited to the first few.
    pub fn describe(&self, datatype: Datatype) -> String {
        let mut text = String::new();
        let shown = match self {
            Self::All => return "all".to_string(),
            Self::Keys(ranges) => list(&mut text, ranges.as_slice(), |text, range| {
                describe_keys(text, datatype, *range)
            }),
            Self::Bytes(ranges) => list(&mut text, ranges.as_slice(), describe_bytes),
        };
        match self.len().saturating_sub(shown) {
            0 if shown == 0 => "nothing".to_string(),
            0 => text,
            more => format!("{text} or {} more", thousands(more)),
        }
    }
}

fn list<R>(text: &mut String, ranges: &[R], describe: impl Fn(&mut String, &R)) -> usize {
    let mut shown = 0;
    for range in ranges.iter().take(SHOWN_RANGES) {
        if shown > 0 {
            text.push_str(" or ");
        }
        describe(text, range);
        shown += 1;
    }
    shown
}

fn describe_keys(text: &mut String, datatype: Datatype, range: KeyRange) {
    let (min, max) = (key::min_key(datatype), key::max_key(datatype));
    let show = |k: u64| key::show(datatype, k.clamp(min, max));
    // Writing to a string cannot fail.
    let _ = match (range.lo <= min, range.hi >= max) {
        _ if range.lo == range.hi => write!(text, "[{}]", show(range.lo)),
        (true, false) => write!(text, "(-inf, {}]", show(range.hi)),
        (false, true) => write!(text, "[{}, inf)", show(range.lo)),
        _ => write!(text, "[{}, {}]", show(range.lo), show(range.hi)),
    };
}

fn describe_bytes(text: &mut String, range: &BytesRange) {
    let start = quoted(&range.start);
    let _ = match &range.end {
        None => write!(text, "[{start}, inf)"),
        Some(end) if *end == successor(&range.start) => write!(text, "[{start}]"),
        // An end just above a string is shown as that string, which is easier to read.
        Some(end) => match end.split_last() {
            Some((0, last)) => write!(text, "[{start}, {}]", quoted(last)),
            _ => write!(text, "[{start}, {})", quoted(end)),
        },
    };
}

fn quoted(bytes: &[u8]) -> String {
    let head = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
    let dots = if head.len() < bytes.len() { "..." } else { "" };
    let text: String = head
        .utf8_chunks()
        .flat_map(|chunk| {
            let valid = chunk.valid().escape_default().to_string();
            let invalid: String = chunk
                .invalid()
                .iter()
                .map(|byte| format!("\\x{byte:02x}"))
                .collect();
            [valid, invalid]
        })
        .collect();
    format!("\"{text}{dots}\"")
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
