//! [`TileRange`]: the known range of a dimension around the cells of a tile.

use crate::format::datatype::Datatype;
use crate::geometry::key;
use crate::geometry::subarray::DimRanges;

/// The range of a dimension around the cells of a tile, both ends inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TileRange<'a> {
    /// The cells may lie anywhere.
    Unknown,
    /// A range of keys.
    Keys {
        /// The smallest key.
        lo: u64,
        /// The largest key.
        hi: u64,
        /// The key of NaN, if cells may be NaN.
        nan: Option<u64>,
    },
    /// A range of strings.
    Bytes {
        /// The smallest string.
        lo: &'a [u8],
        /// The largest string.
        hi: &'a [u8],
    },
}

impl TileRange<'_> {
    /// The keys around all cells; `None` if they are not known.
    pub fn keys(&self) -> Option<(u64, u64)> {
        match self {
            Self::Keys { lo, hi, nan: None } => Some((*lo, *hi)),
            _ => None,
        }
    }

    /// Whether some cell may lie in the ranges.
    pub fn touches(&self, ranges: &DimRanges) -> bool {
        match self {
            Self::Unknown => !ranges.is_empty(),
            Self::Keys { lo, hi, nan } => {
                ranges.intersects_keys(*lo, *hi) || nan.is_some_and(|nan| ranges.contains_key(nan))
            }
            Self::Bytes { lo, hi } => ranges.intersects_bytes(lo, hi),
        }
    }

    /// Whether every cell lies in the ranges.
    pub fn lies_in(&self, ranges: &DimRanges) -> bool {
        match self {
            Self::Unknown => ranges.is_all(),
            Self::Keys { lo, hi, nan } => {
                ranges.covers_keys(*lo, *hi) && nan.is_none_or(|nan| ranges.contains_key(nan))
            }
            Self::Bytes { lo, hi } => ranges.covers_bytes(lo, hi),
        }
    }

    /// Whether ruling out NaN may change the selection by these ranges.
    pub(super) fn may_change(&self, ranges: &DimRanges) -> bool {
        let Self::Keys { lo, hi, nan } = self else {
            return false;
        };
        let numbers = Self::Keys {
            lo: *lo,
            hi: *hi,
            nan: None,
        };
        nan.is_some()
            && (self.touches(ranges) != numbers.touches(ranges)
                || self.lies_in(ranges) != numbers.lies_in(ranges))
    }
}

/// Converts a stored range; `doubtful` says that cells of floats may be NaN.
pub(super) fn range<'a>(
    datatype: Datatype,
    strings: bool,
    lo: &'a [u8],
    hi: &'a [u8],
    doubtful: bool,
) -> TileRange<'a> {
    if strings {
        return if lo <= hi {
            TileRange::Bytes { lo, hi }
        } else {
            TileRange::Unknown
        };
    }
    let (Ok(lo), Ok(hi)) = (key::key(datatype, lo), key::key(datatype, hi)) else {
        return TileRange::Unknown;
    };
    let nan = key::nan_key(datatype);
    let is_nan = |key: u64| nan == Some(key);
    if lo <= hi && !is_nan(lo) && !is_nan(hi) {
        TileRange::Keys {
            lo,
            hi,
            nan: nan.filter(|_| doubtful),
        }
    } else {
        TileRange::Unknown
    }
}
