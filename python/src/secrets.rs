//! Whether a text may leave the process.

use datafusion_tiledb::options::secrets::StatementSecrets;
use pyo3::prelude::*;

/// Whether a statement or a location may hold a key, a password or a signature.
#[pyfunction]
pub fn may_hold_secret(text: &str) -> bool {
    !StatementSecrets::of(text).is_empty()
}
