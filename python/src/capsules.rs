//! Data over the border: Arrow's by its PyCapsule interface, NumPy's by its array interface, DataFusion's by capsules of its foreign
//! function interface. All unsafe code of the package is in this file.
#![allow(
    unsafe_code,
    reason = "a capsule holds a C structure behind an untyped pointer, and an array of NumPy is an address"
)]

use std::ffi::CStr;
use std::ptr::{NonNull, copy_nonoverlapping};

use arrow::array::RecordBatchReader;
use arrow::datatypes::Schema;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use datafusion_ffi::catalog_provider::FFI_CatalogProvider;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use datafusion_ffi::table_provider::FFI_TableProvider;
use datafusion_ffi::table_provider_factory::FFI_TableProviderFactory;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// Wraps a stream in a capsule.
pub fn stream_capsule(
    py: Python<'_>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// Wraps a schema in a capsule.
pub fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema);
    let schema = schema.map_err(|e| PyValueError::new_err(e.to_string()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// The schema that a consumer asks for.
pub fn requested_schema(capsule: &Bound<'_, PyCapsule>) -> PyResult<Schema> {
    let pointer = capsule.pointer_checked(Some(SCHEMA))?;
    // SAFETY: a capsule of this name holds a schema, which it keeps.
    let schema = unsafe { pointer.cast::<FFI_ArrowSchema>().as_ref() };
    Schema::try_from(schema).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// The stream of an object that has `__arrow_c_stream__`.
pub fn stream_of(object: &Bound<'_, PyAny>) -> PyResult<ArrowArrayStreamReader> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast_into::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err("__arrow_c_stream__ returned something that isn't a capsule")
    })?;
    let pointer = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY: a capsule of this name holds a stream. It is moved out, and a released one stays behind.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
    ArrowArrayStreamReader::try_new(stream).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// What a session of datafusion-python takes.
pub enum BorderItem {
    Table(FFI_TableProvider),
    Catalog(FFI_CatalogProvider),
    Factory(FFI_TableProviderFactory),
}

/// Wraps something for a session of datafusion-python in a capsule.
pub fn border_capsule(py: Python<'_>, item: BorderItem) -> PyResult<Bound<'_, PyCapsule>> {
    match item {
        BorderItem::Table(table) => {
            PyCapsule::new_with_value(py, table, c"datafusion_table_provider")
        }
        BorderItem::Catalog(catalog) => {
            PyCapsule::new_with_value(py, catalog, c"datafusion_catalog_provider")
        }
        BorderItem::Factory(factory) => {
            PyCapsule::new_with_value(py, factory, c"datafusion_table_provider_factory")
        }
    }
}

/// How a session of datafusion-python writes expressions as bytes. It hands over itself, or a capsule.
pub fn host_codec(host: &Bound<'_, PyAny>) -> PyResult<FFI_LogicalExtensionCodec> {
    const METHOD: &str = "__datafusion_logical_extension_codec__";
    let capsule = match host.hasattr(METHOD)? {
        true => host.call_method0(METHOD)?,
        false => host.clone(),
    };
    let capsule = capsule.cast_into::<PyCapsule>().map_err(|_| {
        PyValueError::new_err(
            "expected a session of datafusion-python, or the capsule of its codec",
        )
    })?;
    let pointer = capsule.pointer_checked(Some(c"datafusion_logical_extension_codec"))?;
    // SAFETY: a capsule of this name holds a codec, which it keeps. Its layout is that of the major version of DataFusion, which
    // the caller has compared.
    let codec = unsafe { pointer.cast::<FFI_LogicalExtensionCodec>().as_ref() };
    Ok(codec.clone())
}

/// The memory of an array of NumPy, which lives as long as this.
pub struct NumpyCells {
    first: NonNull<u8>,
    cells: usize,
    cell_bytes: usize,
    _array: Py<PyAny>,
}

// SAFETY: the memory belongs to the array, which any thread may keep alive.
unsafe impl Send for NumpyCells {}
// SAFETY: whoever writes through a shared reference writes to cells of their own, see `write`.
unsafe impl Sync for NumpyCells {}

impl NumpyCells {
    /// The memory of a new array, which nobody else uses before it is filled. Its cells follow each other, in C order.
    pub fn of(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let refused = |why: &str| PyValueError::new_err(format!("can't fill the array: {why}"));
        let interface = array.getattr("__array_interface__")?;
        let interface = interface.cast_into::<PyDict>()?;
        let item = |key: &str| -> PyResult<Bound<'_, PyAny>> {
            let item = interface.get_item(key)?;
            item.ok_or_else(|| refused(&format!("its interface lacks {key}")))
        };
        if interface
            .get_item("strides")?
            .is_some_and(|strides| !strides.is_none())
        {
            return Err(refused("its cells don't follow each other"));
        }
        let (address, is_readonly) = item("data")?.extract::<(usize, bool)>()?;
        if is_readonly {
            return Err(refused("it can't be written to"));
        }
        let shape = item("shape")?.extract::<Vec<usize>>()?;
        let cells = shape
            .iter()
            .try_fold(1_usize, |n, side| n.checked_mul(*side));
        let cell_bytes = array.getattr("itemsize")?.extract::<usize>()?;
        let bytes = cells.and_then(|cells| cells.checked_mul(cell_bytes));
        let (Some(cells), Some(_)) = (cells, bytes) else {
            return Err(refused("its size overflows"));
        };
        let first = NonNull::new(std::ptr::with_exposed_provenance_mut(address));
        Ok(Self {
            first: first.ok_or_else(|| refused("it has no memory"))?,
            cells,
            cell_bytes,
            _array: array.clone().unbind(),
        })
    }

    /// The number of cells.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The bytes of a cell.
    pub fn cell_bytes(&self) -> usize {
        self.cell_bytes
    }

    /// Writes the values of cells that follow each other; `false` if they aren't whole values, or aren't all in the array. No two
    /// threads may write to one cell at the same time: the callers copy the tiles of a box, which share no cell.
    pub fn write(&self, cell: usize, values: &[u8]) -> bool {
        let count = values.len().checked_div(self.cell_bytes).unwrap_or(0);
        let is_whole = count.checked_mul(self.cell_bytes) == Some(values.len());
        if !is_whole || cell.checked_add(count).is_none_or(|end| end > self.cells) {
            return false;
        }
        // SAFETY: the cells from `cell` on, `count` of them, lie within the memory of the array, which `_array` keeps alive, and
        // Python doesn't use it before it is filled. The values are memory of Rust, so they don't overlap it.
        unsafe {
            let target = self.first.as_ptr().add(cell * self.cell_bytes);
            copy_nonoverlapping(values.as_ptr(), target, values.len());
        }
        true
    }
}
