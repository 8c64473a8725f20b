//! Data of other libraries as tables.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::capsules::stream_of;

/// The batches of an object that has `__arrow_c_stream__`, as a table. Their buffers are shared, not copied.
pub fn table_of(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn TableProvider>> {
    let reader = stream_of(object)?;
    let schema = reader.schema();
    let batches = py.detach(move || reader.collect::<Result<Vec<RecordBatch>, _>>());
    let batches = batches.map_err(|e| PyValueError::new_err(e.to_string()))?;
    let table = MemTable::try_new(schema, vec![batches]);
    Ok(Arc::new(
        table.map_err(|e| PyValueError::new_err(e.to_string()))?,
    ))
}
