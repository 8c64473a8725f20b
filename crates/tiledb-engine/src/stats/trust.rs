//! Which statistics of a tile can be trusted.
//!
//! Stored statistics are what the writer computed, and not all of them are right; the documentation of
//! [`statistics`](crate::array::fragment::statistics) lists how they fail. This module decides from a tile's statistics
//! alone when they are *provably* those of its cells. The subtle thing is floats. A NaN makes writers forget the bounds
//! before it, and only the sum shows it; but sums saturate at the limits of `f64`, after which a NaN leaves no trace.
//! So a sum proves the absence of NaN only far from the limits, together with bounds that are far from them.

mod proofs;

#[cfg(test)]
mod tests;

pub use proofs::ProvenAggregates;

use serde::{Deserialize, Serialize};

use crate::array::fragment::boxes::LARGE_FLOAT;
use crate::array::fragment::statistics::{FieldStatistics, TileSum};
use crate::array::fragment::{Fragment, TileIdx};
use crate::arrow::ColumnType;
use crate::format::datatype::Datatype;
use crate::format::filter_list::Filter;
use crate::format::schema::{Attribute, CellValNum};

/// Since this version, writers store correct bounds of strings.
const STRINGS_TOLD: u32 = 12;
/// `f64` represents every integer up to this one.
const EXACT_FLOAT: u128 = 1 << 53;

/// Which sums of floats may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SumRounding {
    /// Sums of tiles, whose last digits may differ from those of a sum over all cells.
    #[default]
    ByTile,
    /// Only exact sums: of integers that floats represent exactly.
    Exact,
}

/// The aggregates of a column over whole tiles that are requested, besides the number of values that are not NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedAggregates {
    /// The table column.
    pub column: usize,
    /// Whether the minimum is requested.
    pub min: bool,
    /// Whether the maximum is requested.
    pub max: bool,
    /// How the sum is computed, if it is requested.
    pub sum: Option<SumAs>,
}

/// The type in which values are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SumAs {
    /// 64-bit integers.
    Integer,
    /// As `f64`.
    Float,
    /// Both types.
    Both,
}

/// The stored statistics of one tile.
#[derive(Debug, Clone, Copy, Default)]
pub struct StoredTileStatistics<'a> {
    /// The minimum.
    pub min: Option<&'a [u8]>,
    /// The maximum.
    pub max: Option<&'a [u8]>,
    /// The sum.
    pub sum: Option<TileSum>,
    /// The number of NULLs.
    pub null_count: Option<u64>,
}

impl<'a> StoredTileStatistics<'a> {
    /// The statistics of a tile.
    pub fn of(statistics: &'a FieldStatistics, tile: TileIdx) -> Self {
        Self {
            min: statistics.min(tile),
            max: statistics.max(tile),
            sum: statistics.sum(tile),
            null_count: statistics.null_count(tile),
        }
    }
}

/// How values are stored and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatisticsKind {
    Integer(Datatype),
    Float(Datatype),
    Text,
    /// Types without bounds and sums.
    Other,
}

/// How far to trust the statistics of one field of one fragment.
#[derive(Debug, Clone)]
pub struct FieldTrust {
    kind: StatisticsKind,
    nullable: bool,
    null_counts: bool,
    bounds: bool,
    /// Whether `i64::MIN` reads as NULL.
    nat_is_null: bool,
    /// The number of values in the enumeration: codes from here on read as NULL.
    codes: Option<usize>,
    /// Whether the usual fill value of CHAR, which isn't ASCII, reads as NULL.
    fill_is_null: bool,
    rounding: SumRounding,
}

/// Whether the MBRs of a fragment have the smallest and the largest coordinate of a dimension.
///
/// They do not under filters that change values, nor for strings as old releases wrote them: the bounds that libtiledb
/// 2.2 wrote are not always coordinates of cells.
pub fn tells_dimension(fragment: &Fragment, index: usize) -> bool {
    let version = fragment.footer.version;
    let dimension = fragment.schema.dimensions.get(index);
    let old_strings = !version.since(STRINGS_TOLD)
        && dimension.is_some_and(|dimension| dimension.cell_val_num == CellValNum::Var);
    !old_strings && fragment.tells(index)
}

