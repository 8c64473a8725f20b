//! The execution of a statement that writes rows: from sorted rows to the commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::{UInt8Type, UInt64Type};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use futures::StreamExt;
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::array::window::TimestampMs;
use tiledb_engine::write::announcement::ChangeAnnouncement;
use tiledb_engine::write::clock::Clock;
use tiledb_engine::write::commit::{commit, commit_delete, commit_unpublished, commit_with_delete};
use tiledb_engine::write::delete::NewDeleteFile;
use tiledb_engine::write::dense::coverage::check_covered;
use tiledb_engine::write::dense::insert::DenseInsert;
use tiledb_engine::write::dense::snapshot_cells::SnapshotCells;
use tiledb_engine::write::fragment::StagedFragment;
use tiledb_engine::write::insert::{DeleteScope, OpenedTarget, SparseInsert};
use tiledb_engine::write::pipeline::WrittenCounts;
use tiledb_engine::write::requirement::{RequiredRegion, Requirement, check};
use tiledb_engine::write::staged_change::StagedChange;
use tiledb_engine::write::staged_rows::StagedRows;
use tiledb_engine::{Error, Result as OwnResult};

use super::change::RowChange;
use super::changed_rows::ChangedRows;
use super::nan_coordinates::check_none;
use super::target::PlannedTarget;
use crate::error::to_datafusion_error;
use crate::stores::budget::DiskScratch;

/// The counters of a statement; all but the fragments grow while it runs.
pub(super) struct WriteCounters {
    rows: Count,
    fragments: Count,
    tiles: Count,
    bytes: Count,
    filtering: Time,
}

/// The metric of the rows that were taken to be written.
pub(crate) const ROWS_WRITTEN: &str = "rows_written";
/// The metric of bytes that were handed to the store.
pub(crate) const BYTES_WRITTEN: &str = "bytes_written";

impl WriteCounters {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, 0);
        Self {
            rows: counter(ROWS_WRITTEN),
            fragments: counter("fragments_written"),
            tiles: counter("tiles_written"),
            bytes: counter(BYTES_WRITTEN),
            filtering: MetricBuilder::new(metrics).subset_time("filter_time", 0),
        }
    }

    /// Updates the counters.
    fn update(&self, written: &WrittenCounts) {
        raise(&self.tiles, written.tiles());
        raise(&self.bytes, written.bytes());
        let known = u64::try_from(self.filtering.value()).unwrap_or(u64::MAX);
        let more = written
            .filtering()
            .saturating_sub(Duration::from_nanos(known));
        if !more.is_zero() {
            self.filtering.add_duration(more);
        }
    }
}

/// Raises a count to a number.
fn raise(count: &Count, number: u64) {
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    count.add(number.saturating_sub(count.value()));
}

/// One execution of a statement.
pub(super) struct WriteExecution {
    pub(super) target: PlannedTarget,
    /// The changes of the statement besides new rows.
    pub(super) change: Option<Arc<RowChange>>,
    /// The column of the numbers by which the rows are sorted, if they are sorted by nothing else.
    pub(super) numbers: Option<usize>,
    /// Whether rows are written before all have been read.
    pub(super) is_early: Arc<AtomicBool>,
    pub(super) counters: WriteCounters,
    pub(super) metrics: ExecutionPlanMetricsSet,
    pub(super) context: Arc<TaskContext>,
}

/// The writer of rows: of one sparse fragment, or of dense ones.
enum InsertWriter {
    Sparse(Box<SparseInsert>, ChangedRows),
    Dense(Box<DenseInsert>),
}

