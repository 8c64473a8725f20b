//! The columns of a join, by the properties of their sides that its rows keep.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
    SymmetricHashJoinExec,
};
use serde::{Deserialize, Serialize};

/// The columns of a join's output with fewer properties than DataFusion declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JoinColumns {
    /// The columns of a side whose order the join doesn't keep.
    unordered: HashSet<usize>,
    /// The columns that are NULL in rows without a match.
    padded: HashSet<usize>,
}

impl JoinColumns {
    /// The columns of a join that shows both sides.
    pub(super) fn of(plan: &dyn ExecutionPlan) -> Option<Self> {
        let (join_type, projection) = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            (*join.join_type(), join.projection.as_deref())
        } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            (*join.join_type(), join.projection().as_deref())
        } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
            (join.join_type(), None)
        } else if let Some(join) = plan.downcast_ref::<SymmetricHashJoinExec>() {
            (*join.join_type(), None)
        } else if let Some(join) = plan.downcast_ref::<PiecewiseMergeJoinExec>() {
            (join.join_type(), None)
        } else {
            return None;
        };
        let padded = match join_type {
            JoinType::Inner => [false, false],
            JoinType::Left => [false, true],
            JoinType::Right => [true, false],
            JoinType::Full => [true, true],
            // The output has only one side, with the properties of that side.
            _ => return None,
        };
        let ordered = plan.maintains_input_order();
        let left = plan.children().first()?.schema().fields().len();
        let all = plan.schema().fields().len();
        let of_side = |column: usize| {
            let joined = projection.map_or(Some(column), |shown| shown.get(column).copied());
            usize::from(joined.is_none_or(|column| column >= left))
        };
        let of_sides = |sides: &dyn Fn(usize) -> bool| {
            let columns = (0..all).filter(|column| sides(of_side(*column)));
            columns.collect::<HashSet<_>>()
        };
        Some(Self {
            unordered: of_sides(&|side| !ordered.get(side).copied().unwrap_or(false)),
            padded: of_sides(&|side| padded.get(side).copied().unwrap_or(true)),
        })
    }

    /// Whether a join declares properties that are false.
    pub(super) fn contradict(&self, claims: &EquivalenceProperties) -> bool {
        let orders = claims.oeq_class().iter();
        let mut orders = orders.filter(|order| self.kept(order, claims).count() < order.len());
        let constants = claims.constants();
        let mut constants = constants
            .iter()
            .filter(|constant| self.pads(&constant.expr));
        orders.next().is_some() || constants.next().is_some()
    }

    /// The true part of a join's claims.
    pub(super) fn true_claims(&self, claims: &EquivalenceProperties) -> EquivalenceProperties {
        let orders = claims.oeq_class().iter();
        let orders = orders.map(|order| self.kept(order, claims).cloned().collect::<Vec<_>>());
        let mut kept = EquivalenceProperties::new(Arc::clone(claims.schema()))
            .with_constraints(claims.constraints().clone());
        for class in claims.eq_group().iter() {
            // NULL isn't the constant of its class.
            let is_constant = |expr| claims.is_expr_constant(expr).is_some();
            if class.iter().any(|expr| self.pads(expr)) && class.iter().any(is_constant) {
                continue;
            }
            let mut members = class.iter();
            let Some(first) = members.next() else {
                continue;
            };
            for other in members {
                // After a failure fewer properties are known, which is safe.
                let _ = kept.add_equal_conditions(Arc::clone(first), Arc::clone(other));
            }
        }
        let constants = claims.constants().into_iter();
        let constants = constants.filter(|constant| !self.pads(&constant.expr));
        let _ = kept.add_constants(constants);
        kept.add_orderings(orders.filter_map(LexOrdering::new));
        kept
    }

    /// The leading terms of an order that the join keeps.
    fn kept<'a>(
        &'a self,
        order: &'a LexOrdering,
        claims: &'a EquivalenceProperties,
    ) -> impl Iterator<Item = &'a PhysicalSortExpr> {
        let is_kept = |expr: &Arc<dyn PhysicalExpr>| {
            let columns = collect_columns(expr);
            columns.iter().all(|c| !self.unordered.contains(&c.index()))
        };
        order.iter().take_while(move |term| {
            let class = claims.eq_group().get_equivalence_class(&term.expr);
            is_kept(&term.expr) || class.is_some_and(|class| class.iter().any(is_kept))
        })
    }

    fn pads(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        let columns = collect_columns(expr);
        columns.iter().any(|c| self.padded.contains(&c.index()))
    }
}
