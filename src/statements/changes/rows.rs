//! The rows of INSERT, DELETE and UPDATE.
//!
//! DataFusion puts a projection above the inserted rows, which casts each column to its type and fills in omitted columns. A
//! VALUES list already takes its types from the table, wherever it stands, so its values are cast there.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, DataFusionError, Result, internal_err};
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Subquery, Values, lit,
};
use tiledb_engine::Error;

use super::target::RowMeaning;
use super::values::{converted, unwrapped, with_row};
use super::{ChangedArray, ColumnNames, with_taken};
use crate::dml::ChangeStatement;
use crate::error::to_datafusion_error;
use crate::statements::written::is_default;

/// The rows of an INSERT, with exact casts of their values.
pub(super) fn inserted(
    changed: &ChangedArray<'_>,
    rows: &Arc<LogicalPlan>,
) -> Result<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = rows.as_ref() else {
        return Ok(Arc::clone(rows));
    };
    let targets = targets(projection);
    let input = match projection.input.as_ref() {
        LogicalPlan::Values(list) => list_of(changed, list, &targets)?,
        input => {
            let input = input.clone().transform_down_with_subqueries(|plan| {
                let LogicalPlan::Values(list) = &plan else {
                    return Ok(Transformed::no(plan));
                };
                Ok(Transformed::yes(list_of(changed, list, &[])?))
            });
            input.data()?
        }
    };
    let columns = changed.source.schema();
    let expr = projection.expr.iter().map(|value| {
        let column = value.schema_name().to_string();
        let value = unwrapped(value.clone(), &column)?;
        match columns.field_with_name(&column) {
            // A parameter's value has its own type.
            Ok(field) => {
                let converted =
                    converted(value.unalias(), field.data_type(), &column, input.schema())?;
                Ok(converted.alias(column))
            }
            Err(_) => Ok(value),
        }
    });
    let expr = expr.collect::<Result<_>>()?;
    let rows = Projection::try_new(expr, Arc::new(input))?;
    Ok(Arc::new(LogicalPlan::Projection(rows)))
}

/// For each column of the rows that belongs to a column of the table, the names of both.
fn targets(projection: &Projection) -> Vec<(String, String)> {
    let targets = projection.expr.iter().filter_map(|value| {
        let target = value.schema_name().to_string();
        let mut value = value;
        loop {
            value = match value {
                Expr::Alias(alias) => &alias.expr,
                Expr::Cast(cast) => &cast.expr,
                Expr::Column(column) => return Some((column.name.clone(), target)),
                _ => return None,
            };
        }
    });
    targets.collect()
}

/// A VALUES list in which NULL may stand anywhere. DataFusion takes the types of the list from the table. For a NULL in a NOT
/// NULL column it fails without naming the column and the row.
fn list_of(
    changed: &ChangedArray<'_>,
    list: &Values,
    targets: &[(String, String)],
) -> Result<LogicalPlan> {
    let fields = list.schema.iter().map(|(table, field)| {
        let field = field.as_ref().clone().with_nullable(true);
        (table.cloned(), Arc::new(field))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), list.schema.metadata().clone())?;
    let mut values = Vec::with_capacity(list.values.len());
    for (number, row) in (1_usize..).zip(&list.values) {
        let row = row.iter().zip(schema.fields()).map(|(value, field)| {
            let mut targets = targets.iter();
            let target = targets.find(|(name, _)| name == field.name());
            let target = target.map(|(_, target)| target);
            if let Some(target) = target.filter(|_| is_default(value)) {
                let default = changed.default(target);
                return default.cast_to(field.data_type(), &DFSchema::empty());
            }
            let value = unwrapped(value.clone(), target.unwrap_or(field.name()));
            value.map_err(|error| with_row(error, number))
        });
        values.push(row.collect::<Result<Vec<_>>>()?);
    }
    Ok(LogicalPlan::Values(Values {
        schema: Arc::new(schema),
        values,
    }))
}

