//! Whether the statistics of a tile say what its cells say.
//!
//! What is stored is what a writer computed on the way, and not all of it is true; the documentation of
//! [`statistics`](crate::array::fragment::statistics) lists the ways. Here is the other side: from a tile's numbers alone,
//! when they are *provably* those of its cells. The subtle thing is floats. A NaN makes writers forget the bounds before
//! it, and its trace is the sum; but sums stop at the limits of `f64`, after which a NaN leaves no trace. So a sum counts
//! as a witness only far from the limits, together with bounds that are far from them.

mod numbers;
mod proofs;
#[cfg(test)]
mod tests;

pub use proofs::Known;

use crate::array::fragment::statistics::{FieldStatistics, Sum};
use crate::array::fragment::{Fragment, TileIdx};
use crate::arrow::ColumnType;
use crate::format::datatype::Datatype;
use crate::format::filter_list::Filter;
use crate::format::schema::{Attribute, CellValNum};

/// Writers of this version on are believed about the ends of strings.
const STRINGS_TOLD: u32 = 12;
/// The largest integer up to which `f64` holds every one.
const EXACT_FLOAT: u128 = 1 << 53;

/// What the sums of floats may be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rounding {
    /// Sums of tiles, whose last digits may differ from those of a sum of cells in some order.
    #[default]
    ByTile,
    /// Only what has no digits to differ in: integers that floats hold exactly.
    Exact,
}

/// What is asked of a column of whole tiles, besides how many of its cells are not NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The table column.
    pub column: usize,
    /// Its smallest value.
    pub min: bool,
    /// Its largest value.
    pub max: bool,
    /// Its sum.
    pub sum: Option<SumAs>,
}

/// How values are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SumAs {
    /// As integers of 64 bits.
    Integer,
    /// As `f64`.
    Float,
    /// Both ways.
    Both,
}

/// The stored statistics of one tile.
#[derive(Debug, Clone, Copy, Default)]
pub struct TileStatistics<'a> {
    /// The smallest value.
    pub min: Option<&'a [u8]>,
    /// The largest value.
    pub max: Option<&'a [u8]>,
    /// The sum.
    pub sum: Option<Sum>,
    /// How many are NULL.
    pub null_count: Option<u64>,
}

impl<'a> TileStatistics<'a> {
    /// Those of a tile.
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
enum Kind {
    Integer(Datatype),
    Float(Datatype),
    Text,
    /// Without bounds and sums.
    Other,
}

/// What to believe of the statistics of one field of one fragment.
#[derive(Debug, Clone)]
pub struct FieldTrust {
    kind: Kind,
    nullable: bool,
    null_counts: bool,
    bounds: bool,
    /// `i64::MIN` reads as NULL.
    nat_is_null: bool,
    /// Codes from here on read as NULL.
    codes: Option<usize>,
    rounding: Rounding,
}

/// Whether the MBRs of a fragment tell the smallest and the largest coordinate of a dimension.
///
/// Not under filters that change values, and not of strings as old releases wrote them: the ends that libtiledb 2.2 wrote
/// are not always those of the cells.
pub fn tells_dimension(fragment: &Fragment, index: usize) -> bool {
    let version = fragment.footer.version;
    let dimension = fragment.schema.dimensions.get(index);
    let old_strings = !version.since(STRINGS_TOLD)
        && dimension.is_some_and(|dimension| dimension.cell_val_num == CellValNum::Var);
    !old_strings && fragment.tells(index)
}

impl FieldTrust {
    /// Of dimension `index` of a sparse fragment, whose bounds are the MBRs.
    pub fn of_dimension(fragment: &Fragment, index: usize, ty: &ColumnType) -> Option<Self> {
        let schema = &fragment.schema;
        let dimension = schema.dimensions.get(index)?;
        let kind = match dimension.cell_val_num {
            _ if !tells_dimension(fragment, index) => Kind::Other,
            CellValNum::Var => Kind::Text,
            CellValNum::Fixed(_) => numbers(dimension.datatype),
        };
        Some(Self {
            bounds: kind != Kind::Other && !(kind == Kind::Text && ty.is_lossy()),
            kind,
            nullable: false,
            null_counts: true,
            nat_is_null: false,
            codes: None,
            rounding: Rounding::default(),
        })
    }

    /// Of an attribute as the fragment's own schema has it, shown as a column of type `ty`.
    pub fn of_attribute(fragment: &Fragment, attribute: &Attribute, ty: &ColumnType) -> Self {
        let trust = Self::of_stored(attribute, fragment.footer.dense);
        let null_counts = trust.null_counts && (!attribute.nullable || keeps_validity(fragment));
        // What replaces bytes that are no text has another place in the order.
        let text_changes = trust.kind == Kind::Text && ty.is_lossy();
        Self {
            null_counts,
            bounds: trust.bounds && null_counts && !text_changes,
            ..trust
        }
    }

