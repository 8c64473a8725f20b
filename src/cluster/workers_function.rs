//! `tiledb_workers()`: what the workers of a session say about themselves.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::future::join_all;

use super::channels::WorkerChannels;
use super::worker_urls::WorkerUrls;

/// The name of the function.
pub(super) const NAME: &str = "tiledb_workers";

/// The function, and the table that it returns.
#[derive(Debug, Clone)]
pub(super) struct WorkersFunction {
    pub workers: WorkerUrls,
    pub channels: WorkerChannels,
}

impl TableFunctionImpl for WorkersFunction {
    fn call(&self, arguments: &[Expr]) -> Result<Arc<dyn TableProvider>> {
        if !arguments.is_empty() {
            return plan_err!("{NAME}() takes no arguments, found {}", arguments.len());
        }
        Ok(Arc::new(self.clone()))
    }
}

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("url", DataType::Utf8, false),
        Field::new("release", DataType::Utf8, true),
        Field::new("cores", DataType::UInt64, true),
        Field::new("memory_bytes", DataType::UInt64, true),
        Field::new("tasks", DataType::UInt64, true),
        Field::new("problem", DataType::Utf8, true),
    ]))
}

impl WorkersFunction {
    /// Asks all workers at once. One that doesn't answer has a problem instead of facts.
    async fn rows(&self) -> Result<RecordBatch> {
        let urls = self.workers.urls();
        let facts = join_all(urls.iter().map(|url| self.channels.facts_and_tasks(url))).await;
        let known = || facts.iter().map(|facts| facts.as_ref().ok());
        let cores = known().map(|facts| Some(facts?.0.cores as u64));
        let memory = known().map(|facts| facts?.0.memory_bytes);
        let tasks = known().map(|facts| facts?.1);
        let problems = facts.iter().zip(urls).map(|(facts, url)| match facts {
            Ok((facts, _)) => facts.check_release(url).err(),
            Err(error) => Some(datafusion::error::DataFusionError::Execution(
                error.strip_backtrace(),
            )),
        });
        let problems = problems.map(|problem| Some(problem?.message().into_owned()));
        let columns: [Arc<dyn datafusion::arrow::array::Array>; 6] = [
            Arc::new(StringArray::from_iter_values(
                urls.iter().map(|url| url.as_str()),
            )),
            Arc::new(
                known()
                    .map(|facts| Some(facts?.0.release.as_str()))
                    .collect::<StringArray>(),
            ),
            Arc::new(cores.collect::<UInt64Array>()),
            Arc::new(memory.collect::<UInt64Array>()),
            Arc::new(tasks.collect::<UInt64Array>()),
            Arc::new(problems.collect::<StringArray>()),
        ];
        Ok(RecordBatch::try_new(self.schema(), columns.to_vec())?)
    }
}

#[async_trait]
impl TableProvider for WorkersFunction {
    fn schema(&self) -> SchemaRef {
        columns()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = vec![self.rows().await?];
        let plan = MemorySourceConfig::try_new_exec(&[rows], self.schema(), projection.cloned())?;
        Ok(plan)
    }
}
