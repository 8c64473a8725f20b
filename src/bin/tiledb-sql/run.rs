//! Runs statements and commands, from the command line, from files and from a pipe.
//!
//! Printing and the per-statement work (object stores, options, memory of collected rows) is
//! datafusion-cli's `exec_from_commands`, one statement at a time, so results look the same; the loop
//! around it is ours because datafusion-cli's carries on after a failed statement of a file and exits 0.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::instant::Instant;
use datafusion::error::Result;
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::SessionContext;
use datafusion_cli::command::{Command, OutputFormat};
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::object_storage::is_stdin_location;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};
use datafusion_tiledb::sql::catalog::GroupStatement;

use crate::args::{Args, VERSION};
use crate::repl;
use crate::report;
use crate::script::{Kind, Piece, Splitter};
use crate::session::{self, Session};

/// How deep `\i` may nest, so that a file that includes itself is an error.
const MAX_INCLUDES: usize = 16;

/// What a failed statement means for the ones after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnError {
    Stop,
    GoOn,
}

/// How a piece of input ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flow {
    GoOn,
    Quit,
    /// A failure was reported, or the reader of the output has gone.
    Stop(ExitCode),
}

/// Runs what the user gives it.
pub struct Shell {
    pub ctx: SessionContext,
    pub print: PrintOptions,
    /// The files being read, outermost first; `\i` adds one.
    includes: usize,
    failed: bool,
}

impl Shell {
    pub fn new(session: Session) -> Self {
        Self {
            ctx: session.ctx,
            print: session.print,
            includes: 0,
            failed: false,
        }
    }

    /// Runs files, then commands; or a session, when neither was given.
    pub async fn run(&mut self, args: Args) -> ExitCode {
        if args.is_session() {
            return self.session(args).await;
        }
        for file in &args.file {
            match self.file(file, OnError::Stop).await {
                Flow::GoOn => {}
                Flow::Quit => return ExitCode::SUCCESS,
                Flow::Stop(code) => return code,
            }
        }
        for command in &args.command {
            match self.lines(command.as_bytes(), None, OnError::Stop).await {
                Flow::GoOn => {}
                Flow::Quit => return ExitCode::SUCCESS,
                Flow::Stop(code) => return code,
            }
        }
        ExitCode::SUCCESS
    }

