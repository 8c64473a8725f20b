//! Writing of rows without SQL.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, lit};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{DataFrame, ident};
use futures::stream;
use tiledb_engine::Error;

use super::Array;
use super::session::SessionChoices;
use crate::TileDbTable;
use crate::dml::SingleExecution;
use crate::error::to_datafusion_error;

/// Writes rows to an [`Array`], all at once: readers see all of them or none, also if the program stops in between. Nothing is
/// written before [`stream`](Self::stream) or [`batches`](Self::batches).
///
/// Columns are matched by name, in any order, and cast to the types of the array's columns. As with INSERT, no value may
/// change. Missing columns get their defaults, or NULL. Rows may come in any order: they are sorted as the array needs, on disk
/// if memory isn't enough.
///
/// They are written as of now, or as of the option `write_timestamp` with which the array was [opened](Array::builder).
#[derive(Debug, Clone)]
#[must_use = "an insert writes nothing before it is given rows"]
pub struct ArrayInsert {
    array: Array,
    op: InsertOp,
    session: SessionChoices,
}

impl Array {
    /// Starts an insert. What it writes is seen by whoever opens the array afterwards; this `Array` stays as it was opened.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
    /// use datafusion_tiledb::{Array, ArrayBuilder, Location};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("levels").display().to_string();
    /// let hours: ArrayRef = Arc::new(Int64Array::from(vec![2, 1]));
    /// let levels: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.25), None]));
    /// let rows = RecordBatch::try_from_iter_with_nullable([("hour", hours, false), ("level", levels, true)])?;
    /// ArrayBuilder::new(&rows.schema(), ["hour"])?.create(Location::local(&path)?).await?;
    ///
    /// let written = Array::open(&path).await?.insert().batches([rows]).await?;
    /// assert_eq!(written, 2);
    /// assert_eq!(Array::open(&path).await?.fragments()?.len(), 1);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn insert(&self) -> ArrayInsert {
        ArrayInsert {
            array: self.clone(),
            op: InsertOp::Append,
            session: SessionChoices::default(),
        }
    }
}

impl ArrayInsert {
    /// The rows replace all cells of the array, in the same commit.
    pub fn overwrite(mut self) -> Self {
        self.op = InsertOp::Overwrite;
        self
    }

    /// Sets how many partitions are sorted, and tiles filtered, at the same time. The default is the number of processors.
    pub fn partitions(mut self, partitions: usize) -> Self {
        self.session.partitions = Some(partitions);
        self
    }

    /// Reserves memory from this pool, beyond which rows are sorted on disk. The default is the pool of the session with which
    /// the array was opened; without a session there is no limit.
    pub fn memory_pool(mut self, pool: Arc<dyn MemoryPool>) -> Self {
        self.session.memory_pool = Some(pool);
        self
    }

    /// Writes the rows of batches with one schema; returns their number.
    ///
    /// # Errors
    /// Those of [`stream`](Self::stream), and batches of different schemas.
    pub async fn batches(self, batches: impl IntoIterator<Item = RecordBatch>) -> Result<u64> {
        let batches = batches.into_iter().collect::<Vec<_>>();
        let first = batches.first().map(RecordBatch::schema);
        let schema = first.unwrap_or_else(|| self.array.schema());
        if let Some(other) = batches.iter().find(|batch| batch.schema() != schema) {
            let message = format!(
                "the batches have different columns: {} and {}",
                schema,
                other.schema()
            );
            return Err(self.located(Error::invalid(message)));
        }
        let batches = stream::iter(batches.into_iter().map(Ok));
        let rows = RecordBatchStreamAdapter::new(schema, batches);
        self.stream(Box::pin(rows)).await
    }

    /// Writes the rows of a stream; returns their number. The stream may be larger than memory.
    ///
    /// # Errors
    /// A column does not exist or is given twice, one that cannot be NULL is missing, a value does not fit its column, a row lies
    /// outside the array's domain, two rows have the same coordinates in an array that allows no duplicates, the array was opened
    /// in its past, the stream fails, or the store does. The array is then as it was.
    pub async fn stream(self, rows: SendableRecordBatchStream) -> Result<u64> {
        let given = rows.schema();
        let table = &self.array.table;
        let table = TileDbTable::open_storage(table.storage().clone(), table.options().clone());
        let table: Arc<dyn TableProvider> = Arc::new(table.await.map_err(to_datafusion_error)?);
        let columns = columns(&given, table.as_ref()).map_err(|e| self.located(e))?;
        let context = self.session.context(&self.array.runtime)?;
        let partition: Arc<dyn PartitionStream> = Arc::new(SingleExecution::new(&given, rows));
        let source = Arc::new(StreamingTable::try_new(given, vec![partition])?);
        let rows = context.read_table(source)?.select(columns)?;
        let (state, rows) = rows.into_parts();
        let target = provider_as_source(table);
        // A path isn't a name in SQL, where dots would divide it.
        let name = TableReference::bare(self.array.uri());
        let plan = LogicalPlanBuilder::insert_into(rows, name, target, self.op)?;
        let counts = DataFrame::new(state, plan.build()?).collect().await?;
        let counts = counts.iter().filter_map(|batch| batch.columns().first());
        let counts = counts.filter_map(|column| column.as_primitive_opt::<UInt64Type>());
        Ok(counts.flat_map(|counts| counts.iter().flatten()).sum())
    }

    fn located(&self, error: Error) -> DataFusionError {
        to_datafusion_error(error.with("array", self.array.uri()))
    }
}

/// The columns of the array, made of those that are given.
fn columns(given: &SchemaRef, table: &dyn TableProvider) -> tiledb_engine::Result<Vec<Expr>> {
    let schema = table.schema();
    for (at, field) in given.fields().iter().enumerate() {
        let name = field.name();
        if schema.index_of(name).is_err() {
            let known = schema.fields().iter().map(|field| field.name().as_str());
            return Err(Error::invalid(format!(
                "the array has no column \"{name}\"; its columns are {}",
                known.collect::<Vec<_>>().join(", ")
            )));
        }
        if given.fields().iter().take(at).any(|f| f.name() == name) {
            let message = format!("the column \"{name}\" is given twice, expected once");
            return Err(Error::invalid(message));
        }
    }
    let columns = schema.fields().iter().map(|field| {
        let (name, wanted) = (field.name(), field.data_type());
        let value = match given.field_with_name(name) {
            Ok(found) if found.data_type() == wanted => return Ok(ident(name)),
            Ok(_) => cast(ident(name), wanted.clone()),
            Err(_) if let Some(default) = table.get_column_default(name) => default.clone(),
            Err(_) if field.is_nullable() => {
                let null = ScalarValue::try_from(wanted);
                lit(null.map_err(|e| Error::internal("a type has a NULL").with_source(e))?)
            }
            Err(_) => {
                return Err(Error::invalid(format!(
                    "the rows have no column \"{name}\", which cannot be NULL"
                )));
            }
        };
        Ok(value.alias(name))
    });
    columns.collect()
}
