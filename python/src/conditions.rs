//! Expressions of pyarrow as conditions of DataFusion that are true, false and NULL for the same rows.
//!
//! The subtle point is floats. A comparison of pyarrow with NaN is false, and -0.0 equals 0.0; DataFusion orders floats totally: NaN is above
//! (or below) all numbers, and -0.0 is below 0.0. So comparisons get bounds. Polars is in between: NaN is above all numbers, and -0.0 equals
//! 0.0.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Expr, Operator, ScalarUDF, binary_expr, lit, not};

use crate::expression::{CallOptions, ExpressionStep};
use crate::literals::{PlacedLiteral, is_float, place, value_type};

/// More levels than this are left to pyarrow.
const DEEPEST: usize = 400;

/// Which order of floats a condition means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatOrder {
    /// Comparisons with NaN are false.
    Ieee,
    /// NaN equals itself and is above all numbers.
    NanIsGreatest,
}

/// A column that conditions may name.
#[derive(Debug, Clone)]
pub struct ConditionColumn {
    pub name: String,
    pub source: Column,
    pub stored: DataType,
}

/// The columns and functions that conditions may use.
pub struct ConditionScope<'a> {
    pub columns: &'a [ConditionColumn],
    pub starts_with: Option<Arc<ScalarUDF>>,
    pub floats: FloatOrder,
}

/// The conditions of an expression, as far as they are known.
#[derive(Debug, Default)]
pub struct TranslatedFilter {
    /// Rows that meet the expression meet all of these.
    pub conditions: Vec<Expr>,
    /// Rows that meet all conditions meet the expression.
    pub is_complete: bool,
    /// The columns that the expression names.
    pub fields: BTreeSet<String>,
}

/// A part of an expression.
enum ConditionPart {
    Column(ConditionColumn),
    Literal(ScalarValue),
    /// A condition with the same meaning.
    Known {
        condition: Expr,
        never_null: bool,
    },
    /// Conditions that are true wherever the part is.
    Implied(Vec<Expr>),
    /// Whether the column is among these values, of which none is NULL. False where the column is NULL.
    Members(ConditionColumn, Vec<Expr>),
}

const UNKNOWN: ConditionPart = ConditionPart::Implied(Vec::new());

#[derive(Default)]
struct OpenCall {
    function: String,
    arguments: Vec<ConditionPart>,
    options: CallOptions,
}

/// Translates an expression as far as it is known. Returns nothing if its functions don't end where they should.
pub fn translate(
    steps: Vec<ExpressionStep>,
    scope: &ConditionScope<'_>,
) -> Option<TranslatedFilter> {
    let mut fields = BTreeSet::new();
    let mut open = vec![OpenCall::default()];
    let mut too_deep = false;
    for step in steps {
        too_deep |= open.len() > DEEPEST;
        let part = match step {
            ExpressionStep::Call(function) => {
                open.push(OpenCall {
                    function,
                    ..OpenCall::default()
                });
                continue;
            }
            ExpressionStep::Options(options) => {
                open.last_mut()?.options = options;
                continue;
            }
            ExpressionStep::End => apply(open.pop()?, scope),
            ExpressionStep::Field(name) => {
                let known = scope.columns.iter().find(|column| column.name == name);
                fields.insert(name);
                known.map_or(UNKNOWN, |column| ConditionPart::Column(column.clone()))
            }
            ExpressionStep::Literal(value) => ConditionPart::Literal(value),
            ExpressionStep::Unknown => UNKNOWN,
        };
        open.last_mut()?.arguments.push(part);
    }
    let whole = open.pop()?.arguments.pop()?;
    if too_deep {
        return Some(TranslatedFilter {
            fields,
            ..TranslatedFilter::default()
        });
    }
    let (conditions, is_complete) = match whole.into_known() {
        ConditionPart::Known { condition, .. } => (vec![condition], true),
        ConditionPart::Implied(conditions) => (conditions, false),
        _ => (Vec::new(), false),
    };
    Some(TranslatedFilter {
        conditions,
        is_complete,
        fields,
    })
}

