//! Lists of values, searched within the bounds of tiles.
//!
//! A tile may hold a value of the list if one lies within its bounds: one binary search per tile, however long the
//! list. For enumerated columns, codes are searched, which prune more than values do: codes are assigned in the order
//! in which values first occur, so the codes of a tile are close together.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Datum, Scalar, make_comparator,
};
use datafusion::arrow::compute::kernels::cmp::eq;
use datafusion::arrow::compute::{SortOptions, cast, sort};
use datafusion::arrow::datatypes::{DataType, Float64Type, Schema};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};
use tiledb_engine::stats::pruner::ColumnStatistics;

/// The most literals that are looked up in an enumeration.
const MOST_LOOKED_UP: usize = 1000;

/// The values, one of which a column must have.
#[derive(Debug)]
pub(super) enum ValueSet {
    /// The values, ascending.
    Values(ArrayRef),
    /// The codes of the values in the column's enumeration, ascending.
    Codes(Vec<u64>),
}

impl ValueSet {
    /// The set of a guarantee, if bounds can contradict it.
    pub(super) fn new(
        guarantee: &LiteralGuarantee,
        schema: &Schema,
        enumeration: &dyn Fn(usize) -> Option<ArrayRef>,
    ) -> Option<Self> {
        if guarantee.guarantee != Guarantee::In {
            return None;
        }
        let (column, field) = schema.column_with_name(guarantee.column.name())?;
        let literals = guarantee
            .literals
            .iter()
            .filter(|l| !l.is_null())
            .map(plain);
        Some(match enumeration(column) {
            Some(values) => Self::Codes(codes(literals, &values)?),
            None => Self::Values(sorted(literals, field.data_type())?),
        })
    }

    /// For each tile, false if it cannot hold any of the values, otherwise unknown.
    pub(super) fn touched(&self, tiles: &ColumnStatistics) -> Option<BooleanArray> {
        let unless = |touched: bool| if touched { None } else { Some(false) };
        match self {
            Self::Codes(codes) => {
                let touched = tiles.codes.as_ref()?.iter().map(|range| {
                    let (lo, hi) = (*range)?;
                    let first = codes.get(codes.partition_point(|code| *code < lo));
                    unless(first.is_some_and(|code| *code <= hi))
                });
                Some(touched.collect())
            }
            Self::Values(values) => {
                let options = SortOptions::default();
                let with_min = make_comparator(values, &tiles.min, options).ok()?;
                let with_max = make_comparator(values, &tiles.max, options).ok()?;
                let touched = (0..tiles.min.len()).map(|tile| {
                    if tiles.min.is_null(tile) || tiles.max.is_null(tile) {
                        return None;
                    }
                    let first = first(values.len(), |v| with_min(v, tile).is_lt());
                    unless(first < values.len() && with_max(first, tile).is_le())
                });
                Some(touched.collect())
            }
        }
    }
}

/// The number of leading indices below `len` for which `before` holds.
fn first(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (0, len);
    while from < to {
        let middle = from + (to - from) / 2;
        if before(middle) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

/// A literal without its dictionary encoding.
fn plain(literal: &ScalarValue) -> ScalarValue {
    match literal {
        ScalarValue::Dictionary(_, value) => plain(value),
        other => other.clone(),
    }
}

fn sorted(literals: impl Iterator<Item = ScalarValue>, ty: &DataType) -> Option<ArrayRef> {
    let mut literals = literals.peekable();
    literals.peek()?;
    let values = ScalarValue::iter_to_array(literals).ok()?;
    // A cast could make two values equal.
    let same = values.data_type() == ty;
    let values = match same {
        true => values,
        false if both_text(values.data_type(), ty) => cast(&values, ty).ok()?,
        false => return None,
    };
    sort(&values, None).ok()
}

fn both_text(literals: &DataType, ty: &DataType) -> bool {
    use DataType as A;
    matches!(literals, A::Utf8 | A::LargeUtf8 | A::Utf8View) && ty == &A::Utf8View
}

/// The codes of the literals, whose type is that of the values or another type of text or bytes. Literals that are not
/// in the enumeration have no code.
fn codes(literals: impl Iterator<Item = ScalarValue>, values: &ArrayRef) -> Option<Vec<u64>> {
    let mut codes = Vec::new();
    for (number, literal) in literals.enumerate() {
        if number >= MOST_LOOKED_UP {
            return None;
        }
        let (found, wanted) = (literal.data_type(), values.data_type());
        // A cast could make two values equal.
        let alike =
            (found.is_string() && wanted.is_string()) || (found.is_binary() && wanted.is_binary());
        if &found != wanted && !alike {
            return None;
        }
        let literal = literal.cast_to(wanted).ok()?.to_array().ok()?;
        let equal = if wanted.is_floating() {
            same_floats(values, &literal)?
        } else {
            eq(values as &dyn Datum, &Scalar::new(literal)).ok()?
        };
        codes.extend(equal.values().set_indices().map(|code| code as u64));
    }
    codes.sort_unstable();
    codes.dedup();
    Some(codes)
}

/// Which values an expression may treat as equal to the literal; whether it does for the two zeros, or for different
/// NaNs, depends on the expression.
fn same_floats(values: &ArrayRef, literal: &ArrayRef) -> Option<BooleanArray> {
    let wide = |array: &ArrayRef| cast(array, &DataType::Float64).ok();
    let (values, literal) = (wide(values)?, wide(literal)?);
    let literal = *literal.as_primitive::<Float64Type>().values().first()?;
    let values = values.as_primitive::<Float64Type>();
    let same = |value: f64| value == literal || (value.is_nan() && literal.is_nan());
    Some(BooleanArray::from_unary(values, same))
}
