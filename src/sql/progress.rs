//! How far a plan has come, and what it decided by its rows, for those who show it.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

use super::dml::copy_choices;
use super::source::TileDbSource;
pub use super::source::counters::Progress;

/// How far the scans of arrays in a plan have come together; `None` if it scans none.
///
/// It may be asked while the plan runs, as often as anybody likes: it looks at counters only.
pub fn progress_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Progress> {
    let scan = plan.downcast_ref::<DataSourceExec>();
    let scan = scan.and_then(|scan| scan.data_source().downcast_ref::<TileDbSource>());
    let below = plan.children().into_iter().filter_map(progress_of);
    let parts = scan.map(TileDbSource::progress).into_iter().chain(below);
    parts.reduce(|a, b| Progress {
        done: a.done.saturating_add(b.done),
        all: a.all.saturating_add(b.all),
    })
}

/// What the rows of a `COPY … STORED AS TILEDB` that has been executed decided of the new array: options with their values, such
/// as `capacity = 100000`. Other plans, and those that have not ended, decide nothing.
pub fn choices_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let below = plan.children().into_iter().flat_map(choices_of);
    copy_choices(plan).into_iter().chain(below).collect()
}
