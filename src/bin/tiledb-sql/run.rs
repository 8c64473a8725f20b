//! Runs statements and commands, from the command line, from files and from a pipe.
//!
//! The loop is ours because datafusion-cli's carries on after a failed statement of a file and exits 0. What one statement
//! does is in `execute`, what one command does in `commands`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::mem;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::datatypes::Schema;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::SessionContext;
use datafusion_cli::object_storage::is_stdin_location;
use datafusion_cli::print_options::MaxRows;
use datafusion_tiledb::AlterTable;
use datafusion_tiledb::sql::catalog::first_word;
use datafusion_tiledb::sql::catalog::{GroupStatement, attached_notice};
use zeroize::Zeroizing;

use crate::args::{Args, Task, VERSION};
use crate::depth;
use crate::execute::Execution;
use crate::interrupt::{self, Interruptible};
use crate::printing::{Printing, Rows};
use crate::progress::Watch;
use crate::repl;
use crate::report;
use crate::script::{Kind, Piece, Splitter};
use crate::session::{self, Session};

/// How deep `\i` may nest, so that a file that includes itself is an error.
const MAX_INCLUDES: usize = 16;

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
    /// Somebody types what runs.
    is_interactive: bool,
    /// The files being read, outermost first; `\i` adds one.
    includes: usize,
    failed: bool,
}

impl Shell {
    pub fn new(session: Session) -> Self {
        Self {
            ctx: session.ctx,
            printing: session.printing,
            watch: session.watch,
            is_interactive: false,
            includes: 0,
            failed: false,
        }
    }

    /// Puts the places at hand, then runs files, then commands; or a session, when neither was given.
    pub async fn run(&mut self, args: Args) -> ExitCode {
        match &args.task {
            Some(Task::Check(check)) => return self.check(check, args.quiet).await,
            Some(Task::Consolidate(consolidate)) => return self.consolidate(consolidate).await,
            Some(Task::Vacuum(vacuum)) => return self.vacuum(vacuum).await,
            None => {}
        }
        self.is_interactive = args.is_session() && io::stdin().is_terminal();
        self.printing.pager.is_attended = self.is_interactive;
        if self.is_interactive && !args.quiet {
            println!("tiledb-sql {}", *VERSION);
        }
        for place in &args.places {
            match self.put_at_hand(place).await {
                Flow::GoOn | Flow::Interrupted => {}
                Flow::Quit => return ExitCode::SUCCESS,
                Flow::Stop(code) => return code,
            }
        }
        if args.is_session() {
            return self.session(args).await;
        }
        for file in &args.file {
            match self.file(file, OnError::Stop).await {
                Flow::GoOn | Flow::Interrupted => {}
                Flow::Quit => return ExitCode::SUCCESS,
                Flow::Stop(code) => return code,
            }
        }
        for command in &args.command {
            match self.lines(command.as_bytes(), None, OnError::Stop).await {
                Flow::GoOn | Flow::Interrupted => {}
                Flow::Quit => return ExitCode::SUCCESS,
                Flow::Stop(code) => return code,
            }
        }
        ExitCode::SUCCESS
    }

    async fn session(&mut self, args: Args) -> ExitCode {
        // Somebody who types is never thrown out by Ctrl-C.
        let _prompting = self.is_interactive.then(Interruptible::begin);
        let rc = args.rc.unwrap_or_else(|| {
            let file = std::env::home_dir().map(|home| home.join(".datafusionrc"));
            file.filter(|f| f.exists())
                .map(|f| f.to_string_lossy().into_owned())
                .into_iter()
                .collect()
        });
        for file in &rc {
            match self.file(file, OnError::GoOn).await {
                Flow::GoOn | Flow::Interrupted => {}
                Flow::Quit => return self.exit_code(),
                Flow::Stop(code) => return code,
            }
        }
        if self.is_interactive {
            return repl::run(self).await;
        }
        match self
            .lines(io::stdin().lock(), Some("stdin"), OnError::GoOn)
            .await
        {
            Flow::Stop(code) => code,
            Flow::GoOn | Flow::Quit | Flow::Interrupted => self.exit_code(),
        }
    }

