//! Inserting of record batches.
//!
//! The rows are cast to the array's columns, those of a sparse array are sorted, and all become visible in one commit. An
//! insert that meets another change starts again from the array as it is by then.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use arrow::array::{Array as _, ArrayRef, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::{SortColumn, concat, lexsort_to_indices, take};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;

use super::casts::exact_cast;
use super::{Array, at_least_one, quoted};
use crate::array::snapshot::Snapshot;
use crate::array::table::ArrayTable;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::arrow::{NullPolicy, chosen_fill, repeat};
use crate::error::{Error, ErrorKind, Result};
use crate::geometry::order_key::KeyColumn;
use crate::memory::budget::{MemoryBudget, UnlimitedBudget};
use crate::write::clock::Clock;
use crate::write::commit::commit;
use crate::write::dense::collected::NoRecordStore;
use crate::write::dense::insert::DenseInsert;
use crate::write::dense::snapshot_cells::SnapshotCells;
use crate::write::fields::check_unordered;
use crate::write::insert::{DeleteScope, OpenedTarget, SparseInsert, sliced_bytes};
use crate::write::order_numbers::OrderNumbers;
use crate::write::requirement::{RequiredRegion, Requirement, check};
use crate::write::staged_change::StagedChange;
use crate::write::staged_rows::StagedRows;

/// The longest waits before each attempt after the first.
const WAITS_MS: [u64; 5] = [10, 40, 100, 200, 400];

/// The rows that are sorted, and then written, at a time.
const PIECE_ROWS: usize = 64 << 10;

/// Writes rows to an [`Array`], all at once: readers see all of them or none, also if the program stops in between. Nothing is
/// written before [`batches`](Self::batches).
///
/// Columns are matched by name, in any order, and cast to the types of the array's columns. No value may change; only a
/// `Float64` may be rounded to a `Float32`. Missing columns get the fill value that was chosen for them, or NULL. Rows may
/// come in any order.
///
/// Rows are written as of now, or as of the [`write_timestamp`](super::OpenOptions::write_timestamp) with which the array was
/// opened. In a dense array, only the cells of the rows change.
#[derive(Debug, Clone)]
#[must_use = "an insert writes nothing before it is given rows"]
pub struct ArrayInsert {
    array: Array,
    partitions: Option<usize>,
    memory: Arc<dyn MemoryBudget>,
}

impl ArrayInsert {
    pub(super) fn new(array: Array) -> Self {
        Self {
            array,
            partitions: None,
            memory: Arc::new(UnlimitedBudget),
        }
    }

    /// Sets how many tiles are filtered at the same time. The default is the number of processors.
    pub fn partitions(mut self, partitions: usize) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Reserves memory from this budget. By default, there is no limit. Sorting the rows takes about three times their size.
    pub fn memory(mut self, budget: Arc<dyn MemoryBudget>) -> Self {
        self.memory = budget;
        self
    }

    /// Writes the rows of batches with one schema; returns their number.
    ///
    /// # Errors
    /// The batches have different schemas, a column doesn't exist or is given twice, one that can't be NULL is missing, a value
    /// doesn't fit its column, a row lies outside the array's domain, two rows have the same coordinates in an array that
    /// allows no duplicates, the array was opened in its past, the memory isn't enough, or the store fails. The array is then
    /// as it was.
    pub async fn batches(self, batches: impl IntoIterator<Item = RecordBatch>) -> Result<u64> {
        let batches = batches.into_iter().collect::<Vec<_>>();
        let written = self.written(&batches).await;
        written.map_err(|e| e.with("array", self.array.uri()))
    }

    async fn written(&self, batches: &[RecordBatch]) -> Result<u64> {
        let options = &self.array.options;
        if options.timestamp_start.is_some_and(|start| start > 0) || options.timestamp_end.is_some()
        {
            return Err(Error::invalid(
                "the array was opened in its past, and can only be written in its present: open it without a timestamp, and \
                 with `write_timestamp` to write at another time than now",
            ));
        }
        at_least_one("partitions", self.partitions.unwrap_or(1))?;
        let Some(given) = batches.first().map(RecordBatch::schema) else {
            return Ok(0);
        };
        if let Some(other) = batches.iter().find(|batch| batch.schema() != given) {
            return Err(Error::invalid(format!(
                "the batches have different columns: {} and {}",
                given,
                other.schema()
            )));
        }
        let clock = Clock::of_engine(self.array.snapshot().storage.engine());
        let mut written = Box::pin(self.attempt(&clock, &given, batches)).await;
        for wait_ms in WAITS_MS {
            match &written {
                Err(met) if met.kind() == ErrorKind::Conflict => {
                    log::debug!("{}: the insert starts again: {met}", self.array.uri());
                }
                _ => break,
            }
            clock.wait_some_of(Duration::from_millis(wait_ms)).await?;
            written = Box::pin(self.attempt(&clock, &given, batches)).await;
        }
        written
    }

