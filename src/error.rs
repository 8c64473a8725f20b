//! Errors of the engine in DataFusion's traits, and back.

use datafusion::error::DataFusionError;
use tiledb_engine::{Error, ErrorKind};

/// Converts an error of the engine into one of DataFusion's. Code in DataFusion's traits uses it wherever it calls the engine.
pub fn to_datafusion_error(error: Error) -> DataFusionError {
    match error.kind() {
        ErrorKind::OutOfMemory => DataFusionError::ResourcesExhausted(error.to_string()),
        _ => DataFusionError::External(Box::new(error)),
    }
}

/// Whether an error is a conflict with another writer's change.
pub(crate) fn is_conflict(error: &DataFusionError) -> bool {
    kind_of(error) == Some(ErrorKind::Conflict)
}

/// The kind of the engine's error that an error wraps, if it wraps one.
pub(crate) fn kind_of(error: &DataFusionError) -> Option<ErrorKind> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}
