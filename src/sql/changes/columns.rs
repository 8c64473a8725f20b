//! The columns of changed rows: old coordinates, the new row, whether it stays, and whether its coordinates were taken.

use std::sync::Arc;

use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, lit};

use super::Changed;

/// The names of the columns.
#[derive(Debug)]
pub(super) struct Names {
    /// The old coordinates.
    pub(super) old: Vec<String>,
    /// The new row.
    pub(super) new: Vec<String>,
    /// Whether the new row stays, or the old one is only removed.
    pub(super) stays: String,
    /// Whether a row was at the new coordinates.
    pub(super) taken: String,
}

impl Names {
    pub(super) fn of(changed: &Changed<'_>) -> Self {
        let numbered = |what: &str, count: usize| {
            let names = (0..count).map(|i| format!("__{what}_{i}"));
            names.collect::<Vec<_>>()
        };
        Self {
            old: numbered("old", changed.dimensions()),
            new: numbered("new", changed.stored_columns()),
            stays: "__stays".to_owned(),
            taken: "__taken".to_owned(),
        }
    }

    /// All columns but the last one.
    pub(super) fn without_taken(&self) -> impl Iterator<Item = &String> {
        let of_rows = self.old.iter().chain(&self.new);
        of_rows.chain([&self.stays])
    }
}

/// Adds whether the array has a row at the new coordinates.
pub(super) fn with_taken(
    changed: &Changed<'_>,
    names: &Names,
    rows: LogicalPlan,
) -> Result<LogicalPlan> {
    let there = TableReference::bare("__there");
    let schema = changed.source.schema();
    let dimensions = (0..changed.dimensions()).collect::<Vec<_>>();
    let coordinates = schema.fields().iter().take(changed.dimensions());
    let coordinates =
        coordinates.map(|field| Expr::Column(Column::new(Some(there.clone()), field.name())));
    let coordinates = coordinates.collect::<Vec<_>>();
    let scan = LogicalPlanBuilder::scan(there, Arc::clone(changed.source), Some(dimensions))?;
    let columns = coordinates.iter().cloned();
    let array = scan.project(
        columns
            .chain([lit(true).alias(&names.taken)])
            .collect::<Vec<_>>(),
    )?;
    let at = |name: &String| Expr::Column(Column::new_unqualified(name));
    let same = names.new.iter().zip(coordinates);
    let same = same.map(|(new, coordinate)| at(new).eq(coordinate));
    let columns = names.without_taken().chain([&names.taken]).map(at);
    LogicalPlanBuilder::from(rows)
        .join_on(array.build()?, JoinType::Left, same)?
        .project(columns.collect::<Vec<_>>())?
        .build()
}