impl WriteExecution {
    /// Writes all rows, which are in global order, and makes them visible; returns their number.
    ///
    /// Each step's future is in a box: as parts of this one, together, they would take more than half of a thread's stack in
    /// builds without optimization.
    pub(super) async fn write(self, rows: SendableRecordBatchStream) -> Result<u64> {
        let mut opened = Box::pin(self.target.open(&self.context))
            .await
            .map_err(to_datafusion_error)?;
        if let Some(change) = &self.change {
            opened.nulls = change.nulls;
            opened.has_read = !change.is_plain_insert(opened.snapshot.storage.uri());
        }
        if let Some(change) = self.change.as_ref().filter(|change| !change.inserts) {
            let time = change.time(&opened).await;
            opened.time = Some(time.map_err(to_datafusion_error)?);
        }
        let (snapshot, clock) = (opened.snapshot.clone(), opened.clock.clone());
        let written = Arc::clone(&opened.written);
        let replacing = self.replacing(&opened).map_err(to_datafusion_error)?;
        let staged = Box::pin(self.stage(opened, replacing.as_ref(), rows)).await?;
        let offered = async {
            let announced = match &replacing {
                Some(delete) => {
                    Some(ChangeAnnouncement::of_delete(&snapshot.storage, delete).await?)
                }
                None => None,
            };
            let checked = Box::pin(self.check(&snapshot, &staged, announced.as_ref())).await;
            Ok::<_, Error>((announced, checked))
        };
        let (announced, checked) = match Box::pin(offered).await {
            Ok((announced, checked)) => (announced, checked),
            Err(error) => (None, Err(error)),
        };
        if let Err(error) = checked {
            staged.withdraw().await;
            if let Some(announced) = announced {
                announced.end().await;
            }
            return Err(to_datafusion_error(error));
        }
        let bytes = staged
            .fragments
            .iter()
            .map(|fragment| fragment.bytes)
            .sum::<u64>();
        let fragments = staged.fragments.len();
        let committed = self.commit(&snapshot, &clock, replacing, staged.fragments);
        let committed = Box::pin(committed).await;
        if let Some(announced) = announced {
            announced.end().await;
        }
        committed.map_err(to_datafusion_error)?;
        self.counters.fragments.add(fragments);
        self.counters.update(&written);
        raise(&self.counters.bytes, bytes);
        log::debug!(
            "{}: committed {} rows in {fragments} fragments",
            snapshot.storage.uri(),
            staged.rows
        );
        Ok(match &self.change {
            Some(change) if change.removes => change.changed.load(Ordering::Relaxed),
            _ => staged.rows,
        })
    }

    /// Fails if another writer has changed anything that the statement depends on.
    async fn check(
        &self,
        snapshot: &Snapshot,
        staged: &StagedRows,
        announced: Option<&ChangeAnnouncement>,
    ) -> OwnResult<()> {
        let clock = &self.target.clock();
        let offered = StagedChange {
            fragments: staged.fragments.as_slice(),
            announced,
        };
        let time = offered.fragments.first();
        let time = time.map(|staged| TimestampMs(staged.name.t1));
        // A statement without rows takes the time of its delete.
        let time = time.or(announced.map(|delete| delete.time()));
        if self.target.unpublished.is_some() {
            return Ok(());
        }
        let opened = [snapshot.seen()];
        let mut requirements = Vec::new();
        if !staged.filled.is_empty() {
            let filled = RequiredRegion::Filled(&staged.filled);
            requirements.push(Requirement::unchanged(&opened, filled));
        }
        let (is_dense, uri) = (snapshot.schema.is_dense(), snapshot.storage.uri());
        let change = self.change.as_ref();
        let Some(change) = change.filter(|change| !change.is_plain_insert(uri)) else {
            let is_early = self.is_early.load(Ordering::Relaxed);
            let tolerates_inserts = !is_dense && !is_early;
            requirements.push(Requirement::of_insert(&opened, time, tolerates_inserts));
            return Box::pin(check(snapshot, &requirements, offered, clock)).await;
        };
        Box::pin(check_none(&change.removed_nans, snapshot, &self.context)).await?;
        let replaces = change.replaced.is_some();
        let region = match replaces && !is_dense {
            // A replacement would lose a cell that was committed meanwhile.
            true => RequiredRegion::Everything,
            false => RequiredRegion::Written,
        };
        let (read, read_boxes) = change.read(uri);
        let has_read = !read.is_empty();
        if has_read {
            requirements.push(Requirement::unchanged(&read, region));
        } else if replaces {
            // Older cells are removed even if the statement hasn't seen them, but only if there is a delete.
            let removes = announced.is_some();
            requirements.push(Requirement {
                later_than: time.filter(|_| removes),
                inserts_since: removes.then_some(TimestampMs(0)),
                ..Requirement::unchanged(&opened, region)
            });
        }
        // Two changes of different cells have no order if each has read the cells that the other changes. A statement without
        // changes comes before all that it hasn't seen.
        if has_read && time.is_some() {
            let boxes = read_boxes.as_deref();
            let region = boxes.map_or(RequiredRegion::Everything, RequiredRegion::Selected);
            requirements.push(Requirement {
                inserts_since: Some(TimestampMs(0)),
                deletes_matter: false,
                ..Requirement::unchanged(&read, region)
            });
        }
        if replaces && is_dense {
            check_covered(snapshot, offered.fragments, &staged.filled)?;
        }
        Box::pin(check(snapshot, &requirements, offered, clock)).await
    }

