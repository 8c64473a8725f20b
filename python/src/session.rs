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
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiledb_sql::SessionOptions;

use crate::errors::{exception, invalid};
use crate::input::{RowUse, table_of};
use crate::module_runtime::{OwnerProcess, STACK_BYTES, wait};
use crate::overlay::{NamedTables, with_tables};
use crate::parameters::parameters;
use crate::query::{EngineQuery, QueryRows};

/// A session, which threads may share.
#[pyclass(frozen, module = "tiledb_sql._engine")]
pub struct EngineSession {
    ctx: SessionContext,
    owner: OwnerProcess,
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
    #[pyo3(signature = (memory_limit=None, readonly=false))]
    fn new(py: Python<'_>, memory_limit: Option<usize>, readonly: bool) -> PyResult<Self> {
        let options = SessionOptions {
            memory_limit,
            readonly,
            stack_bytes: STACK_BYTES,
        };
        let ctx = wait(py, tiledb_sql::open_session(options))?;
        let ctx = ctx.map_err(|error| exception(py, &error, ""))?;
        Ok(Self {
            ctx,
            owner: OwnerProcess::current(),
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

    /// Plans a statement. If it changes something, it also runs, once.
    #[pyo3(signature = (statement, params=None, tables=None))]
    fn sql(
        &self,
        py: Python<'_>,
        statement: &str,
        params: Option<&Bound<'_, PyAny>>,
        tables: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<EngineQuery> {
        self.owner.check("the session")?;
        let params = params.map(parameters).transpose()?;
        let mut given = NamedTables::new();
        for (name, data) in tables.into_iter().flatten() {
            given.insert(
                name.extract::<String>()?,
                table_of(py, &data, RowUse::Often)?,
            );
        }
        let (ctx, sql) = (self.ctx.clone(), statement.to_owned());
        let started = wait(py, async move {
            let ctx = with_tables(&ctx, given);
            in_one_statement(run(&ctx, &sql, params)).await
        })?;
        let rows = started.map_err(|error| exception(py, &error, statement))?;
        Ok(EngineQuery::new(rows, statement, self.owner))
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
        Ok(())
    }

    /// Forgets a name.
    fn unregister(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.owner.check("the session")?;
        match self.ctx.deregister_table(name) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(invalid(py, &format!("no table is called '{name}'"))),
            Err(error) => Err(exception(py, &error, "")),
        }
    }
}

/// Starts a statement, and runs it if it changes something.
async fn run(
    ctx: &SessionContext,
    sql: &str,
    params: Option<Vec<(String, ScalarValue)>>,
) -> Result<QueryRows> {
    let frame = match start(ctx, sql).await? {
        StartedStatement::Rows { frame, .. } => *frame,
        StartedStatement::Done { .. } => return Ok(QueryRows::none()),
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
