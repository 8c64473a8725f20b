//! The step that removes cells without writing any: by a condition, or all fragments at once.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::TryStreamExt;

use super::again::settled;
use super::change::{Change, latest_time};
use super::nan_coordinates::check_none;
use super::node::{Step, StepExec, puts_out_count};
use super::target::Target;
use super::write_exec::counted;
use crate::format::delete_condition::Condition;
use crate::write::commit::{commit_delete, commit_removal};
use crate::write::delete::DeleteFile;

/// What is removed.
#[derive(Debug, Clone)]
pub(super) enum Removed {
    /// The cells that do not satisfy a condition.
    AllBut(Condition),
    /// All fragments.
    Fragments,
    /// Nothing: the statement selects no row.
    Nothing,
}

/// Counts the rows of its input, which are those that go, and removes them.
#[derive(Debug)]
pub struct Remove {
    pub(super) target: Target,
    pub(super) removed: Removed,
    pub(super) change: Arc<Change>,
}

/// The plan node.
pub type TileDbRemoveExec = StepExec<Remove>;

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllBut(_) => write!(f, "by a stored condition"),
            Self::Fragments => write!(f, "all fragments"),
            Self::Nothing => write!(f, "nothing"),
        }
    }
}

impl Step for Remove {
    const NAME: &'static str = "TileDbRemoveExec";

    fn properties(&self, _input: &Arc<dyn ExecutionPlan>) -> PlanProperties {
        puts_out_count()
    }

    fn describe(&self) -> String {
        format!("{}, array={}", self.removed, self.target.storage.uri())
    }

    fn execute(
        self: &Arc<Self>,
        input: &Arc<dyn ExecutionPlan>,
        _partition: usize,
        context: Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        let rows = input.execute(0, Arc::clone(&context))?;
        let step = Arc::clone(self);
        let again = self.target.again.clone();
        let within = Arc::clone(&context);
        let removed = Box::pin(async move {
            let count = rows.try_fold(0_u64, |count, batch| async move {
                let rows = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
                Ok(count.saturating_add(rows))
            });
            let count = count.await?;
            let removed = step.remove(count, &context).await;
            removed.map_err(DataFusionError::from)?;
            Ok(count)
        });
        Ok(counted(settled(removed, again, within, metrics.clone())))
    }
}

impl Remove {
    async fn remove(&self, count: u64, context: &Arc<TaskContext>) -> crate::error::Result<()> {
        let target = self.target.open(context).await?;
        let snapshot = &target.snapshot;
        match &self.removed {
            Removed::Nothing => Ok(()),
            Removed::Fragments => {
                if snapshot.fragments.is_empty() {
                    return Ok(());
                }
                let time = super::change::after(latest_time(snapshot), &target).await?;
                let fragments = snapshot.fragments.as_slice();
                commit_removal(&snapshot.storage, &target.clock, time, fragments).await
            }
            Removed::AllBut(survivors) => {
                if count == 0 {
                    return Ok(());
                }
                check_none(&self.change.doomed, snapshot, context).await?;
                let time = self.change.time(&target).await?;
                let delete = DeleteFile::new(survivors.clone(), &target.clock, time)?;
                commit_delete(&snapshot.storage, &delete).await
            }
        }
    }
}
