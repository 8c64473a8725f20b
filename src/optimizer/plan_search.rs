//! Whether a rule has anything to do in a logical plan.
//!
//! A rewrite takes a plan apart and rebuilds every node, even if nothing changes. A search is far cheaper. DataFusion runs each
//! rule in each of its passes, so this matters for small queries, which spend most of their time on planning.

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use tiledb_engine::arrow::DATATYPE_KEY;

/// Whether a plan or one of its subqueries reads an array. This is decided by its columns, because the provider may be
/// wrapped in another.
pub(super) fn reads_array(plan: &LogicalPlan) -> Result<bool> {
    has_node(plan, is_array_scan)
}

/// Whether a plan or one of its subqueries reads an array, or writes to one.
pub(super) fn uses_array(plan: &LogicalPlan) -> Result<bool> {
    let is_array_write = |node: &LogicalPlan| match node {
        LogicalPlan::Dml(statement) => is_of_array(&statement.target.schema()),
        _ => false,
    };
    has_node(plan, |node| is_array_scan(node) || is_array_write(node))
}

/// Whether a plan that reads an array has a node for which `wanted` holds, itself or in one of its subqueries.
pub(super) fn reads_array_and_has_node(
    plan: &LogicalPlan,
    wanted: impl FnMut(&LogicalPlan) -> bool,
) -> Result<bool> {
    Ok(has_node(plan, wanted)? && reads_array(plan)?)
}

/// Whether a plan that reads an array has an expression for which `wanted` holds, itself or in one of its subqueries.
pub(super) fn reads_array_and_has_expr(
    plan: &LogicalPlan,
    mut wanted: impl FnMut(&Expr) -> bool,
) -> Result<bool> {
    let has_wanted = |node: &LogicalPlan| {
        let mut found = false;
        let looked = node.apply_expressions(|expr| {
            found = found || expr.exists(|part| Ok(wanted(part)))?;
            Ok(stop_if(found))
        });
        looked.map(|_| found)
    };
    Ok(has_node_where(plan, has_wanted)? && reads_array(plan)?)
}

/// Whether a plan has a node for which `wanted` holds, itself or in one of its subqueries.
pub(super) fn has_node(
    plan: &LogicalPlan,
    mut wanted: impl FnMut(&LogicalPlan) -> bool,
) -> Result<bool> {
    has_node_where(plan, |node| Ok(wanted(node)))
}

fn has_node_where(
    plan: &LogicalPlan,
    mut wanted: impl FnMut(&LogicalPlan) -> Result<bool>,
) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = wanted(node)?;
        Ok(stop_if(found))
    })?;
    Ok(found)
}

fn is_array_scan(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::TableScan(TableScan { source, .. }) => is_of_array(&source.schema()),
        _ => false,
    }
}

fn is_of_array(schema: &Schema) -> bool {
    let mut fields = schema.fields().iter();
    fields.any(|field| field.metadata().contains_key(DATATYPE_KEY))
}

fn stop_if(found: bool) -> TreeNodeRecursion {
    if found {
        TreeNodeRecursion::Stop
    } else {
        TreeNodeRecursion::Continue
    }
}
