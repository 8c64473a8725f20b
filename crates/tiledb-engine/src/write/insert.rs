//! Rows in global order become one sparse fragment.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType;

use super::clock::Clock;
use super::delete::NewDeleteFile;
use super::fields::{RecordedFields, WrittenFields, cell_writers};
use super::fragment::{FragmentWriter, StagedFragment};
use super::pipeline::{TilePipeline, WrittenCounts};
use super::sparse::SparseTiler;
use crate::array::snapshot::Snapshot;
use crate::array::window::TimestampMs;
use crate::arrow::{NullPolicy, TypeOptions, with_one_zero};
use crate::error::{Error, Result};
use crate::memory::budget::{Grant, MemoryBudget};

/// The memory that is reserved for rows, in multiples of their bytes: for the tile, and for the output of its filters.
pub const COPIES: usize = 2;

/// Where and how rows are written.
#[derive(Debug, Clone)]
pub struct OpenedTarget {
    /// The array, as it was when the statement began.
    pub snapshot: Snapshot,
    /// The options that the types of columns depend on.
    pub types: TypeOptions,
    /// How a NULL is stored in attributes where only certain stored numbers show as NULL.
    pub nulls: NullPolicy,
    /// The time of the write; `None` is the time at which the first fragment is begun.
    pub time: Option<TimestampMs>,
    /// The source of times and names.
    pub clock: Clock,
    /// The memory that may be used.
    pub budget: Arc<dyn MemoryBudget>,
    /// Tiles that are filtered at the same time.
    pub width: usize,
    /// What has been written so far.
    pub written: Arc<WrittenCounts>,
    /// Whether the rows depend on cells that the statement has read. The names of its fragments show that to other writers.
    pub has_read: bool,
}

impl OpenedTarget {
    /// A fresh name for a fragment of a time.
    ///
    /// # Errors
    /// Fails if the system provides no random numbers.
    pub(super) fn fresh_fragment_name(&self, time: TimestampMs) -> Result<String> {
        if self.has_read {
            self.clock.fresh_name_of_change(time)
        } else {
            self.clock.fresh_fragment_name(time, time)
        }
    }
}

/// The cells that the commit of a fragment deletes.
#[derive(Debug, Clone, Copy)]
pub enum DeleteScope<'a> {
    /// Nothing.
    Nothing,
    /// Existing cells at coordinates of the fragment.
    ItsCells,
    /// The cells that this delete hits, up to its time, which is the fragment's time. The fragment's cells survive, because it
    /// records the delete as processed.
    Others(&'a NewDeleteFile),
}

/// Writes one sparse fragment.
#[derive(Debug)]
pub struct SparseInsert {
    time: TimestampMs,
    tiler: SparseTiler,
    pipeline: TilePipeline,
    memory: Vec<Grant>,
    rows: u64,
    /// The delete that removed cells name.
    delete: Option<NewDeleteFile>,
    /// Whether -0.0 is kept among the coordinates.
    keeps_zeros: bool,
}

impl SparseInsert {
    /// Begins a fragment of the array's schema. If its commit is `deleting` cells, the fragment records when each of its own cells
    /// was deleted.
    ///
    /// # Errors
    /// The array is dense, or has fields that cannot be written.
    pub async fn begin(target: OpenedTarget, deleting: DeleteScope<'_>) -> Result<Self> {
        let snapshot = &target.snapshot;
        if snapshot.schema.is_dense() {
            return Err(Error::internal("a sparse fragment for a dense array"));
        }
        let time = match target.time {
            Some(time) => time,
            None => target.clock.fresh_time().await,
        };
        let name = target.fresh_fragment_name(time)?;
        let fields = WrittenFields::new(&snapshot.schema, snapshot.schema_name()?);
        let (fields, delete) = match deleting {
            DeleteScope::Nothing => (fields, None),
            // All cells have the time of the fragment, and no two of them have the same coordinates.
            DeleteScope::Others(delete) => {
                let recorded = RecordedFields {
                    times: false,
                    deletes: Some(vec![delete.path.clone()]),
                };
                (fields.with_times(recorded), None)
            }
            DeleteScope::ItsCells => {
                let delete = NewDeleteFile::of_nothing(&snapshot.schema, &target.clock, time)?;
                let recorded = RecordedFields {
                    times: true,
                    deletes: Some(vec![delete.path.clone()]),
                };
                (fields.with_times(recorded), Some(delete))
            }
        };
        let fields = Arc::new(fields);
        let writers = cell_writers(snapshot, &target.types, target.nulls)?;
        let fragment = FragmentWriter::new(&snapshot.storage, &fields, name);
        let key = snapshot.storage.encryption_key().cloned();
        let budget = Arc::clone(&target.budget);
        let pipeline = TilePipeline::new(Arc::clone(&fields), fragment, key, target.width, budget)?
            .counted_in(&target.written);
        Ok(Self {
            tiler: SparseTiler::new(fields, writers, time)?,
            delete,
            pipeline,
            memory: Vec::new(),
            rows: 0,
            time,
            keeps_zeros: false,
        })
    }