impl FieldTrust {
    /// The trust in dimension `index` of a sparse fragment, whose bounds are the MBRs.
    pub fn of_dimension(fragment: &Fragment, index: usize, ty: &ColumnType) -> Option<Self> {
        let schema = &fragment.schema;
        let dimension = schema.dimensions.get(index)?;
        let kind = match dimension.cell_val_num {
            _ if !tells_dimension(fragment, index) => StatisticsKind::Other,
            CellValNum::Var => StatisticsKind::Text,
            CellValNum::Fixed(_) => numbers(dimension.datatype),
        };
        Some(Self {
            bounds: kind != StatisticsKind::Other
                && !(kind == StatisticsKind::Text && ty.is_lossy()),
            kind,
            nullable: false,
            null_counts: true,
            nat_is_null: false,
            codes: None,
            fill_is_null: false,
            rounding: SumRounding::default(),
        })
    }

    /// The trust in an attribute of the fragment's own schema, shown as a column of type `ty`.
    pub fn of_attribute(fragment: &Fragment, attribute: &Attribute, ty: &ColumnType) -> Self {
        let trust = Self::of_stored(attribute, fragment.footer.dense);
        let null_counts = trust.null_counts && (!attribute.nullable || keeps_validity(fragment));
        // Replacement characters for invalid text change its order.
        let text_changes = trust.kind == StatisticsKind::Text && ty.is_lossy();
        Self {
            null_counts,
            bounds: trust.bounds && null_counts && !text_changes,
            fill_is_null: ty.fill_is_null(),
            ..trust
        }
    }

    /// The trust in the times at which the cells of a consolidated fragment were written.
    pub fn of_write_times() -> Self {
        Self {
            kind: StatisticsKind::Integer(Datatype::UInt64),
            nullable: false,
            null_counts: true,
            bounds: true,
            nat_is_null: false,
            codes: None,
            fill_is_null: false,
            rounding: SumRounding::default(),
        }
    }

    fn of_stored(attribute: &Attribute, dense: bool) -> Self {
        let text = matches!(attribute.datatype, Datatype::Char | Datatype::StringAscii);
        let one = attribute.cell_val_num == CellValNum::Fixed(1);
        let kind = match (text, one) {
            // Single characters are compared as signed numbers.
            (true, true) => StatisticsKind::Other,
            (true, false) => StatisticsKind::Text,
            (false, true) => numbers(attribute.datatype),
            (false, false) => StatisticsKind::Other,
        };
        // When tiles are written in pieces, their validity is read at the wrong offset, or counted more than once.
        let confused = dense && attribute.nullable;
        // For types without bounds, not even NULLs are counted correctly.
        let null_counts = kind != StatisticsKind::Other && !confused;
        // Statistics are over the values before a lossy filter changed them.
        let kind = if attribute.filters.is_lossy() {
            StatisticsKind::Other
        } else {
            kind
        };
        Self {
            // Some dense writers store the bounds of the whole write in each tile.
            bounds: null_counts && kind != StatisticsKind::Other && !(dense && attribute.is_var()),
            kind,
            nullable: attribute.nullable,
            null_counts,
            nat_is_null: false,
            codes: None,
            fill_is_null: false,
            rounding: SumRounding::default(),
        }
    }

    /// Sets which sums of floats may be used.
    #[must_use]
    pub fn with_rounding(mut self, rounding: SumRounding) -> Self {
        self.rounding = rounding;
        self
    }

    /// Sets whether `i64::MIN` reads as NULL.
    #[must_use]
    pub fn with_nat(mut self, nat_is_null: bool) -> Self {
        self.nat_is_null = nat_is_null;
        self
    }

    /// Sets the number of values in the enumeration, if the stored values are codes.
    #[must_use]
    pub fn with_codes(mut self, codes: Option<usize>) -> Self {
        self.codes = codes;
        self
    }

    /// Whether statistics can answer a request at all; needs no statistics.
    pub fn may_know(&self, asked: &RequestedAggregates) -> bool {
        let bounds = asked.min || asked.max;
        let numeric = match self.kind {
            StatisticsKind::Integer(datatype) => datatype.is_integer(),
            StatisticsKind::Float(_) => {
                self.rounding == SumRounding::ByTile && asked.sum != Some(SumAs::Integer)
            }
            _ => false,
        };
        // Some stored values read as NULL; only the bounds show whether a tile has any.
        let hidden_nulls = self.nat_is_null || self.codes.is_some();
        (!hidden_nulls || matches!(self.kind, StatisticsKind::Integer(_)))
            && (!self.nullable || self.null_counts)
            && (!bounds || (self.bounds && self.codes.is_none()))
            && (!self.fill_is_null || (self.bounds && self.kind == StatisticsKind::Text))
            && (asked.sum.is_none() || (numeric && self.codes.is_none()))
    }

