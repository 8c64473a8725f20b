//! Existing cells of a dense array, read by a scan of their box.

use std::sync::Arc;

use arrow::array::ArrayRef;
use async_trait::async_trait;
use futures::TryStreamExt;

use super::insert::{EXISTING_TYPES, ExistingCells};
use crate::array::snapshot::Snapshot;
use crate::array::table::ArrayTable;
use crate::error::{Error, Result};
use crate::geometry::domain::KeyBox;
use crate::geometry::subarray::Subarray;
use crate::memory::budget::MemoryBudget;
use crate::scan::context::ScanContext;
use crate::scan::shown::ShownColumns;
use crate::scan::stream::read_units;
use crate::scan::units::UnitQueue;
use crate::scan::{EmptyCells, ScanPlan, ScanSpec, ScanWays};

/// The cells of an array as it was when a statement began.
#[derive(Debug)]
pub struct SnapshotCells {
    /// The array.
    pub snapshot: Snapshot,
    /// The memory that reading may use.
    pub budget: Arc<dyn MemoryBudget>,
}

impl SnapshotCells {
    async fn scan(&self, cells: &KeyBox) -> Result<Vec<Vec<ArrayRef>>> {
        let shown = ShownColumns {
            types: EXISTING_TYPES,
            empty_cells: EmptyCells::Skip,
            ..ShownColumns::default()
        };
        let table = Arc::new(ArrayTable::shown(self.snapshot.clone(), &shown)?);
        let plan = ScanPlan::new(ScanSpec {
            projection: (0..table.schema.fields().len()).collect(),
            subarray: Arc::new(Subarray::from_box(cells)),
            table,
            predicate: None,
            empty_cells: shown.empty_cells,
            all_versions: false,
            ways: ScanWays::default(),
        });
        let plan = Arc::new(plan.await?);
        let units = UnitQueue::alone(0..plan.unit_count());
        let context = ScanContext::new(plan, Arc::clone(&self.budget), Arc::default());
        let columns = read_units(context, units).map_ok(|batch| batch.columns().to_vec());
        columns.try_collect().await
    }
}

#[async_trait]
impl ExistingCells for SnapshotCells {
    async fn read(&self, cells: &KeyBox) -> Result<Vec<Vec<ArrayRef>>> {
        self.scan(cells).await.map_err(|e| {
            let message = "cells that the statement depends on cannot be read";
            Error::new(e.kind(), message).with_source(e)
        })
    }
}