    /// Inserts rows at the coordinates of existing cells, and keeps cells that were stored at -0.0 there. libtiledb treats -0.0
    /// and 0.0 as different cells, so a row at 0.0 wouldn't replace the cell.
    #[must_use]
    pub fn keeping_zeros(self) -> Self {
        Self {
            keeps_zeros: true,
            ..self
        }
    }

    /// The time of the write.
    pub fn time(&self) -> TimestampMs {
        self.time
    }

    /// Adds rows, one column for each dimension and attribute, which follow in global order those before them. The rows that
    /// are `removed` become deleted cells, which hide what is there. Each row may have a number, by which all are sorted then.
    ///
    /// # Errors
    /// A row cannot be stored, the memory is not enough, or the store fails.
    pub async fn push(
        &mut self,
        columns: &[ArrayRef],
        removed: Option<&BooleanArray>,
        numbers: Option<&[u64]>,
    ) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        let bytes = columns.iter().map(sliced_bytes).sum::<usize>();
        let mut grant = self.pipeline.reserve(bytes.saturating_mul(COPIES)).await?;
        let mut full = Vec::new();
        let with_one_zero = (!self.keeps_zeros).then(|| self.with_one_zero(columns));
        let columns = with_one_zero.as_deref().unwrap_or(columns);
        self.tiler.push(columns, removed, numbers, &mut full)?;
        self.rows = self.rows.saturating_add(rows as u64);
        for tile in full {
            // The tile takes the memory of the rows of earlier batches, and of its own part of this one.
            let mut memory = std::mem::take(&mut self.memory);
            memory.push(grant.split(tile.bytes().saturating_mul(COPIES)));
            self.pipeline.push(tile, memory).await?;
        }
        self.memory.push(grant);
        Ok(())
    }

    /// The columns with 0.0 in place of -0.0 among the coordinates, because both are the same cell.
    fn with_one_zero(&self, columns: &[ArrayRef]) -> Vec<ArrayRef> {
        let dimensions = self.tiler.dimensions();
        let columns = columns.iter().enumerate().map(|(i, column)| {
            if i < dimensions {
                with_one_zero(column)
            } else {
                Arc::clone(column)
            }
        });
        columns.collect()
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Finishes the fragment; `None` without rows, which leave nothing on storage.
    ///
    /// # Errors
    /// The store fails; what has been written is removed then.
    pub async fn finish(mut self) -> Result<Option<StagedFragment>> {
        if let Some(last) = self.tiler.take() {
            let memory = std::mem::take(&mut self.memory);
            if let Err(error) = self.pipeline.push(last, memory).await {
                self.withdraw().await;
                return Err(error);
            }
        }
        match self.rows {
            0 => Ok(None),
            _ => {
                let mut staged = self.pipeline.finish(None).await?;
                staged.delete = self.delete;
                Ok(Some(staged))
            }
        }
    }

    /// Removes what has been written.
    pub async fn withdraw(self) {
        self.pipeline.withdraw().await;
    }
}

/// Bytes of the rows of a column, without those of other rows that share its buffers.
pub fn sliced_bytes(column: &ArrayRef) -> usize {
    let data = column.to_data();
    let bytes = data
        .get_slice_memory_size()
        .unwrap_or_else(|_| column.get_array_memory_size());
    // Arrow counts the views alone.
    let viewed = match column.data_type() {
        DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
        _ => 0,
    };
    bytes.saturating_add(viewed)
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryViewArray, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn texts_count_however_they_are_kept() {
        let long = "x".repeat(4000);
        let texts = ["", "short", &long, &long];
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        assert_eq!(sliced_bytes(&views), 4 * 16 + 8000);
        assert_eq!(sliced_bytes(&views.slice(1, 2)), 2 * 16 + 4000);
        let views: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(texts));
        assert_eq!(sliced_bytes(&views), 4 * 16 + 8000);
        let strings: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        assert_eq!(sliced_bytes(&strings.slice(1, 2)), 3 * 4 + 4005);
    }
}
