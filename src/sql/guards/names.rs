//! Filters that lose their way among columns of one name.
//!
//! A join of two tables has two columns of one name as soon as both have it. DataFusion hands a filter down by the names of
//! its columns (`FilterRemapper`, `ProjectionExec::collect_reverse_alias`), and takes the first or the last of several:
//! `WHERE a.f IS NOT NULL` above an outer join became a filter on `b.f`. A filter that the scan takes is evaluated nowhere
//! else, so the scan takes none that may have come such a way. What the optimizer of logical plans hands to the table is
//! told apart by table, and not concerned.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

use super::scan;
use crate::sql::below::with_children;

/// The plan whose scans refuse filters that come by way of columns of one name.
pub(in crate::sql) fn told_apart(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = refusing(plan, false)?;
    Ok(changed.unwrap_or_else(|| Arc::clone(plan)))
}

/// Whether a filter on its way from above a node to one of its inputs may end up on another column.
pub(super) fn confuses(plan: &dyn ExecutionPlan, input: &Arc<dyn ExecutionPlan>) -> bool {
    // A hash join goes by the places of columns in its output.
    let by_place = plan.is::<HashJoinExec>();
    repeats_name(&input.schema()) || (!by_place && repeats_name(&plan.schema()))
}

fn repeats_name(schema: &Schema) -> bool {
    let mut seen = HashSet::with_capacity(schema.fields().len());
    !schema
        .fields()
        .iter()
        .all(|field| seen.insert(field.name()))
}

/// A node over scans that refuse filters; `None` if it has none that need to. `confused` tells whether filters from above
/// may have lost their way.
fn refusing(
    plan: &Arc<dyn ExecutionPlan>,
    confused: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(source) = scan(plan) {
        return Ok(
            confused.then(|| DataSourceExec::from_data_source(source.refusing_filters()) as _)
        );
    }
    let mut changed = false;
    let mut children = Vec::new();
    for child in plan.children() {
        let new = refusing(child, confused || confuses(plan.as_ref(), child))?;
        changed |= new.is_some();
        children.push(new.unwrap_or_else(|| Arc::clone(child)));
    }
    changed.then(|| with_children(plan, children)).transpose()
}