    async fn session(&mut self, args: Args) -> ExitCode {
        let interactive = io::stdin().is_terminal();
        if interactive && !args.quiet {
            println!("tiledb-sql {}", *VERSION);
        }
        let rc = args.rc.unwrap_or_else(|| {
            let file = std::env::home_dir().map(|home| home.join(".datafusionrc"));
            file.filter(|f| f.exists())
                .map(|f| f.to_string_lossy().into_owned())
                .into_iter()
                .collect()
        });
        for file in &rc {
            match self.file(file, OnError::GoOn).await {
                Flow::GoOn => {}
                Flow::Quit => return self.exit_code(),
                Flow::Stop(code) => return code,
            }
        }
        if interactive {
            return repl::run(self).await;
        }
        match self
            .lines(io::stdin().lock(), Some("stdin"), OnError::GoOn)
            .await
        {
            Flow::Stop(code) => code,
            Flow::GoOn | Flow::Quit => self.exit_code(),
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
    async fn lines(
        &mut self,
        mut reader: impl BufRead,
        source: Option<&str>,
        on_error: OnError,
    ) -> Flow {
        let mut splitter = Splitter::default();
        let mut line = String::new();
        loop {
            line.clear();
            let pieces = match reader.read_line(&mut line) {
                Ok(0) => break,
                Ok(_) => splitter.push_line(&line),
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

    fn fail(
        &mut self,
        error: &datafusion::error::DataFusionError,
        place: Option<&str>,
        on_error: OnError,
    ) -> Flow {
        if on_error == OnError::Stop || report::is_closed_output(error) {
            return Flow::Stop(report::failure(error, place));
        }
        report::print(error, place);
        self.failed = true;
        Flow::GoOn
    }

    /// Runs one statement and prints its result.
    pub async fn statement(&self, sql: String) -> Result<()> {
        if let Some(statement) = GroupStatement::parse(&sql).map_err(external)? {
            return report::catch_panic(self.group_statement(statement)).await;
        }
        let explains = sql
            .trim_start()
            .get(..7)
            .is_some_and(|w| w.eq_ignore_ascii_case("explain"));
        let again = explains.then(|| sql.clone());
        let print = self.print_options();
        let run = |sql| report::catch_panic(exec_from_commands(&self.ctx, vec![sql], &print));
        match (run(sql).await, again) {
            // DataFusion's tree cuts long lines by bytes and cannot hold names beyond ASCII.
            (Err(e), Some(sql)) if report::is_panic(&e) => {
                let before = self.set_explain_format(ExplainFormat::Indent);
                let result = run(sql).await;
                self.set_explain_format(before);
                result
            }
            (result, _) => result,
        }
    }

    /// How results are printed. Only tables, which people read, are cut to `maxrows`; other formats go to programs.
    fn print_options(&self) -> PrintOptions {
        let mut print = self.print.clone();
        if !matches!(print.format, PrintFormat::Table | PrintFormat::Automatic) {
            print.maxrows = MaxRows::Unlimited;
        }
        print
    }

    /// Attaches or detaches a group.
    async fn group_statement(&self, statement: GroupStatement) -> Result<()> {
        let began = Instant::now();
        if let GroupStatement::Attach {
            uri, store_options, ..
        } = &statement
        {
            session::register_store(&self.ctx, uri, &store_options.0).await?;
        }
        let ran = statement.run(&self.ctx).await;
        ran.map_err(external)?;
        let state = self.ctx.state();
        let format = &state.config_options().format;
        self.print
            .print_batches(Arc::new(Schema::empty()), &[], began, 0, format)
    }

    fn set_explain_format(&self, format: ExplainFormat) -> ExplainFormat {
        let state = self.ctx.state_ref();
        let mut state = state.write();
        let options = state.config_mut().options_mut();
        std::mem::replace(&mut options.explain.format, format)
    }

    /// Runs one command (without its backslash) as a session does.
    pub async fn session_command(&mut self, text: &str) -> Flow {
        self.command(text, None, OnError::GoOn).await
    }

    async fn command(&mut self, text: &str, place: Option<&str>, on_error: OnError) -> Flow {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let result = match words.parse::<Command>() {
            Ok(Command::Quit) => return Flow::Quit,
            Ok(Command::Include(Some(path))) => return self.include(&path, place, on_error).await,
            Ok(Command::OutputFormat(setting)) => self.output_format(setting.as_deref()),
            Ok(command) => report::catch_panic(command.execute(&self.ctx, &mut self.print)).await,
            Err(()) => Err(unknown_command(&words)),
        };
        match result {
            Ok(()) => Flow::GoOn,
            Err(e) => self.fail(&e, place, on_error),
        }
    }

    async fn include(&mut self, path: &str, place: Option<&str>, on_error: OnError) -> Flow {
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

    fn output_format(&mut self, setting: Option<&str>) -> Result<()> {
        match setting.map(str::parse::<OutputFormat>) {
            None => println!("Output format is {:?}.", self.print.format),
            Some(Ok(change)) => change.execute(&mut self.print)?,
            Some(Err(())) => return Err(unknown_command("pset")),
        }
        Ok(())
    }
}

fn external(error: datafusion_tiledb::Error) -> datafusion::error::DataFusionError {
    datafusion::error::DataFusionError::External(Box::new(error))
}

fn unknown_command(words: &str) -> datafusion::error::DataFusionError {
    report::message(format!("'\\{words}' is not a command; '\\?' lists them"))
}
