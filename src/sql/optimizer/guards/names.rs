//! Filters that lose their way among columns of one name.
//!
//! A join of two tables has two columns of one name as soon as both have it. DataFusion hands a filter down by the names of
//! its columns (`FilterRemapper`, `ProjectionExec::collect_reverse_alias`), and takes the first or the last of several:
//! `WHERE a.f IS NOT NULL` above an outer join became a filter on `b.f`. While DataFusion hands down the filters of
//! WHERE, a [node](NoFiltersExec) stands where they could lose their way, and lets none pass; one [rule](crate::sql::optimizer)
//! puts it there, another takes it out. Filters that arrive at run time are taken back from scans instead, see
//! [`run_time_filters`](super::run_time_filters). What the optimizer of logical plans hands to a table is told apart by
//! table, and not concerned.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::sql::optimizer::arrays::scans_array;
use crate::sql::optimizer::below::with_children;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan in which no filter passes from where its columns may be mistaken.
pub(in crate::sql) fn told_apart(plan: &Plan) -> Result<Plan> {
    match scans_array(plan) {
        true => Ok(below_filters(plan, false)?.unwrap_or_else(|| Arc::clone(plan))),
        false => Ok(Arc::clone(plan)),
    }
}

/// The plan without what [`told_apart`] added.
pub(in crate::sql) fn let_through(plan: &Plan) -> Result<Plan> {
    let without = |plan: Plan| {
        Ok(match plan.downcast_ref::<NoFiltersExec>() {
            Some(node) => Transformed::yes(Arc::clone(&node.input)),
            None => Transformed::no(plan),
        })
    };
    Arc::clone(plan).transform_up(without).data()
}

/// Whether a filter on its way from above a node to one of its inputs may end up on another column.
pub(super) fn confuses(plan: &dyn ExecutionPlan, input: &Plan) -> bool {
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

/// A node over inputs that no filter reaches the wrong way; `None` if it stays as it is. `filtered` tells whether there is
/// a filter above.
fn below_filters(plan: &Plan, filtered: bool) -> Result<Option<Plan>> {
    let filtered = filtered || plan.is::<FilterExec>();
    let mut changed = false;
    let mut children = Vec::new();
    for child in plan.children() {
        let new = below_filters(child, filtered)?;
        changed |= new.is_some();
        let child = new.unwrap_or_else(|| Arc::clone(child));
        let barred = filtered && confuses(plan.as_ref(), &child) && scans_array(&child);
        changed |= barred;
        children.push(match barred {
            true => Arc::new(NoFiltersExec { input: child }),
            false => child,
        });
    }
    changed.then(|| with_children(plan, children)).transpose()
}

/// Passes rows on as they are, and no filter.
#[derive(Debug)]
struct NoFiltersExec {
    input: Plan,
}

impl DisplayAs for NoFiltersExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for NoFiltersExec {
    fn name(&self) -> &'static str {
        "NoFiltersExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match input_stats {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("NoFiltersExec has one input"),
        }
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Plan>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Plan> {
        match children.as_slice() {
            [input] => Ok(Arc::new(Self {
                input: Arc::clone(input),
            })),
            _ => internal_err!("NoFiltersExec has one input, not {}", children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