    fn exit_code(&self) -> ExitCode {
        if self.failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    async fn file(&mut self, path: &str, on_error: OnError) -> Flow {
        if path == "-" || is_stdin_location(path) {
            return self
                .lines(io::stdin().lock(), Some("stdin"), on_error)
                .await;
        }
        match File::open(path) {
            Ok(file) => self.lines(BufReader::new(file), Some(path), on_error).await,
            Err(e) => self.fail(
                &report::message(format!("cannot read '{path}': {e}")),
                None,
                on_error,
            ),
        }
    }

    /// Runs the statements and commands of `reader`; `source` names it in messages.
    pub async fn lines(
        &mut self,
        mut reader: impl BufRead,
        source: Option<&str>,
        on_error: OnError,
    ) -> Flow {
        let mut splitter = Splitter::default();
        let mut line = Zeroizing::new(String::new());
        let mut is_first = true;
        loop {
            line.clear();
            let pieces = match reader.read_line(&mut line) {
                Ok(0) => break,
                Ok(_) => {
                    // Editors of Windows begin files with a byte order mark.
                    let marked = line.strip_prefix('\u{feff}').filter(|_| is_first);
                    is_first = false;
                    splitter.push_line(marked.unwrap_or(&line))
                }
                Err(e) => {
                    let source = source.unwrap_or("input");
                    let error = report::message(format!("cannot read '{source}': {e}"));
                    return self.fail(&error, None, on_error);
                }
            };
            let flow = self.pieces(pieces, source, on_error).await;
            if flow != Flow::GoOn {
                return flow;
            }
        }
        self.pieces(splitter.finish(), source, on_error).await
    }

    async fn pieces(
        &mut self,
        pieces: impl IntoIterator<Item = Piece>,
        source: Option<&str>,
        on_error: OnError,
    ) -> Flow {
        for Piece { line, kind } in pieces {
            let place = source.map(|s| format!("{s}, line {line}"));
            let flow = match kind {
                Kind::Statement(sql) => match self.statement(sql).await {
                    Ok(()) => Flow::GoOn,
                    Err(e) => self.fail(&e, place.as_deref(), on_error),
                },
                Kind::Command(text) => self.command(&text, place.as_deref(), on_error).await,
            };
            if flow != Flow::GoOn {
                return flow;
            }
        }
        Flow::GoOn
    }

    /// Reports a failure, and says what it means for what follows.
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
        if let Some(statement) = GroupStatement::parse(sql).map_err(external)? {
            return report::catch_panic(self.group_statement(statement, running)).await;
        }
        if let Some(statement) = AlterTable::parse(&self.ctx, sql).map_err(external)? {
            let began = Instant::now();
            let altered =
                report::catch_panic(async { statement.run(&self.ctx).await.map_err(external) });
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
            session::register_store(&self.ctx, uri, &options.0).await?;
        }
        let attached = match &statement {
            GroupStatement::Attach { name, .. } => Some(name.clone()),
            _ => None,
        };
        statement.run(&self.ctx).await.map_err(external)?;
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

    pub async fn include(&mut self, path: &str, place: Option<&str>, on_error: OnError) -> Flow {
        if self.includes >= MAX_INCLUDES {
            let error =
                report::message(format!("'\\i {path}': files include each other too deeply"));
            return self.fail(&error, place, on_error);
        }
        self.includes += 1;
        let flow = Box::pin(self.file(path, on_error)).await;
        self.includes -= 1;
        flow
    }
}

/// An error of the library as one of DataFusion's.
pub fn external(error: datafusion_tiledb::Error) -> datafusion::error::DataFusionError {
    datafusion::error::DataFusionError::External(Box::new(error))
}
