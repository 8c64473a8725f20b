//! Rows in global order become one sparse fragment.

use std::sync::Arc;

use arrow::array::ArrayRef;

use super::clock::Clock;
use super::fields::{WrittenFields, cell_writers};
use super::fragment::{FragmentWriter, StagedFragment};
use super::pipeline::TilePipeline;
use super::sparse::SparseTiler;
use crate::array::snapshot::Snapshot;
use crate::array::window::TimestampMs;
use crate::arrow::TypeOptions;
use crate::error::{Error, Result};
use crate::memory::budget::{Grant, MemoryBudget};

/// Memory is reserved for so many times the bytes of rows: for the tile, and for what its filters make of it.
const COPIES: usize = 2;

/// Where and how rows are written.
#[derive(Debug, Clone)]
pub struct WriteTarget {
    /// The array, as it was when the statement began.
    pub snapshot: Snapshot,
    /// The options that the types of columns depend on.
    pub types: TypeOptions,
    /// The time of the write; `None` is the present at the commit.
    pub time: Option<TimestampMs>,
    /// The source of times and names.
    pub clock: Clock,
    /// The memory that may be used.
    pub budget: Arc<dyn MemoryBudget>,
    /// Tiles that are filtered at the same time.
    pub width: usize,
}

/// Writes one sparse fragment.
#[derive(Debug)]
pub struct SparseInsert {
    time: TimestampMs,
    tiler: SparseTiler,
    pipeline: TilePipeline,
    memory: Vec<Grant>,
    rows: u64,
}

impl SparseInsert {
    /// Begins a fragment of the array's schema.
    ///
    /// # Errors
    /// The array is dense, or has fields that cannot be written.
    pub async fn begin(target: WriteTarget) -> Result<Self> {
        let snapshot = &target.snapshot;
        if snapshot.schema.is_dense() {
            return Err(Error::internal("a sparse fragment for a dense array"));
        }
        let time = match target.time {
            Some(time) => time,
            None => target.clock.fresh_time().await,
        };
        let name = target.clock.fresh_fragment_name(time, time)?;
        let fields = Arc::new(WrittenFields::new(
            &snapshot.schema,
            snapshot.schema_name()?,
        ));
        let writers = cell_writers(snapshot, &target.types)?;
        let fragment = FragmentWriter::new(&snapshot.storage, &fields, name);
        let key = snapshot.storage.encryption_key().cloned();
        let budget = Arc::clone(&target.budget);
        let pipeline = TilePipeline::new(Arc::clone(&fields), fragment, key, target.width, budget)?;
        Ok(Self {
            tiler: SparseTiler::new(fields, writers)?,
            pipeline,
            memory: Vec::new(),
            rows: 0,
            time,
        })
    }

    /// The time of the write.
    pub fn time(&self) -> TimestampMs {
        self.time
    }

    /// Adds rows, one column for each dimension and attribute, which follow in global order those before them.
    ///
    /// # Errors
    /// A row cannot be stored, the memory is not enough, or the store fails.
    pub async fn push(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        let bytes = columns.iter().map(sliced_bytes).sum::<usize>();
        let grant = self.pipeline.reserve(bytes.saturating_mul(COPIES)).await?;
        self.memory.push(grant);
        let mut full = Vec::new();
        self.tiler.push(columns, &mut full)?;
        self.rows = self.rows.saturating_add(rows as u64);
        for tile in full {
            let memory = std::mem::take(&mut self.memory);
            self.pipeline.push(tile, memory).await?;
        }
        Ok(())
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of tiles, and bytes of data files, so far.
    pub fn progress(&self) -> (u64, u64) {
        self.pipeline.progress()
    }

    /// Finishes the fragment; `None` without rows, which leave nothing on storage.
    ///
    /// # Errors
    /// The store fails.
    pub async fn finish(mut self) -> Result<Option<StagedFragment>> {
        if let Some(last) = self.tiler.take() {
            let memory = std::mem::take(&mut self.memory);
            self.pipeline.push(last, memory).await?;
        }
        match self.rows {
            0 => Ok(None),
            _ => self.pipeline.finish(None).await.map(Some),
        }
    }

    /// Removes what has been written.
    ///
    /// # Errors
    /// The store fails.
    pub async fn withdraw(self) -> Result<()> {
        self.pipeline.withdraw().await
    }
}

/// Bytes of the rows of a column, without those of other rows that share its buffers.
pub(super) fn sliced_bytes(column: &ArrayRef) -> usize {
    let data = column.to_data();
    data.get_slice_memory_size()
        .unwrap_or_else(|_| column.get_array_memory_size())
}
