//! Bookkeeping of the runs of a scan.
//!
//! A plan can run more than once: unchanged, or reset, like the recursive part of a CTE for each iteration. An operator
//! creates a new dynamic filter for each run, or none, and the scan does not get it: the filter that the scan has is
//! about the rows of the first run. So dynamic filters are used in the first run only.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::datasource::source::OpenArgs;
use datafusion::execution::TaskContext;

use crate::scan::units::UnitPool;
use crate::sql::claims::Totals;

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
}

impl Runs {
    /// Registers the start of another plan.
    pub(super) fn begin(&self, units: Option<Arc<UnitPool>>) -> Siblings {
        Siblings {
            earlier: self.plans.fetch_add(1, Ordering::Relaxed),
            units,
            totals: Arc::default(),
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
