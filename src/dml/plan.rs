//! The plans of statements that change rows.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use tiledb_engine::Error;
use tiledb_engine::arrow::{InvalidUtf8, NullPolicy};
use tiledb_engine::write::delete::no_cell;

use super::RowsPlan;
use super::change::{ChangeStatement, RowChange, selected_box};
use super::condition::{StatementSelection, selected};
use super::expand_exec::{ExpandExec, TileDbChangesExec};
use super::insert::write_plan;
use super::nan_coordinates::RemovedNan;
use super::remove_exec::{RemoveExec, RemovedRows, TileDbRemoveExec};
use super::target::PlannedTarget;
use crate::error::to_datafusion_error;

/// The reason why rows of an array with duplicates cannot be changed one by one.
const NO_SINGLE_ROWS: &str = "the array allows duplicates, so a row cannot be told from others at its coordinates, and only rows \
     that a stored condition describes can be removed or changed: comparisons of dimensions and of attributes without NULL with \
     constants; leave out the rest of WHERE, or rewrite the array";

/// Writes rows with new values at the coordinates they were read from; `input` has the columns of the array.
pub(crate) fn write_rows_again(
    to: &PlannedTarget,
    input: RowsPlan,
    statement: ChangeStatement,
) -> Result<RowsPlan> {
    check_lossless(to, statement)?;
    let mut change = to.change(&input);
    change.in_place = true;
    change.nulls = NullPolicy::Kept;
    if to.array_schema().allows_duplicates {
        match selection(to, &input)? {
            StatementSelection::Nothing => return Ok(nothing(to, input)),
            StatementSelection::Rows => return refused(to, statement, NO_SINGLE_ROWS),
            StatementSelection::Stored(survivors) => {
                change.replaced = Some(survivors.condition);
                change.removed_nans = survivors.removed_nans;
            }
        }
    }
    write_plan(&stored_only(to), input, Some(change))
}

/// Writes, moves and removes rows. The columns of `input` are the old coordinates, the new row, whether it stays, and whether
/// its coordinates were taken.
pub(crate) fn write_changes(
    to: &PlannedTarget,
    input: RowsPlan,
    statement: ChangeStatement,
) -> Result<RowsPlan> {
    changes(to, input, true, statement)
}

fn changes(
    to: &PlannedTarget,
    input: RowsPlan,
    writes: bool,
    statement: ChangeStatement,
) -> Result<RowsPlan> {
    check_lossless(to, statement)?;
    let to = stored_only(to);
    if to.array_schema().is_dense() {
        return refused(
            &to,
            statement,
            "a dense array has a cell at every coordinate, so rows can neither be removed nor moved; UPDATE the cells to NULL \
             or to other values, or TRUNCATE the array",
        );
    }
    if to.array_schema().allows_duplicates {
        return refused(&to, statement, NO_SINGLE_ROWS);
    }
    let change = to.change(&input);
    let change = RowChange {
        removes: true,
        in_place: true,
        nulls: NullPolicy::Kept,
        ..change
    };
    let dimensions = to.array_schema().dimensions.len();
    let expand = ExpandExec::new(&to.columns, dimensions, writes, &change.changed);
    let cells = Arc::new(TileDbChangesExec::new(input, expand));
    write_plan(&to, cells, Some(change))
}

/// Removes the cells at the coordinates that are the columns of `input`.
pub(crate) fn delete_plan(to: &PlannedTarget, input: RowsPlan) -> Result<RowsPlan> {
    match selection(to, &input)? {
        StatementSelection::Nothing => Ok(nothing(to, input)),
        StatementSelection::Stored(survivors) if !to.array_schema().is_dense() => {
            let removed = RemovedRows::AllBut(survivors.condition);
            Ok(remove(to, input, removed, survivors.removed_nans))
        }
        StatementSelection::Stored(_) | StatementSelection::Rows => {
            changes(to, input, false, ChangeStatement::Delete)
        }
    }
}

/// A plan that changes nothing, because `input` has no rows.
fn nothing(to: &PlannedTarget, input: RowsPlan) -> RowsPlan {
    remove(to, input, RemovedRows::Nothing, Vec::new())
}

/// Removes all fragments; the rows of `input` are counted.
pub(crate) fn truncate_plan(to: &PlannedTarget, input: RowsPlan) -> RowsPlan {
    remove(to, input, RemovedRows::Fragments, Vec::new())
}

fn remove(
    to: &PlannedTarget,
    input: RowsPlan,
    removed: RemovedRows,
    removed_nans: Vec<RemovedNan>,
) -> RowsPlan {
    let change = Arc::new(RowChange {
        removed_nans,
        ..to.change(&input)
    });
    let selected = match &removed {
        RemovedRows::AllBut(_) => selected_box(&input),
        RemovedRows::Fragments | RemovedRows::Nothing => None,
    };
    let remove = RemoveExec {
        target: to.clone(),
        removed,
        selected,
        change,
    };
    Arc::new(TileDbRemoveExec::new(input, remove))
}

/// Describes the rows of `input`.
fn selection(to: &PlannedTarget, input: &RowsPlan) -> Result<StatementSelection> {
    selected(input, &to.table.options).map_err(to_datafusion_error)
}

/// Fails if the table changes stored values: a changed row would store the shown value, or miss its cell.
fn check_lossless(to: &PlannedTarget, statement: ChangeStatement) -> Result<()> {
    match to.table.options.invalid_utf8 {
        InvalidUtf8::Lossy => refused(
            to,
            statement,
            "the option tiledb.invalid_utf8 replaces bytes of texts, and what is shown would be stored; create the table with \
             'error' or 'binary'",
        ),
        _ => Ok(()),
    }
}

fn refused<T>(to: &PlannedTarget, statement: ChangeStatement, why: &str) -> Result<T> {
    let error = Error::unsupported(format!("{statement}: {why}"));
    Err(to_datafusion_error(error.with("array", to.storage.uri())))
}

/// Replaces all cells of the array by the rows of `input`. In a dense array, where no cell can be removed, they must be all
/// cells of a box around the existing ones.
pub(crate) fn overwrite_plan(to: &PlannedTarget, input: RowsPlan) -> Result<RowsPlan> {
    let nothing_survives = no_cell(to.array_schema()).map_err(to_datafusion_error)?;
    let change = RowChange {
        replaced: Some(nothing_survives),
        ..to.change(&input)
    };
    write_plan(to, input, Some(change))
}

/// The target without dimension labels, which statements that change rows leave alone.
fn stored_only(to: &PlannedTarget) -> PlannedTarget {
    let fields = to.columns.fields().iter().take(to.stored_columns());
    let columns = Schema::new(fields.cloned().collect::<Vec<_>>());
    PlannedTarget {
        columns: Arc::new(columns),
        ..to.clone()
    }
}
