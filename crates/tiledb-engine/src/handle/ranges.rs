//! Requested ranges of a dimension as ranges of its keys or strings.

use std::ops::{Bound, RangeBounds};

use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::schema::Dimension;
use crate::geometry::key;
use crate::geometry::subarray::{BytesRange, DimRanges, successor};
use crate::write::create::LiteralValue;

/// A requested range of a dimension.
#[derive(Debug, Clone)]
pub(super) struct CoordinateRange {
    pub(super) dimension: String,
    start: Bound<LiteralValue>,
    end: Bound<LiteralValue>,
}

impl CoordinateRange {
    pub(super) fn new<T: Clone + Into<LiteralValue>>(
        dimension: String,
        range: &impl RangeBounds<T>,
    ) -> Self {
        let literal = |value: &T| value.clone().into();
        Self {
            dimension,
            start: range.start_bound().map(literal),
            end: range.end_bound().map(literal),
        }
    }

    /// The coordinates in the range.
    ///
    /// # Errors
    /// An end isn't a value of the dimension's type.
    pub(super) fn selected(&self, dimension: &Dimension) -> Result<DimRanges> {
        let selected = if key::has_key(dimension.datatype) {
            self.keys(dimension)
        } else {
            self.strings(dimension)
        };
        selected.map_err(|e| e.with("dimension", &self.dimension))
    }

    fn keys(&self, dimension: &Dimension) -> Result<DimRanges> {
        let datatype = dimension.datatype;
        let key = |value: &LiteralValue| {
            let bytes = value.element(datatype)?;
            if let (Datatype::Float32, LiteralValue::Text(text)) = (datatype, value)
                && text.trim().parse::<f64>().is_ok_and(f64::is_finite)
                && !<[u8; 4]>::try_from(bytes.as_slice())
                    .is_ok_and(|b| f32::from_le_bytes(b).is_finite())
            {
                let message = format!("{text} lies beyond the range of {datatype}");
                return Err(Error::invalid(message));
            }
            key::key(datatype, &bytes)
        };
        let lo = match &self.start {
            Bound::Included(value) => Some(key(value)?),
            Bound::Excluded(value) => key(value)?.checked_add(1),
            Bound::Unbounded => Some(u64::MIN),
        };
        let hi = match &self.end {
            Bound::Included(value) => Some(key(value)?),
            Bound::Excluded(value) => key(value)?.checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        Ok(match (lo, hi) {
            (Some(lo), Some(hi)) if lo <= hi => DimRanges::key_range(lo, hi),
            _ => DimRanges::none(),
        })
    }

    fn strings(&self, dimension: &Dimension) -> Result<DimRanges> {
        let bytes =
            |value: &LiteralValue| value.shown_cell(dimension.datatype, dimension.cell_val_num);
        let start = match &self.start {
            Bound::Included(value) => bytes(value)?,
            Bound::Excluded(value) => successor(&bytes(value)?),
            Bound::Unbounded => Vec::new(),
        };
        let end = match &self.end {
            Bound::Included(value) => Some(successor(&bytes(value)?)),
            Bound::Excluded(value) => Some(bytes(value)?),
            Bound::Unbounded => None,
        };
        Ok(match &end {
            Some(end) if *end <= start => DimRanges::none(),
            _ => DimRanges::from_bytes(vec![BytesRange { start, end }]),
        })
    }
}
