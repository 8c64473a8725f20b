//! The step that makes cells of changed rows: a row that moves becomes a removed cell and a written one.
//!
//! A row of the input is one row that the statement changes. It has the old coordinates, which are NULL for a new row. If the
//! statement writes rows, it also has the new row, whether that stays at its coordinates, and whether its coordinates were
//! taken. The subtle thing is zero: -0.0 and 0.0 are one cell here, and two cells for libtiledb. A row that stays or is removed
//! keeps its stored sign, so that libtiledb finds its cell. A row that moves goes to 0.0.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt8Array, new_null_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::filter;
use datafusion::arrow::compute::kernels::cmp::distinct;
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, stream};
use tiledb_engine::arrow::with_one_zero;

use super::changed_rows::{REMOVED, WRITTEN, WRITTEN_OVER};
use super::node::{ChangeStep, StepExec};

/// The name of the column that holds the kind of a row.
pub(super) const KIND_COLUMN: &str = "__kind";

/// Makes cells of changed rows.
#[derive(Debug)]
pub struct ExpandExec {
    /// The columns of the array.
    stored: SchemaRef,
    dimensions: usize,
    /// Whether the input has new rows.
    writes: bool,
    /// The number of rows that the statement has changed.
    changed: Arc<AtomicU64>,
    output: SchemaRef,
}

/// The plan node.
pub type TileDbChangesExec = StepExec<ExpandExec>;

impl ExpandExec {
    pub(super) fn new(
        stored: &SchemaRef,
        dimensions: usize,
        writes: bool,
        changed: &Arc<AtomicU64>,
    ) -> Self {
        // The attributes of removed cells are NULL.
        let fields = stored
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true));
        let kind = Field::new(KIND_COLUMN, DataType::UInt8, false);
        Self {
            output: Arc::new(Schema::new(fields.chain([kind]).collect::<Vec<_>>())),
            stored: Arc::clone(stored),
            dimensions,
            writes,
            changed: Arc::clone(changed),
        }
    }

    fn cells(&self, batch: &RecordBatch) -> Result<Vec<RecordBatch>> {
        let (old, rest) = match batch.columns().split_at_checked(self.dimensions) {
            Some(split) => split,
            None => return internal_err!("changed rows have their old coordinates"),
        };
        let was_there = old.first().and_then(|column| column.logical_nulls());
        let was_there = match was_there {
            Some(nulls) => nulls.into_inner(),
            None => BooleanBuffer::new_set(batch.num_rows()),
        };
        if !self.writes {
            return Ok(vec![self.removed(old, was_there)?]);
        }
        let stored = self.stored.fields().len();
        let (Some(new), Some([stays, taken])) = (rest.get(..stored), rest.get(stored..)) else {
            return internal_err!("changed rows have {} columns", batch.num_columns());
        };
        let stays = true_values(stays.as_boolean());
        let mut elsewhere = BooleanBuffer::new_unset(batch.num_rows());
        for (old, new) in old.iter().zip(new) {
            elsewhere = &elsewhere | distinct(&with_one_zero(old), &with_one_zero(new))?.values();
        }
        let removed = &was_there & &(&!&stays | &elsewhere);
        let over = &(&elsewhere | &!&was_there) & &true_values(taken.as_boolean());
        let kinds = over
            .iter()
            .map(|over| if over { WRITTEN_OVER } else { WRITTEN });
        let mut columns = new.to_vec();
        let comes = BooleanArray::new(&elsewhere | &!&was_there, None);
        for (column, old) in columns.iter_mut().zip(old) {
            if column.data_type().is_floating() {
                *column = zip(&comes, &with_one_zero(column), old)?;
            }
        }
        columns.push(Arc::new(kinds.collect::<UInt8Array>()));
        let written = self.batch(columns, stays)?;
        Ok(vec![written, self.removed(old, removed)?])
    }

    fn removed(&self, old: &[ArrayRef], which: BooleanBuffer) -> Result<RecordBatch> {
        let rows = which.len();
        let attributes = self.stored.fields().iter().skip(self.dimensions);
        let nulls = attributes.map(|field| new_null_array(field.data_type(), rows));
        let kind: ArrayRef = Arc::new(UInt8Array::from_value(REMOVED, rows));
        let columns = old.iter().cloned().chain(nulls).chain([kind]);
        self.batch(columns.collect(), which)
    }

    fn batch(&self, columns: Vec<ArrayRef>, which: BooleanBuffer) -> Result<RecordBatch> {
        let which = BooleanArray::new(which, None);
        let columns = columns
            .iter()
            .map(|column| filter(column, &which))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&self.output), columns)?)
    }
}

/// Where the values are true; NULL is not.
fn true_values(values: &BooleanArray) -> BooleanBuffer {
    match values.nulls() {
        None => values.values().clone(),
        Some(nulls) => values.values() & nulls.inner(),
    }
}

impl ChangeStep for ExpandExec {
    const NAME: &'static str = "TileDbChangesExec";

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> PlanProperties {
        PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&self.output)),
            datafusion::physical_expr::Partitioning::UnknownPartitioning(
                input.output_partitioning().partition_count(),
            ),
            input.pipeline_behavior(),
            input.boundedness(),
        )
    }

    fn describe(&self) -> String {
        String::new()
    }

    fn wants_one_partition(&self) -> bool {
        false
    }

    fn execute(
        self: &Arc<Self>,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        let rows = input.execute(partition, context)?;
        let expand = Arc::clone(self);
        let cells = rows.flat_map(move |batch| {
            let cells = batch.and_then(|batch| {
                let rows = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
                expand.changed.fetch_add(rows, Ordering::Relaxed);
                expand.cells(&batch)
            });
            stream::iter(match cells {
                Ok(cells) => cells.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.output),
            cells,
        )))
    }
}
