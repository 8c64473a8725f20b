//! Bookkeeping of the runs of a scan.
//!
//! A plan can run more than once: unchanged, or reset, like the recursive part of a CTE for each iteration. An operator
//! creates a new dynamic filter for each run, or none, and the scan does not get it: the filter that the scan has is
//! about the rows of the first run. So dynamic filters are used in the first run only.
//!
//! All runs read the same scan ([`CurrentScan`]), which is settled when one of them has given rows.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use datafusion::datasource::source::OpenArgs;
use datafusion::execution::TaskContext;
use tiledb_engine::scan::units::UnitPool;

use crate::scan::claims::PartitionTotals;

/// How often a scan is planned again.
pub(crate) const MOST_RENEWALS: usize = 5;

/// The runs of a scan, shared by all copies and resets of its plan.
#[derive(Debug, Default)]
pub(crate) struct ScanRuns {
    /// The number of plans that have started to run.
    plans: AtomicUsize,
    first: Mutex<FirstRun>,
}

/// The first run, with the partitions opened so far.
#[derive(Debug, Default)]
struct FirstRun {
    /// The context that all partitions of one run share.
    context: Option<Weak<TaskContext>>,
    opened: HashSet<usize>,
}

/// The state that the partitions of one plan share while it runs.
#[derive(Debug)]
pub(super) struct SiblingPartitions {
    /// The number of plans that started before.
    earlier: usize,
    /// Whether the partitions take over units of each other.
    share_units: bool,
    /// The pools of units that they share, one for each time that the scan was planned.
    units: Mutex<BTreeMap<usize, Arc<UnitPool>>>,
    /// The totals of the partitions, if declarations are checked.
    pub totals: Arc<PartitionTotals>,
    partitions: Mutex<PartitionStates>,
}

/// What has become of partitions.
#[derive(Debug, Default)]
struct PartitionStates {
    opened: HashSet<usize>,
    /// The partitions that ended without rows.
    ended: BTreeSet<usize>,
}

impl SiblingPartitions {
    /// Whether a partition is opened for the first time in this run.
    pub(super) fn opens_first(&self, partition: usize) -> bool {
        self.partitions().opened.insert(partition)
    }

    /// Notes that a partition ended without rows.
    pub(super) fn end(&self, partition: usize) {
        self.partitions().ended.insert(partition);
    }

    /// The partitions that ended without rows.
    pub(super) fn ended(&self) -> Vec<usize> {
        self.partitions().ended.iter().copied().collect()
    }

    /// A panic of another thread leaves the state consistent.
    fn partitions(&self) -> MutexGuard<'_, PartitionStates> {
        let partitions = self.partitions.lock();
        partitions.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the partitions take over units of each other.
    pub(super) fn share_units(&self) -> bool {
        self.share_units
    }

    /// The units that the partitions share in the scan after `times` renewals; `None` if they share none.
    pub(super) fn units(&self, times: usize) -> Option<Arc<UnitPool>> {
        // A panic of another thread leaves the pools consistent.
        let pools = || self.units.lock().unwrap_or_else(PoisonError::into_inner);
        self.share_units
            .then(|| Arc::clone(pools().entry(times).or_default()))
    }
}

impl ScanRuns {
    /// Registers the start of another plan.
    pub(super) fn begin(&self, share_units: bool) -> SiblingPartitions {
        SiblingPartitions {
            earlier: self.plans.fetch_add(1, Ordering::Relaxed),
            share_units,
            units: Mutex::default(),
            totals: Arc::default(),
            partitions: Mutex::default(),
        }
    }

    /// Whether a partition is opened for the first run.
    pub(super) fn is_first(&self, siblings: Option<&SiblingPartitions>, args: &OpenArgs) -> bool {
        if siblings.is_some_and(|siblings| siblings.earlier > 0) {
            return false;
        }
        // A panic of another thread leaves the state consistent.
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let context = Arc::downgrade(&args.context);
        let same = first.context.get_or_insert_with(|| context.clone());
        Weak::ptr_eq(same, &context) && first.opened.insert(args.partition)
    }
}

/// Which scan the partitions of all runs read: the one that was planned, or one that was planned again.
#[derive(Debug)]
pub(super) struct CurrentScan<S>(tokio::sync::Mutex<CourseState<S>>);

#[derive(Debug)]
struct CourseState<S> {
    anew: Option<ReplannedScan<S>>,
    /// Whether the scan stays as it is: a partition has given rows, or has ended where nobody else would read its part.
    is_settled: bool,
}

/// A scan that was planned again while its partitions were open.
#[derive(Debug, Clone)]
pub(super) struct ReplannedScan<S> {
    /// How often the scan was planned again.
    pub times: usize,
    /// The scan.
    pub scan: S,
}

impl<S> Default for CurrentScan<S> {
    fn default() -> Self {
        let state = CourseState {
            anew: None,
            is_settled: false,
        };
        Self(tokio::sync::Mutex::new(state))
    }
}

impl<S: Clone> CurrentScan<S> {
    /// The latest scan, if it was planned again more than `times` times.
    pub(super) async fn newer(&self, times: usize) -> Option<ReplannedScan<S>> {
        self.0.lock().await.newer(times)
    }

    /// Settles the scan after `times` renewals. If another partition has renewed it since, that scan is returned instead.
    pub(super) async fn settle(&self, times: usize) -> Option<ReplannedScan<S>> {
        let mut state = self.0.lock().await;
        let newer = state.newer(times);
        state.is_settled |= newer.is_none();
        newer
    }

    /// As [`settle`](Self::settle), for a partition that has ended without rows, unless `end` notes it for others to read what
    /// another scan would have for it.
    pub(super) async fn end(
        &self,
        times: usize,
        end: impl FnOnce() -> bool,
    ) -> Option<ReplannedScan<S>> {
        let mut state = self.0.lock().await;
        let newer = state.newer(times);
        if newer.is_none() {
            state.is_settled |= !end();
        }
        newer
    }

    /// The next scan for a partition that can't read the one after `times` renewals; `None` if there is none. If this partition
    /// causes the renewal, the partitions that have `ended` come with the scan.
    pub(super) async fn renew(
        &self,
        times: usize,
        renew: impl Future<Output = Option<S>>,
        ended: impl FnOnce() -> Vec<usize>,
    ) -> Option<(ReplannedScan<S>, Vec<usize>)> {
        let mut state = self.0.lock().await;
        if let Some(newer) = state.newer(times) {
            return Some((newer, Vec::new()));
        }
        if state.is_settled || times >= MOST_RENEWALS {
            return None;
        }
        let scan = renew.await?;
        let times = times + 1;
        let anew = ReplannedScan { times, scan };
        state.anew = Some(anew.clone());
        Some((anew, ended()))
    }
}

impl<S: Clone> CourseState<S> {
    fn newer(&self, times: usize) -> Option<ReplannedScan<S>> {
        self.anew.clone().filter(|anew| anew.times > times)
    }
}
