//! Runs the statements and commands of files, of a pipe and of the command line, one after the other.
//!
//! The loop is ours because datafusion-cli's loop continues after a failed statement of a file and exits 0.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use datafusion_cli::object_storage::is_stdin_location;
use zeroize::Zeroizing;

use crate::commands::included_file;
use crate::interrupt::Interruptible;
use crate::report;
use crate::script::{PieceKind, ScriptPiece, Splitter};
use crate::shell::{OnError, Shell, ShellFlow};

/// How deep `\i` may nest, so that a file that includes itself is an error.
const MAX_INCLUDES: usize = 16;

impl Shell {
    /// Runs a file; `-` is the standard input.
    pub async fn file(&mut self, path: &str, on_error: OnError) -> ShellFlow {
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
    ) -> ShellFlow {
        let interrupts = self.interrupts();
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
            if flow != ShellFlow::GoOn {
                return flow;
            }
            if is_interrupted(interrupts.as_ref()) {
                return self.fail(&report::interrupt(), None, on_error);
            }
        }
        self.pieces(splitter.finish(), source, on_error).await
    }

    /// The signals from now on. Outside a session, a signal between two statements ends the shell anyway.
    fn interrupts(&self) -> Option<Interruptible> {
        self.is_interactive.then(Interruptible::begin)
    }

    /// Runs pieces of input; `source` names it in messages.
    pub async fn pieces(
        &mut self,
        pieces: impl IntoIterator<Item = ScriptPiece>,
        source: Option<&str>,
        on_error: OnError,
    ) -> ShellFlow {
        let interrupts = self.interrupts();
        for ScriptPiece { line, kind } in pieces {
            if is_interrupted(interrupts.as_ref()) {
                return self.fail(&report::interrupt(), None, on_error);
            }
            let place = source.map(|s| format!("{s}, line {line}"));
            let flow = match kind {
                PieceKind::Statement(sql) => {
                    let sql = self.variables.substitute(&sql);
                    self.last_statement = Some(Zeroizing::new(sql.clone()));
                    match self.statement(sql).await {
                        Ok(()) => ShellFlow::GoOn,
                        Err(e) => self.fail(&e, place.as_deref(), on_error),
                    }
                }
                PieceKind::Command(text) => match included_file(&text) {
                    Some(path) => self.include(path, place.as_deref(), on_error).await,
                    None => self.command(&text, place.as_deref(), on_error).await,
                },
            };
            if flow != ShellFlow::GoOn {
                return flow;
            }
        }
        ShellFlow::GoOn
    }

    async fn include(&mut self, path: &str, place: Option<&str>, on_error: OnError) -> ShellFlow {
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

/// Whether there was a signal, perhaps just as a statement ended.
fn is_interrupted(interrupts: Option<&Interruptible>) -> bool {
    interrupts.is_some_and(Interruptible::is_interrupted)
}
