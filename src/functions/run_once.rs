//! Calls of functions that change something happen once in a run of a statement, however often the statement contains them.
//! Both sides of a UNION, the uses of a WITH, and a subquery that is evaluated in two places see the report of the one change.
//!
//! The task context, which all parts of a plan share, identifies a run. The changes of a run happen one after the other, so
//! that they don't conflict. Each execution of a prepared statement is a run, and so is each query of a view.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::TaskContext;
use tiledb_engine::{Error, Result};
use tokio::sync::Mutex as AsyncMutex;

use super::columns::DescriptionRows;
use crate::options::ReadOnly;

/// The reports of a run's calls; `None` while a call runs, and forever if it was cancelled.
type RunReports = Arc<AsyncMutex<HashMap<String, Option<Result<DescriptionRows>>>>>;

/// The runs that have calls and haven't ended. A task can't carry them, because it is made before its calls are known; each entry
/// belongs to one task and ends with it.
static RUNS: Mutex<Vec<(Weak<TaskContext>, RunReports)>> = Mutex::new(Vec::new());

fn outcomes(run: &Arc<TaskContext>) -> RunReports {
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    runs.retain(|(run, _)| run.strong_count() > 0);
    let run = Arc::downgrade(run);
    match runs.iter().find(|(known, _)| known.ptr_eq(&run)) {
        Some((_, outcomes)) => Arc::clone(outcomes),
        None => {
            let outcomes = RunReports::default();
            runs.push((run, Arc::clone(&outcomes)));
            outcomes
        }
    }
}

/// Fails if the session of a run is read-only.
pub(crate) fn check_writable(run: &TaskContext) -> Result<()> {
    let what = "a call that changes an array or a group";
    match ReadOnly::refusal(run.session_config(), what) {
        Some(refusal) => Err(Error::unsupported(refusal)),
        None => Ok(()),
    }
}

/// The report of a call, which runs now or has run earlier in this run.
pub(crate) async fn once_in_run(
    run: &Arc<TaskContext>,
    call: String,
    doing: impl Future<Output = Result<DescriptionRows>> + Send + 'static,
) -> Result<DescriptionRows> {
    let outcomes = outcomes(run);
    // A wait for the report of another call must not block that call.
    let task = SpawnedTask::spawn(async move {
        let mut outcomes = outcomes.lock().await;
        match outcomes.get(&call) {
            Some(Some(done)) => return again(done),
            Some(None) => {
                return Err(Error::invalid(
                    "the same call was begun and cancelled before in this statement: run the statement again",
                ));
            }
            None => {}
        }
        outcomes.insert(call.clone(), None);
        let done = doing.await;
        let report = again(&done);
        outcomes.insert(call, Some(done));
        report
    });
    let failed = |error| Error::internal("a change ended in a panic").with_source(error);
    task.join_unwind().await.map_err(failed)?
}

fn again(done: &Result<DescriptionRows>) -> Result<DescriptionRows> {
    done.as_ref().cloned().map_err(Error::again)
}
