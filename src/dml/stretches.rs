//! The merge of sorted partitions whose rows follow each other in long stretches, as those of the parts of one sorted file do.
//!
//! A merge that compares row by row copies every row. Here all rows of a partition that belong before the first row of every
//! other one leave together, as a part of their batch. If such stretches turn out to be short, what is left is merged row by
//! row.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef, UInt64Type};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::common::spawn_buffered;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use tiledb_engine::Error;

use super::again::streams;
use crate::error::to_datafusion_error;

/// The batches that a partition reads ahead.
const AHEAD: usize = 2;
/// The number of stretches after which their length is judged. Short ones aren't worth it.
const JUDGED: usize = 16;
const SHORT: usize = 256;

/// Merges sorted partitions.
pub(super) fn merged(
    schema: &SchemaRef,
    order: &LexOrdering,
    parts: Vec<SendableRecordBatchStream>,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let merge = MergeStretches {
        schema: Arc::clone(schema),
        order: order.clone(),
        context: Arc::clone(context),
        parts: Vec::new(),
        stretches: 0,
        rows: 0,
    };
    let Some(number) = number_column(schema, order) else {
        return merge.row_by_row(parts);
    };
    let parts = parts.into_iter().map(|rows| StretchPart {
        rows: spawn_buffered(rows, AHEAD),
        number,
        next: None,
    });
    let merge = StretchMerge::Stretches(MergeStretches {
        parts: parts.collect(),
        ..merge
    });
    let merged = stream::try_unfold(merge, StretchMerge::next);
    let schema = Arc::clone(schema);
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, merged)))
}

/// The column of the numbers that the order is by; `None` if it is by anything else.
fn number_column(schema: &SchemaRef, order: &LexOrdering) -> Option<usize> {
    let mut keys = order.iter();
    let (key, None) = (keys.next()?, keys.next()) else {
        return None;
    };
    let index = key.expr.downcast_ref::<Column>()?.index();
    let is_number = schema.fields().get(index)?.data_type() == &DataType::UInt64;
    (is_number && !key.options.descending).then_some(index)
}

enum StretchMerge {
    Stretches(MergeStretches),
    RowByRow(SendableRecordBatchStream),
}

struct MergeStretches {
    schema: SchemaRef,
    order: LexOrdering,
    context: Arc<TaskContext>,
    parts: Vec<StretchPart>,
    /// The stretches so far, and their rows.
    stretches: usize,
    rows: usize,
}

/// A sorted partition.
struct StretchPart {
    rows: SendableRecordBatchStream,
    /// The column of its numbers.
    number: usize,
    /// The rows that come next.
    next: Option<RecordBatch>,
}

impl StretchMerge {
    async fn next(self) -> Result<Option<(RecordBatch, Self)>> {
        let mut rows = match self {
            Self::Stretches(mut merge) => {
                if merge.are_short() {
                    let schema = Arc::clone(&merge.schema);
                    let parts = std::mem::take(&mut merge.parts)
                        .into_iter()
                        .map(|part| part.all(&schema))
                        .collect();
                    merge.row_by_row(parts)?
                } else {
                    let next = merge.next().await?;
                    return Ok(next.map(|batch| (batch, Self::Stretches(merge))));
                }
            }
            Self::RowByRow(rows) => rows,
        };
        let next = rows.try_next().await?;
        Ok(next.map(|batch| (batch, Self::RowByRow(rows))))
    }
}

impl MergeStretches {
    fn are_short(&self) -> bool {
        self.stretches >= JUDGED && self.rows / self.stretches < SHORT
    }

    /// The next rows, as many as come from one batch.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        for part in &mut self.parts {
            part.read_ahead().await?;
        }
        self.parts.retain(|part| part.next.is_some());
        let mut firsts = Vec::with_capacity(self.parts.len());
        for (i, part) in self.parts.iter().enumerate() {
            firsts.push((part.numbers()?.first().copied(), i));
        }
        firsts.sort_unstable();
        let Some((_, least)) = firsts.first().copied() else {
            return Ok(None);
        };
        let limit = firsts.get(1).and_then(|(first, _)| *first);
        let Some(part) = self.parts.get_mut(least) else {
            return Ok(None);
        };
        let numbers = part.numbers()?;
        let count = limit.map_or(numbers.len(), |limit| {
            numbers.partition_point(|number| *number <= limit)
        });
        let taken = part.take(count);
        self.stretches += 1;
        self.rows += count;
        Ok(taken)
    }

    fn row_by_row(
        self,
        parts: Vec<SendableRecordBatchStream>,
    ) -> Result<SendableRecordBatchStream> {
        let parts = streams(self.schema, parts)?;
        SortPreservingMergeExec::new(self.order, parts).execute(0, self.context)
    }
}