/// The coordinates of the rows that a DELETE selects.
pub(super) fn deleted(changed: &ChangedArray<'_>, selected: &LogicalPlan) -> Result<LogicalPlan> {
    let columns = selected.schema().columns();
    let dimensions = columns.into_iter().take(changed.dimensions());
    let names = ColumnNames::of(changed);
    let old = dimensions
        .zip(&names.old)
        .map(|(column, name)| Expr::Column(column).alias(name));
    LogicalPlanBuilder::from(selected.clone())
        .project(old.collect::<Vec<_>>())?
        .build()
}

/// The rows that an UPDATE selects, with their new values.
pub(super) fn updated(
    changed: &ChangedArray<'_>,
    selected: &LogicalPlan,
) -> Result<(LogicalPlan, RowMeaning)> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = selected else {
        return internal_err!("the rows of an UPDATE are a projection");
    };
    let schema = changed.source.schema();
    // The updated table comes first.
    let columns = input.schema().columns();
    let coordinates = columns
        .iter()
        .take(changed.dimensions())
        .cloned()
        .map(Expr::Column)
        .collect::<Vec<_>>();
    let (mut new, mut moves) = (Vec::new(), false);
    for (index, (value, field)) in expr.iter().zip(schema.fields()).enumerate() {
        let kept = is_column(value, columns.get(index));
        if index >= changed.stored_columns() {
            if !kept {
                return Err(not_stored(changed, field.name()));
            }
            continue;
        }
        moves |= !kept && index < changed.dimensions();
        new.push(if kept {
            value.clone()
        } else {
            let value = if is_default(value) {
                changed
                    .default(field.name())
                    .cast_to(field.data_type(), &DFSchema::empty())?
            } else {
                let value = given(value.clone(), field.name())?;
                converted(value, field.data_type(), field.name(), input.schema())?
            };
            let value = changed.required(index, value, coordinates.clone());
            value.alias(field.name())
        });
    }
    let rows = LogicalPlanBuilder::from(input.as_ref().clone());
    // Coordinates don't identify a row of an array with duplicates, so the statement replaces all rows that WHERE selects.
    if !moves || changed.array.array_schema().allows_duplicates {
        return Ok((
            rows.project(new)?.build()?,
            RowMeaning::Update(ChangeStatement::Update),
        ));
    }
    let names = ColumnNames::of(changed);
    let old = coordinates
        .into_iter()
        .zip(&names.old)
        .map(|(coordinate, name)| coordinate.alias(name));
    let new = new
        .into_iter()
        .zip(&names.new)
        .map(|(value, name)| value.unalias().alias(name));
    let columns = old.chain(new).chain([lit(true).alias(&names.stays)]);
    let rows = rows.project(columns.collect::<Vec<_>>())?.build()?;
    Ok((
        with_taken(changed, &names, rows)?,
        RowMeaning::Change(ChangeStatement::Update),
    ))
}

/// A new value of an UPDATE. DataFusion casts the value of a subquery inside the subquery.
fn given(value: Expr, column: &str) -> Result<Expr> {
    let subquery = match value.unalias() {
        Expr::ScalarSubquery(subquery) => subquery,
        value => return unwrapped(value, column),
    };
    let exact = match subquery.subquery.as_ref() {
        LogicalPlan::Projection(projection) => match projection.expr.as_slice() {
            [value @ Expr::Cast(_)] => {
                let value = unwrapped(value.clone(), column)?;
                let input = Arc::clone(&projection.input);
                Some(Projection::try_new(vec![value], input)?)
            }
            _ => None,
        },
        _ => None,
    };
    Ok(Expr::ScalarSubquery(match exact {
        Some(exact) => Subquery {
            subquery: Arc::new(LogicalPlan::Projection(exact)),
            ..subquery
        },
        None => subquery,
    }))
}

/// Whether an expression is this column itself.
fn is_column(value: &Expr, column: Option<&Column>) -> bool {
    let mut value = value;
    while let Expr::Alias(alias) = value {
        value = &alias.expr;
    }
    matches!(value, Expr::Column(found) if Some(found) == column)
}

/// The error for a column that the array doesn't store in its cells.
pub(super) fn not_stored(changed: &ChangedArray<'_>, column: &str) -> DataFusionError {
    let error = Error::unsupported(format!(
        "the column {column} is neither a dimension nor an attribute, so it cannot be set"
    ));
    to_datafusion_error(error.with("array", changed.array.storage().uri()))
}
