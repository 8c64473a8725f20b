//! Runs one statement of DataFusion and prints its rows.
//!
//! datafusion-cli runs `CREATE EXTERNAL TABLE` and `COPY`, because it registers the object stores and options that they name;
//! for a COPY, it sees only the target, because it can't plan every COPY. It takes its session as a [`CliSessionContext`],
//! which here is an [`Execution`]: one that runs and prints the plan that it is asked for, and has nothing left for
//! datafusion-cli to print. That nothing is planned as a query is, which takes as long as a small query, so all other
//! statements are run here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DFSchema, plan_datafusion_err, plan_err};
use datafusion::config::Dialect;
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{CopyToStatement, DFParser, Statement};
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion_cli::cli_context::CliSessionContext;
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::print_options::MaxRows;
use datafusion_tiledb::catalog::first_word;
use datafusion_tiledb::dml::progress::choices_of;
use datafusion_tiledb::session::plan_statement;
use datafusion_tiledb::session::with_home_expanded;
use futures::StreamExt;
use object_store::ObjectStore;
use tokio::time::timeout;
use url::Url;

use crate::interrupt::Interruptible;
use crate::printing::{Printing, Rows};
use crate::progress::{Showing, Watch};

/// A query that takes longer goes on in a task of its own, so that an interrupt need not wait for a batch under way. To wait for
/// another task takes a tenth of the time of a small query.
const HAND_OVER_AFTER: Duration = Duration::from_millis(20);

/// A statement that runs.
pub struct Execution<'a> {
    ctx: &'a SessionContext,
    printing: &'a Printing,
    /// Whether all rows are printed: those of SHOW and EXPLAIN are few, and wanted as a whole.
    shows_all: bool,
    running: &'a Interruptible,
    began: Instant,
    showing: Mutex<Showing>,
    /// The plan of a COPY while datafusion-cli registers its target.
    planned: Mutex<Option<LogicalPlan>>,
}

/// The rows of a query.
struct Collected {
    batches: Vec<RecordBatch>,
    /// The number of rows; those that are not shown are counted, but not kept.
    count: usize,
    /// The memory that the rows take.
    _reservation: MemoryReservation,
}

impl<'a> Execution<'a> {
    pub fn new(
        ctx: &'a SessionContext,
        printing: &'a Printing,
        watch: &Arc<Watch>,
        running: &'a Interruptible,
    ) -> Self {
        Self {
            ctx,
            printing,
            shows_all: false,
            running,
            began: Instant::now(),
            showing: Mutex::new(Showing::begin(watch, printing.quiet)),
            planned: Mutex::new(None),
        }
    }

    /// Runs a statement.
    pub async fn run(mut self, sql: &str) -> Result<()> {
        self.shows_all = first_word(sql).eq_ignore_ascii_case("show");
        let statements = self.parse(sql)?;
        let creates = |s: &Statement| matches!(s, Statement::CreateExternalTable(_));
        if statements.iter().any(creates) {
            return exec_from_commands(&self, vec![sql.to_owned()], &self.printing.silent()).await;
        }
        for statement in statements {
            let target = match &statement {
                Statement::CopyTo(copy) => Some(target_of(copy)),
                _ => None,
            };
            // The state of a session has hundreds of functions, so copying it costs a good part of a small statement.
            let state = self.ctx.state();
            let plan = plan_statement(&state, statement).await?;
            let Some(target) = target else {
                self.run_logical_plan(state, plan).await?;
                continue;
            };
            *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
            exec_from_commands(&self, vec![target], &self.printing.silent()).await?;
        }
        Ok(())
    }

    fn parse(&self, sql: &str) -> Result<VecDeque<Statement>> {
        let state = self.ctx.state_ref();
        let state = state.read();
        let name = &state.config_options().sql_parser.dialect;
        let dialect = dialect_from_str(name).ok_or_else(|| {
            plan_datafusion_err!(
                "Unsupported SQL dialect: {name}. Available dialects: {}.",
                Dialect::available()
            )
        })?;
        DFParser::parse_sql_with_dialect(sql, dialect.as_ref())
    }

