//! The shell between two inputs: its session, its output, and the execution of one statement.
//!
//! The library starts each statement, and `execute` runs its plan.

use std::io::Write;
use std::mem;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{ExplainFormat, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion_tiledb::Engine;
use datafusion_tiledb::session::{self, StartedStatement, in_one_statement};
use zeroize::Zeroizing;

use crate::execute::StatementExecution;
use crate::interrupt::{self, Interruptible};
use crate::printing::{PrintedRows, Printing, details_output};
use crate::report;
use crate::variables::ShellVariables;
use crate::watch::StatementWatch;

/// The consequence of a failed statement for the ones after it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    Stop,
    GoOn,
}

/// How a piece of input ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ShellFlow {
    GoOn,
    Quit,
    /// The user interrupted a statement: the rest of its input is not wanted either, but the shell goes on.
    Interrupted,
    /// A failure was reported, or the reader of the output has gone.
    Stop(ExitCode),
}

/// Runs the statements and commands of the user.
pub struct Shell {
    pub ctx: SessionContext,
    pub printing: Printing,
    /// The plans of the running statement.
    pub watch: Arc<StatementWatch>,
    /// Whether a user types the statements.
    pub is_interactive: bool,
    pub variables: ShellVariables,
    /// The last statement, which `\e` edits and `\watch` repeats.
    pub last_statement: Option<Zeroizing<String>>,
    /// Texts that came from an editor and belong into the history.
    pub edited_texts: Vec<String>,
    /// The number of files that are being read: each includes the next.
    pub includes: usize,
    /// Whether a statement has failed.
    pub failed: bool,
}

impl Shell {
    pub fn new(ctx: SessionContext, printing: Printing, watch: Arc<StatementWatch>) -> Self {
        Self {
            ctx,
            printing,
            watch,
            is_interactive: false,
            variables: ShellVariables::default(),
            last_statement: None,
            edited_texts: Vec::new(),
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
    ) -> ShellFlow {
        if report::is_interrupt(error) {
            report::print_interrupt();
            return if self.is_interactive {
                ShellFlow::Interrupted
            } else {
                ShellFlow::Stop(interrupt::exit_code())
            };
        }
        if on_error == OnError::Stop || report::is_closed_output(error) {
            return ShellFlow::Stop(report::failure(error, place));
        }
        report::print(error, place);
        self.failed = true;
        ShellFlow::GoOn
    }

    /// Runs one statement and prints its result. Ctrl-C ends it.
    pub async fn statement(&self, sql: String) -> Result<()> {
        // The statement may hold a secret.
        let sql = Zeroizing::new(sql);
        report::begin_statement(&sql);
        let running = Interruptible::begin();
        let _runs = running.statement();
        let ran = running.run(self.uninterrupted(&sql, &running)).await;
        Self::print_warnings();
        match ran {
            Some(result) if !running.is_interrupted() || result.is_ok() => result,
            _ => Err(report::interrupt()),
        }
    }

    async fn uninterrupted(&self, sql: &str, running: &Interruptible) -> Result<()> {
        let explains = AtomicBool::new(false);
        let run = || {
            let statement = self.run_statement(sql, running, &explains);
            report::catch_panic(in_one_statement(statement))
        };
        match run().await {
            // DataFusion's tree cuts long lines by bytes and cannot hold names beyond ASCII.
            Err(e) if explains.load(Ordering::Relaxed) && report::is_panic(&e) => {
                let before = self.set_explain_format(ExplainFormat::Indent);
                let result = run().await;
                self.set_explain_format(before);
                result
            }
            result => result,
        }
    }

    /// Runs one statement and prints its result. It records whether the statement explains another.
    async fn run_statement(
        &self,
        sql: &str,
        running: &Interruptible,
        explains: &AtomicBool,
    ) -> Result<()> {
        let execution = StatementExecution::new(&self.ctx, &self.printing, &self.watch, running);
        let (frame, is_description) = match session::start(&self.ctx, sql).await? {
            StartedStatement::Done { notice } => {
                execution.stop_showing();
                self.print_notice(notice);
                return execution.print_nothing();
            }
            StartedStatement::Rows {
                frame,
                is_description,
            } => (*frame, is_description),
        };
        let is_explain = matches!(
            frame.logical_plan(),
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)
        );
        explains.store(is_explain, Ordering::Relaxed);
        execution.run(frame, is_description).await
    }

    /// Runs a statement without rows. It prints nothing but a notice.
    pub async fn run_silently(&self, sql: &str) -> Result<()> {
        if let StartedStatement::Done { notice } = session::start(&self.ctx, sql).await? {
            self.print_notice(notice);
        }
        Ok(())
    }

    /// Prints why the cache on disk isn't used, once.
    pub fn print_warnings() {
        for warning in Engine::shared().take_disk_cache_warnings() {
            // If stderr is closed, nobody can be warned.
            let _ = writeln!(std::io::stderr(), "Warning: {}", report::masked(&warning));
        }
    }

    fn print_notice(&self, notice: Option<String>) {
        if let Some(notice) = notice {
            eprintln!("Notice: {}", report::masked(&notice));
        }
    }

    /// Prints rows that don't come from a statement of DataFusion.
    pub fn print_rows(
        &self,
        rows: &PrintedRows<'_>,
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

    /// Prints a text that isn't a result, unless only results are wanted.
    pub fn notice(&self, what: &str) {
        if !self.printing.quiet {
            // If nobody reads the notice, that isn't an error.
            let _ = writeln!(details_output(), "{what}");
        }
    }
}
