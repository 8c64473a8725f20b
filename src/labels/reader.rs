//! Reading of the labels at indexes, as they are needed, and their addition to the rows of a scan.
//!
//! The index space is divided into chunks of whole tiles, a few of which are kept, so that memory stays bounded for any
//! length of the dimension. Each chunk is one small scan of the labels that rows can need. Partitions share the chunks.
//! An index that was never written has the label's fill value.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array,
};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::geometry::subarray::{DimRanges, KeyRange};
use tiledb_engine::memory::budget::{Grant, MemoryBudget};
use tiledb_engine::{Error, ErrorKind, Result};

use super::index;
use super::scan::LabelScan;

/// Tiles are read together until a chunk has this many cells.
const CHUNK_CELLS: u64 = 64 * 1024;
/// The most chunks that are kept, of all partitions together.
const KEPT_CHUNKS: usize = 32;
/// The chunk number of indexes that were never written, which sorts after all others.
const UNWRITTEN: u64 = u64::MAX;

/// Reads one label.
#[derive(Debug)]
pub(super) struct LabelReader {
    label: Arc<LabelScan>,
    /// The indexes that rows can have; no other label is read.
    wanted: DimRanges,
    chunks: Mutex<KeptLabelChunks>,
}

/// The kept chunks with their numbers, least recently used first.
type KeptLabelChunks = VecDeque<(u64, Arc<LabelChunk>)>;

/// The labels of neighbouring indexes.
#[derive(Debug)]
struct LabelChunk {
    /// The indexes as ascending ranges, each with the number of indexes before it.
    ranges: Vec<(KeyRange, u64)>,
    values: ArrayRef,
    _grant: Grant,
}

impl LabelReader {
    /// Reads the labels at indexes in `wanted`.
    pub(super) fn new(label: Arc<LabelScan>, wanted: DimRanges) -> Self {
        Self {
            label,
            wanted,
            chunks: Mutex::default(),
        }
    }

    /// The labels at these keys, in the same order.
    pub(super) async fn values(
        &self,
        keys: &[u64],
        memory: &Arc<dyn MemoryBudget>,
    ) -> Result<ArrayRef> {
        let mut rows: Vec<(u64, usize, u64)> = keys
            .iter()
            .enumerate()
            .map(|(row, key)| (self.chunk_number(*key), row, *key))
            .collect();
        if !rows.is_sorted_by_key(|(number, ..)| *number) {
            rows.sort_unstable();
        }
        let mut pieces = Vec::new();
        for piece in rows.chunk_by(|a, b| a.0 == b.0) {
            pieces.push(self.piece(piece, memory).await?);
        }
        let sorted = match pieces.as_slice() {
            [one] => Arc::clone(one),
            [] => new_null_array(self.label.data_type()?, 0),
            many => {
                let many = many.iter().map(AsRef::as_ref).collect::<Vec<_>>();
                concat(&many).map_err(failed)?
            }
        };
        if rows.is_sorted_by_key(|(_, row, _)| *row) {
            return Ok(sorted);
        }
        let mut sources = vec![0_u64; rows.len()];
        for (source, (_, row, _)) in (0..).zip(&rows) {
            if let Some(slot) = sources.get_mut(*row) {
                *slot = source;
            }
        }
        take(&sorted, &UInt64Array::from(sources), None).map_err(failed)
    }

    /// The number of the chunk that holds a key.
    fn chunk_number(&self, key: u64) -> u64 {
        match self.label.array.written {
            Some((lo, hi)) if (lo..=hi).contains(&key) => self.offset(key) / self.chunk_cells(),
            _ => UNWRITTEN,
        }
    }

    fn offset(&self, key: u64) -> u64 {
        key.saturating_sub(self.domain().0)
    }

    fn domain(&self) -> (u64, u64) {
        self.label
            .array
            .grid
            .domain()
            .range(0)
            .unwrap_or((0, u64::MAX))
    }

    fn chunk_cells(&self) -> u64 {
        let extents = self.label.array.grid.extents();
        let extent = extents.first().copied().unwrap_or(1).max(1);
        extent.saturating_mul((CHUNK_CELLS / extent).max(1))
    }

    /// The labels at keys in one chunk.
    async fn piece(
        &self,
        keys: &[(u64, usize, u64)],
        memory: &Arc<dyn MemoryBudget>,
    ) -> Result<ArrayRef> {
        let number = keys.first().map_or(UNWRITTEN, |k| k.0);
        if number == UNWRITTEN {
            let first = UInt64Array::from_value(0, keys.len());
            return take(&self.label.fill()?, &first, None).map_err(failed);
        }
        if let Some(chunk) = self.kept(number) {
            return chunk.at(keys);
        }
        // Partitions do not wait for each other's chunks, because the other partition may not be polled.
        let mut loaded = self.load(number, memory).await;
        if matches!(&loaded, Err(e) if e.kind() == ErrorKind::OutOfMemory) {
            // Dropping the other chunks may release enough memory.
            self.locked().clear();
            loaded = self.load(number, memory).await;
        }
        let chunk = Arc::new(loaded?);
        let mut chunks = self.locked();
        if chunks.len() >= KEPT_CHUNKS {
            chunks.pop_front();
        }
        chunks.push_back((number, Arc::clone(&chunk)));
        drop(chunks);
        chunk.at(keys)
    }

