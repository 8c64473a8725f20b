//! Conversion of our error to DataFusion's.

use datafusion::error::DataFusionError;

use crate::error::{Error, ErrorKind};

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::OutOfMemory => Self::ResourcesExhausted(error.to_string()),
            _ => Self::External(Box::new(error)),
        }
    }
}