impl ConditionPart {
    /// Turns whatever is a condition into `Known`.
    fn into_known(self) -> Self {
        match self {
            Self::Column(column) if column.stored == DataType::Boolean => known(column.expr()),
            Self::Literal(ScalarValue::Boolean(value)) => Self::Known {
                condition: lit(ScalarValue::Boolean(value)),
                never_null: value.is_some(),
            },
            Self::Members(column, members) => {
                let is_member = column.expr().in_list(members, false);
                never_null(column.expr().is_not_null().and(is_member))
            }
            other => other,
        }
    }

    fn implied(self) -> Vec<Expr> {
        match self.into_known() {
            Self::Known { condition, .. } => vec![condition],
            Self::Implied(conditions) => conditions,
            _ => Vec::new(),
        }
    }
}

impl ConditionColumn {
    fn expr(&self) -> Expr {
        Expr::Column(self.source.clone())
    }

    /// Whether a float is a number. NULL for NULL.
    fn is_number(&self) -> Option<Expr> {
        let (low, high) = match self.stored {
            DataType::Float64 => (lit(f64::NEG_INFINITY), lit(f64::INFINITY)),
            DataType::Float32 => (lit(f32::NEG_INFINITY), lit(f32::INFINITY)),
            _ => return None,
        };
        Some(self.expr().gt_eq(low).and(self.expr().lt_eq(high)))
    }
}

fn known(condition: Expr) -> ConditionPart {
    ConditionPart::Known {
        condition,
        never_null: false,
    }
}

fn never_null(condition: Expr) -> ConditionPart {
    ConditionPart::Known {
        condition,
        never_null: true,
    }
}

/// The meaning of a function of pyarrow.
fn apply(call: OpenCall, scope: &ConditionScope<'_>) -> ConditionPart {
    let function = call.function.as_str();
    let mut arguments = call.arguments.into_iter();
    match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(only), None, _) => one(function, only, call.options, scope),
        (Some(left), Some(right), None) => two(function, left, right, scope),
        (Some(asked), Some(then), Some(otherwise)) if function == "if_else" => {
            if_else(asked, then, otherwise)
        }
        _ => UNKNOWN,
    }
}

fn one(
    function: &str,
    argument: ConditionPart,
    options: CallOptions,
    scope: &ConditionScope<'_>,
) -> ConditionPart {
    match (function, argument) {
        ("invert", argument) => match argument.into_known() {
            ConditionPart::Known {
                condition,
                never_null,
            } => ConditionPart::Known {
                condition: not(condition),
                never_null,
            },
            _ => UNKNOWN,
        },
        ("is_valid", ConditionPart::Column(column)) => never_null(column.expr().is_not_null()),
        ("is_null", ConditionPart::Column(column)) => match options.nan_is_null {
            Some(false) => never_null(column.expr().is_null()),
            Some(true) if !is_float(value_type(&column.stored)) => {
                never_null(column.expr().is_null())
            }
            Some(true) => match column.is_number() {
                Some(number) => never_null(column.expr().is_null().or(not(number))),
                None => UNKNOWN,
            },
            None => UNKNOWN,
        },
        ("is_nan", ConditionPart::Column(column)) => {
            column.is_number().map_or(UNKNOWN, |n| known(not(n)))
        }
        ("is_in", ConditionPart::Column(column)) => is_in(column, options).unwrap_or(UNKNOWN),
        ("starts_with", ConditionPart::Column(column)) => {
            starts_with(&column, options, scope).unwrap_or(UNKNOWN)
        }
        _ => UNKNOWN,
    }
}