    /// The delete of the cells that the rows replace. It has the time of the rows; `None` if nothing is deleted.
    fn replacing(&self, opened: &OpenedTarget) -> OwnResult<Option<NewDeleteFile>> {
        let change = self.change.as_ref();
        let survivors = change.and_then(|change| change.replaced.as_ref());
        let snapshot = &opened.snapshot;
        let nothing_there = snapshot.fragments.is_empty() || snapshot.schema.is_dense();
        let (Some(survivors), Some(time), false) = (survivors, opened.time, nothing_there) else {
            return Ok(None);
        };
        NewDeleteFile::new(survivors.clone(), &opened.clock, time).map(Some)
    }

    async fn commit(
        &self,
        snapshot: &Snapshot,
        clock: &Clock,
        replacing: Option<NewDeleteFile>,
        fragments: Vec<StagedFragment>,
    ) -> OwnResult<()> {
        let storage = &snapshot.storage;
        let Some(delete) = replacing else {
            let committed = match self.target.unpublished {
                Some(_) => commit_unpublished(storage, clock, fragments).await?,
                None => commit(storage, clock, fragments).await?,
            };
            self.target.remember(committed);
            return Ok(());
        };
        if fragments.is_empty() {
            commit_delete(storage, &delete).await
        } else {
            commit_with_delete(storage, clock, &delete, fragments).await
        }
    }

    async fn stage(
        &self,
        opened: OpenedTarget,
        replacing: Option<&NewDeleteFile>,
        mut rows: SendableRecordBatchStream,
    ) -> Result<StagedRows> {
        // The time of an insert is not before that of its first row. A sort puts it out when it has seen all rows.
        let mut next = rows.next().await.transpose()?;
        let so_far = Arc::clone(&opened.written);
        let insert = if opened.snapshot.schema.is_dense() {
            self.dense(opened)
        } else {
            self.sparse(opened, replacing).await
        };
        let mut insert = insert.map_err(to_datafusion_error)?;
        let written = async {
            loop {
                let Some(batch) = next else {
                    return insert.complete().map_err(to_datafusion_error);
                };
                let pushed = self.push(&mut insert, &batch).await;
                pushed.map_err(to_datafusion_error)?;
                self.counters.rows.add(batch.num_rows());
                self.counters.update(&so_far);
                next = rows.next().await.transpose()?;
            }
        };
        let written: Result<()> = written.await;
        if let Err(error) = written {
            insert.withdraw().await;
            return Err(error);
        }
        insert.finish().await.map_err(to_datafusion_error)
    }

