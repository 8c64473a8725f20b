//! Conversion of a predicate on a label to ranges of the labelled dimension.
//!
//! The label array is scanned for the indexes whose label satisfies the predicate, within the ranges that the rest of
//! the query leaves. The subtle thing: indexes that were never written have a label, too, the fill value.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::index;
use super::scan::LabelScan;
use crate::error::{Error, Result};
use crate::geometry::subarray::{DimRanges, KeyRange};
use crate::memory::budget::{Grant, MemoryBudget};
use crate::scan::Predicate;
use crate::sql::expressions::predicate::ExprPredicate;

/// Memory is reserved for this many ranges at a time.
const RANGES_PER_GRANT: usize = 64 * 1024;

/// The indexes among `candidates` whose label satisfies `predicate`, an expression whose only column is the label.
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
    let mut found = Found::default();
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
struct Found {
    ranges: Vec<KeyRange>,
    grants: Vec<Grant>,
}

impl Found {
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
