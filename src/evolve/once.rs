//! The table provider and the plan of functions that change something: the change happens when the plan runs, exactly once.
//!
//! Planning, EXPLAIN and a second plan of the statement change nothing. If a statement contains the call twice, or evaluates a
//! subquery with it in two places, all of them see the report of the one change.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{
    Session, TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider,
};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::future::BoxFuture;
use futures::stream;
use tiledb_engine::Error;

use crate::error::to_datafusion_error;
use crate::functions::columns::{
    DescriptionRows, TEXT, opt_text, optional, required, schema, text, text_list, text_lists,
};
use crate::functions::run_once::{check_writable, once_in_run};

/// The report of a finished change.
#[derive(Debug, Clone)]
pub(super) struct FinishedAlteration {
    pub uri: String,
    pub changes: Vec<String>,
    /// The file that makes the change visible.
    pub file: Option<String>,
}

/// A change that has not begun.
pub(super) type PendingAlteration = BoxFuture<'static, tiledb_engine::Result<FinishedAlteration>>;

/// A function that changes something.
pub(super) trait ChangeFunction: Sized + Send + Sync + 'static {
    /// Its name in SQL.
    const NAME: &'static str;

    /// Parses a call.
    fn parse(arguments: &[Expr]) -> tiledb_engine::Result<Self>;

    /// Finds the object that the call names; nothing changes before the result is awaited.
    fn prepare<'a>(
        &'a self,
        session: &'a dyn Session,
    ) -> BoxFuture<'a, tiledb_engine::Result<PendingAlteration>>;
}

/// A function as DataFusion knows it.
pub(super) fn function<F: ChangeFunction>() -> TableFunction {
    let function: Arc<dyn TableFunctionImpl> = Arc::new(ChangeCall::<F>(PhantomData));
    TableFunction::new(F::NAME.to_owned(), function)
}

struct ChangeCall<F>(PhantomData<F>);

impl<F: ChangeFunction> fmt::Debug for ChangeCall<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(F::NAME)
    }
}

impl<F: ChangeFunction> TableFunctionImpl for ChangeCall<F> {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(ChangeTable {
            call: F::parse(args.exprs()).map_err(to_datafusion_error)?,
            written: written::<F>(args.exprs()),
            schema: report_schema(),
        }))
    }
}

/// A call as it is written.
fn written<F: ChangeFunction>(arguments: &[Expr]) -> String {
    let arguments = arguments
        .iter()
        .map(|argument| format!("{argument:?}"))
        .collect::<Vec<_>>();
    format!("{}({})", F::NAME, arguments.join(", "))
}

fn report_schema() -> SchemaRef {
    schema(vec![
        required("uri", TEXT),
        required("changes", text_list()),
        optional("file", TEXT),
    ])
}

/// A call, as a table of one row.
struct ChangeTable<F> {
    call: F,
    /// The call as it is written.
    written: String,
    schema: SchemaRef,
}

impl<F: ChangeFunction> fmt::Debug for ChangeTable<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(F::NAME)
    }
}

#[async_trait]
impl<F: ChangeFunction> TableProvider for ChangeTable<F> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let doing = self.call.prepare(state).await;
        let projection = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&projection)?);
        let partition = ChangeStream {
            doing: Mutex::new(Some(doing.map_err(to_datafusion_error)?)),
            call: self.written.clone(),
            name: F::NAME,
            projection,
            schema: Arc::clone(&schema),
        };
        let partitions: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(partition)];
        let plan = StreamingTableExec::try_new(schema, partitions, None, None, false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// The only partition of a call.
struct ChangeStream {
    /// The change, until it begins.
    doing: Mutex<Option<PendingAlteration>>,
    call: String,
    name: &'static str,
    projection: Vec<usize>,
    schema: SchemaRef,
}

impl fmt::Debug for ChangeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartitionStream for ChangeStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        let (doing, call, name) = (doing.take(), self.call.clone(), self.name);
        let (schema, projection) = (Arc::clone(&self.schema), self.projection.clone());
        let row = async move {
            check_writable(&context).map_err(to_datafusion_error)?;
            let doing = async move {
                let doing = doing.ok_or_else(|| {
                    Error::invalid(format!(
                        "this call of {name} has already run, and its plan can't run twice: plan the statement again"
                    ))
                });
                rows(&doing?.await?)
            };
            let report = once_in_run(&context, call, doing).await;
            batch(&report.map_err(to_datafusion_error)?, &schema, &projection)
        };
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(row)))
    }
}

/// The row of a report with all columns.
fn rows(done: &FinishedAlteration) -> tiledb_engine::Result<DescriptionRows> {
    let columns = vec![
        text([&done.uri]),
        text_lists(std::slice::from_ref(&done.changes))?,
        opt_text([done.file.as_ref()]),
    ];
    Ok(DescriptionRows { len: 1, columns })
}

/// The selected columns of a report.
fn batch(
    report: &DescriptionRows,
    schema: &SchemaRef,
    projection: &[usize],
) -> Result<RecordBatch> {
    let columns = projection
        .iter()
        .filter_map(|i| report.columns.get(*i).cloned());
    let options = RecordBatchOptions::new().with_row_count(Some(report.len));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns.collect(),
        &options,
    )?)
}
