//! The rows of DELETE and UPDATE.

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{Column, DataFusionError, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, lit};

use super::Changed;
use super::columns::{Names, with_taken};
use super::target::Meaning;
use crate::error::Error;

/// The coordinates of the rows that a DELETE selects.
pub(super) fn deleted(changed: &Changed<'_>, selected: &LogicalPlan) -> Result<LogicalPlan> {
    let columns = selected.schema().columns();
    let dimensions = columns.into_iter().take(changed.dimensions());
    let names = Names::of(changed);
    let old = dimensions.zip(&names.old);
    let old = old.map(|(column, name)| Expr::Column(column).alias(name));
    LogicalPlanBuilder::from(selected.clone())
        .project(old.collect::<Vec<_>>())?
        .build()
}

/// The rows that an UPDATE selects, with their new values.
pub(super) fn updated(
    changed: &Changed<'_>,
    selected: &LogicalPlan,
) -> Result<(LogicalPlan, Meaning)> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = selected else {
        return internal_err!("the rows of an UPDATE are a projection");
    };
    let schema = changed.source.schema();
    let (mut new, mut moves) = (Vec::new(), false);
    for (index, (value, field)) in expr.iter().zip(schema.fields()).enumerate() {
        let kept = is_column(value, field);
        if index >= changed.stored_columns() {
            if !kept {
                return Err(not_stored(changed, field.name()));
            }
            continue;
        }
        moves |= !kept && index < changed.dimensions();
        new.push(value.clone());
    }
    let rows = LogicalPlanBuilder::from(input.as_ref().clone());
    // A row of an array with duplicates has no coordinates of its own: all that WHERE selects is replaced.
    if !moves || changed.array.array_schema().allows_duplicates {
        return Ok((rows.project(new)?.build()?, Meaning::Update("UPDATE")));
    }
    let names = Names::of(changed);
    // The table that is updated comes first.
    let columns = input.schema().columns().into_iter();
    let old = columns.take(changed.dimensions()).zip(&names.old);
    let old = old.map(|(column, name)| Expr::Column(column).alias(name));
    let new = new.into_iter().zip(&names.new);
    let new = new.map(|(value, name)| value.unalias().alias(name));
    let columns = old.chain(new).chain([lit(true).alias(&names.stays)]);
    let rows = rows.project(columns.collect::<Vec<_>>())?.build()?;
    Ok((
        with_taken(changed, &names, rows)?,
        Meaning::Change("UPDATE"),
    ))
}

/// Whether an expression is a column of this name itself.
fn is_column(value: &Expr, field: &FieldRef) -> bool {
    let mut value = value;
    while let Expr::Alias(alias) = value {
        value = &alias.expr;
    }
    matches!(value, Expr::Column(Column { name, .. }) if name == field.name())
}

/// The error for a column that shows something that the array does not store in its cells.
pub(super) fn not_stored(changed: &Changed<'_>, column: &str) -> DataFusionError {
    let error = Error::unsupported(format!(
        "the column {column} is neither a dimension nor an attribute, so it cannot be set"
    ));
    DataFusionError::from(error.with("array", changed.array.storage().uri()))
}
