//! The step that brings rows into global order.
//!
//! As a rule, rows are sorted, and none is written before all have been seen. Rows that come in order, such as those of a
//! sorted file, need not wait: they are passed on as they come. The subtle thing is a row that breaks the order late, when
//! others have been written already. Then the statement ends in a conflict, is planned again, and sorts its rows. So rows are
//! passed on only if the statement can be planned again, and if the first ones are in order.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Memory};

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::compute::{LexicographicalComparator, SortColumn, concat};
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use tiledb_engine::Error;
use tiledb_engine::write::insert::{COPIES, sliced_bytes};

use super::RowsPlan;
use super::again::{can_be_read_twice, streams};
use super::node::{ChangeStep, StepExec};
use crate::error::to_datafusion_error;

/// Partitions are sorted side by side if each sort can have this much memory.
const LEAST_SORT_BYTES: usize = 512 << 20;
/// The same for rows of numbers, which need less: a sort counts the bytes of a text once for each row that shares them.
const LEAST_SORT_BYTES_OF_NUMBERS: usize = 64 << 20;

/// The bytes of the first rows of each partition that must be in order before any row is passed on.
const FIRST_BYTES: usize = 16 << 20;
/// The first rows of all partitions take at most this part of the memory together.
const FIRST_PART: usize = 8;

/// The largest share of a pool that is kept for the first tile, in thirds; the rest is for sorting its rows.
const WRITE_THIRDS: usize = 2;

/// Brings the rows of all partitions into one order.
#[derive(Debug)]
pub struct GlobalOrderExec {
    order: LexOrdering,
    /// The cells of a full tile.
    tile_cells: usize,
    /// Whether the statement is planned again if it ends in a conflict.
    is_repeated: bool,
    /// Whether rows leave before all have been read.
    is_early: Arc<AtomicBool>,
}

/// The plan node.
pub type TileDbOrderExec = StepExec<GlobalOrderExec>;

/// The rows of a partition as they come. The first of them have been read.
struct StartedPartition {
    first: Vec<RecordBatch>,
    rest: SendableRecordBatchStream,
    /// Whether the partition has no other rows.
    is_all: bool,
    /// The check of the order so far; `None` if the rows are not in order.
    check: Option<OrderCheck>,
    memory: MemoryReservation,
}

impl GlobalOrderExec {
    /// The order of rows that become tiles of `tile_cells` cells; the statement `is_repeated` if it ends in a conflict. If rows
    /// leave before all have been read, the step sets `is_early` before the first row leaves.
    pub(super) fn new(
        order: LexOrdering,
        tile_cells: usize,
        is_repeated: bool,
        is_early: &Arc<AtomicBool>,
    ) -> Self {
        Self {
            order,
            tile_cells,
            is_repeated,
            is_early: Arc::clone(is_early),
        }
    }

    /// Whether all rows are read before the first one leaves, as far as this is known.
    pub(crate) fn sorts(&self) -> bool {
        !self.is_early.load(Memory::Relaxed)
    }

