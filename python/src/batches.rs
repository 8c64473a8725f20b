//! The rows of a query piece by piece, for Python.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use pyo3::prelude::*;
use tokio::sync::Mutex;

use crate::errors::exception;
use crate::module_runtime::{OwnerProcess, wait};
use crate::query::{CollectedRows, EngineQuery, QueryRows, QueryStream};

/// An iterator. Ctrl-C ends its waiting, and the query ends when it is dropped.
#[pyclass(frozen, module = "tiledb_sql._engine")]
pub struct EngineBatches {
    schema: SchemaRef,
    stream: Arc<Mutex<QueryStream>>,
    /// The batches of one piece have at least so many rows.
    rows: usize,
    statement: String,
    owner: OwnerProcess,
}

#[pymethods]
impl EngineBatches {
    /// Starts a query. None if the statement has run.
    #[staticmethod]
    fn of(query: &EngineQuery, rows: usize) -> PyResult<Option<Self>> {
        query.owner().check("the query")?;
        let schema = query.rows().schema();
        let QueryRows::Planned(frame) = query.rows().clone() else {
            return Ok(None);
        };
        let statement = query.statement().to_owned();
        let stream = QueryStream::start(frame, Arc::clone(&schema), statement.clone())?;
        Ok(Some(Self {
            schema,
            stream: Arc::new(Mutex::new(stream)),
            rows,
            statement,
            owner: query.owner(),
        }))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<CollectedRows>> {
        self.owner.check("the query")?;
        let piece = piece(Arc::clone(&self.stream), self.rows);
        let batches = wait(py, piece)?;
        let batches = batches.map_err(|error| exception(py, &error, &self.statement))?;
        if batches.is_empty() {
            return Ok(None);
        }
        Ok(Some(CollectedRows::new(Arc::clone(&self.schema), batches)))
    }
}

async fn piece(stream: Arc<Mutex<QueryStream>>, rows: usize) -> Result<Vec<RecordBatch>> {
    let mut stream = stream.lock().await;
    let mut batches = Vec::new();
    let mut gathered = 0;
    while gathered < rows.max(1)
        && let Some(batch) = stream.next_batch().await
    {
        let batch = batch?;
        gathered += batch.num_rows();
        batches.push(batch);
    }
    Ok(batches)
}
