//! The decoded columns of a tile or clip: the predicate is evaluated on them, and the selected rows become a batch.

use arrow::array::{
    Array, ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions,
};

use super::plan::ScanPlan;
use super::spec::Predicate;
use crate::error::{Error, Result};
use crate::scan::context::ScanContext;
use crate::tile::selection::Selection;

/// Rows that a predicate is evaluated on at once, so that its intermediate results stay in the cache.
const ROWS_AT_ONCE: usize = 16 << 10;

/// Decoded columns by table column, each with one value a cell.
pub(super) type DecodedColumns = Vec<(usize, ArrayRef)>;

/// Evaluates the predicate on the selected rows only: it must not see cells that are hidden or were not asked for.
pub(super) fn apply_predicate(
    predicate: Option<&dyn Predicate>,
    selection: Selection,
    columns: &DecodedColumns,
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
    selection.and_then(&evaluate(predicate, &inputs, selection.count())?)
}

/// Evaluates a predicate, a few rows at a time; NULL counts as `false`.
pub(super) fn evaluate(
    predicate: &dyn Predicate,
    inputs: &[ArrayRef],
    rows: usize,
) -> Result<BooleanArray> {
    if rows <= ROWS_AT_ONCE {
        return predicate.evaluate(inputs, rows);
    }
    let mut kept = BooleanBufferBuilder::new(rows);
    for start in (0..rows).step_by(ROWS_AT_ONCE) {
        let len = ROWS_AT_ONCE.min(rows - start);
        let part = inputs.iter().map(|column| column.slice(start, len));
        let answers = predicate.evaluate(&part.collect::<Vec<_>>(), len)?;
        match answers.nulls() {
            None => kept.append_buffer(answers.values()),
            Some(nulls) => kept.append_buffer(&(answers.values() & nulls.inner())),
        }
    }
    Ok(BooleanArray::new(kept.finish(), None))
}

/// Filters the decoded columns of the projection to the selected rows, and drops all others. Gives the selection, for
/// columns that are decoded later.
pub(super) fn keep_selected(
    plan: &ScanPlan,
    selection: &mut Selection,
    columns: &mut DecodedColumns,
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
    columns: &DecodedColumns,
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

/// A decoded column.
pub(super) fn find(columns: &DecodedColumns, column: usize) -> Result<&ArrayRef> {
    columns
        .iter()
        .find(|(c, _)| *c == column)
        .map(|(_, array)| array)
        .ok_or_else(|| Error::internal(format!("column {column} was not decoded")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::Int32Type;

    use super::*;

    /// A predicate that holds for odd numbers, and gives NULL for multiples of ten.
    #[derive(Debug)]
    struct Odd;

    impl Predicate for Odd {
        fn columns(&self) -> &[usize] {
            &[0]
        }

        fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanArray> {
            assert!(rows <= ROWS_AT_ONCE);
            assert_eq!(columns[0].len(), rows);
            let numbers = columns[0].as_primitive::<Int32Type>().values().iter();
            Ok(numbers
                .map(|n| (n % 10 != 0).then_some(n % 2 == 1))
                .collect())
        }
    }

    #[test]
    fn a_predicate_sees_all_rows_a_few_at_a_time() {
        for rows in [1, 16_384, 16_385, 50_000] {
            let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows));
            let columns = vec![(0, Arc::clone(&numbers))];
            let all = Selection::all(numbers.len());
            let selection = apply_predicate(Some(&Odd), all, &columns).unwrap();
            let odd: ArrayRef = Arc::new(
                (0..rows)
                    .filter(|n| n % 2 == 1)
                    .map(Some)
                    .collect::<Int32Array>(),
            );
            assert_eq!(&selection.apply(&numbers).unwrap(), &odd);
        }
    }
}
