//! Runs a statement in a session and brings back its rows, or what went wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::resources_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tokio::runtime::Runtime;

/// After so long a statement is given up.
pub const PATIENCE: Duration = Duration::from_secs(30);
const STACK_BYTES: usize = 32 << 20;
/// Answers of more rows are given up, and so is whatever runs when the process takes more memory: joins without a condition
/// and windows over them ask no pool.
const MOST_ROWS: usize = 2_000_000;
const MOST_RESIDENT_BYTES: u64 = 10 << 30;
const WATCHED_EVERY: Duration = Duration::from_millis(50);

/// The rows a statement gives.
#[derive(Debug, Clone)]
pub struct Answer {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

/// Why there are none.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// An error, which may be right.
    Error(String),
    /// An error that depends on which rows an expression sees first: overflow and its like.
    Value(String),
    /// The memory that the session has does not suffice.
    Memory(String),
    Panic(String),
    Slow,
}

impl Fault {
    fn of(error: &DataFusionError) -> Self {
        let text = error.to_string();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["panicked", "panic"]) {
            return Self::Panic(text);
        }
        match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => Self::Memory(text),
            _ if has(&["Resources exhausted"]) => Self::Memory(text),
            _ if has(&[
                "verflow",
                "ivide by zero",
                "Cast error",
                "out of range",
                "Parser error",
            ]) =>
            {
                Self::Value(text)
            }
            _ => Self::Error(text),
        }
    }
}

/// Threads that run statements one after the other. Panics of any of them are known by the threads' name.
#[derive(Debug)]
pub struct Runner {
    runtime: Option<Runtime>,
    name: String,
}

static PANICS: OnceLock<Mutex<HashMap<String, Vec<String>>>> = OnceLock::new();

/// Notes panics of our threads; those of others go where they went before.
fn panics() -> &'static Mutex<HashMap<String, Vec<String>>> {
    PANICS.get_or_init(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            if name.starts_with("fuzz-") {
                let mut panics = panics().lock().expect("no panic while it is held");
                panics.entry(name).or_default().push(info.to_string());
            } else {
                before(info);
            }
        }));
        Mutex::default()
    })
}

impl Runner {
    /// Threads of a name that begins with `fuzz-` and is theirs alone.
    pub fn new(name: &str) -> Self {
        let mut runner = Self {
            runtime: None,
            name: format!("fuzz-{name}"),
        };
        panics();
        runner.renew();
        runner
    }

    /// Leaves threads that hang to themselves.
    fn renew(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(self.name.clone())
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .expect("a runtime starts");
        if let Some(old) = self.runtime.replace(runtime) {
            old.shutdown_background();
        }
    }

    /// Runs to the end, for as long as it takes.
    pub fn wait<F>(&self, task: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let runtime = self.runtime.as_ref().expect("there always is one");
        let task = runtime.spawn(task);
        runtime.block_on(task).expect("it does not panic")
    }

    /// The answers of a statement over tables `t1`, `t2`, …: one, or two if the plan runs twice.
    pub fn answers(
        &mut self,
        ctx: SessionContext,
        tables: Vec<Arc<dyn TableProvider>>,
        statements: (Vec<String>, String),
        twice: bool,
    ) -> std::result::Result<Vec<Answer>, Fault> {
        self.take_panics();
        let runtime = self.runtime.as_ref().expect("there always is one");
        let task = runtime.spawn(async move { run(&ctx, tables, statements, twice).await });
        let abort = task.abort_handle();
        let outcome = runtime.block_on(async {
            tokio::select! {
                outcome = tokio::time::timeout(PATIENCE, task) => Some(outcome),
                () = memory_is_short() => None,
            }
        });
        let panics = self.take_panics();
        let Some(outcome) = outcome else {
            abort.abort();
            self.renew();
            return Err(Fault::Memory("the process takes too much".to_owned()));
        };
        match outcome {
            Err(_) => {
                abort.abort();
                self.renew();
                Err(Fault::Slow)
            }
            Ok(Err(e)) => Err(Fault::Panic(format!("{e} {}", panics.join("\n")))),
            Ok(Ok(_)) if !panics.is_empty() => Err(Fault::Panic(panics.join("\n"))),
            Ok(Ok(Err(e))) => Err(Fault::of(&e)),
            Ok(Ok(Ok(answers))) => Ok(answers),
        }
    }

    fn take_panics(&self) -> Vec<String> {
        let mut panics = panics().lock().expect("no panic while it is held");
        panics.remove(&self.name).unwrap_or_default()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Waits until the process takes more memory than it may, where the system tells.
async fn memory_is_short() {
    const PAGE_BYTES: u64 = 4096;
    loop {
        tokio::time::sleep(WATCHED_EVERY).await;
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let resident = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        if resident.is_some_and(|pages: u64| pages * PAGE_BYTES > MOST_RESIDENT_BYTES) {
            return;
        }
    }
}

/// All rows of a plan, unless they are too many.
async fn rows(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Vec<RecordBatch>> {
    let mut stream = execute_stream(plan, context)?;
    let (mut batches, mut rows) = (Vec::new(), 0);
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        rows += batch.num_rows();
        if rows > MOST_ROWS {
            return resources_err!("more than {MOST_ROWS} rows");
        }
        batches.push(batch);
    }
    Ok(batches)
}

async fn run(
    ctx: &SessionContext,
    tables: Vec<Arc<dyn TableProvider>>,
    (before, last): (Vec<String>, String),
    twice: bool,
) -> Result<Vec<Answer>> {
    for (number, table) in tables.into_iter().enumerate() {
        ctx.register_table(format!("t{}", number + 1), table)?;
    }
    for sql in before {
        ctx.sql(&sql).await?.collect().await?;
    }
    let frame = ctx.sql(&last).await?;
    let context = Arc::new(frame.task_ctx());
    let mut plan = frame.create_physical_plan().await?;
    let mut answers = Vec::new();
    for _ in 0..=usize::from(twice) {
        let schema = plan.schema();
        let batches = rows(Arc::clone(&plan), Arc::clone(&context)).await?;
        answers.push(Answer { schema, batches });
        if twice {
            plan = reset_plan_states(plan)?;
        }
    }
    Ok(answers)
}