    /// A kept chunk, which becomes the most recently used.
    fn kept(&self, number: u64) -> Option<Arc<LabelChunk>> {
        let mut chunks = self.locked();
        let kept = chunks.iter().position(|(kept, _)| *kept == number)?;
        let kept = chunks.remove(kept)?;
        let chunk = Arc::clone(&kept.1);
        chunks.push_back(kept);
        Some(chunk)
    }

    fn locked(&self) -> MutexGuard<'_, KeptLabelChunks> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn load(&self, number: u64, memory: &Arc<dyn MemoryBudget>) -> Result<LabelChunk> {
        let cells = self.chunk_cells();
        let first = self.domain().0.saturating_add(number.saturating_mul(cells));
        let (lo, hi) = self.label.array.written.unwrap_or((1, 0));
        let (lo, hi) = (lo.max(first), hi.min(first.saturating_add(cells - 1)));
        let mut ranges = Vec::new();
        let mut count = 0_u64;
        for range in self.wanted.clip_keys(lo, hi) {
            ranges.push((range, count));
            count = count.saturating_add((range.hi - range.lo).saturating_add(1));
        }
        let mut batches = Vec::new();
        let wanted = self.wanted.intersect(&DimRanges::key_range(lo, hi));
        let collect = |batch: RecordBatch| {
            batches.push(batch);
            Ok(())
        };
        let array = &self.label.array;
        self.label
            .run(array.column, wanted, None, memory, collect)
            .await?;
        let columns = batches
            .iter()
            .filter_map(|b| b.columns().first())
            .map(AsRef::as_ref)
            .collect::<Vec<_>>();
        let values = match columns.as_slice() {
            [] => new_null_array(self.label.data_type()?, 0),
            many => concat(many).map_err(failed)?,
        };
        if values.len() as u64 != count {
            return Err(Error::internal(format!(
                "{} labels came back for {count} indexes",
                values.len()
            )));
        }
        Ok(LabelChunk {
            ranges,
            _grant: memory.reserve(values.get_array_memory_size())?,
            values,
        })
    }
}

impl LabelChunk {
    /// The labels at keys in this chunk.
    fn at(&self, keys: &[(u64, usize, u64)]) -> Result<ArrayRef> {
        let mut indexes = Vec::with_capacity(keys.len());
        for (_, _, key) in keys {
            indexes.push(self.index(*key)?);
        }
        if indexes.is_sorted_by(|a, b| a + 1 == *b) {
            // A run of neighbours, as dense arrays have them, is a slice.
            let first = indexes.first().copied().unwrap_or(0);
            return Ok(self.values.slice(usize::try_from(first)?, indexes.len()));
        }
        take(&self.values, &UInt64Array::from(indexes), None).map_err(failed)
    }

    /// The index of the label of a key in `values`.
    fn index(&self, key: u64) -> Result<u64> {
        let after = self.ranges.partition_point(|(range, _)| range.lo <= key);
        let range = after.checked_sub(1).and_then(|i| self.ranges.get(i));
        match range {
            Some((range, before)) if key <= range.hi => Ok(before + (key - range.lo)),
            _ => Err(Error::internal("a row lies outside the ranges of its scan")),
        }
    }
}

fn failed(error: ArrowError) -> Error {
    Error::internal("labels cannot be put together").with_source(error)
}

/// The source of a column of the result.
#[derive(Debug, Clone)]
pub(super) enum LabelSource {
    /// A column of the scan.
    Scan(usize),
    /// A label.
    Label {
        /// Reads the label.
        reader: Arc<LabelReader>,
        /// The column of the scan with the labelled dimension.
        index: usize,
        /// The dimension's type.
        datatype: Datatype,
    },
}

/// Adds labels to the batches of a scan, and drops dimensions that were read only for them.
#[derive(Debug, Clone)]
pub(crate) struct LabelProjection {
    pub(super) schema: SchemaRef,
    pub(super) columns: Vec<LabelSource>,
}

impl LabelProjection {
    /// The schema of the result.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds labels to a batch of the scan.
    pub(crate) async fn apply(
        &self,
        batch: RecordBatch,
        memory: &Arc<dyn MemoryBudget>,
    ) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.columns.len());
        let column = |index: usize| {
            let missing = || Error::internal(format!("the scan has no column {index}"));
            batch.columns().get(index).ok_or_else(missing)
        };
        for source in &self.columns {
            columns.push(match source {
                LabelSource::Scan(index) => Arc::clone(column(*index)?),
                LabelSource::Label {
                    reader,
                    index,
                    datatype,
                } => {
                    let keys = index::keys(column(*index)?, *datatype)?;
                    reader.values(&keys, memory).await?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|e| Error::internal("labels do not fit the table's schema").with_source(e))
    }
}
