//! Predicates on one dimension: comparisons, IN lists, LIKE, NULL tests.
//!
//! A dimension is never NULL, so a predicate on it is NULL only through a NULL literal, and then for every cell. `None`
//! means unknown.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue;
use tiledb_engine::geometry::subarray::{BytesRange, DimRanges};

use super::view::{CastView, ComparedValue};
use super::{CellSet, RangeAnalysis, SoughtTruth};

impl RangeAnalysis<'_> {
    /// The cells where `expr`, which is not an AND, OR or NOT, has the value `truth`.
    pub(super) fn atom(&self, expr: &Arc<dyn PhysicalExpr>, truth: SoughtTruth) -> Option<CellSet> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            self.comparison(binary, truth)
        } else if let Some(list) = expr.downcast_ref::<InListExpr>() {
            self.in_list(list, truth)
        } else if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            self.like(like, truth)
        } else if let Some(null) = expr.downcast_ref::<IsNullExpr>() {
            self.null_test(null.arg(), truth.not())
        } else if let Some(null) = expr.downcast_ref::<IsNotNullExpr>() {
            self.null_test(null.arg(), truth)
        } else {
            self.starts_with(expr.downcast_ref::<ScalarFunctionExpr>()?, truth)
        }
    }

    fn view(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<CastView> {
        CastView::new(expr, self.dimensions)
    }

    fn set(&self, view: &CastView, ranges: DimRanges, exact: bool) -> CellSet {
        CellSet::of_dim(self.ndim(), view.dim, ranges, exact)
    }

    fn everywhere(&self, holds: bool) -> CellSet {
        if holds {
            CellSet::all(self.ndim())
        } else {
            CellSet::none(self.ndim())
        }
    }

    fn comparison(&self, binary: &BinaryExpr, truth: SoughtTruth) -> Option<CellSet> {
        let (left, right) = (binary.left(), binary.right());
        let (view, op, scalar) = match (
            left.downcast_ref::<Literal>(),
            right.downcast_ref::<Literal>(),
        ) {
            (None, Some(literal)) => (self.view(left)?, *binary.op(), literal.value()),
            (Some(literal), None) => (self.view(right)?, binary.op().swap()?, literal.value()),
            _ => return None,
        };
        let value = view.value(scalar)?;
        if value == ComparedValue::Null {
            return self.with_null(&view, op, truth);
        }
        let op = match op {
            Operator::IsDistinctFrom => Operator::NotEq,
            Operator::IsNotDistinctFrom => Operator::Eq,
            other => other,
        };
        let op = if truth.is(true) { op } else { op.negate()? };
        let (ranges, exact) = view.select(op, &value)?;
        Some(self.set(&view, ranges, exact))
    }

    /// A comparison with NULL.
    fn with_null(&self, view: &CastView, op: Operator, truth: SoughtTruth) -> Option<CellSet> {
        match op {
            // A cast that fails may give NULL itself.
            Operator::IsDistinctFrom if view.total => Some(self.everywhere(truth.is(true))),
            Operator::IsNotDistinctFrom if view.total => Some(self.everywhere(truth.is(false))),
            Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq => Some(self.everywhere(false)),
            _ => None,
        }
    }

    fn in_list(&self, list: &InListExpr, truth: SoughtTruth) -> Option<CellSet> {
        let view = self.view(list.expr())?;
        let mut values = Vec::with_capacity(list.len());
        let mut has_null = false;
        for item in list.list() {
            match view.value(item.downcast_ref::<Literal>()?.value())? {
                ComparedValue::Null => has_null = true,
                value => values.push(value),
            }
        }
        if truth.is(!list.negated()) {
            let (ranges, exact) = view.select_any(&values)?;
            return Some(self.set(&view, ranges, exact));
        }
        if has_null {
            return Some(self.everywhere(false));
        }
        // The values that are certainly in the list; those that may be (zeros) are excluded.
        let sure: Vec<ComparedValue> = values
            .iter()
            .filter(|value| **value != ComparedValue::Zero)
            .cloned()
            .collect();
        let (ranges, exact) = view.select_any(&sure)?;
        Some(self.set(
            &view,
            ranges.complement(),
            exact && sure.len() == values.len(),
        ))
    }

    /// A test of a dimension for NULL: it never is, but a failing cast of it may be.
    fn null_test(&self, expr: &Arc<dyn PhysicalExpr>, is_not_null: SoughtTruth) -> Option<CellSet> {
        let view = self.view(expr)?;
        view.total.then(|| self.everywhere(is_not_null.is(true)))
    }

    fn like(&self, like: &LikeExpr, truth: SoughtTruth) -> Option<CellSet> {
        let view = self
            .view(like.expr())
            .filter(|view| view.is_bytes() && !like.case_insensitive())?;
        let scalar = like.pattern().downcast_ref::<Literal>()?.value();
        if scalar.is_null() {
            return Some(self.everywhere(false));
        }
        let pattern = LikePrefix::new(text(scalar)?);
        self.strings(
            &view,
            pattern.ranges(),
            pattern.exact(),
            truth.is(!like.negated()),
        )
    }

    fn starts_with(&self, call: &ScalarFunctionExpr, truth: SoughtTruth) -> Option<CellSet> {
        let [expr, prefix] = call.args() else {
            return None;
        };
        if call.fun().name() != "starts_with" {
            return None;
        }
        let view = self.view(expr).filter(CastView::is_bytes)?;
        let scalar = prefix.downcast_ref::<Literal>()?.value();
        if scalar.is_null() {
            return Some(self.everywhere(false));
        }
        let range = BytesRange::prefix(text(scalar)?.as_bytes());
        self.strings(
            &view,
            DimRanges::from_bytes(vec![range]),
            true,
            truth.is(true),
        )
    }

    /// The strings in some ranges, or outside of them.
    fn strings(
        &self,
        view: &CastView,
        ranges: DimRanges,
        exact: bool,
        matching: bool,
    ) -> Option<CellSet> {
        match (matching, exact) {
            (true, _) => Some(self.set(view, ranges, exact)),
            (false, true) => Some(self.set(view, ranges.complement(), true)),
            (false, false) => None,
        }
    }
}

