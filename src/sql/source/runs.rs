//! Bookkeeping of the runs of a scan.
//!
//! A plan can run more than once: unchanged, or reset, like the recursive part of a CTE for each iteration. An operator
//! creates a new dynamic filter for each run, or none, and the scan does not get it: the filter that the scan has is
//! about the rows of the first run. So dynamic filters are used in the first run only.
//!
//! While a plan runs, somebody may vacuum what it was made of. Until one of its partitions has given rows, all of them can
//! go on with a scan that was planned anew ([`Course`]); afterwards none can.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::datasource::source::OpenArgs;
use datafusion::execution::TaskContext;

use super::TileDbSource;
use crate::scan::units::UnitPool;
use crate::sql::claims::Totals;

/// How often a scan is planned anew while it runs.
pub(in crate::sql) const MOST_RENEWALS: usize = 5;

/// The runs of a scan, shared by all copies and resets of its plan.
#[derive(Debug, Default)]
pub(in crate::sql) struct Runs {
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
pub(super) struct Siblings {
    /// The number of plans that started before.
    earlier: usize,
    /// The pool of units that the partitions share, if they do.
    pub units: Option<Arc<UnitPool>>,
    /// The totals of the partitions, if declarations are checked.
    pub totals: Arc<Totals>,
    /// Which scan the partitions read.
    pub course: Course,
}

/// Which scan the partitions of a run read: the one that was planned, or one that was planned anew.
#[derive(Debug, Default)]
pub(super) struct Course(tokio::sync::Mutex<CourseState>);

#[derive(Debug, Default)]
struct CourseState {
    /// The scan that was planned anew, and how often that was.
    renewed: Option<Renewed>,
    /// Whether a partition has given rows, or its part of all rows.
    is_settled: bool,
}

/// A scan that was planned anew while its partitions were open.
#[derive(Debug, Clone)]
pub(super) struct Renewed {
    /// How often the scan was planned anew.
    pub times: usize,
    /// The scan.
    pub source: Arc<TileDbSource>,
    /// The units that its partitions share, if they share units.
    pub units: Arc<UnitPool>,
}

impl Course {
    /// Settles the scan that was planned anew so many times, as far as nobody has planned it once more; that one is then
    /// returned.
    pub(super) async fn settle(&self, times: usize) -> Option<Renewed> {
        let mut state = self.0.lock().await;
        let newer = state.renewed.clone().filter(|newer| newer.times > times);
        state.is_settled |= newer.is_none();
        newer
    }

    /// The scan if it was planned anew more often.
    pub(super) async fn newer(&self, times: usize) -> Option<Renewed> {
        let state = self.0.lock().await;
        state.renewed.clone().filter(|newer| newer.times > times)
    }

    /// The scan planned anew, for a partition that cannot read the one that was planned anew so many times; `None` if there
    /// is no other.
    pub(super) async fn renew(
        &self,
        times: usize,
        renew: impl Future<Output = Option<TileDbSource>>,
    ) -> Option<Renewed> {
        let mut state = self.0.lock().await;
        let newer = state.renewed.clone().filter(|newer| newer.times > times);
        if newer.is_some() || state.is_settled || times >= MOST_RENEWALS {
            return newer;
        }
        let renewed = Renewed {
            times: times + 1,
            source: Arc::new(renew.await?),
            units: Arc::default(),
        };
        state.renewed = Some(renewed.clone());
        Some(renewed)
    }
}

impl Runs {
    /// Registers the start of another plan.
    pub(super) fn begin(&self, units: Option<Arc<UnitPool>>) -> Siblings {
        Siblings {
            earlier: self.plans.fetch_add(1, Ordering::Relaxed),
            units,
            totals: Arc::default(),
            course: Course::default(),
        }
    }

    /// Whether a partition is opened for the first run.
    pub(super) fn is_first(&self, siblings: Option<&Siblings>, args: &OpenArgs) -> bool {
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
