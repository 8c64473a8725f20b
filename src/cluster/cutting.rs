//! Cuts plans into stages that run on workers.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, internal_datafusion_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{DistributedExec, SessionStateBuilderExt};
use tiledb_engine::Location;

use super::benefit::only_sends_stored_rows;
use super::cluster_exec::ClusterExec;
use super::orders::sorted_behind_exchanges;
use super::pauses::with_pauses;
use super::stages::check_stages;
use crate::dml::changes_arrays;
use crate::optimizer::scan_of;
use crate::options::settings::TileDbSettings;

/// A planner of queries.
pub(super) type PlannerRef = Arc<dyn QueryPlanner + Send + Sync>;

/// The plan for workers, and why it runs in this process although it could be cut.
pub(super) async fn distributed(
    plan: Arc<dyn ExecutionPlan>,
    session: &dyn Session,
) -> Result<(Arc<dyn ExecutionPlan>, Option<String>)> {
    if !plan.exists(|node| Ok(scan_of(node).is_some()))? {
        return Ok((plan, None));
    }
    if changes_arrays(plan.as_ref()) {
        return with_distributed_input(plan, session).await;
    }
    // The parts of a recursive query run again and again, and stages run once.
    if plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))? {
        let reason = "a recursive query runs its parts again and again".to_owned();
        return Ok((plan, Some(reason)));
    }
    let planner = engine_of(with_pauses(sorted_behind_exchanges(&plan)?)?)?;
    let nothing = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(DFSchema::empty()),
    });
    let cut = planner.create_physical_plan(&nothing, session).await?;
    if !cut.exists(|node| Ok(node.is::<DistributedExec>()))? {
        let reason = uncut_scan(&plan);
        return Ok((plan, reason));
    }
    let settings = TileDbSettings::of(session.config().options()).cluster;
    if !settings.send_stored_rows() && only_sends_stored_rows(&cut) {
        let reason = "its rows are returned as they are stored".to_owned();
        return Ok((plan, Some(reason)));
    }
    match check_stages(&cut, &session.task_ctx()) {
        Ok(()) => Ok((Arc::new(ClusterExec::new(cut)), None)),
        Err(reason) => {
            log::debug!("a query runs in this process: {reason}");
            Ok((plan, Some(reason.strip_backtrace())))
        }
    }
}

/// Why a scan of a plan can't be cut, if there is one.
fn uncut_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    if let Some(source) = scan_of(plan) {
        let reason = source.check_cut().err()?;
        let uri = source.plan().spec.table.snapshot.storage.uri();
        return Some(format!(
            "the scan of {} isn't cut: {reason}",
            Location::without_secrets(uri)
        ));
    }
    plan.children().into_iter().find_map(uncut_scan)
}

/// A step of a statement that changes arrays, which runs in this process, with rows that may come from workers.
async fn with_distributed_input(
    plan: Arc<dyn ExecutionPlan>,
    session: &dyn Session,
) -> Result<(Arc<dyn ExecutionPlan>, Option<String>)> {
    let ordered = plan.required_input_ordering().iter().any(Option::is_some);
    let input = match plan.children()[..] {
        [input] => Arc::clone(input),
        _ => return Ok((plan, None)),
    };
    // Workers give the rows of all partitions in one, whose order is lost.
    if ordered && input.output_partitioning().partition_count() > 1 {
        return Ok((plan, None));
    }
    let (input, reason) = Box::pin(distributed(input, session)).await?;
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok((plan.replace_children(vec![input], options)?, reason))
}

/// A planner of the engine that cuts a plan.
fn engine_of(plan: Arc<dyn ExecutionPlan>) -> Result<PlannerRef> {
    let mut builder = SessionStateBuilder::new()
        .with_query_planner(Arc::new(AlreadyPlanned(plan)))
        .with_distributed_planner();
    let planner = builder.query_planner().take();
    planner.ok_or_else(|| internal_datafusion_err!("the engine has no planner"))
}

/// Gives a plan that was made before.
#[derive(Debug)]
struct AlreadyPlanned(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for AlreadyPlanned {
    async fn create_physical_plan(
        &self,
        _: &LogicalPlan,
        _: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}
