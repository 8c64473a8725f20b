//! Errors of the engine as exceptions of the package, which `_errors.py` defines.

use std::error::Error as StdError;

use datafusion::error::DataFusionError;
use datafusion_tiledb::ErrorKind;
use datafusion_tiledb::options::secrets::StatementSecrets;
use pyo3::prelude::*;

/// The exception for an error of a statement. It shows no secret of the statement.
pub fn exception(py: Python<'_>, error: &DataFusionError, statement: &str) -> PyErr {
    let text = StatementSecrets::of(statement).masked(&tiledb_sql::describe(error));
    make(py, kind_of(error), &text)
}

/// The exception for a request that makes no sense.
pub fn invalid(py: Python<'_>, text: &str) -> PyErr {
    make(py, "invalid", text)
}

/// The exception for a bug of the engine.
pub fn internal(py: Python<'_>, text: &str) -> PyErr {
    make(py, "internal", text)
}

fn make(py: Python<'_>, kind: &str, text: &str) -> PyErr {
    let made = py
        .import("tiledb_sql._errors")
        .and_then(|errors| errors.call_method1("make", (kind, text)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// What kind of thing went wrong, in a word.
fn kind_of(error: &DataFusionError) -> &'static str {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<datafusion_tiledb::Error>() {
            return word(error.kind());
        }
        cause = error.source();
    }
    match error.find_root() {
        DataFusionError::SQL(..) => "syntax",
        DataFusionError::Plan(_) | DataFusionError::SchemaError(..) => "plan",
        DataFusionError::ResourcesExhausted(_) => "out_of_memory",
        DataFusionError::NotImplemented(_) => "unsupported",
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => "storage",
        DataFusionError::Internal(_) => "internal",
        _ => "execution",
    }
}

fn word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "not_found",
        ErrorKind::NotAnArray => "not_an_array",
        ErrorKind::IsAGroup => "is_a_group",
        ErrorKind::NotAGroup => "not_a_group",
        ErrorKind::IsAnArray => "is_an_array",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::InvalidInput => "invalid",
        ErrorKind::Encryption | ErrorKind::NotEncrypted => "encryption",
        ErrorKind::External => "external",
        ErrorKind::AlreadyExists => "already_exists",
        ErrorKind::Conflict => "conflict",
        ErrorKind::PermissionDenied => "permission_denied",
        ErrorKind::Storage => "storage",
        ErrorKind::OutOfMemory => "out_of_memory",
        _ => "internal",
    }
}
