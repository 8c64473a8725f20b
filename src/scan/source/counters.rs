//! The counters of a scan: as metrics of DataFusion, and as how far it has come.

use std::sync::Arc;

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use tiledb_engine::scan::ScanPlan;
use tiledb_engine::scan::metrics::ScanMetrics;

use super::TileDbSource;
use super::mode::UnitsState;

/// The counters of a scan as metrics of DataFusion, updated with every batch.
pub(super) struct PublishedCounters {
    counters: Arc<ScanMetrics>,
    counts: Vec<Count>,
    times: Vec<Time>,
    /// Counters that most scans leave at zero, which are shown only if they count something.
    rare: Vec<RareCounter>,
    set: ExecutionPlanMetricsSet,
    partition: usize,
}

/// A counter that is shown once it counts something.
struct RareCounter {
    name: &'static str,
    shown: Option<Count>,
}

/// The counters of the cache on disk, which has nothing of local arrays.
const RARE: [&str; 2] = ["disk_cache_hits", "bytes_from_disk_cache"];

impl PublishedCounters {
    pub(super) fn new(
        set: &ExecutionPlanMetricsSet,
        partition: usize,
        counters: Arc<ScanMetrics>,
    ) -> Self {
        let (mut counts, mut times) = (Vec::new(), Vec::new());
        for (name, _) in counters.all() {
            if RARE.contains(&name) {
                continue;
            }
            match name.strip_suffix("_nanos") {
                Some(name) => {
                    let name = format!("{name}_time");
                    times.push(MetricBuilder::new(set).subset_time(name, partition));
                }
                None => counts.push(MetricBuilder::new(set).counter(name, partition)),
            }
        }
        Self {
            counters,
            counts,
            times,
            rare: RARE.map(|name| RareCounter { name, shown: None }).into(),
            set: set.clone(),
            partition,
        }
    }

    pub(super) fn update(&mut self) {
        let (mut counts, mut times) = (self.counts.iter(), self.times.iter());
        for (name, count) in self.counters.all() {
            let value = usize::try_from(count.get()).unwrap_or(usize::MAX);
            let rare = self.rare.iter_mut().find(|rare| rare.name == name);
            if let Some(rare) = rare {
                if value > 0 {
                    let shown = rare.shown.get_or_insert_with(|| {
                        MetricBuilder::new(&self.set).counter(name, self.partition)
                    });
                    shown.add(value.saturating_sub(shown.value()));
                }
            } else if name.ends_with("_nanos") {
                if let Some(time) = times.next() {
                    let known = u64::try_from(time.value()).unwrap_or(u64::MAX);
                    let more = count.get().saturating_sub(known);
                    time.add_duration(std::time::Duration::from_nanos(more));
                }
            } else if let Some(metric) = counts.next() {
                metric.add(value.saturating_sub(metric.value()));
            }
        }
    }
}

impl Drop for PublishedCounters {
    fn drop(&mut self) {
        self.update();
    }
}

impl TileDbSource {
    /// Records the counts of planning, once for all partitions.
    pub(super) fn record_plan(&self, plan: &ScanPlan, partition: usize) {
        if partition != 0 {
            return;
        }
        let counts = &plan.counts;
        for (name, count) in [
            ("fragments", counts.fragments),
            ("fragments_pruned", counts.fragments_pruned),
            ("tiles", counts.tiles),
            ("tiles_pruned", counts.tiles_pruned),
            ("tiles_overlapping", counts.tiles_overlapping),
            ("tiles_pruned_statistics", counts.tiles_pruned_statistics),
            ("tiles_proven", counts.tiles_proven),
        ] {
            let metric = MetricBuilder::new(&self.metrics).counter(name, partition);
            metric.add(usize::try_from(count).unwrap_or(usize::MAX));
        }
    }
}

/// How far the reading of arrays has come, in units: runs of tiles that are read as one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanProgress {
    /// Units that were read.
    pub done: u64,
    /// Units that are read if nothing, such as a LIMIT, ends the reading before.
    pub all: u64,
}

impl TileDbSource {
    /// How far the scan has come. One that runs again has come to its end already.
    pub(crate) fn progress(&self) -> ScanProgress {
        let plan = self.plan();
        let all = match &self.arrangement.shared {
            UnitsState::Nothing | UnitsState::Order(_) => plan.unit_count(),
            UnitsState::Ranges(ranges) => ranges.unit_count(plan),
            UnitsState::Remaining(remaining) => remaining.unit_count(),
        };
        ScanProgress {
            done: self.units_read.get().min(all),
            all,
        }
    }
}
