//! The root of plans of which workers run parts.
//!
//! If files of the plan's fragments are gone before it has given rows, it goes on with a plan of those that are there.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream,
};
use futures::future::ready;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::tasks::TaskSettings;
use crate::error::is_conflict;
use crate::scan::source::MOST_RENEWALS;

/// A query that can be planned again.
#[async_trait]
pub(super) trait Replannable: fmt::Debug + Send + Sync {
    /// Plans the query again; `None` if that doesn't help.
    async fn plan_again(&self) -> Result<Option<FreshPlan>>;
}

/// A plan to run instead of one that failed, and its query.
pub(super) struct FreshPlan {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) query: Arc<dyn Replannable>,
}

/// A plan of which workers run parts. It gives them the settings that the session has when it runs.
#[derive(Debug)]
pub(super) struct ClusterExec {
    plan: Arc<dyn ExecutionPlan>,
    /// The query, if it can be planned again.
    again: Option<Arc<dyn Replannable>>,
}

impl ClusterExec {
    /// The node above a plan that the engine cut.
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self { plan, again: None }
    }

    /// The same plan, which may be planned again.
    pub(super) fn replanned_by(&self, again: Arc<dyn Replannable>) -> Self {
        let (plan, again) = (Arc::clone(&self.plan), Some(again));
        Self { plan, again }
    }

    pub(super) fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }
}

impl DisplayAs for ClusterExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("ClusterExec")
    }
}

impl ExecutionPlan for ClusterExec {
    fn name(&self) -> &'static str {
        "ClusterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([plan]) => Ok(Arc::new(Self {
                plan,
                again: self.again.clone(),
            })),
            Err(children) => internal_err!("ClusterExec has one input, not {}", children.len()),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let context = with_settings_of_tasks(&context);
        let rows = self.plan.execute(partition, Arc::clone(&context))?;
        let is_whole = self.properties().partitioning.partition_count() == 1;
        let Some(again) = self.again.clone().filter(|_| is_whole) else {
            return Ok(rows);
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            stream::once(begin(rows, again, context)).try_flatten(),
        )))
    }
}

/// The rows of a query from its first batch on. If files are gone before that, it is planned again.
async fn begin(
    mut rows: SendableRecordBatchStream,
    mut again: Arc<dyn Replannable>,
    context: Arc<TaskContext>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let mut times = 0;
    loop {
        match rows.next().await {
            Some(Ok(empty)) if empty.num_rows() == 0 => {}
            Some(Ok(first)) => return Ok(stream::once(ready(Ok(first))).chain(rows).boxed()),
            Some(Err(error)) if is_conflict(&error) && times < MOST_RENEWALS => {
                let Some(FreshPlan { plan, query }) = again.plan_again().await? else {
                    return Err(error);
                };
                log::debug!("a query is planned again: {error}");
                (times, again) = (times + 1, query);
                // Its tasks end first.
                drop(rows);
                rows = execute_stream(plan, Arc::clone(&context))?;
            }
            Some(Err(error)) => return Err(error),
            None => return Ok(stream::empty().boxed()),
        }
    }
}

/// The context of a run, with the settings that the engine sends to workers.
fn with_settings_of_tasks(context: &TaskContext) -> Arc<TaskContext> {
    let mut config = context.session_config().clone();
    let batch_size = config.batch_size();
    config
        .options_mut()
        .extensions
        .insert(TaskSettings { batch_size });
    let context = TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    );
    Arc::new(context)
}
