//! A node that hides properties of its input from the nodes above, or their requirements and filters from its input.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Constraints, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use serde::{Deserialize, Serialize};

use super::join_columns::JoinColumns;
use crate::optimizer::PlanRef;

/// The things that a [`HidingExec`] hides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HiddenClaims {
    /// The statistics of these columns.
    Statistics(Arc<[usize]>),
    /// The orders that the nodes above require, from the input.
    AskedOrders,
    /// The filters of the nodes above, from the input.
    Filters,
    /// The columns that the input declares unique.
    UniqueKeys,
    /// The orders, equal columns, constants and unique columns that the input declares.
    Equivalences,
    /// The orders and constants of a join that its rows don't have.
    JoinClaims(Arc<JoinColumns>),
}

impl HiddenClaims {
    fn of(&self, properties: &Arc<PlanProperties>) -> Arc<PlanProperties> {
        let claims = match self {
            HiddenClaims::Filters | HiddenClaims::Statistics(_) | HiddenClaims::AskedOrders => {
                return Arc::clone(properties);
            }
            HiddenClaims::UniqueKeys => {
                let claims = properties.equivalence_properties().clone();
                claims.with_constraints(Constraints::default())
            }
            HiddenClaims::JoinClaims(columns) => {
                columns.true_claims(properties.equivalence_properties())
            }
            HiddenClaims::Equivalences => {
                let claims = properties.equivalence_properties();
                EquivalenceProperties::new(Arc::clone(claims.schema()))
            }
        };
        Arc::new(PlanProperties::new(
            claims,
            properties.output_partitioning().clone(),
            properties.emission_type,
            properties.boundedness,
        ))
    }
}

/// Passes rows on unchanged, and hides some of the plan's properties.
#[derive(Debug)]
pub(crate) struct HidingExec {
    input: PlanRef,
    hidden: HiddenClaims,
    properties: Arc<PlanProperties>,
}

impl HidingExec {
    pub(crate) fn new(input: PlanRef, hidden: HiddenClaims) -> Self {
        Self {
            properties: hidden.of(input.properties()),
            input,
            hidden,
        }
    }

    pub(super) fn input(&self) -> &PlanRef {
        &self.input
    }

    pub(crate) fn hidden(&self) -> &HiddenClaims {
        &self.hidden
    }
}

impl DisplayAs for HidingExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "{}: {:?}", self.name(), self.hidden),
        }
    }
}

impl ExecutionPlan for HidingExec {
    fn name(&self) -> &'static str {
        "HidingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&PlanRef> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // Sorts are not pushed through a node that returns `false` here.
        vec![!matches!(
            self.hidden,
            HiddenClaims::Equivalences | HiddenClaims::AskedOrders | HiddenClaims::JoinClaims(_)
        )]
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
        match (input_stats, &self.hidden) {
            ([input], HiddenClaims::Statistics(columns)) => {
                let mut known = Statistics::clone(input);
                for column in columns.iter() {
                    if let Some(column) = known.column_statistics.get_mut(*column) {
                        *column = ColumnStatistics::new_unknown();
                    }
                }
                Ok(Arc::new(known))
            }
            ([input], _) => Ok(Arc::clone(input)),
            _ => internal_err!("HidingExec has one input, not {}", input_stats.len()),
        }
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        match self.hidden {
            HiddenClaims::Filters => Ok(FilterDescription::all_unsupported(
                &parent_filters,
                &self.children(),
            )),
            _ => FilterDescription::from_children(parent_filters, &self.children()),
        }
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<PlanRef>> {
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
        children: Vec<PlanRef>,
        _options: ReplaceChildrenOptions,
    ) -> Result<PlanRef> {
        match children.as_slice() {
            [input] => Ok(Arc::new(Self::new(Arc::clone(input), self.hidden.clone()))),
            _ => internal_err!("HidingExec has one input, not {}", children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<PlanRef>) -> Result<PlanRef> {
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
