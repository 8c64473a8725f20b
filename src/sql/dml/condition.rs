//! The stored condition of a DELETE: what a cell must satisfy to survive.
//!
//! A WHERE is stored if the stored condition means the same to every reader. Ranges of coordinates do, unless there are NaN. Comparisons of
//! attributes do where three things cannot happen: a NULL, which every stored comparison deletes and no SQL comparison does;
//! a fragment without the attribute, whose cells a stored comparison deletes, too; and a NaN or a zero with a sign, which
//! DataFusion orders and IEEE does not. Everything else is deleted by coordinates.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal, NotExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use super::change::source_of;
use super::nan_coordinates::DoomedNan;
use crate::array::snapshot::Snapshot;
use crate::arrow::{CellWriter, Nulls, TypeOptions};
use crate::format::datatype::Datatype;
use crate::format::delete_condition::{Comparison, Condition, Test};
use crate::format::schema::{Attribute, CellValNum, Dimension};
use crate::geometry::key;
use crate::geometry::subarray::{DimRanges, Subarray, successor};
use crate::write::delete::no_cell;
use crate::write::fields::cell_writers;

/// The most ranges and comparisons in a condition: every reader evaluates all of them on every cell from then on.
const MOST_TESTS: usize = 1000;
/// The most members of a set.
const MOST_MEMBERS: usize = 10_000;
/// Conditions that are nested more deeply are not stored.
const DEEPEST: usize = 32;

/// What survives a DELETE.
pub(super) struct Survivors {
    pub(super) condition: Condition,
    /// Cells that would not survive, although they should.
    pub(super) doomed: Vec<DoomedNan>,
}

/// What survives if all rows of `input` are deleted; `None` if no stored condition says that.
pub(super) fn survivors(
    input: &Arc<dyn ExecutionPlan>,
    types: &TypeOptions,
) -> crate::error::Result<Option<Survivors>> {
    let mut scan = input;
    if let Some(projection) = scan.downcast_ref::<ProjectionExec>() {
        scan = projection.input();
    }
    let Some(source) = source_of(scan) else {
        return Ok(None);
    };
    let Some((region, condition)) = source.selection() else {
        return Ok(None);
    };
    let snapshot = &source.plan().spec.table.snapshot;
    let stored = Stored {
        snapshot,
        writers: cell_writers(snapshot, types, Nulls::Refused)?,
    };
    let mut any = Vec::new();
    let Some((outside, doomed)) = stored.outside(region) else {
        return Ok(None);
    };
    any.extend(outside);
    if let Some(condition) = condition {
        match stored.condition(condition, false, 0) {
            Some(survives) => any.push(survives),
            None => return Ok(None),
        }
    }
    let condition = match any.len() {
        0 => no_cell(&snapshot.schema)?,
        _ => together(any, Condition::Any),
    };
    Ok((tests(&condition) <= MOST_TESTS).then_some(Survivors { condition, doomed }))
}

/// What is known of stored fields.
struct Stored<'a> {
    snapshot: &'a Snapshot,
    writers: Vec<CellWriter>,
}

