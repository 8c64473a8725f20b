//! The progress of a statement, reported to Python on the thread that waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tiledb_sql::StatementWatch;

/// A statement reports nothing before it has taken this long.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time between two reports.
const PERIOD: Duration = Duration::from_millis(100);

/// Reports the progress of one statement to a function of Python, which gets a share (or None), the seconds so far, a text, and whether the
/// statement has ended.
pub struct ProgressReporter<'a> {
    report: &'a Py<PyAny>,
    watch: Arc<StatementWatch>,
    began: Instant,
    reported: Option<Instant>,
}

impl<'a> ProgressReporter<'a> {
    pub fn new(report: &'a Py<PyAny>, watch: StatementWatch) -> Self {
        Self {
            report,
            watch: Arc::new(watch),
            began: Instant::now(),
            reported: None,
        }
    }

    /// What records the plans of the statement.
    pub fn watch(&self) -> Arc<StatementWatch> {
        Arc::clone(&self.watch)
    }

    /// Reports, if it is time.
    pub fn report(&mut self, py: Python<'_>) -> PyResult<()> {
        let is_due = match self.reported {
            None => self.began.elapsed() >= PATIENCE,
            Some(reported) => reported.elapsed() >= PERIOD,
        };
        if !is_due {
            return Ok(());
        }
        self.reported = Some(Instant::now());
        self.call(py, false)
    }

    /// Reports the end, if anything was reported.
    pub fn end(&mut self, py: Python<'_>) -> PyResult<()> {
        match self.reported.take() {
            Some(_) => self.call(py, true),
            None => Ok(()),
        }
    }

    fn call(&self, py: Python<'_>, has_ended: bool) -> PyResult<()> {
        let elapsed = self.began.elapsed();
        let line = self.watch.line(elapsed);
        #[expect(clippy::cast_precision_loss, reason = "a share for the eye")]
        let share = line
            .share
            .map(|(done, all)| done as f64 / all.max(1) as f64);
        let arguments = (share, elapsed.as_secs_f64(), line.text, has_ended);
        self.report.call1(py, arguments)?;
        Ok(())
    }
}
