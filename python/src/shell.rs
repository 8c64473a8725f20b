//! The shell, in the process of the interpreter.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the shell, and returns its exit status.
#[pyfunction]
pub fn run_shell(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| tiledb_sql::run_with_arguments(arguments))
}
