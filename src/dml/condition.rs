//! The stored condition of a DELETE, which cells must satisfy to survive.
//!
//! A WHERE is stored if the stored condition means the same to every reader. Ranges of coordinates do, unless there are NaN.
//! Comparisons of attributes do if three things cannot occur: a NULL, which every stored comparison deletes and no SQL
//! comparison does; a fragment without the attribute, whose cells a stored comparison deletes, too; and a NaN or a zero with a
//! sign, which DataFusion orders and IEEE does not. All other selections delete cells by their coordinates.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal, NotExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::arrow::{CellWriter, NullPolicy, TypeOptions};
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::delete_condition::{Comparison, ConditionTest, DeleteCondition};
use tiledb_engine::format::schema::{Attribute, CellValNum, Dimension};
use tiledb_engine::geometry::key;
use tiledb_engine::geometry::subarray::{DimRanges, Subarray, successor};
use tiledb_engine::write::delete::no_cell;
use tiledb_engine::write::fields::cell_writers;

use super::change::source_of;
use super::nan_coordinates::RemovedNan;

/// The most ranges and comparisons in a condition: every reader evaluates all of them on every cell from then on.
const MOST_TESTS: usize = 1000;
/// The most members of a set.
const MOST_MEMBERS: usize = 10_000;
/// Conditions with a deeper nesting of ANDs, ORs and NOTs aren't stored.
const DEEPEST: usize = 32;

/// The selection of a statement, as far as its plan shows it.
pub(super) enum StatementSelection {
    /// No row, regardless of the array's cells.
    Nothing,
    /// The cells that don't satisfy a condition which can be stored.
    Stored(SurvivingRows),
    /// Rows that no stored condition describes.
    Rows,
}

/// The rows that survive a DELETE.
pub(super) struct SurvivingRows {
    pub(super) condition: DeleteCondition,
    /// Cells that should survive, but would not.
    pub(super) removed_nans: Vec<RemovedNan>,
}

/// Describes the rows of `input`.
pub(super) fn selected(
    input: &Arc<dyn ExecutionPlan>,
    types: &TypeOptions,
) -> tiledb_engine::Result<StatementSelection> {
    let mut scan = input;
    while let Some(projection) = scan.downcast_ref::<ProjectionExec>() {
        scan = projection.input();
    }
    if scan.downcast_ref::<EmptyExec>().is_some() {
        return Ok(StatementSelection::Nothing);
    }
    let Some(source) = source_of(scan) else {
        return Ok(StatementSelection::Rows);
    };
    let Some((region, condition)) = source.selection() else {
        return Ok(StatementSelection::Rows);
    };
    let snapshot = &source.plan().spec.table.snapshot;
    let stored = StoredCondition {
        snapshot,
        writers: cell_writers(snapshot, types, NullPolicy::Refused)?,
    };
    let mut any = Vec::new();
    let removed_nans = match stored.outside(region) {
        RangeComplement::Everything => return Ok(StatementSelection::Nothing),
        RangeComplement::Unknown => return Ok(StatementSelection::Rows),
        RangeComplement::Of(outside, removed_nans) => {
            any.extend(outside);
            removed_nans
        }
    };
    if let Some(condition) = condition {
        match stored.condition(condition, false, 0) {
            Some(survives) => any.push(survives),
            None => return Ok(StatementSelection::Rows),
        }
    }
    let condition = match any.len() {
        0 => no_cell(&snapshot.schema)?,
        _ => DeleteCondition::Any(any).flat(),
    };
    Ok(if tests(&condition) <= MOST_TESTS {
        StatementSelection::Stored(SurvivingRows {
            condition,
            removed_nans,
        })
    } else {
        StatementSelection::Rows
    })
}

/// The coordinates outside the ranges of a query.
enum RangeComplement {
    /// All coordinates lie outside.
    Everything,
    /// The cells that satisfy one of these conditions. NaN coordinates in the list lie outside as well, but the stored
    /// conditions would delete them.
    Of(Vec<DeleteCondition>, Vec<RemovedNan>),
    /// No condition describes the coordinates.
    Unknown,
}

