//! Fields that DataFusion confuses: columns of one name, and the metadata of the columns of a UNION.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, JoinType, Result};
use datafusion::logical_expr::{LogicalPlan, Union};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;

use super::hiding::{HiddenClaims, HidingExec};
use crate::optimizer::PlanRef;
use crate::optimizer::below::{scans_array, with_children};
use crate::optimizer::plan_search::reads_array_and_has_node;

/// The plan with nodes that stop filters where their columns are ambiguous.
///
/// A join of two tables has two columns with the same name if both tables have it. DataFusion pushes a filter down by
/// the names of its columns (`FilterRemapper`, `ProjectionExec::collect_reverse_alias`), and takes the first or the
/// last of several: `WHERE a.f IS NOT NULL` above an outer join became a filter on `b.f`. A semi join also pushes
/// filters on its keys to the side that it does not show, and looks there for a column with the name of the other
/// side's key. While DataFusion pushes down the filters of WHERE, a [node](HidingExec) is inserted where they could
/// reach the wrong column, and lets none pass; one [rule](crate::optimizer) inserts it, another removes it.
/// Dynamic filters are removed from scans instead, see [`run_time_filters`](super::run_time_filters). Filters that the
/// logical optimizer pushes into a table are qualified by the table and not affected.
pub(crate) fn told_apart(plan: &PlanRef) -> Result<PlanRef> {
    if scans_array(plan) {
        Ok(below_filters(plan, false)?.unwrap_or_else(|| Arc::clone(plan)))
    } else {
        Ok(Arc::clone(plan))
    }
}

/// The plan without the nodes that [`told_apart`] added.
pub(crate) fn let_through(plan: &PlanRef) -> Result<PlanRef> {
    let without = |plan: PlanRef| {
        Ok(match plan.downcast_ref::<HidingExec>() {
            Some(node) if *node.hidden() == HiddenClaims::Filters => {
                Transformed::yes(Arc::clone(node.input()))
            }
            _ => Transformed::no(plan),
        })
    };
    Arc::clone(plan).transform_up(without).data()
}

/// Whether a filter that is pushed from above a node to its input `number` may end up on another column.
pub(super) fn confuses(plan: &dyn ExecutionPlan, number: usize, input: &PlanRef) -> bool {
    let by_index = match plan.downcast_ref::<HashJoinExec>() {
        Some(join) if looks_up_keys(join, number) => return true,
        // Otherwise a hash join uses the indexes of columns in its output.
        join => join.is_some(),
    };
    repeats_name(&input.schema()) || (!by_index && repeats_name(&plan.schema()))
}

/// Whether a join pushes filters on its keys to an input whose columns it does not show, and finds another column there
/// with the name of a key. A semi join does so, unless its keys have the same names and types in both inputs.
fn looks_up_keys(join: &HashJoinExec, number: usize) -> bool {
    let unshown = match join.join_type() {
        JoinType::LeftSemi => 1,
        JoinType::RightSemi => 0,
        _ => return false,
    };
    let alike = |(left, right): &(PhysicalExprRef, PhysicalExprRef)| {
        let columns = left
            .downcast_ref::<Column>()
            .zip(right.downcast_ref::<Column>());
        let types = (
            left.data_type(&join.left().schema()),
            right.data_type(&join.right().schema()),
        );
        columns.is_some_and(|(left, right)| left.name() == right.name())
            && matches!(types, (Ok(left), Ok(right)) if left == right)
    };
    number == unshown && !join.on().iter().all(alike)
}

fn repeats_name(schema: &Schema) -> bool {
    let mut seen = HashSet::with_capacity(schema.fields().len());
    !schema
        .fields()
        .iter()
        .all(|field| seen.insert(field.name()))
}

/// The node with inputs that stop ambiguous filters; `None` if it is unchanged. `filtered` is true if there is a filter above.
fn below_filters(plan: &PlanRef, filtered: bool) -> Result<Option<PlanRef>> {
    let filtered = filtered || plan.is::<FilterExec>();
    let mut changed = false;
    let mut children = Vec::new();
    for (number, child) in plan.children().into_iter().enumerate() {
        let new = below_filters(child, filtered)?;
        changed |= new.is_some();
        let child = new.unwrap_or_else(|| Arc::clone(child));
        let barred = filtered && confuses(plan.as_ref(), number, &child) && scans_array(&child);
        changed |= barred;
        children.push(if barred {
            Arc::new(HidingExec::new(child, HiddenClaims::Filters))
        } else {
            child
        });
    }
    changed.then(|| with_children(plan, children)).transpose()
}

/// Sets the metadata of a UNION's fields to those of its physical plan.
///
/// The fields of an array have metadata ([`tiledb_engine::arrow`]). If the inputs of a UNION have different metadata for a
/// column, the logical planner takes those of the last input, and the physical planner those of the last input and of
/// the first that may be NULL: an aggregate above, and `UNION` without ALL is one, fails because "physical input
/// schema should be the same as the one converted from logical input schema". The rule here is the last of those for
/// logical plans, and sets the metadata that the physical plan will have.
#[derive(Debug)]
pub(crate) struct UnionFields;

impl UnionFields {
    pub(crate) const NAME: &'static str = "tiledb_union_fields";
}

impl OptimizerRule for UnionFields {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !reads_array_and_has_node(&plan, |node| matches!(node, LogicalPlan::Union(_)))? {
            return Ok(Transformed::no(plan));
        }
        let mut changed = false;
        plan.transform_up_with_subqueries(|plan| {
            if let LogicalPlan::Union(union) = &plan
                && let Some(union) = as_planned(union)?
            {
                changed = true;
                return Ok(Transformed::yes(LogicalPlan::Union(union)));
            }
            // The nodes above have copies of the UNION's schema.
            Ok(if changed {
                Transformed::yes(plan.recompute_schema()?)
            } else {
                Transformed::no(plan)
            })
        })
    }
}

/// The UNION with other metadata; `None` if its metadata are right already.
fn as_planned(union: &Union) -> Result<Option<Union>> {
    let old = &union.schema;
    let mut fields = Vec::with_capacity(old.fields().len());
    for (column, (table, field)) in old.iter().enumerate() {
        let field = field.as_ref().clone().with_metadata(said(union, column));
        fields.push((table.cloned(), Arc::new(field)));
    }
    let schema = DFSchema::new_with_metadata(fields, old.metadata().clone())?
        .with_functional_dependencies(old.functional_dependencies().clone())?;
    Ok((schema != **old).then(|| Union {
        inputs: union.inputs.clone(),
        schema: Arc::new(schema),
    }))
}

/// The metadata of a column in the physical plan of a UNION, as in `union_schema` of DataFusion's `UnionExec`.
fn said(union: &Union, column: usize) -> HashMap<String, String> {
    let inputs = union.inputs.iter();
    let fields = inputs
        .filter_map(|input| input.schema().fields().get(column))
        .collect::<Vec<_>>();
    let first = fields
        .iter()
        .position(|field| field.is_nullable())
        .unwrap_or_default();
    let mut said = HashMap::new();
    let others = fields.iter().enumerate().filter(|(i, _)| *i != first);
    for field in fields.get(first).into_iter().chain(others.map(|(_, f)| f)) {
        said.extend(field.metadata().clone());
    }
    said
}
