//! Partitions that are ranges of the leading dimension, to avoid a shuffle.
//!
//! This serves `SELECT quality - lag(quality) OVER (PARTITION BY pos ORDER BY sample) FROM calls`, and `SELECT time,
//! count(*) FROM ships GROUP BY time` with few rows in each group: rows with the same coordinate in the leading
//! dimension must be in one partition. The partitions of a scan are usually ranges of units that share work and have no
//! bounds, so DataFusion repartitions all rows, or the groups of each partition, by a hash. The
//! [rule](crate::optimizer) cuts the scan at coordinates instead: each partition is a scan of its own ranges,
//! planned when it is opened, and DataFusion finds equal coordinates in one partition. If cells are stored in the order
//! of the groups, or in the order that a window needs, nothing is hashed or sorted either. It does not apply to GROUP
//! BY if a group has more than 128 rows by its coordinates, to a leading dimension of text or floats, to a
//! single partition, and if too many tiles across the cuts would be read twice. `tiledb.enable_range_partitions`
//! switches it off. Benchmark: `benches/special_ways.rs`, `enable_range_partitions`: 1.6 × for groups of a row or two,
//! 1.2 × for groups of fifteen rows in stored order, 1.7 × for a window in stored order, on two cores. A window whose
//! rows must still be sorted gains little.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use crate::optimizer::below::{PassedNodes, ScanPath, with_child};
use crate::scan::source::TileDbSource;

/// With fewer rows per group than this, partitions have too many groups to aggregate them first.
const ROWS_PER_GROUP: u64 = 128;
/// Assumed groups per coordinate, if there are other columns to group by.
const GROUPS_PER_COORDINATE: u64 = 16;

/// The keys by which rows must be in one partition.
struct PartitionKeys {
    /// The keys that are columns of the input.
    columns: Vec<usize>,
    /// The number of keys, columns or not.
    keys: usize,
    /// Whether the node aggregates rows into groups: then a shuffle of few groups is cheap.
    gathers: bool,
}

impl PartitionKeys {
    fn over(keys: &[Arc<dyn PhysicalExpr>], gathers: bool) -> Self {
        let columns = keys.iter().filter_map(|key| key.downcast_ref::<Column>());
        Self {
            columns: columns.map(Column::index).collect(),
            keys: keys.len(),
            gathers,
        }
    }

    fn of(plan: &dyn ExecutionPlan) -> Option<Self> {
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            let partial = *aggregate.mode() == AggregateMode::Partial;
            let groups = aggregate.group_expr();
            let plain = partial && groups.is_single() && aggregate.limit_options().is_none();
            return plain.then(|| Self::over(&groups.input_exprs(), true));
        }
        if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
            return Some(Self::over(&window.partition_keys(), false));
        }
        let window = plan.downcast_ref::<WindowAggExec>()?;
        Some(Self::over(&window.partition_keys(), false))
    }
}

/// The plan over a scan cut at coordinates, if that puts rows with equal keys into one partition.
pub(super) fn over_ranges(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(meeting) = PartitionKeys::of(plan.as_ref()) else {
        return Ok(None);
    };
    let [input] = plan.children()[..] else {
        return Ok(None);
    };
    let Some(path) = ScanPath::new(input, PassedNodes::Filters) else {
        return Ok(None);
    };
    let columns = meeting
        .columns
        .iter()
        .filter_map(|column| path.column(*column));
    let meeting = PartitionKeys {
        columns: columns.collect(),
        ..meeting
    };
    match cut_scan(path.source(), &meeting) {
        Some(source) => with_child(plan, path.over(source)?).map(Some),
        None => Ok(None),
    }
}

fn cut_scan(source: &TileDbSource, meeting: &PartitionKeys) -> Option<TileDbSource> {
    let leading = source.leading_column()?.index();
    let parts = source.could_be_cut_into()?;
    if !meeting.columns.contains(&leading) {
        return None;
    }
    let plan = source.plan();
    let cuts = plan.range_cuts(parts)?;
    let groups = cuts
        .coordinates
        .saturating_mul(match meeting.columns.len() {
            1 => 1,
            _ => GROUPS_PER_COORDINATE,
        });
    let many = groups.saturating_mul(ROWS_PER_GROUP) >= plan.max_rows;
    if !meeting.gathers {
        // The order that a window also needs is requested from the scan later.
        return source.in_ranges(cuts);
    }
    let cut = source.in_ranges(cuts).filter(|_| many)?;
    Some(cut.in_stored_order(by_dimensions(source, meeting)))
}

/// The number of leading dimensions that are the keys; 0 if there are other keys.
fn by_dimensions(source: &TileDbSource, meeting: &PartitionKeys) -> usize {
    let projection = &source.plan().spec.projection;
    let mut columns = meeting
        .columns
        .iter()
        .filter_map(|c| projection.get(*c))
        .copied()
        .collect::<Vec<_>>();
    columns.sort_unstable();
    columns.dedup();
    let dimensions = source.plan().spec.table.dimension_count();
    let first = columns
        .iter()
        .enumerate()
        .all(|(i, column)| i == *column && i < dimensions);
    let count = columns.len();
    if first && count == meeting.keys {
        count
    } else {
        0
    }
}
