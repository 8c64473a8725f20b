//! Existing cells of a dense array, read by a scan of their box.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;

use super::cell_scan::{CellScan, joined};
use crate::array::snapshot::Snapshot;
use crate::arrow::stored_values;
use crate::error::{Error, Result};
use crate::geometry::domain::KeyBox;
use crate::geometry::key;
use crate::scan::EmptyCells;
use crate::sql::options::TableOptions;
use crate::write::dense::insert::{EXISTING_TYPES, ExistingCells};

/// Reads cells of a snapshot.
pub(super) struct SnapshotCells {
    pub(super) snapshot: Snapshot,
    pub(super) context: Arc<TaskContext>,
}

impl fmt::Debug for SnapshotCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotCells").finish_non_exhaustive()
    }
}

#[async_trait]
impl ExistingCells for SnapshotCells {
    async fn read(&self, cells: &KeyBox) -> Result<Vec<Vec<ArrayRef>>> {
        let options = TableOptions {
            invalid_utf8: EXISTING_TYPES.invalid_utf8,
            time_as: EXISTING_TYPES.time_as,
            empty_cells: EmptyCells::Skip,
            ..TableOptions::default()
        };
        let scan = CellScan::new(&self.snapshot, options, &self.context)?;
        let table = &scan.table;
        let dimensions = table.snapshot.schema.dimensions.iter();
        let dimensions = dimensions.zip(table.types.iter());
        let mut condition = None;
        for (index, ((dimension, ty), (lo, hi))) in dimensions.zip(cells.ranges()).enumerate() {
            let ends = [lo, hi].map(|end| key::from_key(dimension.datatype, end));
            let ends = stored_values(ty, ends.iter().map(|end| Some(end.as_slice())), None)?;
            let ends = ends.ok_or_else(|| Error::internal("a coordinate has a value"))?;
            for (end, op) in [(0, Operator::GtEq), (1, Operator::LtEq)] {
                let end = ScalarValue::try_from_array(&ends, end);
                let end =
                    end.map_err(|e| Error::internal("a coordinate is a value").with_source(e))?;
                let bound = scan.compare(index, op, end);
                condition = Some(joined(condition, Operator::And, bound));
            }
        }
        let columns = (0..table.schema.fields().len()).collect();
        let batches = scan.read(columns, condition, None).await?;
        Ok(batches
            .iter()
            .map(|batch| batch.columns().to_vec())
            .collect())
    }
}