    /// Whether the bounds must be loaded.
    pub fn needs_bounds(&self, asked: &RequestedAggregates) -> bool {
        let of_sums = match self.kind {
            StatisticsKind::Integer(datatype) => asked.sum.is_some() && self.bounds_sums(datatype),
            StatisticsKind::Float(datatype) => {
                self.needs_sum(asked) && datatype == Datatype::Float64
            }
            _ => false,
        };
        let hidden_nulls = self.nat_is_null || self.codes.is_some() || self.fill_is_null;
        asked.min || asked.max || hidden_nulls || of_sums
    }

    /// Whether the sum must be loaded.
    pub fn needs_sum(&self, asked: &RequestedAggregates) -> bool {
        let of_bounds = matches!(self.kind, StatisticsKind::Float(_)) && (asked.min || asked.max);
        asked.sum.is_some() || of_bounds
    }

    /// Whether the number of NULLs must be loaded.
    pub fn needs_null_count(&self) -> bool {
        self.nullable
    }

    /// Whether bounds are needed to limit the sum: sums of small integers cannot overflow, but where they must be
    /// exact, bounds give a tighter limit than the type.
    fn bounds_sums(&self, datatype: Datatype) -> bool {
        datatype.size() == 8 || self.rounding == SumRounding::Exact
    }

    /// Whether bounds are strings, which are valid up to their first NUL byte.
    pub fn is_text(&self) -> bool {
        self.kind == StatisticsKind::Text
    }

    /// Whether bounds can prove anything.
    pub fn has_bounds(&self) -> bool {
        self.bounds
    }
}

/// Whether sums of integers up to `magnitude` are exact in floats, in any order of addition.
pub fn adds_up_exactly(magnitude: u128) -> bool {
    magnitude <= EXACT_FLOAT
}

/// Whether validity is read back as it was written. Before format version 15 bitshuffle lost part of it.
pub fn keeps_validity(fragment: &Fragment) -> bool {
    const BITSHUFFLE_KEEPS_SINCE: u32 = 15;
    let shuffled = |f: &Filter| *f == Filter::BitShuffle;
    fragment.footer.version.since(BITSHUFFLE_KEEPS_SINCE)
        || !fragment.schema.validity_filters.contains(shuffled)
}

fn numbers(datatype: Datatype) -> StatisticsKind {
    let integer = datatype.is_integer() || datatype.is_datetime() || datatype.is_time();
    if datatype.is_float() {
        StatisticsKind::Float(datatype)
    } else if integer || datatype == Datatype::Bool {
        StatisticsKind::Integer(datatype)
    } else {
        StatisticsKind::Other
    }
}

/// A sum of floats far from the limits at which sums saturate: no value was NaN, unless some values were near the
/// limits themselves.
fn small_sum(sum: Option<TileSum>) -> Option<f64> {
    match sum {
        Some(TileSum::Float(sum)) => Some(sum).filter(|sum| is_small(*sum)),
        _ => None,
    }
}

/// Bounds of floats whose sums cannot get near the limits.
fn small_bounds(datatype: Datatype, min: &[u8], max: &[u8]) -> Option<(f64, f64)> {
    let (min, max) = (float(datatype, min)?, float(datatype, max)?);
    (is_small(min) && is_small(max) && min <= max).then_some((min, max))
}

/// Whether a float is far from the limits; false for NaN.
fn is_small(value: f64) -> bool {
    value.abs() < LARGE_FLOAT
}

fn integer(datatype: Datatype, bytes: &[u8]) -> Option<i128> {
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    if !datatype.is_signed() {
        return Some(i128::from(unsigned));
    }
    let unused = u32::try_from(64 - 8 * bytes.len()).ok()?;
    let value = unsigned.checked_shl(unused)?.cast_signed() >> unused;
    Some(i128::from(value))
}

fn float(datatype: Datatype, bytes: &[u8]) -> Option<f64> {
    Some(match datatype {
        Datatype::Float32 => f64::from(f32::from_le_bytes(bytes.try_into().ok()?)),
        _ => f64::from_le_bytes(bytes.try_into().ok()?),
    })
}
