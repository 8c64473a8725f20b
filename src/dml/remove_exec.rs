//! The step that removes cells without writing any: by a condition, or all fragments at once.
//!
//! The step removes exactly the rows that it counted. So the statement lists the array again before its commit, as statements
//! that write cells do, and announces itself before that. Otherwise, two statements that don't see each other would both count
//! the same row.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::TryStreamExt;
use tiledb_engine::array::window::TimestampMs;
use tiledb_engine::format::delete_condition::DeleteCondition;
use tiledb_engine::format::domain_range::DomainRange;
use tiledb_engine::write::announcement::ChangeAnnouncement;
use tiledb_engine::write::commit::{FragmentRemoval, commit_delete, commit_removal};
use tiledb_engine::write::delete::NewDeleteFile;
use tiledb_engine::write::insert::OpenedTarget;
use tiledb_engine::write::requirement::{RequiredRegion, Requirement, check};
use tiledb_engine::write::staged_change::StagedChange;

use super::again::settled;
use super::change::{RowChange, latest_time};
use super::nan_coordinates::check_none;
use super::node::{ChangeStep, StepExec, puts_out_count};
use super::target::PlannedTarget;
use super::write_exec::counted;
use crate::error::to_datafusion_error;

/// The removed rows.
#[derive(Debug, Clone)]
pub(super) enum RemovedRows {
    /// The cells that do not satisfy a condition.
    AllBut(DeleteCondition),
    /// All fragments.
    Fragments,
    /// Nothing, because the statement selects no row.
    Nothing,
}

/// Counts the rows of its input, and removes them.
#[derive(Debug)]
pub struct RemoveExec {
    pub(super) target: PlannedTarget,
    pub(super) removed: RemovedRows,
    /// For each dimension, the range of the counted rows, if the ranges are known.
    pub(super) selected: Option<Vec<DomainRange>>,
    pub(super) change: Arc<RowChange>,
}

/// The plan node.
pub type TileDbRemoveExec = StepExec<RemoveExec>;

impl fmt::Display for RemovedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllBut(_) => write!(f, "by a stored condition"),
            Self::Fragments => write!(f, "all fragments"),
            Self::Nothing => write!(f, "nothing"),
        }
    }
}

impl ChangeStep for RemoveExec {
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
            // Rows that are inserted during the count aren't older than the delete, so it spares them.
            let begun = match step.removed {
                RemovedRows::AllBut(_) => Some(step.target.clock().fresh_time().await),
                RemovedRows::Fragments | RemovedRows::Nothing => None,
            };
            let count = rows
                .try_fold(0_u64, |count, batch| async move {
                    let rows = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
                    Ok(count.saturating_add(rows))
                })
                .await?;
            let removed = step.remove(count, begun, &context).await;
            removed.map_err(to_datafusion_error)?;
            Ok(count)
        });
        Ok(counted(settled(removed, again, within, metrics.clone())))
    }
}

impl RemoveExec {
    /// Removes the counted rows, if nobody has changed them meanwhile.
    async fn remove(
        &self,
        count: u64,
        begun: Option<TimestampMs>,
        context: &Arc<TaskContext>,
    ) -> tiledb_engine::Result<()> {
        let target = self.target.open(context).await?;
        match &self.removed {
            RemovedRows::Nothing => Ok(()),
            RemovedRows::Fragments => self.remove_fragments(&target).await,
            RemovedRows::AllBut(_) if count == 0 => Ok(()),
            RemovedRows::AllBut(survivors) => {
                let (snapshot, change) = (&target.snapshot, &self.change);
                check_none(&change.removed_nans, snapshot, context).await?;
                let time = match begun {
                    Some(begun) if target.time.is_none() && change.latest < begun => begun,
                    _ => change.time(&target).await?,
                };
                let delete = NewDeleteFile::new(survivors.clone(), &target.clock, time)?;
                let announced = ChangeAnnouncement::of_delete(&snapshot.storage, &delete).await?;
                let region = match &self.selected {
                    Some(selected) => RequiredRegion::Selected(std::slice::from_ref(selected)),
                    None => RequiredRegion::Everything,
                };
                // Rows that were inserted later come after the delete.
                let (read, _) = change.read(snapshot.storage.uri());
                let requirement = Requirement {
                    read: &read,
                    region,
                    later_than: None,
                    inserts_since: Some(TimestampMs(time.0.saturating_add(1))),
                    deletes_matter: true,
                };
                let commit = commit_delete(&snapshot.storage, &delete);
                self.unless_overtaken(&target, &requirement, announced, commit)
                    .await
            }
        }
    }

    /// Hides the fragments whose rows were counted.
    async fn remove_fragments(&self, target: &OpenedTarget) -> tiledb_engine::Result<()> {
        let snapshot = &target.snapshot;
        let (read, _) = self.change.read(snapshot.storage.uri());
        let is_seen = |name: &String| read.iter().any(|seen| seen.fragments.contains(name));
        let mut fragments = snapshot.fragments.as_ref().clone();
        fragments.retain(|fragment| is_seen(&fragment.name.name));
        if read.iter().all(|seen| seen.fragments.is_empty()) {
            return Ok(());
        }
        let time = super::change::after(latest_time(snapshot), target).await?;
        let removal = FragmentRemoval::new(&target.clock, time, &fragments)?;
        let announced = ChangeAnnouncement::of_removal(&snapshot.storage, &removal).await?;
        let requirement = Requirement {
            read: &read,
            region: RequiredRegion::Everything,
            later_than: None,
            // Inserted rows stay, and come after this statement.
            inserts_since: (!snapshot.schema.is_dense()).then_some(TimestampMs(0)),
            deletes_matter: true,
        };
        let commit = commit_removal(&snapshot.storage, &removal);
        self.unless_overtaken(target, &requirement, announced, commit)
            .await
    }

    async fn unless_overtaken(
        &self,
        target: &OpenedTarget,
        requirement: &Requirement<'_>,
        announced: ChangeAnnouncement,
        commit: impl Future<Output = tiledb_engine::Result<()>>,
    ) -> tiledb_engine::Result<()> {
        let offered = StagedChange {
            fragments: &[],
            announced: Some(&announced),
        };
        let requirements = std::slice::from_ref(requirement);
        let checked = Box::pin(check(
            &target.snapshot,
            requirements,
            offered,
            &target.clock,
        ));
        let ended = match checked.await {
            Ok(()) => commit.await,
            overtaken => overtaken,
        };
        announced.end().await;
        ended
    }
}
