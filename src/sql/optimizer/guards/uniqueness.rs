//! Keys that move to another column.
//!
//! The groups of an aggregate are unique, and DataFusion remembers by which columns. A projection above is to carry that
//! along, but looks the columns up by their places in its output instead of its input
//! (`EquivalenceProperties::projected_constraints`). So another column may pass for unique, and where rows come in the
//! order of that column, what else ORDER BY asks for is dropped.
//!
//! Before DataFusion looks at orders, the [rule](crate::sql::optimizer) puts a [node](NoUniqueKeysExec) below each
//! projection that claims too much, if anything above asks for an order. The node passes rows on as they are and calls no
//! columns unique. It stays in the plan: a sort looks once more, when it runs, for what its input promises.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Constraint, Constraints, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

use crate::sql::optimizer::arrays::scans_array;
use crate::sql::optimizer::below::with_children;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan in which no projection over an array passes a column for unique that is not, where orders are asked for.
pub(in crate::sql) fn without_false_keys(plan: &Plan) -> Result<Plan> {
    match scans_array(plan) {
        true => Ok(below_orders(plan, false)?.unwrap_or_else(|| Arc::clone(plan))),
        false => Ok(Arc::clone(plan)),
    }
}

/// A node over inputs that claim no false keys; `None` if it stays as it is. `ordered` tells whether anything above asks
/// for an order.
fn below_orders(plan: &Plan, ordered: bool) -> Result<Option<Plan>> {
    let ordered = ordered || asks_for_order(plan.as_ref());
    let mut changed = false;
    let mut children = Vec::new();
    for child in plan.children() {
        let new = below_orders(child, ordered)?;
        changed |= new.is_some();
        children.push(new.unwrap_or_else(|| Arc::clone(child)));
    }
    let plan = match changed {
        true => with_children(plan, children)?,
        false => Arc::clone(plan),
    };
    if !ordered || !claims_false_key(plan.as_ref()) || !scans_array(&plan) {
        return Ok(changed.then_some(plan));
    }
    let inputs = plan.children().into_iter();
    let inputs = inputs.map(|input| Arc::new(NoUniqueKeysExec::new(Arc::clone(input))) as _);
    with_children(&plan, inputs.collect()).map(Some)
}

/// Whether a node needs its rows in an order, or would be left out if they came in one.
fn asks_for_order(plan: &dyn ExecutionPlan) -> bool {
    let by_order = |aggregate: &AggregateExec| {
        let mut aggregates = aggregate.aggr_expr().iter();
        aggregates.any(|aggregate| !aggregate.order_bys().is_empty())
    };
    plan.is::<SortExec>()
        || plan.required_input_ordering().iter().any(Option::is_some)
        || plan.downcast_ref::<AggregateExec>().is_some_and(by_order)
}

/// Whether a node calls columns unique that its input does not prove to be.
fn claims_false_key(plan: &dyn ExecutionPlan) -> bool {
    let (sources, own_key): (Vec<_>, _) = if let Some(node) = plan.downcast_ref::<ProjectionExec>()
    {
        let exprs = node.expr().iter().map(|e| Arc::clone(&e.expr));
        (exprs.collect(), None)
    } else if let Some(node) = plan.downcast_ref::<AggregateExec>() {
        let groups = node.group_expr().expr().iter().map(|(e, _)| Arc::clone(e));
        let groups = groups.collect::<Vec<_>>();
        let count = groups.len();
        (groups, Some(count))
    } else {
        return false;
    };
    let [input] = plan.children()[..] else {
        return false;
    };
    let proven = input.equivalence_properties().constraints();
    let claimed = plan.equivalence_properties().constraints();
    let false_key = |claim: &Constraint| {
        let key = columns(claim);
        let groups = own_key.is_some_and(|count| (0..count).all(|group| key.contains(&group)));
        !groups && !follows(key, &sources, proven)
    };
    claimed.iter().any(false_key)
}

/// Whether the columns `key` of an output are unique because some of the input's are, given what each is made from.
fn follows(key: &[usize], sources: &[Arc<dyn PhysicalExpr>], proven: &Constraints) -> bool {
    let shown = key.iter().filter_map(|column| {
        let source = sources.get(*column)?.downcast_ref::<Column>()?;
        Some(source.index())
    });
    let shown = shown.collect::<Vec<_>>();
    let among = |key: &Constraint| columns(key).iter().all(|column| shown.contains(column));
    proven.iter().any(among)
}

fn columns(key: &Constraint) -> &[usize] {
    match key {
        Constraint::PrimaryKey(columns) | Constraint::Unique(columns) => columns,
    }
}

/// Passes rows on, and claims nothing to be unique.
#[derive(Debug)]
struct NoUniqueKeysExec {
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl NoUniqueKeysExec {
    fn new(input: Plan) -> Self {
        let known = input.equivalence_properties().clone();
        let properties = PlanProperties::new(
            known.with_constraints(Constraints::default()),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for NoUniqueKeysExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str(self.name()),
        }
    }
}

impl ExecutionPlan for NoUniqueKeysExec {
    fn name(&self) -> &'static str {
        "NoUniqueKeysExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
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
            _ => internal_err!("NoUniqueKeysExec has one input"),
        }
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Plan>> {
        Ok(FilterPushdownPropagation::if_all(child_pushdown_result))
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
            [input] => Ok(Arc::new(Self::new(Arc::clone(input)))),
            _ => internal_err!("NoUniqueKeysExec has one input, not {}", children.len()),
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
