//! Whether the statistics of a tile say what its cells say.
//!
//! What is stored is what a writer computed on the way, and not all of it is true; the documentation of
//! [`statistics`](crate::array::fragment::statistics) lists the ways. Here is the other side: from a tile's numbers alone,
//! when they are *provably* those of its cells. The subtle thing is floats. A NaN makes writers forget the bounds before
//! it, and its trace is the sum; but sums stop at the limits of `f64`, after which a NaN leaves no trace. So a sum counts
//! as a witness only far from the limits, together with bounds that are far from them.

use crate::array::fragment::boxes::LARGE_FLOAT;
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

/// What is true of the cells of one tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known<'a> {
    /// Cells that are not NULL.
    pub count: u64,
    /// The smallest value, if asked for and there is one.
    pub min: Option<&'a [u8]>,
    /// The largest value, if asked for and there is one.
    pub max: Option<&'a [u8]>,
    /// The sum, if asked for; zero if there are no values.
    pub sum: Option<Sum>,
    /// No sum of some of the values, taken as positive, exceeds this.
    pub magnitude: u128,
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

    /// How many cells of a tile are NULL on storage, if that is known.
    pub fn null_count(&self, stored: &TileStatistics<'_>) -> Option<u64> {
        match (self.nullable, self.null_counts) {
            (false, _) => Some(0),
            (true, true) => stored.null_count,
            (true, false) => None,
        }
    }

    /// The stored values between which those of a tile of `cells` cells lie, if its statistics prove that.
    pub fn limits<'a>(
        &self,
        cells: u64,
        stored: &TileStatistics<'a>,
    ) -> Option<(&'a [u8], &'a [u8])> {
        // A tile of NULLs has no values, whatever is stored in their place.
        let values = cells.checked_sub(self.null_count(stored)?)?;
        let (min, max) = (stored.min?, stored.max?);
        let proven = match self.kind {
            Kind::Float(datatype) => {
                small_sum(stored.sum).is_some() && small_bounds(datatype, min, max).is_some()
            }
            _ => true,
        };
        (self.bounds && values > 0 && proven).then_some((min, max))
    }

    /// What is true of a tile of `cells` cells; `None` if its statistics do not prove it.
    pub fn judge<'a>(
        &self,
        asked: &Asked,
        cells: u64,
        stored: TileStatistics<'a>,
    ) -> Option<Known<'a>> {
        if !self.may_know(asked) {
            return None;
        }
        let nulls = if self.nullable { stored.null_count? } else { 0 };
        let count = cells.checked_sub(nulls)?;
        let mut known = Known {
            count,
            min: None,
            max: None,
            sum: None,
            magnitude: 0,
        };
        if count == 0 {
            // What is stored then stands for nothing.
            return Some(known);
        }
        match self.kind {
            Kind::Integer(datatype) => self.integers(datatype, asked, &stored, &mut known)?,
            Kind::Float(datatype) => self.floats(datatype, asked, &stored, &mut known)?,
            Kind::Text => {
                // Writers compare up to the first NUL byte; a bound without one is the true one all the same.
                let sound = |bound: Option<&[u8]>| bound.is_some_and(|b| !b.contains(&0));
                if (asked.min && !sound(stored.min)) || (asked.max && !sound(stored.max)) {
                    return None;
                }
            }
            Kind::Other => {}
        }
        known.min = stored.min.filter(|_| asked.min);
        known.max = stored.max.filter(|_| asked.max);
        Some(known)
    }

    fn integers(
        &self,
        datatype: Datatype,
        asked: &Asked,
        stored: &TileStatistics<'_>,
        known: &mut Known<'_>,
    ) -> Option<()> {
        let mut largest = 1_u128 << (8 * datatype.size());
        if self.needs_bounds(asked) {
            let (lo, hi) = (
                integer(datatype, stored.min?)?,
                integer(datatype, stored.max?)?,
            );
            let is_nat = self.nat_is_null && lo == i128::from(i64::MIN);
            let unknown_code = self
                .codes
                .is_some_and(|codes| lo < 0 || usize::try_from(hi).map_or(true, |hi| hi >= codes));
            if lo > hi || is_nat || unknown_code {
                return None;
            }
            largest = lo.unsigned_abs().max(hi.unsigned_abs());
        }
        if asked.sum.is_some() {
            let sum = stored.sum?;
            let limit = match sum {
                Sum::Int(_) => u128::from(i64::MAX.unsigned_abs()),
                Sum::UInt(_) => u128::from(u64::MAX),
                Sum::Float(_) => return None,
            };
            known.magnitude = largest.checked_mul(u128::from(known.count))?;
            // Sums that could reach the limit may have stopped there.
            if known.magnitude > limit {
                return None;
            }
            known.sum = Some(sum);
        }
        Some(())
    }

    fn floats(
        &self,
        datatype: Datatype,
        asked: &Asked,
        stored: &TileStatistics<'_>,
        known: &mut Known<'_>,
    ) -> Option<()> {
        if !self.needs_sum(asked) {
            return Some(());
        }
        let sum = small_sum(stored.sum)?;
        if self.needs_bounds(asked) {
            let (lo, hi) = small_bounds(datatype, stored.min?, stored.max?)?;
            // Writers take zeros of either sign for one, and readers do not.
            if (asked.min && lo == 0.0) || (asked.max && hi == 0.0) {
                return None;
            }
        }
        known.sum = asked.sum.map(|_| Sum::Float(sum));
        Some(())
    }
}

