//! Data of other libraries as tables.
//!
//! Tables and DataFrames are in memory already, and their buffers are shared. Streams are read while the statement runs, and may be
//! larger than memory. Others are read into memory, because a statement may need their rows more than once.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::ffi_stream::ArrowArrayStreamReader;
use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::capsules::stream_of;

/// The libraries whose objects with a length are tables in memory.
const IN_MEMORY: [&str; 3] = ["pandas", "polars", "pyarrow"];

/// The libraries whose objects give the same rows each time they are asked, also several times at once.
const REPEATABLE: [&str; 2] = ["datafusion", "tiledb_sql"];

/// Batches that wait for the statement.
const WAITING_BATCHES: usize = 2;

/// How often rows are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RowUse {
    /// Once, by a statement that writes them.
    Once,
    /// As often as statements need them.
    Often,
}

/// The rows of an object that has `__arrow_c_stream__`, as a table.
pub fn table_of(
    py: Python<'_>,
    object: &Bound<'_, PyAny>,
    row_use: RowUse,
) -> PyResult<Arc<dyn TableProvider>> {
    let reader = stream_of(object)?;
    let schema = reader.schema();
    let library = library_of(object)?;
    let library = library.as_str();
    let failed = |e: DataFusionError| PyValueError::new_err(e.to_string());
    let is_table = IN_MEMORY.contains(&library) && object.hasattr("__len__")?;
    let is_repeatable = REPEATABLE.contains(&library);
    let gives_once = object.hasattr("__next__")?;
    if is_table || (row_use == RowUse::Often && !is_repeatable && !gives_once) {
        let batches = py.detach(move || reader.collect::<std::result::Result<Vec<_>, _>>());
        let batches: Vec<RecordBatch> =
            batches.map_err(|e| PyValueError::new_err(e.to_string()))?;
        let table = MemTable::try_new(schema, vec![batches]).map_err(failed)?;
        return Ok(Arc::new(table));
    }
    let stream = ForeignStream {
        schema: Arc::clone(&schema),
        first: Mutex::new(Some(reader)),
        source: is_repeatable.then(|| Arc::new(object.clone().unbind())),
    };
    let table = StreamingTable::try_new(schema, vec![Arc::new(stream)]).map_err(failed)?;
    Ok(Arc::new(table))
}

/// The library of an object: the first name of its type's module.
fn library_of(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let module = object.get_type().getattr("__module__")?;
    let module = module.extract::<String>().unwrap_or_default();
    Ok(module.split('.').next().unwrap_or_default().to_owned())
}

/// A stream of another library.
struct ForeignStream {
    schema: SchemaRef,
    /// The stream that said what its schema is, until somebody reads it.
    first: Mutex<Option<ArrowArrayStreamReader>>,
    /// Where more streams of the same rows come from, if there are any.
    source: Option<Arc<Py<PyAny>>>,
}

impl fmt::Debug for ForeignStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignStream")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// Where a reader of the stream comes from.
enum StreamSource {
    Reader(ArrowArrayStreamReader),
    Object(Arc<Py<PyAny>>),
}

impl StreamSource {
    fn open(self, schema: &SchemaRef) -> Result<ArrowArrayStreamReader> {
        let object = match self {
            Self::Reader(reader) => return Ok(reader),
            Self::Object(object) => object,
        };
        let reader = Python::attach(|py| stream_of(object.bind(py)));
        let reader = reader.map_err(|e| DataFusionError::External(Box::new(e)))?;
        if reader.schema() != *schema {
            let message =
                "the data have other columns than when they were registered: register them again";
            return Err(DataFusionError::Execution(message.to_owned()));
        }
        Ok(reader)
    }
}

impl PartitionStream for ForeignStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let first = self.first.lock();
        let first = first.unwrap_or_else(PoisonError::into_inner).take();
        let again = || self.source.clone().map(StreamSource::Object);
        let source = first.map(StreamSource::Reader).or_else(again);
        let schema = Arc::clone(&self.schema);
        let mut stream =
            RecordBatchReceiverStream::builder(Arc::clone(&self.schema), WAITING_BATCHES);
        let sender = stream.tx();
        // The other library may wait, or need the GIL, which no thread of the runtime may wait for.
        stream.spawn_blocking(move || {
            let source = source.ok_or_else(|| {
                let message = "the stream has been read already, and can't be read again: give a table, or read it once";
                DataFusionError::Execution(message.to_owned())
            })?;
            for batch in source.open(&schema)? {
                let batch = batch.map_err(DataFusionError::from);
                if sender.blocking_send(batch).is_err() {
                    break;
                }
            }
            Ok(())
        });
        stream.build()
    }
}
