//! The rows of MERGE INTO: those of the source and of the array that belong together, each with the first clause that
//! applies to it.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{Column, DFSchema, DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::dml::{
    MergeIntoAction, MergeIntoClause, MergeIntoClauseKind, MergeIntoOp,
};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, lit,
};

use super::rows::not_stored;
use super::target::RowMeaning;
use super::values::converted;
use super::{ChangedArray, ColumnNames, with_taken};
use crate::dml::ChangeStatement;
use crate::statements::written::is_default;

/// Whether a pair has a row of the array.
const IN_ARRAY: &str = "__in_array";
/// Whether a pair has a row of the source.
const IN_SOURCE: &str = "__in_source";
/// The number of the clause that applies to a pair.
const CLAUSE: &str = "__clause";

/// The rows that a MERGE changes.
pub(super) fn merged(
    changed: &ChangedArray<'_>,
    source: &LogicalPlan,
    merge: &MergeIntoOp,
) -> Result<(LogicalPlan, RowMeaning)> {
    let pairs = pairs(changed, source, merge)?;
    let clause = first_clause(&merge.clauses)?;
    let mut columns = pairs
        .schema()
        .columns()
        .into_iter()
        .map(Expr::Column)
        .collect::<Vec<_>>();
    columns.push(clause.alias(CLAUSE));
    let applies = column(CLAUSE).is_not_null();
    let pairs = LogicalPlanBuilder::from(pairs)
        .project(columns)?
        .filter(applies)?;
    let names = ColumnNames::of(changed);
    let schema = changed.source.schema();
    check_assigned(changed, &merge.clauses)?;
    let fields = schema.fields().iter();
    let values = fields.take(changed.stored_columns()).enumerate();
    let values =
        values.map(|(index, field)| value(changed, &merge.clauses, index, field, pairs.schema()));
    let values = values.collect::<Result<Vec<_>>>()?;
    if stays_in_place(changed, &merge.clauses) {
        let named = values
            .into_iter()
            .zip(schema.fields())
            .map(|(value, field)| value.alias(field.name()));
        let rows = pairs.project(named.collect::<Vec<_>>())?.build()?;
        return Ok((rows, RowMeaning::Update(ChangeStatement::Merge)));
    }
    let old = schema
        .fields()
        .iter()
        .zip(&names.old)
        .map(|(field, name)| of_array(changed, field.name()).alias(name));
    let new = values
        .into_iter()
        .zip(&names.new)
        .map(|(value, name)| value.alias(name));
    let deletes = (0_i64..)
        .zip(&merge.clauses)
        .filter(|(_, clause)| clause.action == MergeIntoAction::Delete)
        .map(|(number, _)| lit(number))
        .collect::<Vec<_>>();
    let stays = column(CLAUSE).in_list(deletes, true).alias(&names.stays);
    let columns = old.chain(new).chain([stays]).collect::<Vec<_>>();
    let rows = pairs.project(columns)?.build()?;
    Ok((
        with_taken(changed, &names, rows)?,
        RowMeaning::Change(ChangeStatement::Merge),
    ))
}

/// Whether no row is removed or moved, and new rows, if there are any, come where nothing can be in their way.
fn stays_in_place(changed: &ChangedArray<'_>, clauses: &[MergeIntoClause]) -> bool {
    let schema = changed.source.schema();
    let is_dimension = |name: &String| {
        let index = schema.index_of(name);
        index.is_ok_and(|index| index < changed.dimensions())
    };
    clauses.iter().all(|clause| match &clause.action {
        MergeIntoAction::Delete => false,
        MergeIntoAction::Update(assigned) => !assigned.iter().any(|(name, _)| is_dimension(name)),
        // A dense array has a cell at every coordinate, and ON finds it or not.
        MergeIntoAction::Insert { .. } => changed.array.array_schema().is_dense(),
    })
}

/// The new value of a column, by the clause that applies.
fn value(
    changed: &ChangedArray<'_>,
    clauses: &[MergeIntoClause],
    index: usize,
    field: &FieldRef,
    pairs: &DFSchema,
) -> Result<Expr> {
    let schema = changed.source.schema();
    let dimensions = schema
        .fields()
        .iter()
        .take(changed.dimensions())
        .map(|field| field.name())
        .collect::<Vec<_>>();
    let mut values = Vec::new();
    for (number, clause) in (0_i64..).zip(clauses) {
        let (given, coordinates): (_, Vec<_>) = match &clause.action {
            MergeIntoAction::Delete => continue,
            MergeIntoAction::Update(assigned) => {
                let mut assigned = assigned.iter();
                let given = assigned.find(|(column, _)| column == field.name());
                let old = dimensions.iter().map(|name| of_array(changed, name));
                (given.map(|(_, value)| value.clone()), old.collect())
            }
            MergeIntoAction::Insert { columns, values } => {
                let given = |name: &str| inserted(changed, columns, values, name);
                let new = dimensions.iter().map(|name| given(name));
                (Some(given(field.name())), new.collect())
            }
        };
        let value = match given {
            None => of_array(changed, field.name()),
            Some(given) => {
                let given = if is_default(&given) {
                    changed.default(field.name())
                } else {
                    given
                };
                let given = converted(given, field.data_type(), field.name(), pairs)?;
                changed.required(index, given, coordinates)
            }
        };
        values.push((Box::new(lit(number)), Box::new(value)));
    }
    let nothing = Expr::Literal(ScalarValue::try_from(field.data_type())?, None);
    Ok(if values.is_empty() {
        nothing
    } else {
        let clause = Some(Box::new(column(CLAUSE)));
        Expr::Case(Case::new(clause, values, Some(Box::new(nothing))))
    })
}

