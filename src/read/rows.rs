//! Decoded columns of a tile or clip: what the predicate makes of them, and the batch they become.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};

use super::plan::ScanPlan;
use super::selection::Selection;
use super::spec::Predicate;
use super::stream::ScanContext;
use crate::error::{Error, Result};

/// Decoded columns by table column, each with one value a cell.
pub(super) type Columns = Vec<(usize, ArrayRef)>;

/// Evaluates the predicate on the selected rows only: it must not see cells that are hidden or were not asked for.
pub(super) fn apply_predicate(
    predicate: Option<&dyn Predicate>,
    selection: Selection,
    columns: &Columns,
) -> Result<Selection> {
    let Some(predicate) = predicate else {
        return Ok(selection);
    };
    if selection.is_empty() {
        return Ok(selection);
    }
    let inputs = predicate
        .columns()
        .iter()
        .map(|column| selection.apply(find(columns, *column)?))
        .collect::<Result<Vec<_>>>()?;
    selection.and_then(&predicate.evaluate(&inputs, selection.count())?)
}

/// Cuts what is there of the projected columns down to the selected rows, which from then on are all there are. Gives
/// the selection, for columns yet to come.
pub(super) fn keep_selected(
    plan: &ScanPlan,
    selection: &mut Selection,
    columns: &mut Columns,
) -> Result<Selection> {
    let rows = Selection::all(selection.count());
    let selected = std::mem::replace(selection, rows);
    columns.retain(|(column, _)| plan.spec.projection.contains(column));
    for (_, array) in columns {
        *array = selected.apply(array)?;
    }
    Ok(selected)
}

/// The selected rows as a batch of the projected columns; their number counts where there are no columns.
pub(super) fn batch(
    context: &ScanContext,
    selection: &Selection,
    columns: &Columns,
) -> Result<RecordBatch> {
    let projected = context
        .plan
        .spec
        .projection
        .iter()
        .map(|column| selection.apply(find(columns, *column)?))
        .collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(selection.count()));
    RecordBatch::try_new_with_options(context.schema.clone(), projected, &options).map_err(|e| {
        Error::internal("decoded columns do not fit the table's schema").with_source(e)
    })
}

fn find(columns: &Columns, column: usize) -> Result<&ArrayRef> {
    columns
        .iter()
        .find(|(c, _)| *c == column)
        .map(|(_, array)| array)
        .ok_or_else(|| Error::internal(format!("column {column} was not decoded")))
}
