//! Plans a query again if its files go before it has given rows.
//!
//! In one process, each scan does that itself. A task on a worker can't, because its units are those that the coordinator chose. So
//! the worker fails with a conflict, and the coordinator plans the query anew, from fragments that are still there.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use super::cluster_exec::{FreshPlan, Replannable};
use super::cutting::{PlannerRef, distributed};
use crate::dml::can_be_read_twice;
use crate::optimizer::scan_of;
use crate::scan::source::TileDbSource;
use crate::stores::runtime::ArrayRuntime;

/// A query that can be planned again.
pub(super) struct ReplannedQuery {
    query: LogicalPlan,
    planner: PlannerRef,
    state: SessionState,
    /// The plan for one process that is known to fail.
    failed: Arc<dyn ExecutionPlan>,
}

impl fmt::Debug for ReplannedQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplannedQuery").finish_non_exhaustive()
    }
}

impl ReplannedQuery {
    /// The query of which `planner` made this plan for one process; `None` if its sources may give their rows only once.
    pub(super) fn new(
        query: &LogicalPlan,
        plan: &Arc<dyn ExecutionPlan>,
        planner: &PlannerRef,
        session: &dyn Session,
    ) -> Option<Self> {
        let state = session.as_any().downcast_ref::<SessionState>()?;
        can_be_read_twice(plan).then(|| Self {
            query: query.clone(),
            planner: Arc::clone(planner),
            state: state.clone(),
            failed: Arc::clone(plan),
        })
    }
}

#[async_trait]
impl Replannable for ReplannedQuery {
    /// `None` if the plan reads the same fragments as before: because all of their files are there, or because the present ones have
    /// other rows, and the statement reads the array more than once.
    async fn plan_again(&self) -> Result<Option<FreshPlan>> {
        let plan = self.planner.create_physical_plan(&self.query, &self.state);
        let runtime =
            ArrayRuntime::of_config(self.state.config(), Arc::clone(self.state.runtime_env()));
        let plain = with_renewed_scans(plan.await?, &runtime).await?;
        if fragments_of(&plain)? == fragments_of(&self.failed)? {
            return Ok(None);
        }
        let (plan, _) = distributed(Arc::clone(&plain), &self.state).await?;
        let query = Self {
            query: self.query.clone(),
            planner: Arc::clone(&self.planner),
            state: self.state.clone(),
            failed: plain,
        };
        let query = Arc::new(query);
        Ok(Some(FreshPlan { plan, query }))
    }
}

/// The fragments of each scan of a plan.
fn fragments_of(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Vec<String>>> {
    let mut fragments = Vec::new();
    plan.apply(|node| {
        if let Some(source) = scan_of(node) {
            let seen = source.plan().spec.table.snapshot.fragments.iter();
            fragments.push(seen.map(|fragment| fragment.name.name.clone()).collect());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(fragments)
}

/// The plan with scans of files that are there, if they can be planned again.
async fn with_renewed_scans(
    plan: Arc<dyn ExecutionPlan>,
    runtime: &ArrayRuntime,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut scans = Vec::<TileDbSource>::new();
    plan.apply(|node| {
        scans.extend(scan_of(node).cloned());
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut renewed = Vec::with_capacity(scans.len());
    for scan in &scans {
        renewed.push(scan.planned_again(runtime).await);
    }
    // In the order in which they were found.
    let mut renewed = renewed.into_iter();
    plan.transform_down(|node| {
        if scan_of(&node).is_none() {
            return Ok(Transformed::no(node));
        }
        Ok(match renewed.next().flatten() {
            Some(scan) => Transformed::yes(DataSourceExec::from_data_source(scan) as _),
            None => Transformed::no(node),
        })
    })
    .data()
}