/// A column of the array.
fn of_array(changed: &ChangedArray<'_>, name: &str) -> Expr {
    Expr::Column(Column::new(Some(changed.name.clone()), name))
}

/// The pairs of rows that satisfy ON, and the rows without a partner that clauses ask for.
fn pairs(
    changed: &ChangedArray<'_>,
    source: &LogicalPlan,
    merge: &MergeIntoOp,
) -> Result<LogicalPlan> {
    let wants = |wanted: fn(MergeIntoClauseKind) -> bool| {
        merge.clauses.iter().any(|clause| wanted(clause.kind))
    };
    let new_ones = wants(|kind| kind.is_not_matched_by_target());
    let old_ones = wants(|kind| kind == MergeIntoClauseKind::NotMatchedBySource);
    let kind = match (old_ones, new_ones) {
        (false, false) => JoinType::Inner,
        (true, false) => JoinType::Left,
        (false, true) => JoinType::Right,
        (true, true) => JoinType::Full,
    };
    let name = changed.name.clone();
    let array = if !old_ones && finds_by_coordinates(changed, &merge.on) {
        changed.lookup_source()
    } else {
        Arc::clone(changed.source)
    };
    let array = LogicalPlanBuilder::scan(name, array, None)?.build()?;
    let marked = |plan: &LogicalPlan, mark: &str| {
        let columns = plan
            .schema()
            .columns()
            .into_iter()
            .map(Expr::Column)
            .chain([lit(true).alias(mark)])
            .collect::<Vec<_>>();
        LogicalPlanBuilder::from(plan.clone())
            .project(columns)?
            .build()
    };
    let source = marked(source, IN_SOURCE)?;
    LogicalPlanBuilder::from(marked(&array, IN_ARRAY)?)
        .join_on(source, kind, [merge.on.clone()])?
        .build()
}

/// Whether ON equates each dimension with a value of the source, so that a row of the source can only find the row at its
/// coordinates.
fn finds_by_coordinates(changed: &ChangedArray<'_>, on: &Expr) -> bool {
    let conditions = split_conjunction(on);
    let is_of_array = |column: &Column| column.relation.as_ref() == Some(changed.name);
    let equates = |condition: &Expr, dimension: &str| {
        let Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) = condition
        else {
            return false;
        };
        let is_dimension = |side: &Expr| match side {
            Expr::Column(column) => is_of_array(column) && column.name == dimension,
            _ => false,
        };
        let is_of_source = |side: &Expr| !side.column_refs().into_iter().any(is_of_array);
        (is_dimension(left) && is_of_source(right)) || (is_dimension(right) && is_of_source(left))
    };
    let schema = changed.source.schema();
    let mut dimensions = schema.fields().iter().take(changed.dimensions());
    dimensions.all(|field| conditions.iter().any(|on| equates(on, field.name())))
}

/// The number of the first clause that applies to a pair, or NULL.
fn first_clause(clauses: &[MergeIntoClause]) -> Result<Expr> {
    let mut cases = Vec::with_capacity(clauses.len());
    for (number, clause) in (0_i64..).zip(clauses) {
        let (in_array, in_source) = (column(IN_ARRAY), column(IN_SOURCE));
        let pair = match clause.kind {
            MergeIntoClauseKind::Matched => in_array.is_not_null().and(in_source.is_not_null()),
            MergeIntoClauseKind::NotMatched | MergeIntoClauseKind::NotMatchedByTarget => {
                in_array.is_null()
            }
            MergeIntoClauseKind::NotMatchedBySource => in_source.is_null(),
        };
        let inserts = matches!(clause.action, MergeIntoAction::Insert { .. });
        if inserts != clause.kind.is_not_matched_by_target() {
            return Err(DataFusionError::Plan(
                "WHEN NOT MATCHED inserts rows, and the other clauses of MERGE INTO update or delete them".to_owned(),
            ));
        }
        let applies = match &clause.predicate {
            Some(predicate) => pair.and(predicate.clone()),
            None => pair,
        };
        cases.push((Box::new(applies), Box::new(lit(number))));
    }
    if cases.is_empty() {
        return internal_err!("MERGE INTO has clauses");
    }
    Ok(Expr::Case(Case::new(None, cases, None)))
}

/// The value of a column of an inserted row: the given value, or the default.
fn inserted(changed: &ChangedArray<'_>, columns: &[String], values: &[Expr], name: &str) -> Expr {
    let place = if columns.is_empty() {
        changed.source.schema().index_of(name).ok()
    } else {
        columns.iter().position(|column| column == name)
    };
    place
        .and_then(|place| values.get(place))
        .cloned()
        .unwrap_or_else(|| changed.default(name))
}

/// Fails if a clause sets a column that the array does not store.
fn check_assigned(changed: &ChangedArray<'_>, clauses: &[MergeIntoClause]) -> Result<()> {
    let schema = changed.source.schema();
    let others = schema
        .fields()
        .iter()
        .skip(changed.stored_columns())
        .map(|field| field.name())
        .collect::<Vec<_>>();
    for clause in clauses {
        let set: Vec<&String> = match &clause.action {
            MergeIntoAction::Delete => Vec::new(),
            MergeIntoAction::Update(assigned) => assigned.iter().map(|(name, _)| name).collect(),
            MergeIntoAction::Insert { columns, .. } => columns.iter().collect(),
        };
        if let Some(name) = set.into_iter().find(|name| others.contains(name)) {
            return Err(not_stored(changed, name));
        }
    }
    Ok(())
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}
