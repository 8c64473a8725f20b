//! Queries and their rows.

use std::sync::Arc;

use arrow::array::{RecordBatchIterator, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::TableProvider;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion_tiledb::progress::MaintenanceWatch;
use datafusion_tiledb::session::in_one_statement;
use futures::StreamExt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use tiledb_sql::StatementWatch;
use tokio::sync::mpsc;

use crate::capsules::{requested_schema, schema_capsule, stream_capsule};
use crate::errors::exception;
use crate::module_runtime::{OwnerProcess, handle, wait_reporting};
use crate::panics::{caught, caught_call, guarded};
use crate::progress::ProgressReporter;
use crate::values::tuples;

/// Batches that wait for the reader of a stream.
const WAITING_BATCHES: usize = 2;

/// The rows of a statement.
#[derive(Clone)]
pub enum QueryRows {
    /// The statement runs whenever its rows are read.
    Planned(DataFrame),
    /// The statement has run.
    Given {
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        /// What a COPY chose for the array that it made.
        choices: Vec<String>,
    },
}

impl QueryRows {
    /// The rows of a statement without any.
    pub fn none() -> Self {
        Self::Given {
            schema: Arc::new(Schema::empty()),
            batches: Vec::new(),
            choices: Vec::new(),
        }
    }

    pub fn schema(&self) -> SchemaRef {
        match self {
            Self::Planned(frame) => Arc::new(frame.schema().as_arrow().clone()),
            Self::Given { schema, .. } => Arc::clone(schema),
        }
    }
}

/// Where the rows of a query come from.
pub struct QueryOrigin {
    pub statement: String,
    /// Sees the maintenance of the statement, if it does any.
    pub maintenance: Option<Arc<MaintenanceWatch>>,
    pub owner: OwnerProcess,
    /// Gets reports about reads that take longer than a second.
    pub progress: Option<Py<PyAny>>,
}

impl QueryOrigin {
    /// A watch over one run.
    pub fn watch(&self) -> StatementWatch {
        match &self.maintenance {
            Some(maintenance) => {
                maintenance.forget();
                StatementWatch::of_maintenance(Arc::clone(maintenance))
            }
            None => StatementWatch::default(),
        }
    }
}

/// A statement, whose rows can be read more than once.
#[pyclass(frozen, module = "tiledb_sql._engine")]
pub struct EngineQuery {
    rows: QueryRows,
    origin: QueryOrigin,
}

impl EngineQuery {
    pub fn new(rows: QueryRows, origin: QueryOrigin) -> Self {
        Self { rows, origin }
    }

    /// Waits for rows, and reports progress meanwhile.
    fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> PyResult<T> {
        self.origin.owner.check("the query")?;
        let reporter = self.origin.progress.as_ref();
        let reporter = reporter.map(|report| ProgressReporter::new(report, self.origin.watch()));
        let done = wait_reporting(py, reporter, in_one_statement(work))?;
        done.map_err(|error| exception(py, &error, &self.origin.statement))
    }

    pub fn rows(&self) -> &QueryRows {
        &self.rows
    }

    pub fn statement(&self) -> &str {
        &self.origin.statement
    }

    pub fn owner(&self) -> OwnerProcess {
        self.origin.owner
    }

    /// The rows as a table.
    pub fn provider(&self) -> Result<Arc<dyn TableProvider>> {
        match self.rows.clone() {
            QueryRows::Planned(frame) => Ok(frame.into_view()),
            QueryRows::Given {
                schema, batches, ..
            } => Ok(Arc::new(MemTable::try_new(schema, vec![batches])?)),
        }
    }

    /// The first rows, or all.
    fn read(
        &self,
        py: Python<'_>,
        limit: Option<usize>,
    ) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
        let (rows, schema) = (self.rows.clone(), self.rows.schema());
        let read = async move {
            match rows {
                QueryRows::Given { batches, .. } => Ok(first(batches, limit)),
                QueryRows::Planned(frame) => {
                    let frame = match limit {
                        Some(rows) => frame.limit(0, Some(rows))?,
                        None => frame,
                    };
                    frame.collect().await
                }
            }
        };
        Ok((schema, self.wait(py, read)?))
    }
}

