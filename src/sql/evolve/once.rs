//! The table provider and the plan of functions that change something: the change happens when the plan runs, exactly once.
//!
//! Planning, EXPLAIN and a second plan of the statement change nothing. If a plan has the call twice, because a subquery is
//! evaluated in two places, both see the report of the one change. The subtle thing: a prepared statement or a view has the call
//! planned already and would repeat it with each run; whether that is meant cannot be known, so it is refused.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{
    Session, TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::future::BoxFuture;
use futures::stream;
use tokio::sync::Mutex;

use crate::error::Error;
use crate::sql::functions::columns::{
    TEXT, opt_text, optional, required, schema, text, text_list, text_lists,
};

/// What was done.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub uri: String,
    pub changes: Vec<String>,
    /// The file that makes the change visible.
    pub file: Option<String>,
}

/// A change that has not begun.
pub(super) type Doing = BoxFuture<'static, crate::error::Result<Done>>;

/// A function that changes something.
#[async_trait]
pub(super) trait ChangeFunction: Sized + Send + Sync + 'static {
    /// Its name in SQL.
    const NAME: &'static str;

    /// What a call says.
    fn parse(arguments: &[Expr]) -> crate::error::Result<Self>;

    /// Finds what the call names; nothing is changed before the result is awaited.
    async fn prepare(&self, session: &dyn Session) -> crate::error::Result<Doing>;
}

/// A function as DataFusion knows it.
pub(super) fn function<F: ChangeFunction>() -> TableFunction {
    let function: Arc<dyn TableFunctionImpl> = Arc::new(Function::<F>(PhantomData));
    TableFunction::new(F::NAME.to_owned(), function)
}

struct Function<F>(PhantomData<F>);

impl<F: ChangeFunction> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(F::NAME)
    }
}

impl<F: ChangeFunction> TableFunctionImpl for Function<F> {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(ChangeTable {
            call: F::parse(args.exprs()).map_err(DataFusionError::from)?,
            once: Arc::new(Once::new(F::NAME)),
            schema: report_schema(),
        }))
    }
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
    once: Arc<Once>,
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
            doing: std::sync::Mutex::new(Some(doing.map_err(DataFusionError::from)?)),
            once: Arc::clone(&self.once),
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
    doing: std::sync::Mutex<Option<Doing>>,
    once: Arc<Once>,
    projection: Vec<usize>,
    schema: SchemaRef,
}

impl fmt::Debug for ChangeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.once.name)
    }
}

impl PartitionStream for ChangeStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut doing = self.doing.lock().unwrap_or_else(|e| e.into_inner());
        let (doing, once) = (doing.take(), Arc::clone(&self.once));
        let (schema, projection) = (Arc::clone(&self.schema), self.projection.clone());
        let row = async move {
            let done = once.run(&context, doing).await;
            batch(&done.map_err(DataFusionError::from)?, &schema, &projection)
        };
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(row)))
    }
}

/// The row of a report, with the selected columns.
fn batch(done: &Done, schema: &SchemaRef, projection: &[usize]) -> Result<RecordBatch> {
    let columns = [
        text([&done.uri]),
        text_lists(std::slice::from_ref(&done.changes)).map_err(DataFusionError::from)?,
        opt_text([done.file.as_ref()]),
    ];
    let columns = projection.iter().filter_map(|i| columns.get(*i).cloned());
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns.collect(),
        &options,
    )?)
}

/// Lets a change happen once.
struct Once {
    name: &'static str,
    run: Mutex<Option<Run>>,
}

/// The run in which a change began.
struct Run {
    /// The run of the plan; all parts of one run share it.
    context: Weak<TaskContext>,
    /// `None` as long as the change goes on, and for ever if it was cancelled.
    outcome: Option<crate::error::Result<Done>>,
}

impl Once {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            run: Mutex::new(None),
        }
    }

    async fn run(
        &self,
        context: &Arc<TaskContext>,
        doing: Option<Doing>,
    ) -> crate::error::Result<Done> {
        let mut run = self.run.lock().await;
        if let Some(run) = &*run {
            let same = Weak::ptr_eq(&run.context, &Arc::downgrade(context));
            return match &run.outcome {
                Some(outcome) if same => outcome.as_ref().cloned().map_err(Error::again),
                _ => Err(Error::invalid(format!(
                    "this call of {} was carried out, or begun and cancelled, before: a view or a prepared statement cannot repeat it; write the call in a statement of its own",
                    self.name
                ))),
            };
        }
        let doing = doing.ok_or_else(|| Error::internal("a change began without a run"))?;
        let run = run.insert(Run {
            context: Arc::downgrade(context),
            outcome: None,
        });
        let outcome = doing.await;
        let result = outcome.as_ref().cloned().map_err(Error::again);
        run.outcome = Some(outcome);
        result
    }
}