fn two(
    function: &str,
    left: ConditionPart,
    right: ConditionPart,
    scope: &ConditionScope<'_>,
) -> ConditionPart {
    let operator = match function {
        "and_kleene" | "or_kleene" => return kleene(function, left, right),
        // Other than Kleene's, these are NULL if one side is, even if the other one decides.
        "and" => {
            let mut implied = left.implied();
            implied.extend(right.implied());
            return ConditionPart::Implied(implied);
        }
        "equal" => Operator::Eq,
        "not_equal" => Operator::NotEq,
        "less" => Operator::Lt,
        "less_equal" => Operator::LtEq,
        "greater" => Operator::Gt,
        "greater_equal" => Operator::GtEq,
        _ => return UNKNOWN,
    };
    let compared = match (left, right) {
        (ConditionPart::Column(column), ConditionPart::Literal(value)) => {
            compare(&column, operator, &value, scope.floats)
        }
        (ConditionPart::Literal(value), ConditionPart::Column(column)) => operator
            .swap()
            .and_then(|operator| compare(&column, operator, &value, scope.floats)),
        (ConditionPart::Column(left), ConditionPart::Column(right))
            if left.stored == right.stored && is_plain(&left.stored) =>
        {
            Some(binary_expr(left.expr(), operator, right.expr()))
        }
        _ => None,
    };
    compared.map_or(UNKNOWN, known)
}

/// Whether the values of a type are compared in the same way by pyarrow and by DataFusion.
fn is_plain(ty: &DataType) -> bool {
    ty.is_integer()
        || ty.is_string()
        || matches!(
            ty,
            DataType::Boolean | DataType::Date32 | DataType::Timestamp(..)
        )
}

fn kleene(function: &str, left: ConditionPart, right: ConditionPart) -> ConditionPart {
    let is_and = function == "and_kleene";
    match (left.into_known(), right.into_known()) {
        (
            ConditionPart::Known {
                condition: left,
                never_null: l,
            },
            ConditionPart::Known {
                condition: right,
                never_null: r,
            },
        ) => ConditionPart::Known {
            condition: if is_and {
                left.and(right)
            } else {
                left.or(right)
            },
            never_null: l && r,
        },
        (left, right) if is_and => {
            let mut implied = left.implied();
            implied.extend(right.implied());
            ConditionPart::Implied(implied)
        }
        _ => UNKNOWN,
    }
}

/// `if_else` is NULL where the question is NULL. So the question must be one that never is.
fn if_else(asked: ConditionPart, then: ConditionPart, otherwise: ConditionPart) -> ConditionPart {
    let ConditionPart::Known {
        condition: asked,
        never_null: true,
    } = asked.into_known()
    else {
        return UNKNOWN;
    };
    // DuckDB sends IN as `if_else(is_valid(x), is_in(x, …), NULL)`.
    let then = match (then, &otherwise) {
        (
            ConditionPart::Members(column, members),
            ConditionPart::Literal(ScalarValue::Boolean(None) | ScalarValue::Null),
        ) if asked == column.expr().is_not_null() => {
            return known(column.expr().in_list(members, false));
        }
        (then, _) => then,
    };
    match (then.into_known(), null_as_boolean(otherwise).into_known()) {
        (
            ConditionPart::Known {
                condition: then,
                never_null: t,
            },
            ConditionPart::Known {
                condition: otherwise,
                never_null: o,
            },
        ) => ConditionPart::Known {
            condition: asked.clone().and(then).or(not(asked).and(otherwise)),
            never_null: t && o,
        },
        _ => UNKNOWN,
    }
}

fn null_as_boolean(part: ConditionPart) -> ConditionPart {
    match part {
        ConditionPart::Literal(ScalarValue::Null) => {
            ConditionPart::Literal(ScalarValue::Boolean(None))
        }
        other => other,
    }
}

/// `is_in` is never NULL: NULL is a value as others are, or is in no set.
fn is_in(column: ConditionColumn, options: CallOptions) -> Option<ConditionPart> {
    let placed = options.members?.into_iter().map(|value| {
        match place(&value, value_type(&column.stored))? {
            PlacedLiteral::Exact(value) if !is_zero_or_nan(&value) => Some(lit(value)),
            _ => None,
        }
    });
    let members = placed.collect::<Option<Vec<_>>>()?;
    Some(match (members.is_empty(), options.has_null) {
        (true, true) => never_null(column.expr().is_null()),
        (true, false) => never_null(lit(false)),
        (false, true) => {
            // Where the column is NULL, so is IN, and the first part decides.
            let is_null = column.expr().is_null();
            never_null(is_null.or(column.expr().in_list(members, false)))
        }
        (false, false) => ConditionPart::Members(column, members),
    })
}

