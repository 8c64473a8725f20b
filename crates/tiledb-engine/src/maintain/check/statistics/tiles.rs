//! The statistics of one tile against its cells.

use super::compute::{ComputedStatistics, TileContents};
use super::{
    ExtremeKind, is_found, is_true, is_true_sum, show_sum, shown, shown_sum, sum_depends_on_order,
};
use crate::format::datatype::Datatype;
use crate::format::domain_range::show_value;
use crate::format::version::FormatVersion;
use crate::maintain::check::fragment::{CheckedField, StoredFieldStatistics};
use crate::maintain::check::rule::Rule;

/// Before this version, dense writers took minima and maxima of nullable strings from the wrong cells.
const NULLABLE_STRINGS_SINCE: u32 = 21;

/// A statistic that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct StatisticMismatch {
    pub rule: Rule,
    /// The statistic and its field.
    pub what: String,
    pub found: String,
    pub expected: String,
}

/// The conditions that decide which oddities are allowed.
#[derive(Debug, Clone, Copy)]
pub struct StatisticsContext {
    pub version: FormatVersion,
    pub dense: bool,
    /// Whether no oddity is allowed.
    pub exact: bool,
}

/// Compares the stored statistics of a tile with those of its cells.
pub fn compare(
    field: &CheckedField,
    stored: &StoredFieldStatistics,
    tile: usize,
    seen: &TileContents,
    context: &StatisticsContext,
) -> Vec<StatisticMismatch> {
    let of = CheckedTile {
        field,
        seen,
        context,
    };
    let mut wrong = Vec::new();
    if !field.validity_lost {
        wrong.extend(of.null_count(stored.null_counts.get(tile).copied()));
    }
    // The values differ from those that the writer saw, or their statistics mean nothing.
    if field.lossy || field.is_geometry() || field.validity_lost {
        return wrong;
    }
    let size = field.cell_size();
    wrong.extend(of.end(ExtremeKind::Min, stored.mins.value(tile, size)));
    wrong.extend(of.end(ExtremeKind::Max, stored.maxes.value(tile, size)));
    wrong.extend(of.sum(stored.sums.get(tile).copied()));
    wrong
}

/// Whether libtiledb doesn't even read the cells of this type.
fn is_opaque(field: &CheckedField) -> bool {
    let text = field.datatype.is_string() && !field.has_min_max();
    text || field.datatype == Datatype::Any || field.is_geometry()
}

struct CheckedTile<'a> {
    field: &'a CheckedField,
    seen: &'a TileContents,
    context: &'a StatisticsContext,
}

impl CheckedTile<'_> {
    fn null_count(&self, stored: Option<u64>) -> Option<StatisticMismatch> {
        let (field, seen) = (self.field, self.seen);
        let stored = stored?;
        let wanted = seen.visible.nulls;
        if stored == wanted || (!self.context.exact && self.odd_null_count(stored)) {
            return None;
        }
        Some(StatisticMismatch {
            rule: Rule::TileNullCount,
            what: format!("null count of {field}"),
            found: format!("{stored} NULLs"),
            expected: format!("{wanted}, the number of NULLs in the cells"),
        })
    }

    fn odd_null_count(&self, stored: u64) -> bool {
        let field = self.field;
        let whole = self.seen.whole.as_ref().unwrap_or(&self.seen.visible);
        match (field.is_var(), self.context.dense) {
            // Without minimum and maximum, libtiledb doesn't read the cells.
            _ if stored == 0 && !field.has_min_max() && (field.is_var() || is_opaque(field)) => {
                true
            }
            // For each piece of the tile, libtiledb reads validity from the beginning of the tile.
            (true, true) => true,
            (true, false) => false,
            // For each piece of the tile, libtiledb counts all NULLs.
            (false, true) if !field.has_min_max() => {
                stored.checked_rem(whole.nulls) == Some(0) || stored == whole.nulls
            }
            (false, true) => stored == whole.nulls,
            (false, false) => false,
        }
    }

    fn end(&self, end: ExtremeKind, stored: Option<&[u8]>) -> Option<StatisticMismatch> {
        let (field, seen) = (self.field, self.seen);
        let stored = stored.filter(|_| field.has_min_max())?;
        // A tile of NULLs has no minimum and maximum.
        if seen.visible.values() == 0 || is_true(field, &seen.visible, end, stored) {
            return None;
        }
        if !self.context.exact && self.odd_end(end, stored) {
            return None;
        }
        let rule = match end {
            ExtremeKind::Min => Rule::TileMin,
            ExtremeKind::Max => Rule::TileMax,
        };
        Some(StatisticMismatch {
            rule,
            what: format!("{end} of {field}"),
            found: format!("the {end} {}", show_value(field.datatype, stored)),
            expected: format!("{}, that of the cells", shown(field, &seen.visible, end)),
        })
    }

    fn odd_end(&self, end: ExtremeKind, stored: &[u8]) -> bool {
        let (field, seen) = (self.field, self.seen);
        let dense = self.context.dense;
        // Variable-sized cells of dense tiles are put together after their extremes were remembered by address.
        if dense && self.is_confused() {
            return true;
        }
        let found = |of: &ComputedStatistics| is_found(field, of, end, stored, dense);
        if found(&seen.visible) {
            return true;
        }
        let whole = seen.whole.as_ref().filter(|_| dense);
        whole.is_some_and(|whole| is_true(field, whole, end, stored) || found(whole))
    }

    /// Whether a dense writer took values of the wrong cells instead of the valid ones.
    fn is_confused(&self) -> bool {
        let text = matches!(self.field.datatype, Datatype::Char | Datatype::StringAscii);
        let old = !self.context.version.since(NULLABLE_STRINGS_SINCE);
        self.field.is_var() || (self.field.nullable && text && old)
    }

    fn sum(&self, stored: Option<u64>) -> Option<StatisticMismatch> {
        let (field, seen) = (self.field, self.seen);
        let stored = stored.filter(|_| field.has_sum())?;
        if is_true_sum(field, &seen.visible, stored) {
            return None;
        }
        if !self.context.exact && self.context.dense {
            let whole = seen.whole.as_ref();
            let odd = whole.is_some_and(|whole| is_true_sum(field, whole, stored))
                || sum_depends_on_order(field, whole.unwrap_or(&seen.visible));
            if odd {
                return None;
            }
        }
        Some(StatisticMismatch {
            rule: Rule::TileSum,
            what: format!("sum of {field}"),
            found: format!("the sum {}", show_sum(field.datatype, stored)),
            expected: format!("{}, that of the cells", shown_sum(&seen.visible)),
        })
    }
}