/// Builds conditions on stored fields.
struct StoredCondition<'a> {
    snapshot: &'a Snapshot,
    writers: Vec<CellWriter>,
}

impl StoredCondition<'_> {
    /// For each dimension with ranges, the condition that the coordinate lies outside them.
    fn outside(&self, region: &Subarray) -> RangeComplement {
        if region.is_empty() {
            return RangeComplement::Everything;
        }
        let dimensions = self.snapshot.schema.dimensions.iter().zip(region.dims());
        let narrowed = dimensions
            .enumerate()
            .filter(|(_, (_, ranges))| !ranges.is_all());
        let (mut conditions, mut removed_nans) = (Vec::new(), Vec::new());
        for (index, (dimension, ranges)) in narrowed {
            let tests = if key::has_key(dimension.datatype) {
                outside_keys(dimension, ranges)
            } else {
                outside_strings(ranges)
            };
            let Some(tests) = tests else {
                return RangeComplement::Unknown;
            };
            if tests.is_empty() {
                return RangeComplement::Everything;
            }
            if tests.iter().flatten().any(is_inequality) {
                removed_nans.extend(RemovedNan::outside(index, dimension, ranges));
            }
            let of_dimension = |test| DeleteCondition::Test {
                field: dimension.name.clone(),
                test,
            };
            let outside_of_each = tests.into_iter().map(|alternatives| {
                let alternatives = alternatives.into_iter().map(of_dimension);
                DeleteCondition::Any(alternatives.collect())
            });
            conditions.push(DeleteCondition::All(outside_of_each.collect()));
        }
        RangeComplement::Of(conditions, removed_nans)
    }

    /// The condition that `expr` is true; if not `holds`, that it is false.
    fn condition(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        holds: bool,
        depth: usize,
    ) -> Option<DeleteCondition> {
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
            let test = ConditionTest::Member { members, negated };
            return self.test(list.expr(), test);
        }
        let binary = expr.downcast_ref::<BinaryExpr>()?;
        let (left, op, right) = (binary.left(), *binary.op(), binary.right());
        if matches!(op, Operator::And | Operator::Or) {
            let operands = operands(expr, op).into_iter();
            let nodes = operands
                .map(|operand| self.condition(operand, holds, depth + 1))
                .collect::<Option<Vec<_>>>()?;
            return Some(if (op == Operator::And) == holds {
                DeleteCondition::All(nodes)
            } else {
                DeleteCondition::Any(nodes)
            });
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
    ) -> Option<DeleteCondition> {
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
        // In IEEE, only <> is true for a NaN. For these stored comparisons, DataFusion's order, in which NaN is above all
        // numbers, has the same result.
        let agrees = matches!(
            comparison,
            Comparison::Lt | Comparison::Le | Comparison::Eq | Comparison::Ne
        );
        if is_float(datatype) && !agrees {
            return None;
        }
        let value = self.value(column, value)?;
        self.test(column, ConditionTest::Compare(comparison, value))
    }

    /// A test of a column, if its field allows a stored test.
    fn test(&self, column: &Arc<dyn PhysicalExpr>, test: ConditionTest) -> Option<DeleteCondition> {
        let (field, _) = self.field(column)?;
        Some(DeleteCondition::Test { field, test })
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
        // A value that the type can't hold exactly would compare otherwise; libtiledb takes no empty value.
        let bytes = cells.values;
        let usable = if is_float(datatype) {
            is_plain_number(datatype, &bytes)
        } else {
            !bytes.is_empty()
        };
        usable.then_some(bytes)
    }
}

/// The operands of a chain of ANDs or of ORs, from left to right.
fn operands(expr: &Arc<dyn PhysicalExpr>, chained: Operator) -> Vec<&Arc<dyn PhysicalExpr>> {
    let (mut operands, mut pending) = (Vec::new(), vec![expr]);
    while let Some(expr) = pending.pop() {
        match expr.downcast_ref::<BinaryExpr>() {
            Some(binary) if *binary.op() == chained => {
                pending.extend([binary.right(), binary.left()]);
            }
            _ => operands.push(expr),
        }
    }
    operands
}