/// A sum of floats far from the limits at which sums stop: no value was NaN, unless some were near the limits themselves.
fn small_sum(sum: Option<Sum>) -> Option<f64> {
    match sum {
        Some(Sum::Float(sum)) => Some(sum).filter(|sum| is_small(*sum)),
        _ => None,
    }
}

/// Bounds of floats from which no sum gets near the limits.
fn small_bounds(datatype: Datatype, min: &[u8], max: &[u8]) -> Option<(f64, f64)> {
    let (min, max) = (float(datatype, min)?, float(datatype, max)?);
    (is_small(min) && is_small(max) && min <= max).then_some((min, max))
}

/// Also false of NaN.
fn is_small(value: f64) -> bool {
    value.abs() < LARGE_FLOAT
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::schema::DataOrder;

    fn attribute(datatype: Datatype, cell_val_num: CellValNum, nullable: bool) -> Attribute {
        Attribute {
            name: "a".to_owned(),
            datatype,
            cell_val_num,
            nullable,
            filters: Default::default(),
            fill_value: datatype.default_fill(),
            fill_valid: false,
            order: DataOrder::Unordered,
            enumeration: None,
            problem: None,
        }
    }

    fn trust(datatype: Datatype) -> FieldTrust {
        let one = CellValNum::Fixed(1);
        FieldTrust::of_stored(&attribute(datatype, one, false), false)
    }

    const BOUNDS: Asked = Asked {
        column: 0,
        min: true,
        max: true,
        sum: None,
    };
    const SUM: Asked = Asked {
        column: 0,
        min: false,
        max: false,
        sum: Some(SumAs::Integer),
    };
    const FLOAT_SUM: Asked = Asked {
        sum: Some(SumAs::Float),
        ..SUM
    };
    const COUNT: Asked = Asked { sum: None, ..SUM };

    fn stored<'a>(min: &'a [u8], max: &'a [u8], sum: Sum) -> TileStatistics<'a> {
        TileStatistics {
            min: Some(min),
            max: Some(max),
            sum: Some(sum),
            null_count: None,
        }
    }

    fn f64s(min: f64, max: f64, sum: f64) -> ([u8; 8], [u8; 8], Sum) {
        (min.to_le_bytes(), max.to_le_bytes(), Sum::Float(sum))
    }

    #[test]
    fn a_float_sum_that_is_not_finite_or_saturated_hides_a_nan() {
        let trust = trust(Datatype::Float64);
        let judge = |min, max, sum| {
            let (min, max, sum) = f64s(min, max, sum);
            trust.judge(&BOUNDS, 4, stored(&min, &max, sum)).is_some()
        };
        assert!(judge(1.0, 5.0, 9.0));
        // [1, NaN, 5, 2]: the bounds are those of what follows the NaN.
        assert!(!judge(2.0, 5.0, f64::NAN));
        assert!(!judge(2.0, 5.0, f64::INFINITY));
        assert!(!judge(2.0, 5.0, f64::MAX));
        assert!(!judge(2.0, 5.0, f64::MIN));
        // [1e308, 1e308, NaN] in one piece, [-1e308] in the next: the sum stopped, then came back.
        assert!(!judge(-1e308, -1e308, f64::MAX - 1e308));
        assert!(!judge(f64::NAN, f64::NAN, 1.0));
        assert!(!judge(5.0, 1.0, 1.0));
    }

    #[test]
    fn what_rules_tiles_out_is_proven_like_what_answers() {
        let floats = trust(Datatype::Float64);
        let limits = |min, max, sum| {
            let (min, max, sum) = f64s(min, max, sum);
            floats.limits(4, &stored(&min, &max, sum)).is_some()
        };
        assert!(limits(1.0, 5.0, 9.0) && limits(0.0, 0.0, 0.0));
        assert!(!limits(2.0, 5.0, f64::NAN) && !limits(2.0, 5.0, f64::MAX));
        // [1e308, 1e308, NaN] in one piece, [-1e308] in the next.
        assert!(!limits(-1e308, -1e308, f64::MAX - 1e308));
        let chars = attribute(Datatype::Char, CellValNum::Fixed(1), false);
        let chars = FieldTrust::of_stored(&chars, false);
        // As signed numbers 0xC3 comes before 'A'.
        let none = stored(b"\xc3", b"A", Sum::UInt(0));
        assert_eq!(
            (chars.limits(2, &none), chars.judge(&BOUNDS, 2, none)),
            (None, None)
        );
        let nullable = attribute(Datatype::Int32, CellValNum::Fixed(1), true);
        let nullable = FieldTrust::of_stored(&nullable, false);
        let zero = 0_i32.to_le_bytes();
        let nulls = |n| TileStatistics {
            null_count: Some(n),
            ..stored(&zero, &zero, Sum::Int(0))
        };
        assert!(nullable.limits(5, &nulls(4)).is_some());
        assert!(nullable.limits(5, &nulls(5)).is_none());
        assert!(nullable.limits(5, &TileStatistics::default()).is_none());
    }

    #[test]
    fn floats_without_sums_and_sums_without_bounds_prove_nothing() {
        let trust = trust(Datatype::Float64);
        let (min, max, sum) = f64s(1.0, 5.0, 9.0);
        let no_sum = TileStatistics {
            sum: None,
            ..stored(&min, &max, sum)
        };
        assert_eq!(trust.judge(&BOUNDS, 4, no_sum), None);
        let no_bounds = TileStatistics {
            min: None,
            ..stored(&min, &max, sum)
        };
        assert_eq!(trust.judge(&FLOAT_SUM, 4, no_bounds), None);
        assert!(trust.judge(&COUNT, 4, TileStatistics::default()).is_some());
        let whole = trust.judge(&FLOAT_SUM, 4, stored(&min, &max, sum)).unwrap();
        assert_eq!(whole.sum, Some(sum));
    }

    #[test]
    fn exact_answers_leave_out_sums_of_floats_and_zeros_of_unknown_sign() {
        let exact = FieldTrust {
            rounding: Rounding::Exact,
            ..trust(Datatype::Float64)
        };
        let (min, max, sum) = f64s(0.0, 5.0, 9.0);
        assert_eq!(exact.judge(&FLOAT_SUM, 4, stored(&min, &max, sum)), None);
        assert_eq!(exact.judge(&BOUNDS, 4, stored(&min, &max, sum)), None);
        let only_max = Asked {
            min: false,
            ..BOUNDS
        };
        assert!(exact.judge(&only_max, 4, stored(&min, &max, sum)).is_some());
        // The sign of a zero is not known however sums may round.
        let usual = trust(Datatype::Float64);
        assert_eq!(usual.judge(&BOUNDS, 4, stored(&min, &max, sum)), None);
        let no_zero = f64s(1.0, 5.0, 9.0);
        let no_zero = stored(&no_zero.0, &no_zero.1, no_zero.2);
        assert!(usual.judge(&BOUNDS, 4, no_zero).is_some());
        assert!(exact.judge(&BOUNDS, 4, no_zero).is_some());
    }

    #[test]
    fn sums_of_large_integers_may_have_stopped_at_the_limit() {
        let trust = trust(Datatype::Int64);
        let (one, large) = (1_i64.to_le_bytes(), (i64::MAX / 3).to_le_bytes());
        let sum = Sum::Int(7);
        assert!(trust.judge(&SUM, 3, stored(&one, &large, sum)).is_some());
        assert_eq!(trust.judge(&SUM, 4, stored(&one, &large, sum)), None);
        let lowest = i64::MIN.to_le_bytes();
        assert_eq!(trust.judge(&SUM, 1, stored(&lowest, &one, sum)), None);
        // Of small ones only more than there are could.
        let small = self::trust(Datatype::Int16);
        let alone = TileStatistics {
            sum: Some(sum),
            ..TileStatistics::default()
        };
        assert!(small.judge(&SUM, 1 << 40, alone).is_some());
        assert_eq!(small.judge(&SUM, 1 << 50, alone), None);
    }

    #[test]
    fn a_tile_of_nulls_has_no_bounds_whatever_is_stored() {
        let nullable = attribute(Datatype::Int32, CellValNum::Fixed(1), true);
        let trust = FieldTrust::of_stored(&nullable, false);
        let zero = 0_i32.to_le_bytes();
        let nulls = |n| TileStatistics {
            null_count: Some(n),
            ..stored(&zero, &zero, Sum::Int(0))
        };
        let none = trust.judge(&BOUNDS, 5, nulls(5)).unwrap();
        assert_eq!((none.count, none.min, none.max), (0, None, None));
        let some = trust.judge(&BOUNDS, 5, nulls(3)).unwrap();
        assert_eq!((some.count, some.min), (2, Some(zero.as_slice())));
        assert_eq!(trust.judge(&BOUNDS, 5, nulls(6)), None);
        assert_eq!(trust.judge(&COUNT, 5, TileStatistics::default()), None);
    }

    #[test]
    fn text_bounds_with_a_nul_byte_prove_nothing() {
        let var = attribute(Datatype::StringAscii, CellValNum::Var, false);
        let trust = FieldTrust::of_stored(&var, false);
        let none = Sum::UInt(0);
        assert!(trust.judge(&BOUNDS, 2, stored(b"", b"b", none)).is_some());
        assert_eq!(trust.judge(&BOUNDS, 2, stored(b"a\0", b"b", none)), None);
        assert_eq!(trust.judge(&BOUNDS, 2, stored(b"a", b"b\0c", none)), None);
        assert_eq!(trust.judge(&SUM, 2, stored(b"a", b"b", none)), None);
    }

    #[test]
    fn nulls_of_dense_text_and_of_types_without_bounds_are_miscounted() {
        let judge = |datatype, cell_val_num, dense| {
            let nullable = attribute(datatype, cell_val_num, true);
            let trust = FieldTrust::of_stored(&nullable, dense);
            let nulls = TileStatistics {
                null_count: Some(1),
                ..TileStatistics::default()
            };
            trust.judge(&COUNT, 5, nulls).map(|known| known.count)
        };
        assert_eq!(
            judge(Datatype::StringAscii, CellValNum::Var, false),
            Some(4)
        );
        assert_eq!(judge(Datatype::StringAscii, CellValNum::Var, true), None);
        assert_eq!(judge(Datatype::StringUtf8, CellValNum::Var, false), None);
        assert_eq!(judge(Datatype::Int32, CellValNum::Var, false), None);
        assert_eq!(judge(Datatype::Int32, CellValNum::Fixed(2), false), None);
        assert_eq!(judge(Datatype::Int32, CellValNum::Fixed(1), true), None);
        assert_eq!(judge(Datatype::Int32, CellValNum::Fixed(1), false), Some(4));
    }

    #[test]
    fn a_nat_or_a_code_without_a_value_is_a_null_that_nobody_counted() {
        let times = trust(Datatype::DateTimeMs).with_nat(true);
        let (nat, one) = (i64::MIN.to_le_bytes(), 1_i64.to_le_bytes());
        let sum = Sum::Int(1);
        assert!(times.judge(&COUNT, 2, stored(&one, &one, sum)).is_some());
        assert_eq!(times.judge(&COUNT, 2, stored(&nat, &one, sum)), None);
        let codes = trust(Datatype::Int8).with_codes(Some(3));
        let judge = |lo: i8, hi: i8| {
            let (lo, hi) = (lo.to_le_bytes(), hi.to_le_bytes());
            codes.judge(&COUNT, 2, stored(&lo, &hi, sum)).is_some()
        };
        assert!(judge(0, 2));
        assert!(!judge(-1, 2));
        assert!(!judge(0, 3));
        let two = 2_i8.to_le_bytes();
        assert_eq!(codes.judge(&BOUNDS, 2, stored(&two, &two, sum)), None);
    }

    #[test]
    fn statistics_are_not_of_what_a_lossy_filter_left() {
        let mut scaled = attribute(Datatype::Float64, CellValNum::Fixed(1), false);
        scaled.filters.filters = vec![Filter::ScaleFloat {
            scale: 0.5,
            offset: 0.0,
            byte_width: 4,
        }];
        let trust = FieldTrust::of_stored(&scaled, false);
        let (min, max, sum) = f64s(1.0, 5.0, 9.0);
        assert_eq!(trust.judge(&BOUNDS, 4, stored(&min, &max, sum)), None);
        assert_eq!(trust.judge(&FLOAT_SUM, 4, stored(&min, &max, sum)), None);
        assert!(trust.judge(&COUNT, 4, stored(&min, &max, sum)).is_some());
    }

    #[test]
    fn integers_of_every_width_are_read_with_their_sign() {
        assert_eq!(integer(Datatype::Int8, &[0xFF]), Some(-1));
        assert_eq!(integer(Datatype::UInt8, &[0xFF]), Some(255));
        assert_eq!(integer(Datatype::Int16, &[0, 0x80]), Some(-32768));
        assert_eq!(
            integer(Datatype::UInt64, &[0xFF; 8]),
            Some(i128::from(u64::MAX))
        );
        assert_eq!(integer(Datatype::Int64, &[0xFF; 8]), Some(-1));
        assert_eq!(integer(Datatype::Int64, &[]), None);
        assert_eq!(integer(Datatype::Int64, &[0; 9]), None);
    }
}
