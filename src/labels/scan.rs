//! Scans of a label's array, with the engine that reads every array; a predicate on the label becomes ranges of the
//! labelled dimension.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use futures::TryStreamExt;
use tiledb_engine::array::label::LabelArray;
use tiledb_engine::array::table::fill_column;
use tiledb_engine::geometry::subarray::{DimRanges, KeyRange, Subarray};
use tiledb_engine::memory::budget::{Grant, MemoryBudget};
use tiledb_engine::scan::context::ScanContext;
use tiledb_engine::scan::metrics::ScanMetrics;
use tiledb_engine::scan::stream::read_units;
use tiledb_engine::scan::units::UnitQueue;
use tiledb_engine::scan::{EmptyCells, Predicate, ScanPlan, ScanSpec, ScanWays};
use tiledb_engine::{Error, Result};

use super::index;
use crate::expressions::predicate::ExprPredicate;

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
                _ => EmptyCells::Fill,
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

/// Memory is reserved for this many ranges at a time.
const RANGES_PER_GRANT: usize = 64 * 1024;

/// The indexes among `candidates` whose label satisfies `predicate`, an expression whose only column is the label.
///
/// The label array is scanned for the indexes whose label satisfies the predicate, within the ranges that the rest of
/// the query leaves. The subtle thing: indexes that were never written have a label, too, the fill value.
pub(super) async fn indexes(
    label: &LabelScan,
    predicate: &Arc<dyn PhysicalExpr>,
    candidates: &DimRanges,
    memory: &Arc<dyn MemoryBudget>,
) -> Result<DimRanges> {
    let predicate = Arc::new(on_label_table(label, predicate)?);
    let written = match label.array.written {
        Some((lo, hi)) => DimRanges::key_range(lo, hi),
        None => DimRanges::none(),
    };
    let unwritten = candidates.intersect(&written.complement());
    let mut found = FoundLabels::default();
    if !unwritten.is_empty() && holds_for_fill(label, predicate.as_ref())? {
        found.ranges.extend_from_slice(unwritten.key_ranges());
    }
    let written = candidates.intersect(&written);
    if !written.is_empty() {
        let index_type = label.array.index_type();
        let collect = |batch: datafusion::arrow::array::RecordBatch| {
            for column in batch.columns() {
                for key in index::keys(column, index_type)? {
                    found.push(key, memory)?;
                }
            }
            Ok(())
        };
        label
            .run(0, written, Some(predicate), memory, collect)
            .await?;
    }
    Ok(DimRanges::from_keys(found.ranges))
}

/// The predicate over the label array's columns.
fn on_label_table(label: &LabelScan, predicate: &Arc<dyn PhysicalExpr>) -> Result<ExprPredicate> {
    let table = &label.array.table;
    let moved = Arc::clone(predicate).transform(|expr| {
        Ok(match expr.downcast_ref::<Column>() {
            Some(column) => {
                let moved = Column::new(column.name(), label.array.column);
                Transformed::yes(Arc::new(moved) as Arc<dyn PhysicalExpr>)
            }
            None => Transformed::no(expr),
        })
    });
    moved
        .and_then(|moved| ExprPredicate::new(&moved.data, &table.schema))
        .map_err(|e| Error::internal("a label's predicate cannot be evaluated").with_source(e))
}

fn holds_for_fill(label: &LabelScan, predicate: &ExprPredicate) -> Result<bool> {
    let holds = predicate.evaluate(&[label.fill()?], 1)?;
    Ok(holds.iter().any(|holds| holds == Some(true)))
}

/// The indexes found so far, with neighbours joined into ranges.
#[derive(Default)]
struct FoundLabels {
    ranges: Vec<KeyRange>,
    grants: Vec<Grant>,
}

impl FoundLabels {
    fn push(&mut self, key: u64, memory: &Arc<dyn MemoryBudget>) -> Result<()> {
        if let Some(last) = self.ranges.last_mut()
            && last.hi.checked_add(1) == Some(key)
        {
            last.hi = key;
            return Ok(());
        }
        if self.ranges.len() == self.ranges.capacity() {
            // The old and the new list exist at the same time for a moment.
            self.grants
                .push(memory.reserve(RANGES_PER_GRANT * size_of::<KeyRange>())?);
            self.ranges.reserve_exact(RANGES_PER_GRANT);
        }
        self.ranges.push(KeyRange::point(key));
        Ok(())
    }
}