    fn of_stored(attribute: &Attribute, dense: bool) -> Self {
        let text = matches!(attribute.datatype, Datatype::Char | Datatype::StringAscii);
        let one = attribute.cell_val_num == CellValNum::Fixed(1);
        let kind = match (text, one) {
            // Single characters are compared as signed numbers.
            (true, true) => Kind::Other,
            (true, false) => Kind::Text,
            (false, true) => numbers(attribute.datatype),
            (false, false) => Kind::Other,
        };
        // Written piece by piece, tiles have their validity read from the wrong place, or counted more than once.
        let confused = dense && attribute.nullable;
        // Of types without bounds not even the NULLs are counted right.
        let null_counts = kind != Kind::Other && !confused;
        // Statistics are of what was written, and not of what such a filter left of it.
        let kind = if attribute.filters.is_lossy() {
            Kind::Other
        } else {
            kind
        };
        Self {
            // Dense writers have been seen to give a tile the bounds of the whole write.
            bounds: null_counts && kind != Kind::Other && !(dense && attribute.is_var()),
            kind,
            nullable: attribute.nullable,
            null_counts,
            nat_is_null: false,
            codes: None,
            rounding: Rounding::default(),
        }
    }

    /// With a say on what sums of floats may be made of.
    #[must_use]
    pub fn with_rounding(mut self, rounding: Rounding) -> Self {
        self.rounding = rounding;
        self
    }

    /// Where `i64::MIN` reads as NULL.
    #[must_use]
    pub fn with_nat(mut self, nat_is_null: bool) -> Self {
        self.nat_is_null = nat_is_null;
        self
    }

    /// Where the values are codes, of which only those below `codes` stand for something.
    #[must_use]
    pub fn with_codes(mut self, codes: Option<usize>) -> Self {
        self.codes = codes;
        self
    }

    /// Whether there can be an answer, before any statistics are loaded.
    pub fn may_know(&self, asked: &Asked) -> bool {
        let bounds = asked.min || asked.max;
        let numeric = match self.kind {
            Kind::Integer(datatype) => datatype.is_integer(),
            Kind::Float(_) => {
                self.rounding == Rounding::ByTile && asked.sum != Some(SumAs::Integer)
            }
            _ => false,
        };
        // Some values read as NULL; only their bounds say whether there are any.
        let hidden_nulls = self.nat_is_null || self.codes.is_some();
        (!hidden_nulls || matches!(self.kind, Kind::Integer(_)))
            && (!self.nullable || self.null_counts)
            && (!bounds || (self.bounds && self.codes.is_none()))
            && (asked.sum.is_none() || (numeric && self.codes.is_none()))
    }

    /// Whether the bounds must be at hand.
    pub fn needs_bounds(&self, asked: &Asked) -> bool {
        let of_sums = match self.kind {
            Kind::Integer(datatype) => asked.sum.is_some() && self.bounds_sums(datatype),
            Kind::Float(datatype) => self.needs_sum(asked) && datatype == Datatype::Float64,
            _ => false,
        };
        asked.min || asked.max || self.nat_is_null || self.codes.is_some() || of_sums
    }

    /// Whether the sum must be at hand.
    pub fn needs_sum(&self, asked: &Asked) -> bool {
        let of_bounds = matches!(self.kind, Kind::Float(_)) && (asked.min || asked.max);
        asked.sum.is_some() || of_bounds
    }

    /// Whether the number of NULLs must be at hand.
    pub fn needs_null_count(&self) -> bool {
        self.nullable
    }

    /// Small integers cannot add up to the limits; but where digits count, their bounds say more than their type.
    fn bounds_sums(&self, datatype: Datatype) -> bool {
        datatype.size() == 8 || self.rounding == Rounding::Exact
    }

    /// Whether bounds are of strings, which hold up to their first NUL byte.
    pub fn is_text(&self) -> bool {
        self.kind == Kind::Text
    }

    /// Whether bounds can prove anything.
    pub fn has_bounds(&self) -> bool {
        self.bounds
    }
}

/// Whether sums of integers are the same in whatever order floats add them up.
pub fn adds_up_exactly(magnitude: u128) -> bool {
    magnitude <= EXACT_FLOAT
}

/// Whether validity is read as it was written. Before format 15 bitshuffle did not keep all of it.
pub fn keeps_validity(fragment: &Fragment) -> bool {
    const BITSHUFFLE_KEEPS_SINCE: u32 = 15;
    let shuffled = |f: &Filter| *f == Filter::BitShuffle;
    fragment.footer.version.since(BITSHUFFLE_KEEPS_SINCE)
        || !fragment.schema.validity_filters.contains(shuffled)
}

fn numbers(datatype: Datatype) -> Kind {
    let integer = datatype.is_integer() || datatype.is_datetime() || datatype.is_time();
    if datatype.is_float() {
        Kind::Float(datatype)
    } else if integer || datatype == Datatype::Bool {
        Kind::Integer(datatype)
    } else {
        Kind::Other
    }
}
