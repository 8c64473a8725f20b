//! Aggregates answered from metadata.
//!
//! This serves `SELECT count(*), min(t), max(t), avg(t) FROM climate WHERE lat BETWEEN 50 AND 300`: COUNT, SUM, MIN,
//! MAX and AVG of columns over a box of dimensions. A tile inside the box whose cells are all rows, and not hidden by
//! other tiles, need not be decoded if its statistics prove its share of the result; without this, all tiles are
//! decoded. It does not apply to groups, to other aggregates and those with FILTER or DISTINCT, if a limit or a
//! run-time filter removes rows, and if the table's option `aggregate_from` requires cells.
//! `tiledb.enable_metadata_aggregates` switches it off. Benchmark: `benches/special_ways.rs`,
//! `enable_metadata_aggregates`: 33 × for all of a dense array, 24 × for all of a sparse one, 1.4 × for a box most of
//! whose tiles lie across its border, on two cores.
//!
//! The [rule](crate::sql::optimizer) inserts a [node](TileDbAggregateExec) between both halves of such an aggregate: it
//! adds one row of partial state for the tiles that metadata answer, and the scan below reads the others. DataFusion's
//! own accumulators compute that row and merge it, so NULL, overflow and the order of NaN are the same.
//!
//! Which tiles metadata answer is known only once their statistics are loaded, when the query runs: planning reads
//! nothing for it. See [`crate::scan::summary`] for the statistics that are trusted.

mod answers;
mod exec;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};

use self::answers::Answers;
pub use self::exec::TileDbAggregateExec;
use crate::sql::optimizer::below::{Passing, ScanPath, with_child};
use crate::sql::options::AggregateFrom;
use crate::stats::trust::Rounding;

/// The node that replaces a partial aggregate directly over a scan, if metadata may answer part of it.
pub(super) fn from_metadata(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(partial) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let plain = *partial.mode() == AggregateMode::Partial
        && partial.group_expr().is_true_no_grouping()
        && partial.limit_options().is_none()
        && partial.filter_expr().iter().all(Option::is_none);
    let path = ScanPath::new(partial.input(), Passing::Projections);
    let Some(path) = path.filter(|_| plain) else {
        return Ok(None);
    };
    let source = path.source();
    let rounding = match source.aggregate_from() {
        AggregateFrom::Metadata => Rounding::ByTile,
        AggregateFrom::ExactMetadata => Rounding::Exact,
        AggregateFrom::Cells => return Ok(None),
    };
    if !source.rows_are_cells() {
        return Ok(None);
    }
    let projections = path.projections().map(|projection| {
        let exprs = projection.expr().iter();
        exprs.map(|e| Arc::clone(&e.expr)).collect()
    });
    let projections = projections.collect::<Vec<_>>();
    let Some(answers) = Answers::new(partial.aggr_expr(), &projections, source.plan())? else {
        return Ok(None);
    };
    let reading = source.reading_remaining(answers.asked(), rounding);
    let Some(source) = reading.map_err(DataFusionError::from)? else {
        return Ok(None);
    };
    let partial = with_child(plan, path.over(source)?)?;
    Ok(TileDbAggregateExec::new(partial, answers).map(|node| Arc::new(node) as _))
}