    async fn run_logical_plan(&self, state: SessionState, plan: LogicalPlan) -> Result<()> {
        let plan = with_home_expanded(plan);
        let shows_all = self.shows_all
            || matches!(
                plan,
                LogicalPlan::Explain(_) | LogicalPlan::DescribeTable(_) | LogicalPlan::Analyze(_)
            );
        // These change the session, or are replaced by another plan.
        let changes = matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_));
        let (state, plan) = match changes {
            true => self.ctx.execute_logical_plan(plan).await?.into_parts(),
            false => (state, plan),
        };
        let task = state.task_ctx();
        let plan = state.create_physical_plan(&plan).await?;
        drop(state);
        self.run_plan(plan, task, shows_all).await
    }

    async fn run_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
        shows_all: bool,
    ) -> Result<()> {
        if plan.boundedness().is_unbounded() {
            if plan.pipeline_behavior() == EmissionType::Final {
                return plan_err!(
                    "The given query can generate a valid result only once the source finishes, but the source is unbounded"
                );
            }
            return self.print_forever(execute_stream(plan, task)?).await;
        }
        let most = match shows_all {
            true => MaxRows::Unlimited,
            false => self.printing.most_rows(),
        };
        let schema = plan.schema();
        let executed = Arc::clone(&plan);
        let mut collecting = Box::pin(collect(plan, Arc::clone(&task), most));
        let collected = match timeout(HAND_OVER_AFTER, &mut collecting).await {
            Ok(collected) => collected?,
            Err(_) => {
                let collected = SpawnedTask::spawn(collecting).join_unwind().await;
                collected.map_err(|e| DataFusionError::External(Box::new(e)))??
            }
        };
        self.stop_showing();
        let rows = Rows {
            schema,
            batches: &collected.batches,
            count: collected.count,
            most,
        };
        let options = &task.session_config().options().format;
        let mut out = self.running.stdout();
        self.printing
            .print_choices(&mut out, &choices_of(&executed))?;
        drop(out);
        self.printing
            .print(self.running, &rows, self.began, options)
    }

    /// Prints rows as they come, of a source that does not end.
    async fn print_forever(&self, mut stream: SendableRecordBatchStream) -> Result<()> {
        let mut count = 0_usize;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            self.stop_showing();
            let is_first = count == 0;
            count = count.saturating_add(batch.num_rows());
            let mut out = self.running.stdout();
            self.printing.print_part(&mut out, &batch, is_first)?;
        }
        let mut out = self.running.stdout();
        let all = MaxRows::Unlimited;
        self.printing
            .print_details(&mut out, count, all, self.began.elapsed())
    }

    fn stop_showing(&self) {
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        showing.end();
    }
}

/// Builds a statement with the target of a COPY, and with rows that nobody reads.
fn target_of(copy: &CopyToStatement) -> String {
    let stored_as = copy.stored_as.as_ref();
    let stored_as = stored_as.map_or_else(String::new, |format| format!(" STORED AS {format}"));
    let options = copy.options.iter();
    let options = options.map(|(key, value)| format!("'{}' {value}", key.replace('\'', "''")));
    let options = match options.collect::<Vec<_>>().join(", ") {
        options if options.is_empty() => options,
        options => format!(" OPTIONS ({options})"),
    };
    let target = copy.target.replace('\'', "''");
    format!("COPY (SELECT 1) TO '{target}'{stored_as}{options}")
}

/// The rows of a plan; those behind the last that is shown are only counted.
async fn collect(
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    most: MaxRows,
) -> Result<Collected> {
    let reservation = MemoryConsumer::new("DataFusion-Cli").register(task.memory_pool());
    let most = match most {
        MaxRows::Unlimited => usize::MAX,
        MaxRows::Limited(rows) => rows,
    };
    let mut stream = execute_stream(plan, task)?;
    let (mut batches, mut count) = (Vec::new(), 0_usize);
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        // The printer sees from one more row than it shows that there are more.
        let wanted = most.saturating_add(1).saturating_sub(count);
        count = count.saturating_add(batch.num_rows());
        if wanted > 0 {
            reservation.try_grow(get_record_batch_memory_size(&batch))?;
            batches.push(batch.slice(0, wanted.min(batch.num_rows())));
        }
    }
    Ok(Collected {
        batches,
        count,
        _reservation: reservation,
    })
}

#[async_trait]
impl CliSessionContext for Execution<'_> {
    fn task_ctx(&self) -> Arc<TaskContext> {
        self.ctx.task_ctx()
    }

    fn session_state(&self) -> SessionState {
        self.ctx.state()
    }

    fn register_object_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.ctx.register_object_store(url, store)
    }

    fn register_table_options_extension_from_scheme(&self, scheme: &str) {
        CliSessionContext::register_table_options_extension_from_scheme(self.ctx, scheme);
    }

    async fn execute_logical_plan(&self, plan: LogicalPlan) -> Result<DataFrame> {
        let planned = self.planned.lock();
        let planned = planned.unwrap_or_else(PoisonError::into_inner).take();
        let plan = planned.unwrap_or(plan);
        self.run_logical_plan(self.ctx.state(), plan).await?;
        let nothing = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: false,
            schema: Arc::new(DFSchema::empty()),
        });
        Ok(DataFrame::new(self.ctx.state(), nothing))
    }
}