    async fn ordered(
        self: Arc<Self>,
        input: RowsPlan,
        context: Arc<TaskContext>,
        metrics: ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        self.is_early.store(false, Memory::Relaxed);
        if !self.is_repeated || !can_be_read_twice(&input) {
            return self.sorted(input, context, &metrics);
        }
        let partitions = input.output_partitioning().partition_count();
        let most = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => FIRST_BYTES.min(bytes / FIRST_PART / partitions.max(1)),
            _ => FIRST_BYTES,
        };
        let begun = (0..partitions)
            .map(|partition| {
                let rows = input.execute(partition, Arc::clone(&context))?;
                let memory = MemoryConsumer::new(format!("TileDbOrder[{partition}]"))
                    .register(context.memory_pool());
                let check = OrderCheck::new(self.order.clone());
                Ok(SpawnedTask::spawn(StartedPartition::of(
                    rows, check, memory, most,
                )))
            })
            .collect::<Result<Vec<_>>>()?;
        let begun = try_join_all(begun.into_iter().map(SpawnedTask::join_unwind))
            .await
            .map_err(|e| DataFusionError::External(Box::new(e)))?
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        let is_ordered = begun.iter().all(|part| part.check.is_some());
        let all_read = begun.iter().all(|part| part.is_all);
        let mut parts = begun
            .into_iter()
            .map(|part| part.all(is_ordered))
            .collect::<Vec<_>>();
        if !is_ordered {
            return self.sorted(streams(input.schema(), parts)?, context, &metrics);
        }
        self.is_early.store(!all_read, Memory::Relaxed);
        match (parts.pop(), parts.is_empty()) {
            (Some(only), true) => Ok(only),
            (last, _) => {
                parts.extend(last);
                let parts = streams(input.schema(), parts)?;
                SortPreservingMergeExec::new(self.order.clone(), parts).execute(0, context)
            }
        }
    }

    fn sorted(
        &self,
        input: RowsPlan,
        context: Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = input.output_partitioning().partition_count();
        let schema = input.schema();
        let mut types = schema.fields().iter().map(|field| field.data_type());
        let least = if types.all(DataType::is_primitive) {
            LEAST_SORT_BYTES_OF_NUMBERS
        } else {
            LEAST_SORT_BYTES
        };
        let limit = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => Some(bytes),
            _ => None,
        };
        let is_little = limit.is_some_and(|bytes| bytes / partitions.max(1) < least);
        let is_alone = partitions == 1 || is_little;
        let foreseen = limit.map(|bytes| {
            let memory = MemoryConsumer::new("TileDbWrite").register(context.memory_pool());
            Arc::new(TileReservation {
                tile_cells: self.tile_cells,
                most: bytes / 3 * WRITE_THIRDS,
                rows: AtomicUsize::new(0),
                memory,
            })
        });
        let input = match &foreseen {
            Some(foreseen) => foreseen.seeing(&input, &context)?,
            None => input,
        };
        let input: RowsPlan = if is_alone && partitions > 1 {
            Arc::new(CoalescePartitionsExec::new(input))
        } else {
            input
        };
        let sort = SortExec::new(self.order.clone(), input);
        let sort = Arc::new(sort.with_preserve_partitioning(!is_alone));
        let order = self.order.clone();
        let rows = if is_alone {
            sort.execute(0, context)?
        } else {
            let sort = Arc::<SortExec>::clone(&sort);
            SortPreservingMergeExec::new(order, sort).execute(0, context)?
        };
        // The metrics of the sort are shown as metrics of this step.
        for metric in sort.metrics().iter().flat_map(MetricsSet::iter) {
            if metric.value().name().starts_with("spill") {
                metrics.register(Arc::clone(metric));
            }
        }
        let Some(foreseen) = foreseen else {
            return Ok(rows);
        };
        let rows = rows.inspect(move |_| {
            foreseen.memory.free();
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// The memory that the first tile will need, reserved while its rows are sorted. Otherwise a merge would take as many sorted
/// runs at a time as the pool allows, and leave too little for writing.
struct TileReservation {
    tile_cells: usize,
    /// The maximum number of bytes that are kept.
    most: usize,
    /// The rows so far.
    rows: AtomicUsize,
    memory: MemoryReservation,
}

impl TileReservation {
    /// A plan that returns the rows of `input`, and counts each batch as it passes.
    fn seeing(self: &Arc<Self>, input: &RowsPlan, context: &Arc<TaskContext>) -> Result<RowsPlan> {
        let parts = 0..input.output_partitioning().partition_count();
        let parts = parts.map(|partition| -> Result<SendableRecordBatchStream> {
            let foreseen = Arc::clone(self);
            let rows = input
                .execute(partition, Arc::clone(context))?
                .inspect_ok(move |batch| foreseen.see(batch));
            let rows = RecordBatchStreamAdapter::new(input.schema(), rows);
            Ok(Box::pin(rows))
        });
        streams(input.schema(), parts.collect::<Result<_>>()?)
    }

    /// Reserves the memory that the rows so far, up to those of one tile, will take while they are written.
    fn see(&self, batch: &RecordBatch) {
        let rows = batch.num_rows();
        if rows == 0 {
            return;
        }
        let so_far = self.rows.fetch_add(rows, Memory::Relaxed);
        let cells = so_far.min(self.tile_cells).saturating_add(rows);
        let each = bytes(batch).div_ceil(rows).saturating_mul(COPIES);
        let needed = cells.saturating_mul(each).min(self.most);
        if let Some(more) = needed.checked_sub(self.memory.size()) {
            // If the pool has no room, the writer of the tile reports it.
            let _ = self.memory.try_grow(more);
        }
    }
}

impl StartedPartition {
    /// Reads the first rows of a partition, up to a number of bytes, as long as they are in order.
    async fn of(
        mut rest: SendableRecordBatchStream,
        mut check: OrderCheck,
        memory: MemoryReservation,
        most: usize,
    ) -> Result<Self> {
        let (mut first, mut is_all, mut follows) = (Vec::new(), false, true);
        while follows && memory.size() < most {
            let Some(batch) = rest.try_next().await? else {
                is_all = true;
                break;
            };
            follows = check.follows(&batch)?;
            let has_room = memory.try_grow(bytes(&batch)).is_ok();
            first.push(batch);
            if !has_room {
                break;
            }
        }
        Ok(Self {
            first,
            rest,
            is_all,
            check: follows.then_some(check),
            memory,
        })
    }

    /// All rows of the partition; if they must be in order, a row out of order is a conflict.
    fn all(self, in_order: bool) -> SendableRecordBatchStream {
        let Self {
            first,
            rest,
            is_all: _,
            check,
            memory,
        } = self;
        let schema = rest.schema();
        let first = stream::iter(first).map(move |batch| {
            memory.shrink(bytes(&batch).min(memory.size()));
            Ok(batch)
        });
        let mut check = check.filter(|_| in_order);
        let rest = rest.map(move |batch| {
            let batch = batch?;
            let follows = check.as_mut().map(|check| check.follows(&batch));
            match follows.transpose()? {
                Some(false) => Err(to_datafusion_error(Error::conflict(
                    "the first rows come in global order and later ones do not",
                ))),
                _ => Ok(batch),
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, first.chain(rest)))
    }
}

/// Checks whether rows are in order.
struct OrderCheck {
    order: LexOrdering,
    /// The sort columns of the last row.
    last: Option<Vec<SortColumn>>,
}

impl OrderCheck {
    fn new(order: LexOrdering) -> Self {
        Self { order, last: None }
    }

    /// Whether the rows of a batch are in order, and come after those of the batches before.
    fn follows(&mut self, batch: &RecordBatch) -> Result<bool> {
        let Some(end) = batch.num_rows().checked_sub(1) else {
            return Ok(true);
        };
        let columns = self
            .order
            .iter()
            .map(|by| by.evaluate_to_sort_column(batch))
            .collect::<Result<Vec<_>>>()?;
        let row = |column: &SortColumn, row: usize| SortColumn {
            values: column.values.slice(row, 1),
            options: column.options,
        };
        let last = columns.iter().map(|column| row(column, end)).collect();
        if let Some(before) = self.last.replace(last) {
            let neighbours = before.iter().zip(&columns).map(|(before, column)| {
                let next = row(column, 0);
                let values = concat(&[before.values.as_ref(), next.values.as_ref()])?;
                Ok(SortColumn { values, ..next })
            });
            if !is_sorted(&neighbours.collect::<Result<Vec<_>>>()?)? {
                return Ok(false);
            }
        }
        is_sorted(&columns)
    }
}

fn is_sorted(columns: &[SortColumn]) -> Result<bool> {
    if let [only] = columns
        && let Some(numbers) = only.values.as_primitive_opt::<UInt64Type>()
        && only.options.is_none_or(|options| !options.descending)
    {
        return Ok(numbers.values().is_sorted());
    }
    let rows = columns.first().map_or(0, |column| column.values.len());
    let order = LexicographicalComparator::try_new(columns)?;
    Ok((1..rows).all(|row| order.compare(row - 1, row) != Ordering::Greater))
}

/// The bytes of the rows of a batch.
pub(super) fn bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(sliced_bytes).sum()
}

impl ChangeStep for GlobalOrderExec {
    const NAME: &'static str = "TileDbOrderExec";

    fn properties(&self, input: &RowsPlan) -> PlanProperties {
        let orders = [self.order.clone()];
        PlanProperties::new(
            EquivalenceProperties::new_with_orderings(input.schema(), orders),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            input.boundedness(),
        )
    }

    fn describe(&self) -> String {
        format!("order=[{}]", self.order)
    }

    fn wants_one_partition(&self) -> bool {
        false
    }

    fn order(&self) -> Option<&LexOrdering> {
        Some(&self.order)
    }

    fn execute(
        self: &Arc<Self>,
        input: &RowsPlan,
        _partition: usize,
        context: Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        let schema = input.schema();
        let ordered = Arc::clone(self).ordered(Arc::clone(input), context, metrics.clone());
        let output_rows = MetricBuilder::new(metrics).output_rows(0);
        let rows = stream::once(ordered)
            .try_flatten()
            .inspect_ok(move |batch| output_rows.add(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, StringArray, UInt64Array};
    use datafusion::physical_expr::PhysicalSortExpr;
    use datafusion::physical_expr::expressions::Column;

    use super::*;

    fn follow(columns: usize, batches: &[RecordBatch]) -> Vec<bool> {
        let by = (0..columns).map(|i| PhysicalSortExpr::new_default(Arc::new(Column::new("", i))));
        let mut check = OrderCheck::new(LexOrdering::new(by).unwrap());
        let follows = batches.iter().map(|batch| check.follows(batch).unwrap());
        follows.collect()
    }

    fn numbers(numbers: &[u64]) -> RecordBatch {
        let column: ArrayRef = Arc::new(UInt64Array::from(numbers.to_vec()));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    fn words(rows: &[(&str, u64)]) -> RecordBatch {
        let words: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0)));
        let numbers: ArrayRef =
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.1)));
        RecordBatch::try_from_iter([("w", words), ("n", numbers)]).unwrap()
    }

    #[test]
    fn rows_follow_those_of_earlier_batches() {
        let batches = [&[1, 2, 2][..], &[], &[2, u64::MAX], &[u64::MAX], &[0]].map(numbers);
        assert_eq!(follow(1, &batches), [true, true, true, true, false]);
        assert_eq!(follow(1, &[numbers(&[0, 5, 4, 6])]), [false]);
    }

    #[test]
    fn the_first_column_decides_before_the_second() {
        let batches = [
            &[("", 9), ("a", 1), ("a", 1)][..],
            &[("a", 2), ("aa", 0), ("é", 0), ("𝄞", 0)],
            &[("𝄞", 0)],
        ];
        assert_eq!(follow(2, &batches.map(words)), [true, true, true]);
        let late = [&[("b", 1)][..], &[("a", 2)]].map(words);
        assert_eq!(follow(2, &late), [true, false]);
        assert_eq!(follow(2, &[words(&[("a", 2), ("a", 1)])]), [false]);
        let equal = [&[("a", 2)][..], &[("a", 1)]].map(words);
        assert_eq!(follow(2, &equal), [true, false]);
    }
}
