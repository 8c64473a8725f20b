//! Tasks: the parts of a scan that several machines read.
//!
//! A task is a value. It holds the units that the machine reads, the files of the fragments that these units touch, and nothing
//! secret. All tasks of a scan have one number of partitions.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::Statistics;
use datafusion::physical_expr::PhysicalExpr;
use serde::{Deserialize, Serialize};
use tiledb_engine::array::fragment::Fragment;
use tiledb_engine::array::snapshot::{Snapshot, SnapshotFiles};
use tiledb_engine::geometry::subarray::{DimRanges, Subarray};
use tiledb_engine::scan::ScanPlan;
use tiledb_engine::scan::plan::share::ScanShare;
use tiledb_engine::scan::unit_order::UnitOrder;
use tiledb_engine::{Error, Result};

use super::mode::{RangePartitions, RemainingScan, ScanArrangement, UnitsState};
use super::{ScanMode, ScanValue, TileDbSource};
use crate::expressions::runtime::PushedFilters;

/// The most partitions of a task.
const MOST_PARTITIONS: usize = 1 << 16;

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

impl TaskPart {
    /// Fails for numbers that no machine of this release writes, before anything is allocated for them.
    pub(crate) fn check(&self) -> Result<()> {
        let ranges = match &self.units {
            TaskUnits::Share(_) => Some(0),
            TaskUnits::Ranges { first, count } => first.checked_add(*count),
        };
        if self.partitions == 0 || self.partitions > MOST_PARTITIONS || ranges.is_none() {
            return Err(Error::corrupt(format!(
                "a task of a scan has {} partitions, expected 1 to {MOST_PARTITIONS}",
                self.partitions
            )));
        }
        Ok(())
    }
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
    Partitions,
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
            Self::Partitions => "it has too many partitions",
            Self::Units => "its units are chosen while it runs",
        })
    }
}

impl TileDbSource {
    /// Whether the scan returns every row that it reads.
    #[cfg(feature = "cluster")]
    pub(crate) fn keeps_rows(&self) -> bool {
        self.planned.predicate.is_none() && self.filters.len() == 0 && self.fetch.is_none()
    }

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
        if self.partition_count() > MOST_PARTITIONS {
            return Err(UncutReason::Partitions);
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

    /// This plain scan of a task's units in the mode and with the filters and limits of the task. Its plan has the units of the
    /// task, in the order of the mode.
    pub(crate) fn for_task(self, task: &ScanTask) -> Result<Self> {
        let value = &task.scan;
        let arrangement = value.mode.arrange_task(self.plan(), &task.part)?;
        // Nothing is known of a part.
        let unknown = Statistics::new_unknown(&self.planned.schema);
        Ok(Self {
            arrangement,
            statistics: Arc::new(OnceLock::from(Arc::new(unknown))),
            filters: PushedFilters::of_task(value.filters.clone(), task.dynamic.clone()),
            fetch: value.fetch,
            preserve_order: value.preserve_order,
            tells_bounds: Arc::new(false.into()),
            ..self
        })
    }
}

impl ScanMode {
    /// The units of a task in this mode. Those of an ordered scan are in order already.
    fn arrange_task(&self, plan: &Arc<ScanPlan>, part: &TaskPart) -> Result<ScanArrangement> {
        let unfit = || Error::corrupt("a task of a scan doesn't fit the mode of the scan");
        let mut partitions = plan.partitions(part.partitions);
        let end = plan.unit_count();
        partitions.resize(part.partitions.max(1), end..end);
        let shared = match (self, &part.units) {
            (Self::Plain | Self::Ordered { .. }, TaskUnits::Share(_)) => UnitsState::Nothing,
            (Self::BestFirst(wanted), TaskUnits::Share(_)) => {
                let order = UnitOrder::new(wanted.clone(), partitions.clone());
                UnitsState::Order(Arc::new(order))
            }
            (Self::Remaining { asked, rounding }, TaskUnits::Share(_)) => {
                let remaining = RemainingScan::new(Arc::clone(plan), Arc::clone(asked), *rounding)?;
                UnitsState::Remaining(Arc::new(remaining.unwrap_or_else(|| {
                    RemainingScan::of(Arc::clone(plan), Vec::new(), Arc::clone(asked), *rounding)
                })))
            }
            (Self::Ranges { cuts, .. }, TaskUnits::Ranges { first, count }) => {
                let ranges = RangePartitions::new(cuts, plan).ok_or_else(unfit)?;
                let ranges = ranges.some(*first, *count, part.partitions);
                UnitsState::Ranges(Arc::new(ranges))
            }
            _ => return Err(unfit()),
        };
        Ok(ScanArrangement {
            mode: self.clone(),
            plan: Arc::clone(plan),
            partitions,
            shared,
            current_scan: Arc::default(),
        })
    }
}