fn text(scalar: &ScalarValue) -> Option<&str> {
    match scalar {
        ScalarValue::Dictionary(_, inner) => text(inner),
        other => other.try_as_str().flatten(),
    }
}

/// The start of the strings that a LIKE pattern matches. A backslash makes the next character an ordinary one.
#[derive(Debug, PartialEq, Eq)]
struct LikePrefix {
    prefix: String,
    rest: AtomRest,
}

#[derive(Debug, PartialEq, Eq)]
enum AtomRest {
    /// The end of the string.
    Nothing,
    /// Any characters.
    Anything,
    /// Other conditions.
    Unknown,
}

impl LikePrefix {
    fn new(pattern: &str) -> Self {
        let mut prefix = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' if chars.all(|c| c == '%') => {
                    return Self {
                        prefix,
                        rest: AtomRest::Anything,
                    };
                }
                '%' | '_' => {
                    return Self {
                        prefix,
                        rest: AtomRest::Unknown,
                    };
                }
                // A backslash at the end is an ordinary character.
                '\\' => prefix.push(chars.next().unwrap_or('\\')),
                c => prefix.push(c),
            }
        }
        Self {
            prefix,
            rest: AtomRest::Nothing,
        }
    }

    fn exact(&self) -> bool {
        self.rest != AtomRest::Unknown
    }

    fn ranges(&self) -> DimRanges {
        let range = match self.rest {
            AtomRest::Nothing => BytesRange::point(self.prefix.as_bytes()),
            AtomRest::Anything | AtomRest::Unknown => BytesRange::prefix(self.prefix.as_bytes()),
        };
        DimRanges::from_bytes(vec![range])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_prefixes_where_they_can_be() {
        let cases = [
            ("", "", AtomRest::Nothing),
            ("abc", "abc", AtomRest::Nothing),
            ("ab%", "ab", AtomRest::Anything),
            ("ab%%", "ab", AtomRest::Anything),
            ("%", "", AtomRest::Anything),
            ("a_", "a", AtomRest::Unknown),
            ("a%b", "a", AtomRest::Unknown),
            (r"a\%b%", "a%b", AtomRest::Anything),
            (r"a\_", "a_", AtomRest::Nothing),
            (r"a\\%", r"a\", AtomRest::Anything),
            (r"a\b", "ab", AtomRest::Nothing),
            (r"a\", r"a\", AtomRest::Nothing),
        ];
        for (pattern, prefix, rest) in cases {
            let expected = LikePrefix {
                prefix: prefix.to_string(),
                rest,
            };
            assert_eq!(LikePrefix::new(pattern), expected, "{pattern}");
        }
    }
}
