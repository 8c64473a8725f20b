//! Plans and runs statements again, a few times, if they conflict with another one.
//!
//! A statement that was overtaken before its commit has changed nothing. The rows it read are outdated, and so is its plan,
//! which the optimizer may have based on the state of the array. So the statement is planned from the start, and opens the
//! current array. The subtle thing is a source that gives its rows only once, such as a stream: a second run would find it
//! empty, so the statement fails at once with the conflict.
//!
//! The plan that was executed first stands for all runs: its metrics include the later runs, and the statement's progress is
//! that of the latest run.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::common::TableReference;
use datafusion::datasource::DefaultTableSource;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, collect};
use futures::future::BoxFuture;
use futures::stream;
use tiledb_engine::Error;
use tiledb_engine::write::clock::Clock;

use crate::error::is_conflict;
use crate::error::to_datafusion_error;
use crate::scan::source::TileDbSource;

/// The longest waits before each run after the first.
const WAITS_MS: [u64; 5] = [10, 40, 100, 200, 400];

/// A statement that can be planned again.
pub(crate) struct ReplannedStatement {
    state: SessionState,
    name: TableReference,
    /// The table that receives the rows.
    target: Arc<dyn TableProvider>,
    op: WriteOp,
    rows: Arc<LogicalPlan>,
    /// The plan of the latest run, unless that is the first one.
    latest: Mutex<Option<Arc<dyn ExecutionPlan>>>,
}

impl fmt::Debug for ReplannedStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Again")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl ReplannedStatement {
    /// The statement that puts `rows` into `target`.
    pub(crate) fn new(
        state: &SessionState,
        name: &TableReference,
        target: Arc<dyn TableProvider>,
        op: WriteOp,
        rows: &Arc<LogicalPlan>,
    ) -> Self {
        Self {
            state: state.clone(),
            name: name.clone(),
            target,
            op,
            rows: Arc::clone(rows),
            latest: Mutex::default(),
        }
    }

    /// The plan of the latest run; `None` if the first run is the only one.
    pub(super) fn latest(&self) -> Option<Arc<dyn ExecutionPlan>> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.clone()
    }

    fn set_latest(&self, plan: Option<Arc<dyn ExecutionPlan>>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// Plans the statement again; `None` if its rows cannot be read again.
    pub(super) async fn plan(&self) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let statement = LogicalPlan::Dml(DmlStatement::new(
            self.name.clone(),
            Arc::new(DefaultTableSource::new(Arc::clone(&self.target))),
            self.op.clone(),
            Arc::clone(&self.rows),
        ));
        let plan = self.state.create_physical_plan(&statement).await?;
        Ok(Some(plan).filter(can_be_read_twice))
    }

    async fn run(
        &self,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Option<u64>> {
        let Some(plan) = self.plan().await? else {
            return Ok(None);
        };
        self.set_latest(Some(Arc::clone(&plan)));
        let counts = collect(Arc::clone(&plan), Arc::clone(context)).await;
        for metric in plan.metrics().iter().flat_map(MetricsSet::iter) {
            metrics.register(Arc::clone(metric));
        }
        let counts = counts?;
        let counts = counts.iter().filter_map(|batch| batch.columns().first());
        let counts = counts.filter_map(|column| column.as_primitive_opt::<UInt64Type>());
        Ok(Some(
            counts.flat_map(|counts| counts.iter().flatten()).sum(),
        ))
    }
}

/// The number of rows that a statement changed. After a conflict with another statement, it runs `again`, a few times, and the
/// metrics of those runs are registered among `metrics`.
pub(super) async fn settled(
    first: BoxFuture<'static, Result<u64>>,
    again: Option<Arc<ReplannedStatement>>,
    context: Arc<TaskContext>,
    metrics: ExecutionPlanMetricsSet,
) -> Result<u64> {
    if let Some(again) = &again {
        again.set_latest(None);
    }
    let mut ended = first.await;
    let Some(again) = again else {
        return ended;
    };
    for wait_ms in WAITS_MS {
        let met = match ended {
            Err(error) if is_conflict(&error) => error,
            ended => return ended,
        };
        log::debug!("{}: the statement runs again: {met}", again.name);
        let clock = Clock::system();
        let waited = clock.wait_some_of(Duration::from_millis(wait_ms)).await;
        waited.map_err(to_datafusion_error)?;
        ended = match Box::pin(again.run(&context, &metrics)).await {
            Ok(Some(changed)) => return Ok(changed),
            Ok(None) => return Err(met),
            Err(error) => Err(error),
        };
    }
    ended
}

/// Whether all sources of a plan give their rows again to another plan of the same statement.
pub(crate) fn can_be_read_twice(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    if !children.is_empty() {
        return children.into_iter().all(can_be_read_twice);
    }
    #[cfg(feature = "cluster")]
    if let Some(leaf) = plan.downcast_ref::<datafusion_distributed::DistributedLeafExec>() {
        return can_be_read_twice(leaf.original());
    }
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        let source = scan.data_source();
        // A pipe has no size.
        let of_files = source.downcast_ref::<FileScanConfig>();
        let is_pipe = |files: &FileScanConfig| {
            let mut files = files.file_groups.iter().flat_map(|group| group.iter());
            files.any(|file| file.object_meta.size == 0)
        };
        return source.downcast_ref::<TileDbSource>().is_some()
            || source.downcast_ref::<MemorySourceConfig>().is_some()
            || of_files.is_some_and(|files| !is_pipe(files));
    }
    plan.downcast_ref::<EmptyExec>().is_some()
        || plan.downcast_ref::<PlaceholderRowExec>().is_some()
        || plan.downcast_ref::<LazyMemoryExec>().is_some()
}

/// A plan that returns the rows of streams, once.
pub(super) fn streams(
    schema: SchemaRef,
    parts: Vec<SendableRecordBatchStream>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let parts = parts.into_iter();
    let parts =
        parts.map(|rows| Arc::new(SingleExecution::new(&schema, rows)) as Arc<dyn PartitionStream>);
    let parts = parts.collect();
    let plan = StreamingTableExec::try_new(schema, parts, None, None, false, None)?;
    Ok(Arc::new(plan))
}

/// The only execution of a partition.
pub(crate) struct SingleExecution {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl SingleExecution {
    pub(crate) fn new(schema: &SchemaRef, rows: SendableRecordBatchStream) -> Self {
        Self {
            schema: Arc::clone(schema),
            rows: Mutex::new(Some(rows)),
        }
    }
}

impl fmt::Debug for SingleExecution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

impl PartitionStream for SingleExecution {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.take().unwrap_or_else(|| {
            let error = Error::internal("these rows are read once");
            let error = stream::iter([Err(to_datafusion_error(error))]);
            Box::pin(RecordBatchStreamAdapter::new(
                Arc::clone(&self.schema),
                error,
            ))
        })
    }
}
