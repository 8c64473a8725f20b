//! What a statement writes to: the array, and how its cells are made.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::array::window::{OpenWindow, TimestampMs};
use tiledb_engine::arrow::NullPolicy;
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::storage::Storage;
use tiledb_engine::write::clock::Clock;
use tiledb_engine::write::commit::CommittedFiles;
use tiledb_engine::write::fields::check_unordered;
use tiledb_engine::write::insert::WriteTarget;
use tiledb_engine::{Error, Result};

use super::again::ReplannedStatement;
use crate::options::TableOptions;
use crate::stores::budget::PoolBudget;

/// An array to write to.
#[derive(Debug, Clone)]
pub(super) struct ArrayTarget {
    pub(super) storage: Storage,
    pub(super) options: TableOptions,
    /// The schema that the statement was planned with.
    pub(super) schema: Arc<ArraySchema>,
    /// The columns of the table.
    pub(super) columns: SchemaRef,
    /// The number of columns that are dimensions and attributes; dimension labels follow them.
    pub(super) stored_columns: usize,
    pub(super) clock: Clock,
    /// The array, if nobody sees it yet.
    pub(super) unpublished: Option<Arc<UnpublishedArray>>,
    /// The statement, which is planned again if it met another one.
    pub(super) again: Option<Arc<ReplannedStatement>>,
}

/// An array that becomes visible with what is written to it.
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

    /// What has been committed to it.
    pub(super) fn committed(&self) -> CommittedFiles {
        let mut committed = self
            .committed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        mem::take(&mut *committed)
    }
}

impl ArrayTarget {
    /// The array as it is now, ready to be written to.
    pub(super) async fn open(&self, context: &TaskContext) -> Result<WriteTarget> {
        let window = OpenWindow::new(TimestampMs(0), None)?;
        let snapshot = match &self.unpublished {
            Some(array) => array.snapshot.clone(),
            None => Snapshot::open(&self.storage, window).await?,
        };
        if *snapshot.schema != *self.schema {
            return Err(Error::conflict(
                "the schema of the array changed since the statement was planned: run it again",
            )
            .with("array", self.storage.uri()));
        }
        check_unordered(&self.schema).map_err(|e| e.with("array", self.storage.uri()))?;
        let budget = PoolBudget::named("TileDbWrite", context.memory_pool(), self.storage.engine());
        Ok(WriteTarget {
            snapshot,
            types: self.options.types(),
            nulls: NullPolicy::Refused,
            time: self.options.write_timestamp.map(TimestampMs),
            clock: self.clock.clone(),
            budget: Arc::new(budget),
            width: context.session_config().target_partitions(),
            written: Arc::default(),
            has_read: false,
        })
    }

    /// Remembers what a commit made visible, for an array that may still be taken back.
    pub(super) fn remember(&self, committed: CommittedFiles) {
        if let Some(array) = &self.unpublished {
            *array
                .committed
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = committed;
        }
    }
}