impl Stored<'_> {
    /// For each dimension that is narrowed, the condition that the coordinate lies outside, and the NaN for which it holds
    /// against SQL; `None` if it cannot be stored.
    fn outside(&self, region: &Subarray) -> Option<(Vec<Condition>, Vec<DoomedNan>)> {
        let dimensions = self.snapshot.schema.dimensions.iter().zip(region.dims());
        let narrowed = dimensions
            .enumerate()
            .filter(|(_, (_, ranges))| !ranges.is_all());
        let (mut conditions, mut doomed) = (Vec::new(), Vec::new());
        for (index, (dimension, ranges)) in narrowed {
            let tests = match key::has_key(dimension.datatype) {
                true => outside_keys(dimension, ranges)?,
                false => outside_strings(ranges)?,
            };
            if tests.iter().flatten().any(is_inequality) {
                doomed.extend(DoomedNan::outside(index, dimension, ranges));
            }
            let tests = tests.into_iter().map(|alternatives| {
                let field = || dimension.name.clone();
                let tests = alternatives.into_iter();
                let tests = tests.map(|test| Condition::Test {
                    field: field(),
                    test,
                });
                together(tests.collect(), Condition::Any)
            });
            let tests = tests.collect::<Vec<_>>();
            match tests.is_empty() {
                // No coordinate is inside.
                true => return None,
                false => conditions.push(together(tests, Condition::All)),
            }
        }
        Some((conditions, doomed))
    }

    /// The condition that `expr` holds, or, if it is to survive, that it does not.
    fn condition(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        holds: bool,
        depth: usize,
    ) -> Option<Condition> {
        if depth > DEEPEST {
            return None;
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return self.condition(not.arg(), !holds, depth + 1);
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            let mut members = Vec::new();
            for item in list.list() {
                let value = item.downcast_ref::<Literal>()?.value();
                members.push(self.value(list.expr(), value)?);
            }
            let negated = list.negated() == holds;
            let test = Test::Member { members, negated };
            return self.test(list.expr(), test);
        }
        let binary = expr.downcast_ref::<BinaryExpr>()?;
        let (left, op, right) = (binary.left(), *binary.op(), binary.right());
        if matches!(op, Operator::And | Operator::Or) {
            let both = [left, right].map(|side| self.condition(side, holds, depth + 1));
            let [Some(a), Some(b)] = both else {
                return None;
            };
            let all = (op == Operator::And) == holds;
            let combine = if all { Condition::All } else { Condition::Any };
            return Some(combine(vec![a, b]));
        }
        let (column, op, value) = match (
            left.downcast_ref::<Literal>(),
            right.downcast_ref::<Literal>(),
        ) {
            (None, Some(value)) => (left, op, value.value()),
            (Some(value), None) => (right, op.swap()?, value.value()),
            _ => return None,
        };
        self.comparison(column, op, value, holds)
    }

    fn comparison(
        &self,
        column: &Arc<dyn PhysicalExpr>,
        op: Operator,
        value: &ScalarValue,
        holds: bool,
    ) -> Option<Condition> {
        let (_, datatype) = self.field(column)?;
        let op = if holds { op } else { op.negate()? };
        let comparison = match op {
            Operator::Lt => Comparison::Lt,
            Operator::LtEq => Comparison::Le,
            Operator::Gt => Comparison::Gt,
            Operator::GtEq => Comparison::Ge,
            Operator::Eq => Comparison::Eq,
            Operator::NotEq => Comparison::Ne,
            _ => return None,
        };
        // IEEE says of a NaN that only <> holds, and so does DataFusion's order, which puts it above all numbers, if these
        // comparisons are stored.
        let agrees = matches!(
            comparison,
            Comparison::Lt | Comparison::Le | Comparison::Eq | Comparison::Ne
        );
        if is_float(datatype) && !agrees {
            return None;
        }
        let value = self.value(column, value)?;
        self.test(column, Test::Compare(comparison, value))
    }

    /// A test of a column, if it is stored in a way that allows one.
    fn test(&self, column: &Arc<dyn PhysicalExpr>, test: Test) -> Option<Condition> {
        let (field, _) = self.field(column)?;
        Some(Condition::Test { field, test })
    }

    /// The name and type of the field that a column shows, if a stored test of it means the same as one in SQL.
    fn field(&self, column: &Arc<dyn PhysicalExpr>) -> Option<(String, Datatype)> {
        let index = column.downcast_ref::<Column>()?.index();
        let schema = &self.snapshot.schema;
        if let Some(Dimension { name, datatype, .. }) = schema.dimensions.get(index) {
            return Some((name.clone(), *datatype));
        }
        let attribute = schema
            .attributes
            .get(index.checked_sub(schema.dimensions.len())?)?;
        let in_all = self.snapshot.fragments.iter().all(|fragment| {
            let mut attributes = fragment.schema.attributes.iter();
            attributes.any(|other| other.name == attribute.name)
        });
        // The usual fill value of CHAR reads as NULL.
        let never_null = !attribute.nullable && !attribute.fills_with_no_text();
        let plain = never_null && attribute.enumeration.is_none() && in_all;
        (plain && is_single(attribute)).then(|| (attribute.name.clone(), attribute.datatype))
    }

    /// The stored bytes of a value.
    fn value(&self, column: &Arc<dyn PhysicalExpr>, value: &ScalarValue) -> Option<Vec<u8>> {
        let (_, datatype) = self.field(column)?;
        let writer = self.writers.get(column.downcast_ref::<Column>()?.index())?;
        if value.is_null() {
            return None;
        }
        let mut cells = writer.no_cells();
        writer.append(&value.to_array().ok()?, &mut cells).ok()?;
        // A value that is not exactly one of the type's would compare otherwise; libtiledb takes no empty value.
        let bytes = cells.values;
        let usable = match is_float(datatype) {
            true => is_plain_number(datatype, &bytes),
            false => !bytes.is_empty(),
        };
        usable.then_some(bytes)
    }
}

