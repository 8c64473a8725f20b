//! Rows in an order that begins with the leading dimension.
//!
//! The [plan](super::plan::ordered) makes units follow each other, so only the rows within each unit remain to be put
//! in order. A tile in column-major or Hilbert order, or tiles of several fragments, are sorted, a bounded number of
//! rows at a time. Whether units do follow each other is checked again row by row, because a consumer that relies on a
//! broken order gives wrong answers silently.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, DynComparator, RecordBatch, UInt32Array, make_comparator};
use arrow::compute::{
    SortColumn, SortOptions, concat, interleave_record_batch, lexsort_to_indices, take_record_batch,
};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Rows of each batch of sorted rows.
const BATCH_ROWS: usize = 64 << 10;

/// One term of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderTerm {
    /// The table column that this term compares.
    pub column: usize,
    /// The index of that column in the rows of the scan.
    pub shown: usize,
    /// Whether values ascend, and whether NULLs come first.
    #[serde(with = "SortDirection")]
    pub options: SortOptions,
}

/// How [`SortOptions`] are written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "SortOptions")]
struct SortDirection {
    descending: bool,
    nulls_first: bool,
}

/// An order of rows; the first term is the leading dimension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<OrderTerm>", into = "Vec<OrderTerm>")]
pub struct RowOrder {
    terms: Vec<OrderTerm>,
}

impl From<RowOrder> for Vec<OrderTerm> {
    fn from(order: RowOrder) -> Self {
        order.terms
    }
}

impl TryFrom<Vec<OrderTerm>> for RowOrder {
    type Error = &'static str;

    fn try_from(terms: Vec<OrderTerm>) -> std::result::Result<Self, Self::Error> {
        Self::new(terms).ok_or("an order of rows begins with the leading dimension")
    }
}

impl RowOrder {
    /// The order by these terms; `None` unless the first is the leading dimension.
    pub fn new(terms: Vec<OrderTerm>) -> Option<Self> {
        let leads = terms.first().is_some_and(|term| term.column == 0);
        leads.then_some(Self { terms })
    }

    /// Whether rows can be put in order by values of a type.
    pub fn sorts(data_type: &DataType) -> bool {
        let plain = matches!(
            data_type,
            DataType::Boolean | DataType::Utf8View | DataType::BinaryView
        );
        plain || data_type.is_primitive()
    }

    /// The terms, the most significant first.
    pub fn terms(&self) -> &[OrderTerm] {
        &self.terms
    }

    /// Whether the largest values of the leading dimension come first.
    pub fn descends(&self) -> bool {
        self.terms
            .first()
            .is_some_and(|term| term.options.descending)
    }

