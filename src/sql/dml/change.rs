//! What a statement that changes rows needs besides the rows it writes: what its scans have seen, a time after that, and how
//! many rows it has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

use super::nan_coordinates::DoomedNan;
use crate::array::snapshot::{Seen, Snapshot};
use crate::array::window::TimestampMs;
use crate::arrow::Nulls;
use crate::error::{Error, Result};
use crate::format::delete_condition::Condition;
use crate::sql::source::TileDbSource;
use crate::write::insert::WriteTarget;

/// A change of rows that were read.
#[derive(Debug)]
pub(super) struct Change {
    /// What each scan of the array has seen.
    pub(super) read: Vec<Seen>,
    /// The latest time of what they have seen.
    pub(super) latest: TimestampMs,
    /// Whether cells are removed: the last column of the rows is their [kind](super::changed_rows).
    pub(super) removes: bool,
    /// Whether rows go to the coordinates of cells that are there, whose bits they keep.
    pub(super) in_place: bool,
    /// What a NULL means in a column of its own; the [values that a statement gives](crate::sql::changes) are checked before.
    pub(super) nulls: Nulls,
    /// What is replaced: the cells that do not satisfy the condition.
    pub(super) replaced: Option<Condition>,
    /// What must not be there, because the stored condition would delete it against WHERE.
    pub(super) doomed: Vec<DoomedNan>,
    /// The number of rows that the statement has changed.
    pub(super) changed: Arc<AtomicU64>,
}

impl Change {
    /// A change by a plan that reads the array.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>, array: &Snapshot) -> Self {
        let (mut read, mut latest) = (Vec::new(), TimestampMs(0));
        let mut pending = vec![plan];
        while let Some(plan) = pending.pop() {
            pending.extend(plan.children());
            let Some(source) = source_of(plan) else {
                continue;
            };
            let snapshot = &source.plan().spec.table.snapshot;
            if snapshot.storage.uri() == array.storage.uri() {
                latest = latest.max(latest_time(snapshot));
                read.push(snapshot.seen());
            }
        }
        Self {
            read,
            latest,
            removes: false,
            in_place: false,
            nulls: Nulls::Refused,
            replaced: None,
            doomed: Vec::new(),
            changed: Arc::default(),
        }
    }

    /// Forgets the rows of an earlier run of the plan.
    pub(super) fn reset(&self) {
        self.changed.store(0, Ordering::Relaxed);
    }

    /// The time of the change, which is later than all that was read: what is newer, hides what is older. A change that
    /// replaces cells deletes them, which it must not do to cells of a later time.
    pub(super) async fn time(&self, target: &WriteTarget) -> Result<TimestampMs> {
        let latest = match self.replaced {
            Some(_) => latest_time(&target.snapshot),
            None => self.latest,
        };
        after(latest, target).await
    }
}

/// A time after `latest`, at which the target may be written.
pub(super) async fn after(latest: TimestampMs, target: &WriteTarget) -> Result<TimestampMs> {
    let Some(time) = target.time else {
        // Nothing of the future was read, so this ends within a millisecond.
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