impl EngineQuery {
    /// Rows as a table of text.
    fn table(&self, py: Python<'_>, batches: &[RecordBatch]) -> PyResult<String> {
        guarded(py, || {
            let table = pretty_format_batches(batches);
            let failed = |e| exception(py, &DataFusionError::from(e), &self.origin.statement);
            Ok(table.map_err(failed)?.to_string())
        })
    }
}

#[pymethods]
impl EngineQuery {
    /// Whether the statement has run, and its rows are kept.
    #[getter]
    fn has_run(&self) -> bool {
        matches!(self.rows, QueryRows::Given { .. })
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let schema = self.rows.schema();
        schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    /// The types of the columns, as Arrow calls them.
    #[getter]
    fn types(&self) -> Vec<String> {
        let schema = self.rows.schema();
        let types = schema
            .fields()
            .iter()
            .map(|field| field.data_type().to_string());
        types.collect()
    }

    /// What a COPY chose for the array that it made, as options with their values.
    #[getter]
    fn choices(&self) -> Vec<String> {
        match &self.rows {
            QueryRows::Given { choices, .. } => choices.clone(),
            QueryRows::Planned(_) => Vec::new(),
        }
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.rows.schema())
    }

    /// The rows as a stream: what nobody reads isn't made.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.origin.owner.check("the query")?;
        let schema = wanted(&self.rows.schema(), requested_schema)?;
        let reader: Box<dyn RecordBatchReader + Send> = match self.rows.clone() {
            QueryRows::Given { batches, .. } => given(schema, batches),
            QueryRows::Planned(frame) => {
                let statement = self.origin.statement.clone();
                Box::new(QueryStream::start(frame, schema, statement)?)
            }
        };
        stream_capsule(py, reader)
    }

    /// All rows, or the first ones, in memory. `plain` turns views of text and bytes into ordinary columns, which more libraries take.
    #[pyo3(signature = (limit=None, plain=false))]
    fn collect(
        &self,
        py: Python<'_>,
        limit: Option<usize>,
        plain: bool,
    ) -> PyResult<CollectedRows> {
        let (schema, batches) = self.read(py, limit)?;
        let schema = if plain {
            without_views(&schema)
        } else {
            schema
        };
        Ok(CollectedRows { schema, batches })
    }

    /// All rows, or the first ones, as tuples.
    #[pyo3(signature = (limit=None))]
    fn tuples<'py>(&self, py: Python<'py>, limit: Option<usize>) -> PyResult<Bound<'py, PyList>> {
        let (_, batches) = self.read(py, limit)?;
        guarded(py, || tuples(py, &batches))
    }

    /// The first rows as a table of text.
    fn shown(&self, py: Python<'_>, limit: usize) -> PyResult<String> {
        let (_, batches) = self.read(py, Some(limit))?;
        self.table(py, &batches)
    }

    /// The plan as text; with `analyze`, the query runs, and the plan has its counters.
    #[pyo3(signature = (analyze=false))]
    fn explain(&self, py: Python<'_>, analyze: bool) -> PyResult<Option<String>> {
        self.origin.owner.check("the query")?;
        let QueryRows::Planned(frame) = self.rows.clone() else {
            return Ok(None);
        };
        let explained = async move { frame.explain(false, analyze)?.collect().await };
        let batches = self.wait(py, explained)?;
        self.table(py, &batches).map(Some)
    }
}

/// Rows in memory.
#[pyclass(frozen, module = "tiledb_sql._engine")]
pub struct CollectedRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl CollectedRows {
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }
}

#[pymethods]
impl CollectedRows {
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = wanted(&self.schema, requested_schema)?;
        stream_capsule(py, given(schema, self.batches.clone()))
    }
}

/// The first rows of batches.
fn first(batches: Vec<RecordBatch>, limit: Option<usize>) -> Vec<RecordBatch> {
    let mut left = limit.unwrap_or(usize::MAX);
    let shortened = batches.into_iter().map(|batch| {
        let rows = batch.num_rows().min(left);
        left -= rows;
        batch.slice(0, rows)
    });
    shortened.collect()
}