    /// Whether the rows of batches that follow each other are in order.
    pub fn is_kept_by(&self, batches: &[RecordBatch]) -> Result<bool> {
        let mut last = None;
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            if let Some(last) = last
                && !self.follows(last, batch)?
            {
                return Ok(false);
            }
            let compare = self.comparators(batch, batch)?;
            if !(1..batch.num_rows()).all(|row| compare_rows(&compare, row - 1, row).is_le()) {
                return Ok(false);
            }
            last = Some(batch);
        }
        Ok(true)
    }

    /// Whether the first row of a batch may come after the last of another; neither is empty.
    pub fn follows(&self, before: &RecordBatch, batch: &RecordBatch) -> Result<bool> {
        let compare = self.comparators(before, batch)?;
        let last = before.num_rows().saturating_sub(1);
        Ok(compare_rows(&compare, last, 0).is_le())
    }

    /// Sorts the rows of batches.
    pub fn sort(&self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        let columns = self.terms.iter().map(|term| {
            let parts = batches.iter().map(|batch| shown(batch, term));
            let parts = parts.collect::<Result<Vec<_>>>()?;
            let parts = parts.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>();
            Ok(SortColumn {
                values: concat(&parts).map_err(failed)?,
                options: Some(term.options),
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let sorted = lexsort_to_indices(&columns, None).map_err(failed)?;
        drop(columns);
        let mut sorted_batches = Vec::new();
        let mut start = 0;
        while start < sorted.len() {
            let rows = sorted.slice(start, BATCH_ROWS.min(sorted.len() - start));
            start += rows.len();
            sorted_batches.push(gather(batches, &rows)?);
        }
        Ok(sorted_batches)
    }

    fn comparators(&self, left: &RecordBatch, right: &RecordBatch) -> Result<Vec<DynComparator>> {
        let compare = self.terms.iter().map(|term| {
            let (left, right) = (shown(left, term)?, shown(right, term)?);
            make_comparator(left, right, term.options).map_err(failed)
        });
        compare.collect()
    }
}

/// Gathers rows by their numbers in the concatenation of the batches.
fn gather(batches: &[RecordBatch], rows: &UInt32Array) -> Result<RecordBatch> {
    if let [batch] = batches {
        return take_record_batch(batch, rows).map_err(failed);
    }
    let mut ends = Vec::with_capacity(batches.len());
    let mut end = 0;
    for batch in batches {
        end += batch.num_rows();
        ends.push(end);
    }
    let index = |row: &u32| {
        let row = *row as usize;
        let batch = ends.partition_point(|end| *end <= row);
        let before = batch.checked_sub(1).and_then(|b| ends.get(b));
        (batch, row - before.copied().unwrap_or(0))
    };
    let indices = rows.values().iter().map(index).collect::<Vec<_>>();
    let batches = batches.iter().collect::<Vec<_>>();
    interleave_record_batch(&batches, &indices).map_err(failed)
}

fn shown<'a>(batch: &'a RecordBatch, term: &OrderTerm) -> Result<&'a ArrayRef> {
    let column = batch.columns().get(term.shown);
    column.ok_or_else(|| Error::internal("rows are to be ordered by a column they do not have"))
}

fn compare_rows(compare: &[DynComparator], left: usize, right: usize) -> Ordering {
    let mut terms = compare.iter().map(|compare| compare(left, right));
    terms.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn failed(e: ArrowError) -> Error {
    Error::internal("rows cannot be put in order").with_source(e)
}

/// Checks that the batches of a partition follow each other in order.
#[derive(Debug)]
pub struct InSequence {
    order: RowOrder,
    /// The last row so far.
    last: Option<RecordBatch>,
}

impl InSequence {
    /// A check that has seen no batch yet.
    pub fn new(order: RowOrder) -> Self {
        Self { order, last: None }
    }

    /// Checks a batch, whose own rows are in order: an error if it does not follow the batches before it.
    pub fn next(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(last) = batch.num_rows().checked_sub(1) else {
            return Ok(());
        };
        if let Some(before) = &self.last
            && !self.order.follows(before, batch)?
        {
            return Err(Error::corrupt(
                "cells are not in the array's global order, or outside the bounding boxes of their tiles, so they do not \
                 come in the order of the leading dimension; ORDER BY an expression of it sorts them all the same",
            ));
        }
        self.last = Some(batch.slice(last, 1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Float64Array, Int32Array};
    use arrow::datatypes::{Float64Type, Int32Type};

    use super::*;

    fn batch(rows: &[(i32, f64)]) -> RecordBatch {
        let (a, b): (Vec<i32>, Vec<f64>) = rows.iter().copied().unzip();
        RecordBatch::try_from_iter([
            ("b", Arc::new(Float64Array::from(b)) as ArrayRef),
            ("a", Arc::new(Int32Array::from(a)) as ArrayRef),
        ])
        .unwrap()
    }

    fn order(terms: &[(usize, bool)]) -> RowOrder {
        let term = |(column, descending): &(usize, bool)| OrderTerm {
            column: *column,
            shown: 1 - *column,
            options: SortOptions::new(*descending, false),
        };
        RowOrder::new(terms.iter().map(term).collect()).unwrap()
    }

    fn rows(batches: &[RecordBatch]) -> Vec<(i32, f64)> {
        let rows = batches.iter().flat_map(|batch| {
            let a = batch.column(1).as_primitive::<Int32Type>();
            let b = batch.column(0).as_primitive::<Float64Type>();
            a.values().iter().copied().zip(b.values().iter().copied())
        });
        rows.collect()
    }

    #[test]
    fn an_order_begins_with_the_leading_dimension() {
        let term = OrderTerm {
            column: 1,
            shown: 0,
            options: SortOptions::default(),
        };
        assert_eq!(RowOrder::new(vec![term]), None);
        assert_eq!(RowOrder::new(vec![]), None);
    }

    #[test]
    fn order_is_found_within_batches_and_across() {
        let by_a = order(&[(0, false)]);
        let by_both = order(&[(0, false), (1, true)]);
        let kept = |order: &RowOrder, batches: &[RecordBatch]| order.is_kept_by(batches).unwrap();
        let one = batch(&[(1, 5.0), (1, 7.0), (2, 1.0)]);
        assert!(kept(&by_a, std::slice::from_ref(&one)));
        assert!(!kept(&by_both, std::slice::from_ref(&one)));
        let empty = batch(&[]);
        assert!(kept(
            &by_a,
            &[
                empty.clone(),
                one.clone(),
                empty.clone(),
                batch(&[(2, 9.0)])
            ]
        ));
        assert!(!kept(&by_a, &[one, empty.clone(), batch(&[(1, 9.0)])]));
        assert!(kept(&by_a, &[empty]));
    }

    #[test]
    fn rows_are_sorted_across_batches() {
        let batches = [
            batch(&[(3, 0.0), (1, 5.0)]),
            batch(&[]),
            batch(&[(1, -0.0), (1, 0.0), (2, f64::NAN)]),
        ];
        let by_both = order(&[(0, false), (1, false)]);
        let sorted = by_both.sort(&batches).unwrap();
        assert!(by_both.is_kept_by(&sorted).unwrap());
        let found = rows(&sorted);
        assert_eq!(found[..3], [(1, -0.0), (1, 0.0), (1, 5.0)]);
        assert!(found[0].1.is_sign_negative());
        assert_eq!(found[4], (3, 0.0));
        let down = order(&[(0, true)]).sort(&batches[..1]).unwrap();
        assert_eq!(rows(&down), [(3, 0.0), (1, 5.0)]);
    }

    #[test]
    fn what_does_not_follow_is_an_error() {
        let mut sequence = InSequence::new(order(&[(0, false)]));
        sequence.next(&batch(&[(1, 0.0), (4, 0.0)])).unwrap();
        sequence.next(&batch(&[])).unwrap();
        sequence.next(&batch(&[(4, 0.0)])).unwrap();
        assert!(sequence.next(&batch(&[(3, 0.0)])).is_err());
    }
}
