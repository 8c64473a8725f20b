//! Aggregates answered from metadata.
//!
//! `SELECT count(*), sum(a), min(b), max(b), avg(c) FROM array WHERE <box of dimensions>`: a tile inside the box whose cells
//! are rows as they are, and nobody else's, needs no decoding where its statistics prove its share. The
//! [rule](crate::sql::optimizer) puts a [node](TileDbAggregateExec) between both halves of such an aggregate: it adds one row
//! of partial state for the tiles that are answered, and the scan below reads the others. DataFusion's own accumulators
//! make that row and merge it, so NULL, overflow and the order of NaN are theirs.
//!
//! Which tiles are answered is known only when their statistics are loaded, which is when the query runs: planning
//! reads nothing for it. See [`crate::scan::summary`] for what is believed.

mod answers;
mod exec;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::projection::ProjectionExec;

use self::answers::Answers;
pub use self::exec::TileDbAggregateExec;
use crate::sql::options::AggregateFrom;
use crate::sql::source::TileDbSource;
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
    let Some((source, projections)) = scan_below(partial.input()).filter(|_| plain) else {
        return Ok(None);
    };
    let rounding = match source.aggregate_from() {
        AggregateFrom::Metadata => Rounding::ByTile,
        AggregateFrom::ExactMetadata => Rounding::Exact,
        AggregateFrom::Cells => return Ok(None),
    };
    if !source.rows_are_cells() {
        return Ok(None);
    }
    let Some(answers) = Answers::new(partial.aggr_expr(), &projections, source.plan())? else {
        return Ok(None);
    };
    let reading = source.reading_rest(answers.asked(), rounding);
    let Some(source) = reading.map_err(DataFusionError::from)? else {
        return Ok(None);
    };
    let partial = over_scan(plan, &DataSourceExec::from_data_source(source))?;
    Ok(TileDbAggregateExec::new(partial, answers).map(|node| Arc::new(node) as _))
}

/// What an aggregate is computed of.
type Arguments = Vec<Arc<dyn PhysicalExpr>>;

/// The scan below nothing but projections, and those, outermost first.
fn scan_below(plan: &Arc<dyn ExecutionPlan>) -> Option<(&TileDbSource, Vec<Arguments>)> {
    let mut plan = plan;
    let mut projections = Vec::new();
    while let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let exprs = projection.expr().iter().map(|e| Arc::clone(&e.expr));
        projections.push(exprs.collect());
        plan = projection.input();
    }
    let scan = plan.downcast_ref::<DataSourceExec>()?;
    let source = scan.data_source().downcast_ref::<TileDbSource>()?;
    Some((source, projections))
}

/// The same plan over another scan.
fn over_scan(
    plan: &Arc<dyn ExecutionPlan>,
    scan: &Arc<DataSourceExec>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<DataSourceExec>() {
        return Ok(Arc::clone(scan) as _);
    }
    let children = plan.children().into_iter();
    let children = children.map(|child| over_scan(child, scan));
    Arc::clone(plan).replace_children(
        children.collect::<Result<_>>()?,
        ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
    )
}
