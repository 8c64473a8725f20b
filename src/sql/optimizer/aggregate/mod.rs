//! Aggregates answered from metadata.
//!
//! `SELECT count(*), min(t), max(t), avg(t) FROM climate WHERE lat BETWEEN 50 AND 300` is what this is for: COUNT, SUM,
//! MIN, MAX and AVG of columns over a box of dimensions. A tile inside the box whose cells are rows as they are, and
//! nobody else's, needs no decoding where its statistics prove its share; the plain way decodes all of them. It stands
//! aside for groups, for other aggregates and for those with FILTER or DISTINCT, where a limit or a filter that comes
//! at run time takes rows away, and where the table's option `aggregate_from` wants the cells.
//! `tiledb.enable_metadata_aggregates` switches it off. Benchmark: `benches/special_ways.rs`,
//! `enable_metadata_aggregates`: 33 × for all of a dense array, 24 × for all of a sparse one, 1.4 × for a box most of
//! whose tiles lie across its border, on two cores.
//!
//! The [rule](crate::sql::optimizer) puts a [node](TileDbAggregateExec) between both halves of such an aggregate: it
//! adds one row of partial state for the tiles that are answered, and the scan below reads the others. DataFusion's own
//! accumulators make that row and merge it, so NULL, overflow and the order of NaN are theirs.
//!
//! Which tiles are answered is known only when their statistics are loaded, which is when the query runs: planning
//! reads nothing for it. See [`crate::scan::summary`] for what is believed.

mod answers;
mod exec;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};

use self::answers::Answers;
pub use self::exec::TileDbAggregateExec;
use crate::sql::optimizer::below::{Passing, WayDown, with_child};
use crate::sql::options::AggregateFrom;
use crate::stats::trust::Rounding;

/// The node in place of a partial aggregate directly over a scan, if metadata may answer part of it.
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
    let way = WayDown::new(partial.input(), Passing::Projections);
    let Some(way) = way.filter(|_| plain) else {
        return Ok(None);
    };
    let source = way.source();
    let rounding = match source.aggregate_from() {
        AggregateFrom::Metadata => Rounding::ByTile,
        AggregateFrom::ExactMetadata => Rounding::Exact,
        AggregateFrom::Cells => return Ok(None),
    };
    if !source.rows_are_cells() {
        return Ok(None);
    }
    let projections = way.projections().map(|projection| {
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
    let partial = with_child(plan, way.over(source)?)?;
    Ok(TileDbAggregateExec::new(partial, answers).map(|node| Arc::new(node) as _))
}
