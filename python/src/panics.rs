//! Panics of the engine as errors. A panic is a bug, and Python must not see it as one of Rust: `PanicException` is no `Exception`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};

use futures::FutureExt;
use pyo3::prelude::*;

use crate::errors::internal;

/// The last panic with its place, which its payload does not hold.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// A panic that was caught, in words.
#[derive(Debug)]
pub struct CaughtPanic(String);

impl CaughtPanic {
    fn of(payload: &(dyn Any + Send)) -> Self {
        let text = payload_text(payload);
        let known = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner);
        let text = if known.starts_with(text) {
            known.as_str()
        } else {
            text
        };
        Self(format!(
            "internal error: {text}; this is a bug, please report it with the statement that caused it"
        ))
    }

    /// The message for the user.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The exception for it.
    pub fn exception(&self, py: Python<'_>) -> PyErr {
        internal(py, &self.0)
    }
}

/// Sends panics to the log instead of stderr, and keeps their places.
pub fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let text = payload_text(info.payload());
            let place = info.location().map(|place| format!(" at {place}"));
            let text = format!("{text}{}", place.unwrap_or_default());
            log::error!("internal error: {text}");
            *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = text;
        }));
    });
}

/// The result of work that may panic.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, CaughtPanic> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.map_err(|payload| CaughtPanic::of(payload.as_ref()))
}

/// The result of a call that may panic, outside of Python.
pub fn caught_call<T>(call: impl FnOnce() -> T) -> Result<T, CaughtPanic> {
    let done = catch_unwind(AssertUnwindSafe(call));
    done.map_err(|payload| CaughtPanic::of(payload.as_ref()))
}

/// Runs a method of a class on the thread of Python. A panic becomes an exception of the package.
pub fn guarded<T>(py: Python<'_>, call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    caught_call(call).unwrap_or_else(|panic| Err(panic.exception(py)))
}

fn payload_text(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "a panic without a message"
    }
}

/// In builds for tests, the function `panic_for_tests(number)`, which panics when it gets rows.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "a panic is what it is for")]
pub fn register_for_tests(ctx: &datafusion::prelude::SessionContext) {
    use datafusion::arrow::datatypes::DataType;
    use datafusion::logical_expr::{Volatility, create_udf};
    let panics = create_udf(
        "panic_for_tests",
        vec![DataType::Int64],
        DataType::Int64,
        Volatility::Immutable,
        std::sync::Arc::new(|_| std::panic::panic_any("a panic on purpose".to_owned())),
    );
    ctx.register_udf(panics);
}
