//! What lies below a node of a physical plan: the path to the scan of an array, and the plan over another scan.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use crate::optimizer::PlanRef;
use crate::scan::source::TileDbSource;

/// The plan with another input.
pub(crate) fn with_child(plan: &PlanRef, child: PlanRef) -> Result<PlanRef> {
    with_children(plan, vec![child])
}

/// The plan with other inputs.
pub(crate) fn with_children(plan: &PlanRef, children: Vec<PlanRef>) -> Result<PlanRef> {
    Arc::clone(plan).replace_children(
        children,
        ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
    )
}

/// Rewrites the nodes of a plan, inputs first; `None` if none changes. `rewrite` gets a node, and whether `selects`
/// holds for a node above it.
pub(super) fn rewritten_below(
    plan: &PlanRef,
    selected: bool,
    selects: &dyn Fn(&dyn ExecutionPlan) -> bool,
    rewrite: &dyn Fn(&PlanRef, bool) -> Result<Option<PlanRef>>,
) -> Result<Option<PlanRef>> {
    let selected_below = selected || selects(plan.as_ref());
    let mut changed = false;
    let mut children = Vec::new();
    for child in plan.children() {
        let new = rewritten_below(child, selected_below, selects, rewrite)?;
        changed |= new.is_some();
        children.push(new.unwrap_or_else(|| Arc::clone(child)));
    }
    let plan = if changed {
        with_children(plan, children)?
    } else {
        Arc::clone(plan)
    };
    let new = rewrite(&plan, selected)?;
    Ok(new.or(changed.then_some(plan)))
}

/// The path from a plan down to the scan of an array, through nodes that keep all rows.
pub(super) struct ScanPath<'a> {
    /// The nodes above the scan, outermost first; each has one input.
    nodes: Vec<&'a PlanRef>,
    source: &'a TileDbSource,
}

/// The nodes that may be on the path besides projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassedNodes {
    /// No other nodes.
    Projections,
    /// Filters that keep all columns.
    Filters,
    /// Nodes that distribute batches among partitions unchanged.
    Dealing,
}

impl PassedNodes {
    fn lets(self, plan: &PlanRef) -> bool {
        if plan.is::<ProjectionExec>() {
            return true;
        }
        match self {
            Self::Projections => false,
            Self::Filters => {
                let filter = plan.downcast_ref::<FilterExec>();
                filter.is_some_and(|filter| filter.projection().is_none())
            }
            Self::Dealing => {
                let dealt = plan
                    .downcast_ref::<RepartitionExec>()
                    .map(RepartitionExec::partitioning);
                plan.is::<CooperativeExec>()
                    || dealt.is_some_and(|dealt| matches!(dealt, Partitioning::RoundRobinBatch(_)))
            }
        }
    }
}

impl<'a> ScanPath<'a> {
    /// `None` if there are other nodes on the path, or another source at its end.
    pub(super) fn new(plan: &'a PlanRef, passing: PassedNodes) -> Option<Self> {
        let (mut plan, mut nodes) = (plan, Vec::new());
        loop {
            if let Some(source) = scan(plan) {
                return Some(Self { nodes, source });
            }
            let [input] = plan.children()[..] else {
                return None;
            };
            if !passing.lets(plan) {
                return None;
            }
            nodes.push(plan);
            plan = input;
        }
    }

    /// The scan at the end of the path.
    pub(super) fn source(&self) -> &'a TileDbSource {
        self.source
    }

    /// The projections, outermost first.
    pub(super) fn projections(&self) -> impl Iterator<Item = &'a ProjectionExec> {
        self.nodes.iter().filter_map(|node| node.downcast_ref())
    }

    /// The column of the scan that a column of the plan shows unchanged, if there is one.
    pub(super) fn column(&self, column: usize) -> Option<usize> {
        self.projections().try_fold(column, |column, projection| {
            let expr = &projection.expr().get(column)?.expr;
            Some(expr.downcast_ref::<Column>()?.index())
        })
    }

    /// The columns of the scan from which columns of the plan are computed; `None` if an expression is volatile.
    pub(super) fn columns_of(&self, columns: BTreeSet<usize>) -> Option<BTreeSet<usize>> {
        self.projections().try_fold(columns, |columns, projection| {
            let mut below = BTreeSet::new();
            for column in columns {
                let expr = &projection.expr().get(column)?.expr;
                if is_volatile(expr) {
                    return None;
                }
                below.extend(collect_columns(expr).iter().map(Column::index));
            }
            Some(below)
        })
    }

    /// The plan over another scan.
    pub(super) fn over(&self, source: TileDbSource) -> Result<PlanRef> {
        let scan = DataSourceExec::from_data_source(source) as PlanRef;
        let mut nodes = self.nodes.iter().rev();
        nodes.try_fold(scan, |input, node| with_child(node, input))
    }
}

/// The plan with its scan replaced, below projections only. `columns` are columns of the plan; `change` gets the
/// corresponding columns of the scan, up to the first that is computed.
pub(super) fn over_scan(
    plan: &PlanRef,
    columns: &[usize],
    change: &dyn Fn(&TileDbSource, &[usize]) -> Option<TileDbSource>,
) -> Result<Option<PlanRef>> {
    let Some(path) = ScanPath::new(plan, PassedNodes::Projections) else {
        return Ok(None);
    };
    let columns = columns.iter().map_while(|column| path.column(*column));
    let changed = change(path.source(), &columns.collect::<Vec<_>>());
    changed.map(|source| path.over(source)).transpose()
}

/// The scan of an array, if the node is one.
pub(crate) fn scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&TileDbSource> {
    let scan = plan.downcast_ref::<DataSourceExec>()?;
    scan.data_source().downcast_ref::<TileDbSource>()
}

/// Whether a node or one below it scans an array.
pub(super) fn scans_array(plan: &Arc<dyn ExecutionPlan>) -> bool {
    scan(plan).is_some() || plan.children().into_iter().any(scans_array)
}