fn starts_with(
    column: &ConditionColumn,
    options: CallOptions,
    scope: &ConditionScope<'_>,
) -> Option<ConditionPart> {
    if !column.stored.is_string() {
        return None;
    }
    let PlacedLiteral::Exact(beginning) = place(&options.beginning?, &column.stored)? else {
        return None;
    };
    let function = scope.starts_with.as_ref()?;
    Some(known(function.call(vec![column.expr(), lit(beginning)])))
}

/// A comparison of a column with a literal.
fn compare(
    column: &ConditionColumn,
    operator: Operator,
    value: &ScalarValue,
    floats: FloatOrder,
) -> Option<Expr> {
    let ty = value_type(&column.stored);
    if is_float(ty) && ty != &column.stored {
        return None;
    }
    match (place(value, ty)?, operator) {
        (PlacedLiteral::Exact(value), _) if is_float(ty) => {
            compare_floats(column, operator, value, floats)
        }
        (PlacedLiteral::Exact(value), _) => Some(binary_expr(column.expr(), operator, lit(value))),
        // The literal is above the value, and below the next one.
        (PlacedLiteral::Above(value), Operator::Lt | Operator::LtEq) => {
            compare_ordered(column, Operator::LtEq, value, floats)
        }
        (PlacedLiteral::Above(value), Operator::Gt | Operator::GtEq) => {
            compare_ordered(column, Operator::Gt, value, floats)
        }
        _ => None,
    }
}

fn compare_ordered(
    column: &ConditionColumn,
    operator: Operator,
    value: ScalarValue,
    floats: FloatOrder,
) -> Option<Expr> {
    match is_float(&column.stored) {
        true => compare_floats(column, operator, value, floats),
        false => Some(binary_expr(column.expr(), operator, lit(value))),
    }
}

/// A comparison of floats, in the total order of DataFusion.
fn compare_floats(
    column: &ConditionColumn,
    operator: Operator,
    value: ScalarValue,
    floats: FloatOrder,
) -> Option<Expr> {
    if is_nan(&value) {
        return None;
    }
    let (below, above) = match &value {
        ScalarValue::Float64(Some(0.0)) => (lit(-0.0_f64), lit(0.0_f64)),
        ScalarValue::Float32(Some(0.0)) => (lit(-0.0_f32), lit(0.0_f32)),
        _ => (lit(value.clone()), lit(value.clone())),
    };
    let (low, high) = match value {
        ScalarValue::Float64(_) => (lit(f64::NEG_INFINITY), lit(f64::INFINITY)),
        _ => (lit(f32::NEG_INFINITY), lit(f32::INFINITY)),
    };
    let x = || column.expr();
    let equal = || match below == above {
        true => x().eq(below.clone()),
        false => x().gt_eq(below.clone()).and(x().lt_eq(above.clone())),
    };
    let nan_is_greatest = floats == FloatOrder::NanIsGreatest;
    Some(match operator {
        Operator::Eq => equal(),
        Operator::NotEq => not(equal()),
        // NaN with a sign is below all numbers.
        Operator::Lt => x().gt_eq(low).and(x().lt(below)),
        Operator::LtEq => x().gt_eq(low).and(x().lt_eq(above)),
        Operator::Gt if nan_is_greatest => x().gt(above).or(x().lt(low)),
        Operator::GtEq if nan_is_greatest => x().gt_eq(below).or(x().lt(low)),
        Operator::Gt => x().gt(above).and(x().lt_eq(high)),
        Operator::GtEq => x().gt_eq(below).and(x().lt_eq(high)),
        _ => return None,
    })
}

fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(value)) => value.is_nan(),
        ScalarValue::Float32(Some(value)) => value.is_nan(),
        _ => false,
    }
}

fn is_zero_or_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(value)) => value.is_nan() || *value == 0.0,
        ScalarValue::Float32(Some(value)) => value.is_nan() || *value == 0.0,
        _ => false,
    }
}