/// For each range, the tests of which one is true outside of it; the members of a set are one range. `None` if they cannot
/// be stored.
fn outside_keys(dimension: &Dimension, ranges: &DimRanges) -> Option<Vec<Vec<Test>>> {
    let datatype = dimension.datatype;
    let (first, last) = dimension.domain.as_ref()?;
    let first = key::key(datatype, first).ok()?;
    let last = key::key(datatype, last).ok()?;
    let (mut points, mut tests) = (Vec::new(), Vec::new());
    let bytes = |key: u64| {
        let bytes = key::from_key(datatype, key);
        (!is_float(datatype) || is_plain_number(datatype, &bytes)).then_some(bytes)
    };
    for range in ranges.key_ranges() {
        if range.hi < first || range.lo > last {
            continue;
        }
        if range.lo == range.hi {
            points.push(bytes(range.lo)?);
            continue;
        }
        let mut outside = Vec::new();
        if range.lo > first {
            outside.push(Test::Compare(Comparison::Lt, bytes(range.lo)?));
        }
        if range.hi < last {
            outside.push(Test::Compare(Comparison::Gt, bytes(range.hi)?));
        }
        if outside.is_empty() {
            outside.push(Test::Compare(
                Comparison::Lt,
                dimension.domain.as_ref()?.0.clone(),
            ));
        }
        tests.push(outside);
    }
    tests.extend(not_among(points)?);
    Some(tests)
}

/// As [`outside_keys`], for strings.
fn outside_strings(ranges: &DimRanges) -> Option<Vec<Vec<Test>>> {
    let (mut points, mut tests) = (Vec::new(), Vec::new());
    for range in ranges.bytes_ranges() {
        if range.end.as_ref() == Some(&successor(&range.start)) && !range.start.is_empty() {
            points.push(range.start.clone());
            continue;
        }
        let mut outside = Vec::new();
        if !range.start.is_empty() {
            outside.push(Test::Compare(Comparison::Lt, range.start.clone()));
        }
        if let Some(end) = &range.end {
            outside.push(Test::Compare(Comparison::Ge, end.clone()));
        }
        if outside.is_empty() {
            return None;
        }
        tests.push(outside);
    }
    tests.extend(not_among(points)?);
    Some(tests)
}

/// The test that a value is none of `points`, if there are any; `None` if there are too many.
fn not_among(mut points: Vec<Vec<u8>>) -> Option<Option<Vec<Test>>> {
    let test = match points.len() {
        0 => return Some(None),
        1 => Test::Compare(Comparison::Ne, points.pop()?),
        few if few <= MOST_MEMBERS => Test::Member {
            members: points,
            negated: true,
        },
        _ => return None,
    };
    Some(Some(vec![test]))
}

/// Whether no NaN satisfies the test of a coordinate.
fn is_inequality(test: &Test) -> bool {
    !matches!(
        test,
        Test::Compare(Comparison::Ne, _) | Test::Member { negated: true, .. }
    )
}

/// One condition, or several together.
fn together(mut conditions: Vec<Condition>, combine: fn(Vec<Condition>) -> Condition) -> Condition {
    match conditions.len() {
        1 => conditions.remove(0),
        _ => combine(conditions),
    }
}

/// The number of tests in a condition.
fn tests(condition: &Condition) -> usize {
    match condition {
        Condition::Test { .. } => 1,
        Condition::All(nodes) | Condition::Any(nodes) => nodes.iter().map(tests).sum(),
    }
}

/// Whether a cell of the attribute is one value: a number, or a text.
fn is_single(attribute: &Attribute) -> bool {
    match attribute.cell_val_num {
        CellValNum::Fixed(count) => count == 1,
        CellValNum::Var => matches!(
            attribute.datatype,
            Datatype::StringAscii | Datatype::StringUtf8
        ),
    }
}

fn is_float(datatype: Datatype) -> bool {
    matches!(datatype, Datatype::Float32 | Datatype::Float64)
}

/// Whether a float is neither NaN nor a zero, which IEEE compares otherwise than DataFusion.
fn is_plain_number(datatype: Datatype, bytes: &[u8]) -> bool {
    let is_zero = match bytes.split_last() {
        Some((sign, rest)) => sign & 0x7f == 0 && rest.iter().all(|byte| *byte == 0),
        None => true,
    };
    let key = key::key(datatype, bytes);
    !is_zero && key.is_ok_and(|key| key::nan_key(datatype) != Some(key))
}
