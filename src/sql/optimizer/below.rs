//! Plans over another scan.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::projection::ProjectionExec;

use crate::sql::source::TileDbSource;

type Plan = Arc<dyn ExecutionPlan>;

/// A plan over another input.
pub(super) fn with_child(plan: &Plan, child: Plan) -> Result<Plan> {
    with_children(plan, vec![child])
}

/// A plan over other inputs.
pub(super) fn with_children(plan: &Plan, children: Vec<Plan>) -> Result<Plan> {
    Arc::clone(plan).replace_children(
        children,
        ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
    )
}

/// A plan whose nodes are rewritten, inputs first; `None` if none changes. `rewrite` gets a node, and whether one of those
/// above it `marks` what is below.
pub(super) fn rewritten_below(
    plan: &Plan,
    marked: bool,
    marks: &dyn Fn(&dyn ExecutionPlan) -> bool,
    rewrite: &dyn Fn(&Plan, bool) -> Result<Option<Plan>>,
) -> Result<Option<Plan>> {
    let marked_below = marked || marks(plan.as_ref());
    let mut changed = false;
    let mut children = Vec::new();
    for child in plan.children() {
        let new = rewritten_below(child, marked_below, marks, rewrite)?;
        changed |= new.is_some();
        children.push(new.unwrap_or_else(|| Arc::clone(child)));
    }
    let plan = match changed {
        true => with_children(plan, children)?,
        false => Arc::clone(plan),
    };
    let new = rewrite(&plan, marked)?;
    Ok(new.or(changed.then_some(plan)))
}

/// The plan with another scan below nothing but projections. `columns` are columns of the plan; `change` gets those of the
/// scan, up to the first that the scan has not got.
pub(super) fn over_scan(
    plan: &Plan,
    columns: &[usize],
    change: &dyn Fn(&TileDbSource, &[usize]) -> Option<TileDbSource>,
) -> Result<Option<Plan>> {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        let source = scan.data_source().downcast_ref::<TileDbSource>();
        let source = source.and_then(|source| change(source, columns));
        return Ok(source.map(|source| DataSourceExec::from_data_source(source) as _));
    }
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        return Ok(None);
    };
    let columns = columns.iter().map_while(|column| {
        let expr = &projection.expr().get(*column)?.expr;
        Some(expr.downcast_ref::<Column>()?.index())
    });
    let columns = columns.collect::<Vec<_>>();
    match over_scan(projection.input(), &columns, change)? {
        Some(input) => with_child(plan, input).map(Some),
        None => Ok(None),
    }
}
