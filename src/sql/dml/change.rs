//! What a statement that changes rows needs besides the rows it writes: what its scans have seen, a time after that, and how
//! many rows it has changed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use super::nan_coordinates::DoomedNan;
use crate::array::snapshot::{Seen, Snapshot};
use crate::array::window::TimestampMs;
use crate::arrow::NullPolicy;
use crate::error::{Error, Result};
use crate::format::delete_condition::Condition;
use crate::format::domain_range::DomainRange;
use crate::format::schema::Dimension;
use crate::geometry::key;
use crate::geometry::subarray::DimRanges;
use crate::sql::source::TileDbSource;
use crate::write::insert::WriteTarget;

/// No text has such a byte.
const ABOVE_TEXT: [u8; 16] = [0xff; 16];

/// A statement that changes rows that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sql) enum ChangeStatement {
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
pub(super) struct Change {
    /// What each scan of the array has seen.
    pub(super) read: Vec<Seen>,
    /// For each scan of the array, a box around the cells that it selects; `None` if it may select any cell.
    pub(super) selected: Vec<Option<Vec<DomainRange>>>,
    /// The number of scans that may select any cell, but only look for rows at coordinates that the statement writes.
    pub(super) lookups: usize,
    /// The latest time of what they have seen.
    pub(super) latest: TimestampMs,
    /// Whether the statement only inserts rows, but read other rows of the array for them.
    pub(super) inserts: bool,
    /// Whether cells are removed: the last column of the rows is their [kind](super::changed_rows).
    pub(super) removes: bool,
    /// Whether rows go to the coordinates of existing cells, and keep the bits of these coordinates.
    pub(super) in_place: bool,
    /// What a NULL means in the column that it was read from. The [values that a statement gives](crate::sql::changes) are
    /// checked before.
    pub(super) nulls: NullPolicy,
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
        let (mut read, mut selected) = (Vec::new(), Vec::new());
        let mut latest = TimestampMs(0);
        let mut pending = vec![plan];
        while let Some(plan) = pending.pop() {
            pending.extend(plan.children());
            let Some(source) = source_of(plan) else {
                continue;
            };
            let snapshot = &source.plan().spec.table.snapshot;
            // A statement can't change the past, nor cells outside a window of time.
            let is_present = source.shows_present() && snapshot.window.start == TimestampMs(0);
            if is_present && snapshot.storage.uri() == array.storage.uri() {
                latest = latest.max(latest_time(snapshot));
                let whole = source.plan().spec.subarray.is_all();
                selected.push(box_of(source).filter(|_| !whole));
                let seen = snapshot.seen();
                if !read.contains(&seen) {
                    read.push(seen);
                }
            }
        }
        Self {
            read,
            selected,
            latest,
            lookups: 0,
            inserts: false,
            removes: false,
            in_place: false,
            nulls: NullPolicy::Refused,
            replaced: None,
            doomed: Vec::new(),
            changed: Arc::default(),
        }
    }

    /// Boxes around the cells that the statement reads, and may not write; `None` if that may be any cell.
    pub(super) fn read_boxes(&self) -> Option<Vec<Vec<DomainRange>>> {
        let whole = self.selected.iter().filter(|selected| selected.is_none());
        let boxes = self.selected.iter().flatten().cloned();
        (whole.count() <= self.lookups).then(|| boxes.collect())
    }

    /// Forgets the rows of an earlier run of the plan.
    pub(super) fn reset(&self) {
        self.changed.store(0, Ordering::Relaxed);
    }

    /// The time of the change. It is later than everything that was read, because newer cells hide older ones. A change that
    /// replaces cells also deletes them, and must not delete cells of a later time.
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

/// For each dimension, the range that contains all rows which a scan could select; `None` if the ranges aren't known.
pub(super) fn selected_box(input: &Arc<dyn ExecutionPlan>) -> Option<Vec<DomainRange>> {
    let mut scan = input;
    while let Some(projection) = scan.downcast_ref::<ProjectionExec>() {
        scan = projection.input();
    }
    let source = source_of(scan)?;
    source.selection()?;
    box_of(source)
}

/// For each dimension, the range that contains all rows of a scan; `None` if the ranges aren't known.
fn box_of(source: &TileDbSource) -> Option<Vec<DomainRange>> {
    let spec = &source.plan().spec;
    let dimensions = spec.table.snapshot.schema.dimensions.iter();
    let dimensions = dimensions.zip(spec.subarray.dims());
    let ranges = dimensions.map(|(dimension, ranges)| around(dimension, ranges).ok()?);
    ranges.collect()
}

fn around(dimension: &Dimension, ranges: &DimRanges) -> Result<Option<DomainRange>> {
    let datatype = dimension.datatype;
    if !key::has_key(datatype) {
        let ranges = ranges.bytes_ranges();
        let ends = ranges.first().zip(ranges.last());
        return Ok(ends.map(|(first, last)| DomainRange {
            lo: first.start.clone(),
            hi: last.end.clone().unwrap_or_else(|| ABOVE_TEXT.to_vec()),
        }));
    }
    let (mut lo, mut hi) = (key::min_key(datatype), key::max_key(datatype));
    if let Some((first, last)) = &dimension.domain {
        (lo, hi) = (key::key(datatype, first)?, key::key(datatype, last)?);
    }
    let touched = ranges.overlapping_keys(lo, hi);
    let ends = touched.first().zip(touched.last());
    Ok(ends.map(|(first, last)| DomainRange {
        lo: key::from_key(datatype, first.lo.max(lo)),
        hi: key::from_key(datatype, last.hi.min(hi)),
    }))
}
