//! Tests whether plans read arrays.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use crate::arrow::DATATYPE_KEY;
use crate::sql::source::TileDbSource;

/// Whether a plan or one of its subqueries reads an array. This is decided by its columns, because the provider may be
/// wrapped in another.
pub(super) fn reads_array(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::TableScan(scan) = plan {
            let schema = scan.source.schema();
            let mut fields = schema.fields().iter();
            found |= fields.any(|field| field.metadata().contains_key(DATATYPE_KEY));
        }
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// The scan of an array, if the node is one.
pub(super) fn scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&TileDbSource> {
    let scan = plan.downcast_ref::<DataSourceExec>()?;
    scan.data_source().downcast_ref::<TileDbSource>()
}

/// Whether a node or one below it scans an array.
pub(super) fn scans_array(plan: &Arc<dyn ExecutionPlan>) -> bool {
    scan(plan).is_some() || plan.children().into_iter().any(scans_array)
}