/// For each range, tests of which at least one is true outside the range. The members of a set count as one range. The list is
/// empty if no coordinate can lie inside. `None` if the tests can't be stored.
fn outside_keys(dimension: &Dimension, ranges: &DimRanges) -> Option<Vec<Vec<ConditionTest>>> {
    let datatype = dimension.datatype;
    let (first, last) = dimension.domain.as_ref()?;
    let first = key::key(datatype, first).ok()?;
    let last = key::key(datatype, last).ok()?;
    let (mut points, mut tests) = (Vec::new(), Vec::new());
    let bytes = |key: u64| {
        let bytes = key::from_key(datatype, key);
        (!is_float(datatype) || is_plain_number(datatype, &bytes)).then_some(bytes)
    };
    let nan = key::nan_key(datatype);
    for range in ranges.key_ranges() {
        // NaN coordinates lie outside every domain.
        let holds_nan = nan.is_some_and(|nan| range.lo <= nan && nan <= range.hi);
        if !holds_nan && (range.hi < first || range.lo > last) {
            continue;
        }
        if range.lo == range.hi {
            points.push(bytes(range.lo)?);
            continue;
        }
        let mut outside = Vec::new();
        if range.lo > first {
            outside.push(ConditionTest::Compare(Comparison::Lt, bytes(range.lo)?));
        }
        if range.hi < last {
            outside.push(ConditionTest::Compare(Comparison::Gt, bytes(range.hi)?));
        }
        if outside.is_empty() {
            outside.push(ConditionTest::Compare(
                Comparison::Lt,
                dimension.domain.as_ref()?.0.clone(),
            ));
        }
        tests.push(outside);
    }
    tests.extend(not_among(points)?);
    // A lossy filter may move float coordinates out of the domain.
    let unknown = tests.is_empty() && datatype.is_float();
    (!unknown).then_some(tests)
}

/// As [`outside_keys`], for strings.
fn outside_strings(ranges: &DimRanges) -> Option<Vec<Vec<ConditionTest>>> {
    let (mut points, mut tests) = (Vec::new(), Vec::new());
    for range in ranges.bytes_ranges() {
        if range.end.as_ref() == Some(&successor(&range.start)) && !range.start.is_empty() {
            points.push(range.start.clone());
            continue;
        }
        let mut outside = Vec::new();
        if !range.start.is_empty() {
            outside.push(ConditionTest::Compare(Comparison::Lt, range.start.clone()));
        }
        if let Some(end) = &range.end {
            outside.push(ConditionTest::Compare(Comparison::Ge, end.clone()));
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
fn not_among(mut points: Vec<Vec<u8>>) -> Option<Option<Vec<ConditionTest>>> {
    let test = match points.len() {
        0 => return Some(None),
        1 => ConditionTest::Compare(Comparison::Ne, points.pop()?),
        few if few <= MOST_MEMBERS => ConditionTest::Member {
            members: points,
            negated: true,
        },
        _ => return None,
    };
    Some(Some(vec![test]))
}

/// Whether no NaN satisfies the test of a coordinate.
fn is_inequality(test: &ConditionTest) -> bool {
    !matches!(
        test,
        ConditionTest::Compare(Comparison::Ne, _) | ConditionTest::Member { negated: true, .. }
    )
}

/// The number of tests in a condition.
fn tests(condition: &DeleteCondition) -> usize {
    match condition {
        DeleteCondition::Test { .. } => 1,
        DeleteCondition::All(nodes) | DeleteCondition::Any(nodes) => nodes.iter().map(tests).sum(),
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

/// Whether a float is neither NaN nor a zero: IEEE compares these differently from DataFusion.
fn is_plain_number(datatype: Datatype, bytes: &[u8]) -> bool {
    let is_zero = match bytes.split_last() {
        Some((sign, rest)) => sign & 0x7f == 0 && rest.iter().all(|byte| *byte == 0),
        None => true,
    };
    let key = key::key(datatype, bytes);
    !is_zero && key.is_ok_and(|key| key::nan_key(datatype) != Some(key))
}
