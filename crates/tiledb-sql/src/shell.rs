//! The shell between two inputs: its session, how it prints, and how one statement runs in it.
//!
//! What a statement of DataFusion does is in `execute`.

use std::mem;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::datatypes::Schema;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::SessionContext;
use datafusion_cli::print_options::MaxRows;
use datafusion_tiledb::catalog::{GroupStatement, attached_notice, first_word};
use datafusion_tiledb::{AlterTable, to_datafusion_error};
use zeroize::Zeroizing;

use crate::depth;
use crate::execute::Execution;
use crate::interrupt::{self, Interruptible};
use crate::printing::{Printing, Rows};
use crate::progress::Watch;
use crate::report;
use crate::stores::register_store;

/// What a failed statement means for the ones after it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    Stop,
    GoOn,
}

/// How a piece of input ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flow {
    GoOn,
    Quit,
    /// The user interrupted a statement: what was given with it is not wanted either, but the shell is.
    Interrupted,
    /// A failure was reported, or the reader of the output has gone.
    Stop(ExitCode),
}

/// Runs what the user gives it.
pub struct Shell {
    pub ctx: SessionContext,
    pub printing: Printing,
    /// The plans of the statement that runs.
    pub watch: Arc<Watch>,
    /// Whether a user types the statements.
    pub is_interactive: bool,
    /// How many files are being read: each includes the next.
    pub includes: usize,
    /// Whether a statement has failed.
    pub failed: bool,
}

impl Shell {
    pub fn new(ctx: SessionContext, printing: Printing, watch: Arc<Watch>) -> Self {
        Self {
            ctx,
            printing,
            watch,
            is_interactive: false,
            includes: 0,
            failed: false,
        }
    }

    /// Reports a failure, and returns whether the input goes on.
    pub fn fail(
        &mut self,
        error: &DataFusionError,
        place: Option<&str>,
        on_error: OnError,
    ) -> Flow {
        if report::is_interrupt(error) {
            report::print_interrupt();
            return match self.is_interactive {
                true => Flow::Interrupted,
                false => Flow::Stop(interrupt::exit_code()),
            };
        }
        if on_error == OnError::Stop || report::is_closed_output(error) {
            return Flow::Stop(report::failure(error, place));
        }
        report::print(error, place);
        self.failed = true;
        Flow::GoOn
    }

    /// Runs one statement and prints its result. Ctrl-C ends it.
    pub async fn statement(&self, sql: String) -> Result<()> {
        // It may hold a secret.
        let sql = Zeroizing::new(sql);
        report::hide_secrets_of(&sql);
        let running = Interruptible::begin();
        let ran = running.run(self.uninterrupted(&sql, &running)).await;
        match ran {
            Some(result) if !running.is_interrupted() || result.is_ok() => result,
            _ => Err(report::interrupt()),
        }
    }

    async fn uninterrupted(&self, sql: &str, running: &Interruptible) -> Result<()> {
        depth::check(sql)?;
        if let Some(statement) = GroupStatement::parse(sql).map_err(to_datafusion_error)? {
            return report::catch_panic(self.group_statement(statement, running)).await;
        }
        if let Some(statement) = AlterTable::parse(&self.ctx, sql).map_err(to_datafusion_error)? {
            let began = Instant::now();
            let altered = report::catch_panic(async {
                statement.run(&self.ctx).await.map_err(to_datafusion_error)
            });
            if altered.await? {
                return self.print_nothing(began, running);
            }
        }
        let explains = first_word(sql).eq_ignore_ascii_case("explain");
        let run = || {
            let execution = Execution::new(&self.ctx, &self.printing, &self.watch, running);
            report::catch_panic(execution.run(sql))
        };
        match run().await {
            // DataFusion's tree cuts long lines by bytes and cannot hold names beyond ASCII.
            Err(e) if explains && report::is_panic(&e) => {
                let before = self.set_explain_format(ExplainFormat::Indent);
                let result = run().await;
                self.set_explain_format(before);
                result
            }
            result => result,
        }
    }

    /// Attaches or detaches a group.
    async fn group_statement(
        &self,
        statement: GroupStatement,
        running: &Interruptible,
    ) -> Result<()> {
        let began = Instant::now();
        self.run_group_statement(statement).await?;
        self.print_nothing(began, running)
    }

    /// Prints that a statement without rows is done.
    fn print_nothing(&self, began: Instant, running: &Interruptible) -> Result<()> {
        let rows = Rows {
            schema: Arc::new(Schema::empty()),
            batches: &[],
            count: 0,
            most: MaxRows::Unlimited,
        };
        self.print_rows(&rows, began, running)
    }

    /// Runs a statement about groups. It prints a notice only for a group that lists no members.
    pub async fn run_group_statement(&self, mut statement: GroupStatement) -> Result<()> {
        if let GroupStatement::Attach {
            uri, store_options, ..
        } = &mut statement
        {
            let options = mem::take(store_options);
            register_store(&self.ctx, uri, &options.0).await?;
        }
        let attached = match &statement {
            GroupStatement::Attach { name, .. } => Some(name.clone()),
            _ => None,
        };
        statement
            .run(&self.ctx)
            .await
            .map_err(to_datafusion_error)?;
        if let Some(notice) = attached.and_then(|name| attached_notice(&self.ctx, &name)) {
            eprintln!("Notice: {}", report::masked(&notice));
        }
        Ok(())
    }

    /// Prints rows that no statement of DataFusion gave.
    pub fn print_rows(
        &self,
        rows: &Rows<'_>,
        began: Instant,
        running: &Interruptible,
    ) -> Result<()> {
        let state = self.ctx.state();
        let options = &state.config_options().format;
        self.printing.print(running, rows, began, options)
    }

    fn set_explain_format(&self, format: ExplainFormat) -> ExplainFormat {
        let state = self.ctx.state_ref();
        let mut state = state.write();
        let options = state.config_mut().options_mut();
        mem::replace(&mut options.explain.format, format)
    }

    /// Prints what isn't a result, unless only results are wanted.
    pub fn notice(&self, what: &str) {
        if !self.printing.quiet {
            println!("{what}");
        }
    }
}
