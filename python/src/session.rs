//! Sessions: the engine with a memory limit, tables and settings.

use std::sync::Arc;

use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::progress::choices_of;
use datafusion_tiledb::session::{
    StartedStatement, changes_something, in_one_statement, start, unknown_tables,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiledb_sql::SessionOptions;

use crate::errors::{exception, invalid};
use crate::input::{RowUse, table_of};
use crate::log_bridge;
use crate::module_runtime::{OwnerProcess, STACK_BYTES, wait, wait_reporting};
use crate::overlay::{NamedTables, with_maintenance, with_tables};
use crate::panics::{self, guarded};
use crate::parameters::parameters;
use crate::progress::ProgressReporter;
use crate::query::{EngineQuery, QueryOrigin, QueryRows};
use crate::recipe::SessionRecipe;

/// A session, which threads may share.
#[pyclass(frozen, module = "tiledb_sql._engine")]
pub struct EngineSession {
    ctx: SessionContext,
    owner: OwnerProcess,
    recipe: Arc<SessionRecipe>,
}

impl EngineSession {
    /// What DataFusion knows of it.
    pub fn context(&self) -> PyResult<&SessionContext> {
        self.owner.check("the session")?;
        Ok(&self.ctx)
    }
}

#[pymethods]
impl EngineSession {
    #[new]
    #[pyo3(signature = (memory_limit=None, readonly=false, process_memory_limit=None))]
    fn new(
        py: Python<'_>,
        memory_limit: Option<usize>,
        readonly: bool,
        process_memory_limit: Option<usize>,
    ) -> PyResult<Self> {
        panics::install_hook();
        log_bridge::install(py)?;
        let options = SessionOptions {
            memory_limit,
            process_memory_limit,
            readonly,
            stack_bytes: STACK_BYTES,
        };
        let ctx = wait(py, tiledb_sql::open_session(options))?;
        let ctx = ctx.map_err(|error| exception(py, &error, ""))?;
        #[cfg(debug_assertions)]
        panics::register_for_tests(&ctx);
        Ok(Self {
            ctx,
            owner: OwnerProcess::current(),
            recipe: Arc::default(),
        })
    }

    /// The tables that a statement names, and that the session doesn't know.
    fn unknown_tables(&self, py: Python<'_>, statement: &str) -> PyResult<Vec<String>> {
        self.owner.check("the session")?;
        let (ctx, sql) = (self.ctx.clone(), statement.to_owned());
        let names = wait(py, async move { unknown_tables(&ctx, &sql) })?;
        // Whatever is wrong with the statement, it fails for that reason when it starts.
        Ok(names.unwrap_or_default())
    }

    /// Plans a statement. If it changes something, it also runs, once. `progress` gets reports after a second.
    #[pyo3(signature = (statement, params=None, tables=None, progress=None))]
    fn sql(
        &self,
        py: Python<'_>,
        statement: &str,
        params: Option<&Bound<'_, PyAny>>,
        tables: Option<&Bound<'_, PyDict>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<EngineQuery> {
        self.owner.check("the session")?;
        log_bridge::keep_secrets_of(statement);
        let params = params.map(parameters).transpose()?;
        let mut given = NamedTables::new();
        for (name, data) in tables.into_iter().flatten() {
            given.insert(
                name.extract::<String>()?,
                table_of(py, &data, RowUse::Often)?,
            );
        }
        let origin = QueryOrigin {
            statement: statement.to_owned(),
            maintenance: maintains(statement).then(Arc::default),
            owner: self.owner,
            progress,
        };
        let (ctx, sql) = (self.ctx.clone(), statement.to_owned());
        let (recipe, maintenance) = (Arc::clone(&self.recipe), origin.maintenance.clone());
        let work = async move {
            let ctx = with_maintenance(&with_tables(&ctx, given), maintenance);
            in_one_statement(run(&ctx, &sql, params, &recipe)).await
        };
        let reporter = origin.progress.as_ref();
        let reporter = reporter.map(|report| ProgressReporter::new(report, origin.watch()));
        let started = wait_reporting(py, reporter, work)?;
        let rows = started.map_err(|error| exception(py, &error, statement))?;
        Ok(EngineQuery::new(rows, origin))
    }

    /// The statements that give another session what this one has.
    fn recipe(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.owner.check("the session")?;
        guarded(py, || {
            let statements = self.recipe.statements(&self.ctx);
            statements.map_err(|what| {
                PyTypeError::new_err(format!("the session can't be pickled: {what}"))
            })
        })
    }

    /// The table functions on arrays.
    fn table_functions(&self) -> PyResult<Vec<String>> {
        let state = self.context()?.state();
        let names = state.table_functions().keys();
        let mut names = names
            .filter(|name| name.starts_with("tiledb_"))
            .cloned()
            .collect::<Vec<_>>();
        names.sort();
        Ok(names)
    }

    /// Gives data a name in the session. `once` says that one statement reads them, once.
    #[pyo3(signature = (name, data, once=false))]
    fn register(
        &self,
        py: Python<'_>,
        name: &str,
        data: &Bound<'_, PyAny>,
        once: bool,
    ) -> PyResult<()> {
        self.owner.check("the session")?;
        let row_use = if once { RowUse::Once } else { RowUse::Often };
        let table = table_of(py, data, row_use)?;
        let known = self.ctx.deregister_table(name);
        known.map_err(|error| exception(py, &error, ""))?;
        let registered = self.ctx.register_table(name, table);
        registered.map_err(|error| exception(py, &error, ""))?;
        self.recipe.keep_data(name);
        Ok(())
    }

    /// Forgets a name.
    fn unregister(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.owner.check("the session")?;
        match self.ctx.deregister_table(name) {
            Ok(Some(_)) => {
                self.recipe.forget_data(name);
                Ok(())
            }
            Ok(None) => Err(invalid(py, &format!("no table is called '{name}'"))),
            Err(error) => Err(exception(py, &error, "")),
        }
    }
}

/// Whether a statement may consolidate, vacuum or check arrays, whose progress a watch of its own sees.
fn maintains(statement: &str) -> bool {
    let statement = statement.to_lowercase();
    ["tiledb_consolidate", "tiledb_vacuum", "tiledb_check"]
        .iter()
        .any(|function| statement.contains(function))
}

/// Starts a statement, and runs it if it changes something.
async fn run(
    ctx: &SessionContext,
    sql: &str,
    params: Option<Vec<(String, ScalarValue)>>,
    recipe: &SessionRecipe,
) -> Result<QueryRows> {
    let catalogs = SessionRecipe::catalogs_before(ctx, sql);
    let frame = match start(ctx, sql).await? {
        StartedStatement::Rows { frame, .. } => *frame,
        StartedStatement::Done { .. } => {
            recipe.keep(ctx, sql, &catalogs);
            return Ok(QueryRows::none());
        }
    };
    let frame = match params {
        Some(params) => with_params(frame, params)?,
        None => frame,
    };
    if !changes_something(frame.logical_plan()) {
        return Ok(QueryRows::Planned(frame));
    }
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), task).await?;
    Ok(QueryRows::Given {
        schema,
        batches,
        choices: choices_of(&plan),
    })
}

fn with_params(frame: DataFrame, params: Vec<(String, ScalarValue)>) -> Result<DataFrame> {
    let values = params
        .into_iter()
        .map(|(name, value)| (name, ScalarAndMetadata::from(value)))
        .collect();
    frame.with_param_values(ParamValues::Map(values))
}
