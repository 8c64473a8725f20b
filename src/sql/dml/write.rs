//! The execution of a statement that writes rows: from sorted rows to the commit.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::Count;
use futures::StreamExt;

use super::existing::SnapshotCells;
use super::target::Target;
use super::touched_exec::SharedTouched;
use crate::error::{Error, Result as OwnResult};
use crate::geometry::domain::KeyBox;
use crate::write::commit::{check_unchanged, commit};
use crate::write::dense::insert::DenseInsert;
use crate::write::fragment::StagedFragment;
use crate::write::insert::{SparseInsert, WriteTarget};

/// What a statement counts.
pub(super) struct Counters {
    pub(super) fragments: Count,
    pub(super) tiles: Count,
    pub(super) bytes: Count,
}

/// One execution of a statement.
pub(super) struct Statement {
    pub(super) target: Target,
    /// The tiles that rows of a dense array touch.
    pub(super) touched: Option<Arc<SharedTouched>>,
    pub(super) counters: Counters,
    pub(super) context: Arc<TaskContext>,
}

/// Complete fragments that are not visible yet.
struct Staged {
    rows: u64,
    tiles: u64,
    fragments: Vec<StagedFragment>,
    /// Boxes that were filled with what the array showed.
    filled: Vec<KeyBox>,
}

/// A fragment, or several, that rows are added to.
enum Insert {
    Sparse(Box<SparseInsert>),
    Dense(Box<DenseInsert>),
}

impl Statement {
    /// Writes all rows, which are in global order, and makes them visible; returns their number.
    pub(super) async fn write(self, rows: SendableRecordBatchStream) -> Result<u64> {
        let opened = self
            .target
            .open(&self.context)
            .await
            .map_err(DataFusionError::from)?;
        let (snapshot, clock) = (opened.snapshot.clone(), opened.clock.clone());
        let staged = self.stage(opened, rows).await?;
        let visible = async {
            check_unchanged(&snapshot, &staged.filled).await?;
            commit(&snapshot.storage, &clock, &staged.fragments).await
        };
        if let Err(error) = visible.await {
            for fragment in staged.fragments {
                // The answer of the store may be lost, and the fragment visible.
                if error.kind() == crate::ErrorKind::Conflict {
                    told(&self.target, fragment.withdraw(&snapshot.storage).await);
                }
            }
            return Err(DataFusionError::from(error));
        }
        let bytes = staged
            .fragments
            .iter()
            .map(|fragment| fragment.bytes)
            .sum::<u64>();
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        self.counters.fragments.add(staged.fragments.len());
        self.counters.tiles.add(count(staged.tiles));
        self.counters.bytes.add(count(bytes));
        log::debug!(
            "{}: committed {} rows in {} fragments",
            snapshot.storage.uri(),
            staged.rows,
            staged.fragments.len()
        );
        Ok(staged.rows)
    }

    async fn stage(
        &self,
        opened: WriteTarget,
        mut rows: SendableRecordBatchStream,
    ) -> Result<Staged> {
        // A sort puts out its first rows when it has seen them all.
        let mut waiting = VecDeque::new();
        let insert = match &self.touched {
            None => Insert::sparse(opened)
                .await
                .map_err(DataFusionError::from)?,
            Some(touched) => {
                waiting.extend(rows.next().await.transpose()?);
                while touched.complete().is_none()
                    && let Some(batch) = rows.next().await
                {
                    waiting.push_back(batch?);
                }
                let insert = self.dense(opened, touched).await;
                insert.map_err(DataFusionError::from)?
            }
        };
        let mut insert = insert;
        let written = async {
            loop {
                let batch = match waiting.pop_front() {
                    Some(batch) => batch,
                    None => match rows.next().await {
                        Some(batch) => batch?,
                        None => return Ok(()),
                    },
                };
                let columns = self.target.stored(&batch).map_err(DataFusionError::from)?;
                insert.push(&columns).await.map_err(DataFusionError::from)?;
            }
        };
        let written: Result<()> = written.await;
        if let Err(error) = written {
            told(&self.target, insert.withdraw().await);
            return Err(error);
        }
        insert.finish().await.map_err(DataFusionError::from)
    }

    async fn dense(&self, opened: WriteTarget, touched: &SharedTouched) -> OwnResult<Insert> {
        let touched = touched.complete();
        let touched = touched.ok_or_else(|| Error::internal("some rows were not seen"))?;
        let existing = Arc::new(SnapshotCells {
            snapshot: opened.snapshot.clone(),
            context: Arc::clone(&self.context),
        });
        let insert = DenseInsert::begin(opened, touched.boxes()?, existing).await?;
        Ok(Insert::Dense(Box::new(insert)))
    }
}

impl Insert {
    async fn sparse(opened: WriteTarget) -> OwnResult<Self> {
        let insert = SparseInsert::begin(opened).await?;
        Ok(Self::Sparse(Box::new(insert)))
    }

    async fn push(&mut self, columns: &[ArrayRef]) -> OwnResult<()> {
        match self {
            Self::Sparse(insert) => insert.push(columns).await,
            Self::Dense(insert) => {
                insert.reserve(columns)?;
                insert.push(columns).await
            }
        }
    }

    async fn finish(self) -> OwnResult<Staged> {
        match self {
            Self::Sparse(insert) => {
                let rows = insert.rows();
                let staged = insert.finish().await?;
                Ok(Staged {
                    rows,
                    tiles: staged.iter().map(StagedFragment::tiles).sum(),
                    fragments: staged.into_iter().collect(),
                    filled: Vec::new(),
                })
            }
            Self::Dense(insert) => {
                let rows = insert.rows();
                let (fragments, filled) = insert.finish().await?;
                Ok(Staged {
                    rows,
                    tiles: fragments.iter().map(StagedFragment::tiles).sum(),
                    fragments,
                    filled,
                })
            }
        }
    }

    async fn withdraw(self) -> OwnResult<()> {
        match self {
            Self::Sparse(insert) => insert.withdraw().await,
            Self::Dense(insert) => insert.withdraw().await,
        }
    }
}

/// Tells of files of a failed statement that could not be removed.
fn told(target: &Target, removed: OwnResult<()>) {
    if let Err(left) = removed {
        let uri = target.storage.uri();
        log::warn!("{uri}: files of a failed statement stay: {left}");
    }
}

impl Target {
    /// The columns of a batch that are stored. Dimension labels lie in arrays of their own, and nobody chooses the columns of
    /// the system.
    fn stored(&self, batch: &RecordBatch) -> OwnResult<Vec<ArrayRef>> {
        let others = self.columns.fields().iter().enumerate();
        for (index, field) in others.skip(self.stored_columns) {
            let given = batch.columns().get(index);
            if given.is_some_and(|column| column.null_count() < column.len()) {
                return Err(Error::unsupported(format!(
                    "the column {} is neither a dimension nor an attribute, so INSERT cannot write it: leave it out",
                    field.name()
                ))
                .with("array", self.storage.uri()));
            }
        }
        let stored = batch.columns().iter().take(self.stored_columns);
        Ok(stored.cloned().collect())
    }
}
