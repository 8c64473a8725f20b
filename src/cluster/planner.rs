//! The planner of a session with workers.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use super::cluster_exec::ClusterExec;
use super::cutting::{PlannerRef, distributed};
use super::explain::explained;
use super::replanning::ReplannedQuery;

/// Plans queries for workers, if they are large enough and all of their stages can travel.
#[derive(Debug)]
pub(super) struct ClusterPlanner {
    /// The planner of a session without workers.
    plain: PlannerRef,
}

impl ClusterPlanner {
    pub(super) fn new(plain: PlannerRef) -> Self {
        Self { plain }
    }
}

#[async_trait]
impl QueryPlanner for ClusterPlanner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plain = self
            .plain
            .create_physical_plan(logical_plan, session)
            .await?;
        if let LogicalPlan::Explain(explain) = logical_plan {
            let explained_plan = self
                .plain
                .create_physical_plan(&explain.plan, session)
                .await;
            let planned = match explained_plan {
                Ok(plan) => distributed(plan, session).await,
                Err(error) => Err(error),
            };
            return Ok(explained(plain, planned));
        }
        let (plan, _) = distributed(Arc::clone(&plain), session).await?;
        let Some(cluster) = plan.downcast_ref::<ClusterExec>() else {
            return Ok(plan);
        };
        let again = ReplannedQuery::new(logical_plan, &plain, &self.plain, session);
        Ok(match again {
            Some(again) => Arc::new(cluster.replanned_by(Arc::new(again))),
            None => plan,
        })
    }
}
