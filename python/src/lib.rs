//! The extension module of the Python package `tiledb_sql`.
//!
//! It holds what needs the engine: sessions, queries, streams of Arrow data, and the shell. Whatever Python says as well, the
//! Python sources beside it do.

mod batches;
mod border;
mod boxes;
mod capsules;
mod conditions;
mod dataset;
mod errors;
mod exact_times;
mod expression;
mod input;
mod literals;
mod log_bridge;
mod module_runtime;
mod overlay;
mod panics;
mod parameters;
mod polars_expression;
mod process;
mod progress;
mod query;
mod recipe;
mod secrets;
mod session;
mod shell;
mod values;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<session::EngineSession>()?;
    module.add_class::<query::EngineQuery>()?;
    module.add_class::<batches::EngineBatches>()?;
    module.add_class::<query::CollectedRows>()?;
    module.add_function(wrap_pyfunction!(boxes::read_box, module)?)?;
    module.add_function(wrap_pyfunction!(log_bridge::flush_log, module)?)?;
    module.add_function(wrap_pyfunction!(secrets::may_hold_secret, module)?)?;
    module.add_class::<dataset::EngineDataset>()?;
    module.add_function(wrap_pyfunction!(border::array_for_datafusion, module)?)?;
    module.add_function(wrap_pyfunction!(border::query_for_datafusion, module)?)?;
    module.add_function(wrap_pyfunction!(border::group_for_datafusion, module)?)?;
    module.add_function(wrap_pyfunction!(border::factory_for_datafusion, module)?)?;
    module.add_function(wrap_pyfunction!(shell::run_shell, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
