//! Where rows go: to stdout, or with `\o` to a file or another program.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::process::{Child, Stdio};

use datafusion::error::Result;

use crate::programs::system_shell;
use crate::report;

/// The destination of rows.
#[derive(Debug, Default)]
pub enum ResultOutput {
    #[default]
    Stdout,
    File(File),
    /// The program reads the rows until it is closed.
    Program {
        command: String,
        child: Child,
    },
}

impl ResultOutput {
    /// Opens a file, replacing it if it exists, or starts the program after a `|`. `None` means stdout.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be written or the program can't be started.
    pub fn open(target: Option<&str>) -> Result<Self> {
        let Some(target) = target else {
            return Ok(Self::Stdout);
        };
        if let Some(command) = target.strip_prefix('|') {
            let command = command.trim();
            let child = system_shell(command).stdin(Stdio::piped()).spawn();
            let child = child.map_err(|e| {
                report::message(format!("the program '{command}' does not start: {e}"))
            })?;
            let command = command.to_owned();
            return Ok(Self::Program { command, child });
        }
        let file = File::create(target)
            .map_err(|e| report::message(format!("cannot write to '{target}': {e}")))?;
        Ok(Self::File(file))
    }

    /// Whether rows go to stdout.
    pub fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// The writer of the file or program; `None` for stdout.
    pub fn writer(&self) -> Option<Box<dyn Write + '_>> {
        match self {
            Self::Stdout => None,
            Self::File(file) => Some(Box::new(file)),
            Self::Program { child, .. } => Some(match &child.stdin {
                Some(stdin) => Box::new(UntilClosed(stdin)),
                None => Box::new(io::sink()),
            }),
        }
    }

    /// Ends the input of a program, and waits until the program has ended.
    ///
    /// # Errors
    ///
    /// Fails if the program fails.
    pub fn close(self) -> Result<()> {
        let Self::Program { command, mut child } = self else {
            return Ok(());
        };
        drop(child.stdin.take());
        let status = child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(report::message(format!(
                "the program '{command}' failed: {status}"
            )))
        }
    }
}

/// Writes to a program that may stop reading early, like `head`. The rest of the output is dropped.
struct UntilClosed<W>(W);

impl<W: Write> Write for UntilClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}
