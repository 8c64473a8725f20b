//! Statistics computed again from the cells, and the deviations that stored ones may have.
//!
//! The loops of libtiledb (`tile_metadata_generator.cc`, `fragment_metadata.cc`) define what it computes, and their oddities
//! stay in stored arrays for ever. A stored value passes if it is the true one, or the one that libtiledb of the fragment's
//! version stores for these cells:
//!
//! - a NaN resets the running minimum and maximum, and sums stop at the limits of their type;
//! - a tile of NULLs has zeros, sentinels or nothing as minimum and maximum;
//! - strings compare up to their first NUL byte, single characters as signed numbers;
//! - types without minimum and maximum count no NULLs if variable-sized, and too many if dense;
//! - dense writers include padding in some tiles, and read validity at the wrong place for variable-sized cells, of which
//!   they also store the minima and maxima of other tiles, or bytes that were freed;
//! - the statistics of a fragment are put together from those of its tiles, and the sum of `CHAR` is forgotten.
//!
//! Lossy filters change values after their statistics were computed, and the statistics of geometries mean nothing: neither are
//! compared.

mod compute;
mod tiles;
mod totals;

pub use self::compute::{CheckedValues, TileContents, compute};
pub use self::tiles::{StatisticsContext, compare as compare_tile};
pub use self::totals::FragmentTotals;

use std::fmt;

use self::compute::{ComputedStatistics, float, integer, same, stored_sum, sum_limits};
use crate::format::datatype::Datatype;
use crate::format::domain_range::show_value;
use crate::maintain::check::fragment::CheckedField;

/// For each addition, the rounding error of a sum is at most this part of the sum of absolute values.
const ROUNDING: f64 = f64::EPSILON;

/// The minimum or the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtremeKind {
    Min,
    Max,
}

impl fmt::Display for ExtremeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Min => "minimum",
            Self::Max => "maximum",
        })
    }
}

/// Whether `stored` is the true minimum or maximum of the cells.
pub fn is_true(
    field: &CheckedField,
    of: &ComputedStatistics,
    end: ExtremeKind,
    stored: &[u8],
) -> bool {
    let datatype = field.datatype;
    if let Some(text) = &of.text {
        let wanted = match end {
            ExtremeKind::Min => &text.min,
            ExtremeKind::Max => &text.max,
        };
        return stored == wanted.as_slice();
    }
    if let Some(integers) = &of.integers {
        let wanted = match end {
            ExtremeKind::Min => integers.min,
            ExtremeKind::Max => integers.max,
        };
        return integer(datatype, stored) == Some(wanted);
    }
    if let Some(floats) = &of.floats {
        let wanted = match end {
            ExtremeKind::Min => floats.min,
            ExtremeKind::Max => floats.max,
        };
        return float(datatype, stored).is_some_and(|stored| same(stored, wanted));
    }
    true
}

/// Whether `stored` is the value that a loop of libtiledb finds, if that isn't the true value.
pub fn is_found(
    field: &CheckedField,
    of: &ComputedStatistics,
    end: ExtremeKind,
    stored: &[u8],
    any_order: bool,
) -> bool {
    let datatype = field.datatype;
    if let (Some(integers), Datatype::Char) = (&of.integers, datatype) {
        let wanted = match end {
            ExtremeKind::Min => integers.min,
            ExtremeKind::Max => integers.max,
        };
        if integer(datatype, stored) == Some(wanted) {
            return true;
        }
    }
    if let Some(text) = &of.text {
        let wanted = match end {
            ExtremeKind::Min => &text.min,
            ExtremeKind::Max => &text.max,
        };
        return text.nul && up_to_nul(stored) == up_to_nul(wanted);
    }
    if let Some(floats) = &of.floats {
        let wanted = match end {
            ExtremeKind::Min => floats.found_min,
            ExtremeKind::Max => floats.found_max,
        };
        let found = float(datatype, stored).is_some_and(|stored| same(stored, wanted));
        return found || (any_order && floats.nan);
    }
    false
}

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Whether `bits` is the sum of the cells, up to rounding.
pub fn is_true_sum(field: &CheckedField, of: &ComputedStatistics, bits: u64) -> bool {
    if let Some(integers) = &of.integers {
        let (least, most) = sum_limits(field.datatype);
        let stored = stored_sum(field.datatype, bits);
        // A sum beyond the limits has no true value; the nearest one, or that of a loop, is as good as any.
        return stored == integers.sum.clamp(least, most) || stored == integers.stopped;
    }
    if let Some(floats) = &of.floats {
        let stored = f64::from_bits(bits);
        return close(stored, floats.sum, floats.magnitude, floats.count)
            || close(stored, floats.stopped, floats.magnitude, floats.count);
    }
    bits == 0
}

/// Whether another order of addition may change the sum, so that any value passes.
pub fn sum_depends_on_order(field: &CheckedField, of: &ComputedStatistics) -> bool {
    let (_, most) = sum_limits(field.datatype);
    let integers = of.integers.as_ref();
    let floats = of.floats.as_ref();
    integers.is_some_and(|i| i.magnitude > most.unsigned_abs())
        || floats.is_some_and(compute::FloatStatistics::depends_on_order)
}

/// Whether two sums differ by rounding only.
pub fn close(a: f64, b: f64, magnitude: f64, count: u64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let most = magnitude * (count.saturating_add(1) as f64) * ROUNDING;
    same(a, b) || (a - b).abs() <= most
}

/// The minimum or maximum of the cells, to show.
pub fn shown(field: &CheckedField, of: &ComputedStatistics, end: ExtremeKind) -> String {
    if let Some(text) = &of.text {
        let value = match end {
            ExtremeKind::Min => &text.min,
            ExtremeKind::Max => &text.max,
        };
        return show_value(field.datatype, value);
    }
    let of_integers = of.integers.as_ref().map(|i| match end {
        ExtremeKind::Min => i.min.to_string(),
        ExtremeKind::Max => i.max.to_string(),
    });
    let of_floats = of.floats.as_ref().map(|f| match end {
        ExtremeKind::Min => f.min.to_string(),
        ExtremeKind::Max => f.max.to_string(),
    });
    of_integers.or(of_floats).unwrap_or_default()
}

/// The sum of the cells, to show.
pub fn shown_sum(of: &ComputedStatistics) -> String {
    let of_integers = of.integers.as_ref().map(|i| i.sum.to_string());
    let of_floats = of.floats.as_ref().map(|f| f.sum.to_string());
    of_integers.or(of_floats).unwrap_or_else(|| "0".to_owned())
}

/// A stored sum, to show.
pub fn show_sum(datatype: Datatype, bits: u64) -> String {
    if datatype.is_float() {
        f64::from_bits(bits).to_string()
    } else {
        stored_sum(datatype, bits).to_string()
    }
}