    /// Writes the rows to the array as it is now.
    async fn attempt(
        &self,
        clock: &Clock,
        given: &SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<u64> {
        let storage = &self.array.snapshot().storage;
        let snapshot = Snapshot::open(storage, OpenWindow::new(TimestampMs(0), None)?).await?;
        check_unordered(&snapshot.schema)?;
        let table = ArrayTable::new(snapshot.clone(), self.array.options.types())?;
        check_columns(given, &table.schema)?;
        let rows = batches.iter().filter(|batch| batch.num_rows() > 0);
        let rows = rows.map(|batch| columns(batch, &table));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        if rows.is_empty() {
            return Ok(0);
        }
        let processors = || available_parallelism().map_or(1, NonZero::get);
        let target = OpenedTarget {
            snapshot: snapshot.clone(),
            types: *self.array.options.types(),
            nulls: NullPolicy::Refused,
            time: self.array.options.write_timestamp.map(TimestampMs),
            clock: clock.clone(),
            budget: Arc::clone(&self.memory),
            width: self.partitions.unwrap_or_else(processors),
            written: Arc::default(),
            has_read: false,
        };
        let staged = if snapshot.schema.is_dense() {
            dense(target, &rows).await?
        } else {
            self.sparse(target, &table, rows).await?
        };
        let seen = [snapshot.seen()];
        let time = staged.fragments.first();
        let time = time.map(|staged| TimestampMs(staged.name.t1));
        let tolerates_inserts = !snapshot.schema.is_dense();
        let mut requirements = vec![Requirement::of_insert(&seen, time, tolerates_inserts)];
        if !staged.filled.is_empty() {
            let filled = RequiredRegion::Filled(&staged.filled);
            requirements.push(Requirement::unchanged(&seen, filled));
        }
        let offered = StagedChange {
            fragments: &staged.fragments,
            announced: None,
        };
        if let Err(error) = Box::pin(check(&snapshot, &requirements, offered, clock)).await {
            staged.withdraw().await;
            return Err(error);
        }
        commit(storage, clock, staged.fragments).await?;
        Ok(staged.rows)
    }

    /// Stages a sparse fragment of all rows, in global order.
    async fn sparse(
        &self,
        target: OpenedTarget,
        table: &ArrayTable,
        rows: Vec<Vec<ArrayRef>>,
    ) -> Result<StagedRows> {
        let bytes = rows.iter().flatten().map(sliced_bytes).sum::<usize>();
        // All rows are there once more, and while they are sorted, twice.
        let mut memory = self.memory.reserve(bytes.saturating_mul(2))?;
        let (order, rows) = sorted(table, &rows)?;
        memory.shrink_to(bytes);
        let mut insert = SparseInsert::begin(target, DeleteScope::Nothing).await?;
        let count = rows.first().map_or(0, |column| column.len());
        for start in (0..count).step_by(PIECE_ROWS) {
            let len = PIECE_ROWS.min(count - start);
            let columns = rows.iter().map(|column| column.slice(start, len));
            let columns = columns.collect::<Vec<_>>();
            let numbers = order.as_ref().map(|numbers| numbers.slice(start, len));
            let numbers = numbers.as_ref().map(|numbers| numbers.values().as_ref());
            if let Err(error) = insert.push(&columns, None, numbers).await {
                insert.withdraw().await;
                return Err(error);
            }
        }
        let rows = insert.rows();
        let staged = insert.finish().await?;
        Ok(StagedRows {
            rows,
            fragments: staged.into_iter().collect(),
            filled: Vec::new(),
        })
    }
}

/// Stages dense fragments of all rows.
async fn dense(target: OpenedTarget, rows: &[Vec<ArrayRef>]) -> Result<StagedRows> {
    let existing = Arc::new(SnapshotCells {
        snapshot: target.snapshot.clone(),
        budget: Arc::clone(&target.budget),
    });
    let mut insert = DenseInsert::begin(target, existing, Arc::new(NoRecordStore))?;
    for columns in rows {
        if let Err(error) = insert.push(columns).await {
            insert.withdraw().await;
            return Err(error);
        }
    }
    let rows = insert.rows();
    let (fragments, filled) = insert.finish().await?;
    Ok(StagedRows {
        rows,
        fragments,
        filled,
    })
}

/// All rows in global order, and the numbers they are sorted by, if they are sorted by nothing else.
fn sorted(
    table: &ArrayTable,
    rows: &[Vec<ArrayRef>],
) -> Result<(Option<UInt64Array>, Vec<ArrayRef>)> {
    let failed = |e: ArrowError| Error::internal("rows can't be sorted").with_source(e);
    let width = rows.first().map_or(0, Vec::len);
    let columns = (0..width).map(|column| {
        let parts = rows.iter().filter_map(|columns| columns.get(column));
        concat(&parts.map(AsRef::as_ref).collect::<Vec<_>>())
    });
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let count = columns.first().map_or(0, |column| column.len());
    let numbers = OrderNumbers::new(&table.snapshot.schema, &table.options, &[])?;
    let keys = numbers.keys().columns().iter().map(|key| {
        Ok(match key {
            KeyColumn::Strings(dimension) => {
                let strings = columns.get(*dimension).map(Arc::clone);
                strings.ok_or_else(|| Error::internal("a dimension is a column"))?
            }
            KeyColumn::Numbers(parts) => {
                let numbers = numbers.of_rows(parts, &columns, count)?;
                Arc::new(UInt64Array::from(numbers)) as ArrayRef
            }
        })
    });
    let keys = keys.collect::<Result<Vec<_>>>()?;
    if keys.is_empty() || count < 2 {
        return Ok((None, columns));
    }
    let by = keys.iter().map(|values| SortColumn {
        values: Arc::clone(values),
        options: None,
    });
    let places = lexsort_to_indices(&by.collect::<Vec<_>>(), None).map_err(failed)?;
    let in_order = |column: &ArrayRef| take(column, &places, None).map_err(failed);
    let numbers = match keys.as_slice() {
        [only] => {
            let numbers = in_order(only)?;
            numbers.as_any().downcast_ref::<UInt64Array>().cloned()
        }
        _ => None,
    };
    let columns = columns.iter().map(in_order).collect::<Result<_>>()?;
    Ok((numbers, columns))
}

fn check_columns(given: &Schema, wanted: &Schema) -> Result<()> {
    for (at, field) in given.fields().iter().enumerate() {
        let name = field.name();
        if wanted.index_of(name).is_err() {
            let known = wanted.fields().iter().map(|field| field.name());
            return Err(Error::invalid(format!(
                "the array has no column \"{name}\", expected some of {}",
                quoted(known)
            )));
        }
        let mut before = given.fields().iter().take(at);
        if before.any(|field| field.name() == name) {
            let message = format!("the column \"{name}\" is given twice, expected once");
            return Err(Error::invalid(message));
        }
    }
    Ok(())
}

/// The columns of the array, made of those of a batch.
fn columns(batch: &RecordBatch, table: &ArrayTable) -> Result<Vec<ArrayRef>> {
    let rows = batch.num_rows();
    let columns = table.schema.fields().iter().enumerate();
    let columns = columns.map(|(number, field)| {
        let (name, wanted) = (field.name(), field.data_type());
        if let Some(given) = batch.column_by_name(name) {
            return exact_cast(given, wanted).map_err(|e| e.with("column", name));
        }
        let attribute = number.checked_sub(table.dimension_count());
        let attribute = attribute.and_then(|i| table.snapshot.schema.attributes.get(i));
        let chosen = attribute
            .zip(table.types.get(number))
            .and_then(|(attribute, ty)| chosen_fill(attribute, ty));
        match chosen {
            Some(chosen) => repeat(&chosen, rows),
            None if field.is_nullable() => Ok(new_null_array(wanted, rows)),
            None => Err(Error::invalid(format!(
                "the rows have no column \"{name}\", which can't be NULL"
            ))),
        }
    });
    columns.collect()
}
