//! The state of a statement that changes rows, besides the rows it writes: the data that its scans have seen, a later time, and
//! the number of rows it has changed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use tiledb_engine::array::snapshot::{Snapshot, SnapshotContents};
use tiledb_engine::array::window::TimestampMs;
use tiledb_engine::arrow::NullPolicy;
use tiledb_engine::format::delete_condition::DeleteCondition;
use tiledb_engine::format::domain_range::DomainRange;
use tiledb_engine::write::insert::OpenedTarget;
use tiledb_engine::{Error, Result};

use super::nan_coordinates::RemovedNan;
use crate::scan::moment::{StatementScan, StatementSnapshots};
use crate::scan::scan_box::scan_box;
use crate::scan::source::TileDbSource;

/// A statement that changes rows that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeStatement {
    Update,
    Delete,
    Merge,
}

impl fmt::Display for ChangeStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Merge => "MERGE INTO",
        })
    }
}

/// A change of rows that were read.
#[derive(Debug)]
pub(super) struct RowChange {
    /// The scans of the array among the inputs.
    pub(super) scans: Vec<StatementScan>,
    /// All scans of the statement, also those of subqueries for single values, which aren't below the inputs.
    pub(super) statement: Option<Arc<StatementSnapshots>>,
    /// The latest time of the data that the scans have seen.
    pub(super) latest: TimestampMs,
    /// Whether the statement only inserts rows, but read other rows of the array for them.
    pub(super) inserts: bool,
    /// Whether cells are removed: the last column of the rows is their [kind](super::changed_rows).
    pub(super) removes: bool,
    /// Whether rows go to the coordinates of existing cells, and keep the bits of these coordinates.
    pub(super) in_place: bool,
    /// How a NULL is stored in the column that it was read from. The [values that a statement
    /// gives](crate::statements::changes) are checked before.
    pub(super) nulls: NullPolicy,
    /// The condition of a replacement: all cells that do not satisfy it are replaced.
    pub(super) replaced: Option<DeleteCondition>,
    /// The cells that must not exist, because the stored condition would delete them against WHERE.
    pub(super) removed_nans: Vec<RemovedNan>,
    /// The number of rows that the statement has changed.
    pub(super) changed: Arc<AtomicU64>,
}

impl RowChange {
    /// A change of the array at `uri` by a plan, in a statement that may scan it elsewhere, too.
    pub(super) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        uri: &str,
        statement: Option<Arc<StatementSnapshots>>,
    ) -> Self {
        let (mut scans, mut latest) = (Vec::new(), TimestampMs(0));
        let mut pending = vec![plan];
        while let Some(plan) = pending.pop() {
            pending.extend(plan.children());
            let scan =
                source_of(plan).and_then(|source| Some((source, StatementScan::of(source)?)));
            if let Some((source, scan)) = scan
                && scan.uri == uri
            {
                latest = latest.max(latest_time(&source.plan().spec.table.snapshot));
                scans.push(scan);
            }
        }
        Self {
            scans,
            statement,
            latest,
            inserts: false,
            removes: false,
            in_place: false,
            nulls: NullPolicy::Refused,
            replaced: None,
            removed_nans: Vec::new(),
            changed: Arc::default(),
        }
    }

    /// Whether the statement reads the array.
    pub(super) fn reads(&self) -> bool {
        self.statement.is_some() || !self.scans.is_empty()
    }

    /// Whether the statement only inserts rows, and has read nothing but the past of the array. All scans have to be planned.
    pub(super) fn is_plain_insert(&self, uri: &str) -> bool {
        self.inserts && self.read(uri).0.is_empty()
    }

    /// The contents of an array that scans have seen, and boxes around the cells that the statement reads but may not write;
    /// `None` if that may be any cell. All scans have to be planned.
    pub(super) fn read(&self, uri: &str) -> (Vec<SnapshotContents>, Option<Vec<Vec<DomainRange>>>) {
        let planned = self
            .statement
            .as_ref()
            .map_or_else(Vec::new, |statement| statement.scans(uri));
        let mut seen = Vec::new();
        for scan in self.scans.iter().chain(&planned) {
            if !seen.contains(&scan.seen) {
                seen.push(scan.seen.clone());
            }
        }
        let all = if planned.is_empty() {
            &self.scans
        } else {
            &planned
        };
        let reading = all.iter().filter(|scan| !scan.is_lookup);
        let boxes = reading.map(|scan| scan.selected.clone()).collect();
        (seen, boxes)
    }

    /// Forgets the rows of an earlier run of the plan.
    pub(super) fn reset(&self) {
        self.changed.store(0, Ordering::Relaxed);
    }

    /// The time of the change. It is later than all data that was read, because newer cells hide older ones. A change that
    /// replaces cells also deletes them, and must not delete cells of a later time.
    pub(super) async fn time(&self, target: &OpenedTarget) -> Result<TimestampMs> {
        let latest = match self.replaced {
            Some(_) => latest_time(&target.snapshot),
            None => self.latest,
        };
        after(latest, target).await
    }
}

/// A time after `latest`, at which the target may be written.
pub(super) async fn after(latest: TimestampMs, target: &OpenedTarget) -> Result<TimestampMs> {
    let Some(time) = target.time else {
        // Nothing of the future was read, so the loop ends within a millisecond.
        loop {
            let time = target.clock.fresh_time().await;
            if time > latest {
                return Ok(time);
            }
        }
    };
    if time > latest {
        return Ok(time);
    }
    Err(Error::invalid(format!(
        "tiledb.write_timestamp is {}, and the array has cells or deletes of {}: a change hides only what is older; choose a \
         later time",
        time.0, latest.0
    ))
    .with("array", target.snapshot.storage.uri()))
}

/// The latest time of a snapshot's fragments and deletes.
pub(super) fn latest_time(snapshot: &Snapshot) -> TimestampMs {
    let fragments = snapshot.fragments.iter().map(|fragment| fragment.name.t2);
    let deletes = snapshot.deletes.times();
    TimestampMs(fragments.chain(deletes).max().unwrap_or(0))
}

/// The scan of an array, if a node is one.
pub(super) fn source_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&TileDbSource> {
    let scan = plan.downcast_ref::<DataSourceExec>()?;
    scan.data_source().downcast_ref::<TileDbSource>()
}

/// For each dimension, the range that contains all rows which a scan could select; `None` if the ranges aren't known.
pub(super) fn selected_box(input: &Arc<dyn ExecutionPlan>) -> Option<Vec<DomainRange>> {
    let mut scan = input;
    while let Some(projection) = scan.downcast_ref::<ProjectionExec>() {
        scan = projection.input();
    }
    let source = source_of(scan)?;
    source.selection()?;
    scan_box(source)
}
