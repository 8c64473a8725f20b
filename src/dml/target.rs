//! The target of a statement: the array, and how its cells are made.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::array::table::ArrayTable;
use tiledb_engine::array::window::{OpenWindow, TimestampMs};
use tiledb_engine::arrow::NullPolicy;
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::storage::Storage;
use tiledb_engine::write::clock::Clock;
use tiledb_engine::write::commit::CommittedFiles;
use tiledb_engine::write::fields::check_unordered;
use tiledb_engine::write::insert::OpenedTarget;
use tiledb_engine::{Error, Result};

use super::again::ReplannedStatement;
use super::change::RowChange;
use crate::options::TableOptions;
use crate::scan::moment::StatementSnapshots;
use crate::stores::budget::PoolBudget;

/// An array that becomes visible together with its first rows.
#[derive(Debug)]
pub(super) struct UnpublishedArray {
    snapshot: Snapshot,
    committed: Mutex<CommittedFiles>,
}

impl UnpublishedArray {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            committed: Mutex::default(),
        }
    }

    /// The array as it will be, without fragments.
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The files that have been committed to it.
    pub(super) fn committed(&self) -> CommittedFiles {
        let mut committed = self
            .committed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        mem::take(&mut *committed)
    }
}

/// The target array of a statement, as the statement was planned.
#[derive(Debug, Clone)]
pub(crate) struct PlannedTarget {
    pub(super) storage: Storage,
    pub(super) options: TableOptions,
    pub(super) table: Arc<ArrayTable>,
    /// The columns of the table, which may be more than the array stores.
    pub(super) columns: SchemaRef,
    /// The array, if nobody sees it yet.
    pub(super) unpublished: Option<Arc<UnpublishedArray>>,
    /// The statement, if it can be planned again.
    pub(super) again: Option<Arc<ReplannedStatement>>,
    /// The snapshots of the statement's scans, if it scans the array.
    pub(super) statement: Option<Arc<StatementSnapshots>>,
    /// The keys between which the coordinates of all rows lie, for each dimension, if they are known.
    pub(super) ranges: Vec<Option<(u64, u64)>>,
}

impl PlannedTarget {
    pub(crate) fn new(
        storage: &Storage,
        options: &TableOptions,
        table: &Arc<ArrayTable>,
        columns: &SchemaRef,
    ) -> Self {
        Self {
            storage: storage.clone(),
            options: options.clone(),
            table: Arc::clone(table),
            columns: Arc::clone(columns),
            unpublished: None,
            again: None,
            statement: None,
            ranges: Vec::new(),
        }
    }

    /// Returns the target for a statement that is planned again if it conflicts with another one.
    pub(crate) fn again(self, again: Option<Arc<ReplannedStatement>>) -> Self {
        Self { again, ..self }
    }

    /// The change by a plan, which may read the array.
    pub(super) fn change(&self, input: &Arc<dyn ExecutionPlan>) -> RowChange {
        RowChange::of(input, self.storage.uri(), self.statement.clone())
    }

    /// Returns this target for a statement whose scans of the array are recorded, if it has any.
    pub(crate) fn read_by(self, statement: Option<Arc<StatementSnapshots>>) -> Self {
        Self { statement, ..self }
    }

    pub(super) fn array_schema(&self) -> &Arc<ArraySchema> {
        &self.table.snapshot.schema
    }

    /// The number of dimensions and attributes.
    pub(super) fn stored_columns(&self) -> usize {
        self.array_schema().dimensions.len() + self.array_schema().attributes.len()
    }

    /// The source of times and names.
    pub(super) fn clock(&self) -> Clock {
        Clock::of_engine(self.storage.engine())
    }

    /// The array as it is now, ready to be written to.
    pub(super) async fn open(&self, context: &TaskContext) -> Result<OpenedTarget> {
        let window = OpenWindow::new(TimestampMs(0), None)?;
        let snapshot = match &self.unpublished {
            Some(array) => array.snapshot.clone(),
            None => Snapshot::open(&self.storage, window).await?,
        };
        if snapshot.schema != *self.array_schema() {
            return Err(Error::conflict(
                "the schema of the array changed since the statement was planned: run it again",
            )
            .with("array", self.storage.uri()));
        }
        check_unordered(self.array_schema()).map_err(|e| e.with("array", self.storage.uri()))?;
        let budget = PoolBudget::named("TileDbWrite", context.memory_pool(), self.storage.engine());
        Ok(OpenedTarget {
            snapshot,
            types: self.options.types(),
            nulls: NullPolicy::Refused,
            time: self.options.write_timestamp.map(TimestampMs),
            clock: self.clock(),
            budget: Arc::new(budget),
            width: context.session_config().target_partitions(),
            written: Arc::default(),
            has_read: false,
        })
    }

    /// Records a commit to an array that may still be taken back.
    pub(super) fn remember(&self, committed: CommittedFiles) {
        if let Some(array) = &self.unpublished {
            *array
                .committed
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = committed;
        }
    }

    /// The stored columns of a batch. Dimension labels lie in arrays of their own, and statements don't write the columns of
    /// the system.
    pub(super) fn stored(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let others = self.columns.fields().iter().enumerate();
        for (index, field) in others.skip(self.stored_columns()) {
            let given = batch.columns().get(index);
            if given.is_some_and(|column| column.null_count() < column.len()) {
                return Err(Error::unsupported(format!(
                    "the column {} is neither a dimension nor an attribute, so INSERT cannot write it: leave it out",
                    field.name()
                ))
                .with("array", self.storage.uri()));
            }
        }
        let stored = batch.columns().iter().take(self.stored_columns());
        Ok(stored.cloned().collect())
    }
}
