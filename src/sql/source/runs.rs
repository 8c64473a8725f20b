//! The runs of a scan.
//!
//! A plan can run more than once: as it is, or reset, as the recursive part of a CTE is for each iteration. Whoever made
//! a dynamic filter for the first run makes another for the next, or none, and the scan is not told: the filter that it
//! holds says which rows the first run could still use. So dynamic filters serve the first run alone.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::datasource::source::OpenArgs;
use datafusion::execution::TaskContext;

use crate::scan::units::UnitPool;
use crate::sql::claims::Totals;

/// What is known of the runs of a scan, however its plan is copied and reset.
#[derive(Debug, Default)]
pub(in crate::sql) struct Runs {
    /// Plans that began to run.
    plans: AtomicUsize,
    first: Mutex<FirstRun>,
}

/// The first run, as far as partitions were opened.
#[derive(Debug, Default)]
struct FirstRun {
    /// What all partitions of one run share.
    context: Option<Weak<TaskContext>>,
    opened: HashSet<usize>,
}

/// What the partitions of one plan share while it runs.
#[derive(Debug)]
pub(super) struct Siblings {
    /// How many plans began to run before.
    earlier: usize,
    /// The units they lend each other, if they do.
    pub units: Option<Arc<UnitPool>>,
    /// What they gave together, where that is checked.
    pub totals: Arc<Totals>,
}

impl Runs {
    /// Another plan begins to run.
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
        // A thread that panicked left no half-done state behind.
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let context = Arc::downgrade(&args.context);
        let same = first.context.get_or_insert_with(|| context.clone());
        Weak::ptr_eq(same, &context) && first.opened.insert(args.partition)
    }
}
