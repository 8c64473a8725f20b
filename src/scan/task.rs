//! Tasks: the parts of a scan that several machines read.
//!
//! A task is a value. It holds the units that the machine reads, the files of the fragments that these units touch, and nothing
//! secret. All tasks of a scan have one number of partitions.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use serde::{Deserialize, Serialize};
use tiledb_engine::Result;
use tiledb_engine::array::fragment::Fragment;
use tiledb_engine::array::snapshot::{Snapshot, SnapshotFiles};
use tiledb_engine::geometry::subarray::{DimRanges, Subarray};
use tiledb_engine::scan::plan::share::ScanShare;

use crate::scan::planning::unplanned;
use crate::scan::source::{ScanMode, ScanValue, TileDbSource};
use crate::stores::runtime::ArrayRuntime;

/// What one of several machines reads of a scan.
#[derive(Debug, Clone)]
pub struct ScanTask {
    /// The scan.
    pub(crate) scan: ScanValue,
    /// The filters that learn while the query runs, of operators that run on the same machine.
    pub(crate) dynamic: Vec<Arc<dyn PhysicalExpr>>,
    /// Which part of the scan it is.
    pub(crate) part: TaskPart,
}

/// A part of a scan, as values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskPart {
    /// The files of the fragments that the part touches.
    pub(crate) files: SnapshotFiles,
    pub(crate) units: TaskUnits,
    /// The number of partitions. Those that have nothing to read are empty.
    pub(crate) partitions: usize,
}

/// The units of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TaskUnits {
    /// These units.
    Share(ScanShare),
    /// The units of these partitions of a scan whose partitions are ranges of the leading dimension.
    Ranges { first: usize, count: usize },
}

/// Why a scan can't be cut into tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UncutReason {
    Labels,
    Secret,
    Store,
    StoredValues,
    FirstCells,
    Units,
}

impl fmt::Display for UncutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Labels => "it uses dimension labels",
            Self::Secret => {
                "its option tiledb.encryption_key is secret; set the environment variable TILEDB_ENCRYPTION_KEY on all machines \
                 instead"
            }
            Self::Store => {
                "its object store has options of a statement, or is one of this program; set the options in the environment of all \
                 machines instead"
            }
            Self::StoredValues => "its statement writes its values again",
            Self::FirstCells => "it reads only the first cells of an order",
            Self::Units => "its units are chosen while it runs",
        })
    }
}

impl ScanTask {
    /// Opens the files of the task, and plans the reading of its units.
    pub(crate) async fn open(&self, runtime: &ArrayRuntime) -> Result<TileDbSource> {
        let request = &self.scan.request;
        let storage = request.storage(runtime)?;
        let snapshot = Snapshot::of_files(&storage, self.part.files.clone()).await?;
        let (table, labels) = request.table(snapshot)?;
        let share = match &self.part.units {
            TaskUnits::Share(share) => Some(share.clone()),
            TaskUnits::Ranges { .. } => None,
        };
        let query = Arc::new(request.query.clone());
        let planned = query.planned_units(Arc::new(table), &labels, share, runtime);
        let planned = Box::pin(planned).await.map_err(unplanned)?;
        TileDbSource::new(query, planned).for_task(self)
    }
}

impl TileDbSource {
    /// Cuts the scan into tasks, some of which may have nothing to read.
    pub(crate) fn cut(&self, tasks: usize) -> std::result::Result<Vec<ScanTask>, UncutReason> {
        self.check_cut()?;
        let snapshot = &self.plan().spec.table.snapshot;
        let parts = match self.mode() {
            ScanMode::Ranges { cuts, .. } => self.cut_ranges(snapshot, &cuts.keys, tasks),
            _ => self.cut_units(snapshot, tasks)?,
        };
        let task = |part| ScanTask {
            scan: self.value(),
            dynamic: self.dynamic_filters().to_vec(),
            part,
        };
        Ok(parts.into_iter().map(task).collect())
    }

    /// Fails if the scan can't be cut.
    pub(crate) fn check_cut(&self) -> std::result::Result<(), UncutReason> {
        let query = self.query();
        if self.uses_labels() {
            return Err(UncutReason::Labels);
        }
        if query.options.encryption_key.is_some() {
            return Err(UncutReason::Secret);
        }
        if !self.plan().spec.table.snapshot.storage.is_found_by_uri() {
            return Err(UncutReason::Store);
        }
        if query.options.as_stored {
            return Err(UncutReason::StoredValues);
        }
        if query.first_cells.is_some() {
            return Err(UncutReason::FirstCells);
        }
        Ok(())
    }

    fn cut_units(
        &self,
        snapshot: &Snapshot,
        tasks: usize,
    ) -> std::result::Result<Vec<TaskPart>, UncutReason> {
        let plan = self.plan();
        let runs = plan.cut_into_shares(tasks).into_iter().enumerate();
        let parts = runs.map(|(number, units)| {
            let share = plan.share(units, number)?;
            Some(TaskPart {
                files: snapshot.files(&share.fragments()),
                units: TaskUnits::Share(share),
                partitions: self.partition_count().max(1),
            })
        });
        parts.collect::<Option<_>>().ok_or(UncutReason::Units)
    }

    fn cut_ranges(&self, snapshot: &Snapshot, cuts: &[u64], tasks: usize) -> Vec<TaskPart> {
        let all = cuts.len() + 1;
        let each = all.div_ceil(tasks.max(1));
        let parts = (0..tasks.max(1)).map(|task| {
            let first = (task * each).min(all);
            let count = each.min(all - first);
            let lo = first.checked_sub(1).and_then(|cut| cuts.get(cut)).copied();
            let hi = cuts.get(first + count - usize::from(count > 0)).copied();
            let mut range = Subarray::all(snapshot.schema.dimensions.len());
            let hi = hi.map_or(u64::MAX, |hi| hi.saturating_sub(1));
            range.set_dim(0, DimRanges::key_range(lo.unwrap_or(0), hi));
            // The bounds of a dense scan follow from all of its fragments.
            let is_read = |fragment: &Fragment| {
                snapshot.schema.is_dense() || (count > 0 && fragment.touches(&range))
            };
            let fragments = snapshot.fragments.iter().filter(|f| is_read(f));
            let names: HashSet<&str> = fragments.map(|f| f.name.name.as_str()).collect();
            TaskPart {
                files: snapshot.files(&names),
                units: TaskUnits::Ranges { first, count },
                // A single partition would keep its order through an exchange of rows, which isn't kept between machines.
                partitions: each.max(2),
            }
        });
        parts.collect()
    }
}