    async fn push(&self, insert: &mut InsertWriter, batch: &RecordBatch) -> OwnResult<()> {
        let stored = self.target.stored_columns();
        let removes = self.change.as_ref().is_some_and(|change| change.removes);
        let InsertWriter::Sparse(insert, changed) = insert else {
            let InsertWriter::Dense(insert) = insert else {
                return Ok(());
            };
            return insert.push(&self.target.stored(batch)?).await;
        };
        if !removes {
            let numbers = self.numbers.and_then(|column| batch.columns().get(column));
            let numbers = numbers.and_then(|numbers| numbers.as_primitive_opt::<UInt64Type>());
            let numbers = numbers.map(|numbers| numbers.values().as_ref());
            let stored = self.target.stored(batch)?;
            return insert.push(&stored, None, numbers).await;
        }
        let columns = batch.columns().get(..stored).unwrap_or_default();
        let coordinates = columns.get(..self.target.array_schema().dimensions.len());
        let kinds = batch.columns().get(stored);
        let kinds = kinds.and_then(|kinds| kinds.as_primitive_opt::<UInt8Type>());
        let (Some(coordinates), Some(kinds)) = (coordinates, kinds) else {
            return Err(Error::internal("a changed row says what it is"));
        };
        let (kept, removed) = changed.settle(coordinates, kinds)?;
        let kept_only = |column: &dyn Array| {
            filter(column, &kept)
                .map_err(|e| Error::internal("rows cannot be left out").with_source(e))
        };
        let columns = columns
            .iter()
            .map(|column| kept_only(column))
            .collect::<OwnResult<Vec<_>>>()?;
        let removed = kept_only(&removed)?;
        insert
            .push(&columns, Some(removed.as_boolean()), None)
            .await
    }

    async fn sparse(
        &self,
        opened: OpenedTarget,
        replacing: Option<&NewDeleteFile>,
    ) -> OwnResult<InsertWriter> {
        let removes = self.change.as_ref().is_some_and(|change| change.removes);
        let deleting = match replacing {
            Some(delete) => DeleteScope::Others(delete),
            None if removes => DeleteScope::ItsCells,
            None => DeleteScope::Nothing,
        };
        let mut insert = SparseInsert::begin(opened, deleting).await?;
        if self.change.as_ref().is_some_and(|change| change.in_place) {
            insert = insert.keeping_zeros();
        }
        Ok(InsertWriter::Sparse(
            Box::new(insert),
            ChangedRows::default(),
        ))
    }

    fn dense(&self, opened: OpenedTarget) -> OwnResult<InsertWriter> {
        let existing = Arc::new(SnapshotCells {
            snapshot: opened.snapshot.clone(),
            budget: Arc::clone(&opened.budget),
        });
        let scratch = Arc::new(DiskScratch::new(&self.context, &self.metrics));
        let insert = DenseInsert::begin(opened, existing, scratch)?;
        Ok(InsertWriter::Dense(Box::new(insert)))
    }
}

impl InsertWriter {
    /// Checks that no row waits for another one.
    fn complete(&self) -> OwnResult<()> {
        match self {
            Self::Sparse(_, changed) => changed.finish(),
            Self::Dense(_) => Ok(()),
        }
    }

    async fn finish(self) -> OwnResult<StagedRows> {
        match self {
            Self::Sparse(insert, _) => {
                let rows = insert.rows();
                let staged = insert.finish().await?;
                Ok(StagedRows {
                    rows,
                    fragments: staged.into_iter().collect(),
                    filled: Vec::new(),
                })
            }
            Self::Dense(insert) => {
                let rows = insert.rows();
                let (fragments, filled) = insert.finish().await?;
                Ok(StagedRows {
                    rows,
                    fragments,
                    filled,
                })
            }
        }
    }

    async fn withdraw(self) {
        match self {
            Self::Sparse(insert, _) => insert.withdraw().await,
            Self::Dense(insert) => insert.withdraw().await,
        }
    }
}