impl StretchPart {
    /// Makes sure that the next rows are there, unless there are no others.
    async fn read_ahead(&mut self) -> Result<()> {
        while self.next.is_none() {
            let Some(batch) = self.rows.try_next().await? else {
                return Ok(());
            };
            self.next = Some(batch).filter(|batch| batch.num_rows() > 0);
        }
        Ok(())
    }

    /// The numbers of the next rows.
    fn numbers(&self) -> Result<&[u64]> {
        let Some(batch) = &self.next else {
            return Ok(&[]);
        };
        let column = batch.columns().get(self.number);
        let numbers = column.and_then(|column| column.as_primitive_opt::<UInt64Type>());
        let numbers = numbers
            .ok_or_else(|| Error::internal("rows are sorted by their numbers"))
            .map_err(to_datafusion_error)?;
        Ok(numbers.values())
    }

    /// Takes out a number of the next rows.
    fn take(&mut self, count: usize) -> Option<RecordBatch> {
        let batch = self.next.take()?;
        if let Some(left) = batch.num_rows().checked_sub(count).filter(|left| *left > 0) {
            self.next = Some(batch.slice(count, left));
            return Some(batch.slice(0, count));
        }
        Some(batch)
    }

    /// All its rows from the next one on.
    fn all(self, schema: &SchemaRef) -> SendableRecordBatchStream {
        let rows = stream::iter(self.next.map(Ok)).chain(self.rows);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), rows))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, UInt64Array};
    use datafusion::physical_expr::PhysicalSortExpr;
    use datafusion::prelude::SessionContext;

    use super::*;

    fn batch(numbers: &[u64]) -> RecordBatch {
        let column: ArrayRef = Arc::new(UInt64Array::from(numbers.to_vec()));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    /// The batches of the merged partitions.
    async fn merge(parts: &[Vec<Vec<u64>>]) -> Vec<Vec<u64>> {
        let schema = batch(&[]).schema();
        let by = PhysicalSortExpr::new_default(Arc::new(Column::new("n", 0)));
        let parts = parts.iter().map(|batches| {
            let batches = batches.iter().map(|numbers| Ok(batch(numbers)));
            let rows = stream::iter(batches.collect::<Vec<_>>());
            let rows = RecordBatchStreamAdapter::new(Arc::clone(&schema), rows);
            Box::pin(rows) as SendableRecordBatchStream
        });
        let context = SessionContext::new().task_ctx();
        let order = LexOrdering::new([by]).unwrap();
        let rows = merged(&schema, &order, parts.collect(), &context).unwrap();
        let batches: Vec<RecordBatch> = rows.try_collect().await.unwrap();
        let numbers = batches.iter().map(|batch| {
            let numbers = batch.column(0).as_primitive::<UInt64Type>();
            numbers.values().to_vec()
        });
        numbers.collect()
    }

    #[tokio::test]
    async fn stretches_leave_as_parts_of_their_batches() {
        let parts = [
            vec![vec![1, 2, 3], vec![], vec![4, 9]],
            vec![vec![5, 6], vec![9, u64::MAX]],
            vec![],
            vec![vec![7]],
        ];
        let expected: [&[u64]; 7] = [&[1, 2, 3], &[4], &[5, 6], &[7], &[9], &[9], &[u64::MAX]];
        let merged = merge(&parts).await;
        assert_eq!(merged.concat(), expected.concat());
        assert_eq!(merged.first().unwrap(), &[1, 2, 3]);
        assert_eq!(merged.get(2).unwrap(), &[5, 6]);
        assert_eq!(merge(&[vec![], vec![vec![]]]).await.concat(), [0; 0]);
    }

    #[tokio::test]
    async fn short_stretches_are_merged_row_by_row() {
        let part = |first: u64| {
            let rows = (0..50_000).map(|i| first + 3 * i).collect::<Vec<_>>();
            rows.chunks(1000).map(<[u64]>::to_vec).collect::<Vec<_>>()
        };
        let merged = merge(&[part(2), part(0), part(1)]).await;
        assert_eq!(merged.concat(), (0..150_000).collect::<Vec<_>>());
        assert!(merged.len() < 100, "{} batches", merged.len());
    }
}