/// The schema that a consumer asks for, if it has the columns that there are; otherwise that of the rows.
fn wanted(known: &SchemaRef, capsule: Option<&Bound<'_, PyCapsule>>) -> PyResult<SchemaRef> {
    let Some(capsule) = capsule else {
        return Ok(Arc::clone(known));
    };
    let asked = requested_schema(capsule)?;
    let is_castable = |(asked, known): (&Arc<Field>, &Arc<Field>)| {
        arrow::compute::can_cast_types(known.data_type(), asked.data_type())
    };
    let fields = asked.fields().iter().zip(known.fields());
    let fits = asked.fields().len() == known.fields().len() && fields.into_iter().all(is_castable);
    Ok(if fits {
        Arc::new(asked)
    } else {
        Arc::clone(known)
    })
}

/// The schema with ordinary columns instead of views.
fn without_views(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let plain = plain_type(field.data_type());
        field.as_ref().clone().with_data_type(plain)
    });
    let fields = fields.collect::<Vec<_>>();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// A type without views.
pub fn plain_type(ty: &DataType) -> DataType {
    let inner = |field: &Arc<Field>| -> Arc<Field> {
        let plain = plain_type(field.data_type());
        Arc::new(Field::clone(field).with_data_type(plain))
    };
    match ty {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(field) | DataType::ListView(field) => DataType::List(inner(field)),
        DataType::LargeList(field) | DataType::LargeListView(field) => {
            DataType::LargeList(inner(field))
        }
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(inner(field), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        DataType::Dictionary(keys, values) => {
            DataType::Dictionary(keys.clone(), Box::new(plain_type(values)))
        }
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        other => other.clone(),
    }
}

/// A batch whose columns have the types of a schema.
fn converted(
    batch: &RecordBatch,
    schema: &SchemaRef,
) -> std::result::Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(
        |(column, field)| match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => cast(column, field.data_type()),
        },
    );
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

fn given(schema: SchemaRef, batches: Vec<RecordBatch>) -> Box<dyn RecordBatchReader + Send> {
    let shown = Arc::clone(&schema);
    let batches = batches
        .into_iter()
        .map(move |batch| converted(&batch, &shown));
    Box::new(RecordBatchIterator::new(batches, schema))
}

/// The rows of a query that runs on the threads of the package. It ends when the stream is dropped.
pub struct QueryStream {
    schema: SchemaRef,
    statement: String,
    batches: mpsc::Receiver<Result<RecordBatch>>,
}

impl QueryStream {
    pub fn start(frame: DataFrame, schema: SchemaRef, statement: String) -> PyResult<Self> {
        let (sender, batches) = mpsc::channel(WAITING_BATCHES);
        let failures = sender.clone();
        let run = async move {
            let mut rows = match in_one_statement(frame.execute_stream()).await {
                Ok(rows) => rows,
                // Nobody reads the error of a stream that was dropped.
                Err(error) => return drop(sender.send(Err(error)).await),
            };
            loop {
                let batch = tokio::select! {
                    () = sender.closed() => return,
                    batch = rows.next() => batch,
                };
                let Some(batch) = batch else { return };
                if sender.send(batch).await.is_err() {
                    return;
                }
            }
        };
        handle()?.spawn(async move {
            // Otherwise the stream would seem to be at its end.
            if let Err(panic) = caught(run).await {
                let failed = DataFusionError::Execution(panic.text().to_owned());
                let _ = failures.send(Err(failed)).await;
            }
        });
        Ok(Self {
            schema,
            statement,
            batches,
        })
    }

    /// The next batch, as the query makes it.
    pub async fn next_batch(&mut self) -> Option<Result<RecordBatch>> {
        self.batches.recv().await
    }
}

impl Iterator for QueryStream {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.blocking_recv()?;
        Some(match batch {
            Ok(batch) => caught_call(|| converted(&batch, &self.schema))
                .unwrap_or_else(|panic| Err(ArrowError::ExternalError(panic.text().into()))),
            Err(error) => {
                let text = tiledb_sql::describe(&error);
                let secrets =
                    datafusion_tiledb::options::secrets::StatementSecrets::of(&self.statement);
                Err(ArrowError::ExternalError(secrets.masked(&text).into()))
            }
        })
    }
}

impl RecordBatchReader for QueryStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
