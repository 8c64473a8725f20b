//! Scans of a label's array, with the engine that reads every array.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::datatypes::DataType;
use futures::TryStreamExt;

use crate::array::label::LabelArray;
use crate::array::table::fill_column;
use crate::error::{Error, Result};
use crate::geometry::subarray::{DimRanges, Subarray};
use crate::memory::budget::MemoryBudget;
use crate::scan::context::ScanContext;
use crate::scan::metrics::ScanMetrics;
use crate::scan::stream::read_units;
use crate::scan::units::UnitQueue;
use crate::scan::{EmptyCells, Predicate, ScanPlan, ScanSpec, ScanWays};

/// An opened label.
#[derive(Debug)]
pub(super) struct LabelScan {
    pub(super) array: LabelArray,
    empty_cells: EmptyCells,
}

impl LabelScan {
    pub(super) fn new(array: LabelArray, empty_cells: EmptyCells) -> Self {
        Self {
            array,
            // Rows are those of the labelled array, so labels that were never written must not be skipped.
            empty_cells: match empty_cells {
                EmptyCells::Null => EmptyCells::Null,
                EmptyCells::Fill | EmptyCells::Skip => EmptyCells::Fill,
            },
        }
    }

    /// Scans one column of the label array over ranges of the index, in the order of the index.
    pub(super) async fn run(
        &self,
        column: usize,
        ranges: DimRanges,
        predicate: Option<Arc<dyn Predicate>>,
        memory: &Arc<dyn MemoryBudget>,
        mut each: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let mut subarray = Subarray::all(1);
        subarray.set_dim(0, ranges);
        let spec = ScanSpec {
            all_versions: false,
            table: Arc::clone(&self.array.table),
            projection: vec![column],
            subarray: Arc::new(subarray),
            predicate,
            empty_cells: self.empty_cells,
            ways: ScanWays::default(),
        };
        let plan = Arc::new(ScanPlan::new(spec).await?);
        let units = UnitQueue::alone(0..plan.unit_count());
        let metrics = Arc::new(ScanMetrics::default());
        let context = ScanContext::new(plan, Arc::clone(memory), metrics);
        let mut batches = std::pin::pin!(read_units(context, units));
        while let Some(batch) = batches.try_next().await? {
            each(batch)?;
        }
        Ok(())
    }

    /// The value of indexes that were never written.
    pub(super) fn fill(&self) -> Result<ArrayRef> {
        match self.empty_cells {
            EmptyCells::Null => Ok(new_null_array(self.data_type()?, 1)),
            _ => fill_column(&self.array.table, self.array.column, 1),
        }
    }

    pub(super) fn data_type(&self) -> Result<&DataType> {
        let field = self.array.table.schema.fields().get(self.array.column);
        field
            .map(|f| f.data_type())
            .ok_or_else(|| Error::internal("a label has no column"))
    }
}
