//! Results that do not fit the window are shown through a pager, which scrolls in both directions.
//!
//! Rows are held back until they fill the window. If they never do, they are printed as if there were no pager.

use std::env;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};

use console::{Term, measure_text_width};
use datafusion::error::Result;

use crate::programs::{is_on_path, system_shell};
use crate::report;

/// The variables that name a pager, the strongest first.
const VARIABLES: [&str; 2] = ["TILEDB_SQL_PAGER", "PAGER"];
const DEFAULT: &str = "less";
/// Long lines are scrolled, not wrapped (S); colors work (R); the last screen stays visible (X).
const LESS: &str = "RSX";
/// The lines below the rows with their number, and the prompt.
const LINES_BELOW: usize = 4;
/// Colors and combining marks take bytes but no columns. A line with more bytes than this for each column does not fit,
/// whatever they are, so no more of it is kept.
const BYTES_PER_COLUMN: usize = 64;
/// The exit statuses with which `sh` reports that it could not run a command.
const NOT_RUN: [i32; 2] = [126, 127];
/// The exit status with which `sh` reports that Ctrl-C ended a command.
const INTERRUPTED: i32 = 130;

/// How the showing of rows ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagerOutcome {
    ToTheEnd,
    /// Ctrl-C ended the pager.
    UntilInterrupt,
}

/// Whether results are paged, and the pager.
#[derive(Debug, Clone, Default)]
pub struct Pager {
    /// Whether a user at a terminal types the statements.
    pub is_attended: bool,
    pub is_off: bool,
    /// The command that the user set in the session.
    pub command: Option<String>,
}

impl Pager {
    /// Whether results are paged now.
    fn pages(&self) -> bool {
        self.is_attended && !self.is_off && io::stdout().is_terminal()
    }

    /// The command of the pager; `None` if none is named, and the system has none.
    pub fn command(&self) -> Option<String> {
        let named = || VARIABLES.into_iter().find_map(|name| env::var(name).ok());
        let named = self.command.clone().or_else(named);
        match named {
            Some(command) => Some(command).filter(|command| !command.trim().is_empty()),
            None => is_on_path(DEFAULT).then(|| DEFAULT.to_owned()),
        }
    }

    /// Lets `print` write to the pager if the output does not fit the window, and to `out` if it does.
    pub fn show(
        &self,
        out: &mut impl Write,
        print: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<PagerOutcome> {
        let Some(command) = self.pages().then(|| self.command()).flatten() else {
            return print(out).map(|()| PagerOutcome::ToTheEnd);
        };
        let (rows, columns) = Term::stdout().size();
        let mut paged = PagedText {
            command,
            fits: WindowFit::new(
                usize::from(rows).saturating_sub(LINES_BELOW),
                columns.into(),
            ),
            held: Vec::new(),
            running: None,
        };
        let printed = print(&mut paged);
        let ended = paged.end(out);
        printed.and(ended)
    }
}

/// Follows text, and checks whether it still fits a window.
struct WindowFit {
    rows: usize,
    columns: usize,
    lines: usize,
    /// The last line so far.
    line: Vec<u8>,
    fits: bool,
}

impl WindowFit {
    fn new(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            lines: 0,
            line: Vec::new(),
            fits: true,
        }
    }

    /// Takes more of the text, and returns whether all of it fits.
    fn push(&mut self, bytes: &[u8]) -> bool {
        for &byte in bytes {
            if !self.fits {
                break;
            }
            if byte == b'\n' {
                self.lines += 1;
                let line = String::from_utf8_lossy(&self.line);
                self.fits = self.lines <= self.rows && measure_text_width(&line) <= self.columns;
                self.line.clear();
            } else {
                self.line.push(byte);
                self.fits = self.line.len() / BYTES_PER_COLUMN <= self.columns;
            }
        }
        self.fits
    }
}

/// Text on its way to a window or a pager.
struct PagedText {
    command: String,
    fits: WindowFit,
    /// All text so far, while there is no pager.
    held: Vec<u8>,
    running: Option<RunningPager>,
}

/// A running pager.
struct RunningPager {
    child: Child,
    /// `None` once it reads no more, because the user has seen enough.
    input: Option<BufWriter<ChildStdin>>,
}

impl PagedText {
    /// Prints the text that was held back, or waits until the user leaves the pager.
    fn end(self, out: &mut impl Write) -> Result<PagerOutcome> {
        let Some(mut running) = self.running else {
            out.write_all(&self.held)?;
            return Ok(PagerOutcome::ToTheEnd);
        };
        running.flush()?;
        drop(running.input.take());
        let status = running.child.wait()?;
        if status.code().is_some_and(|code| NOT_RUN.contains(&code)) {
            return Err(report::message(format!(
                "the pager '{}' does not run; '\\pager off' prints without one",
                self.command
            )));
        }
        Ok(if is_interrupted(status) {
            PagerOutcome::UntilInterrupt
        } else {
            PagerOutcome::ToTheEnd
        })
    }
}

/// Whether Ctrl-C ended a program, or the command that ran in its shell.
fn is_interrupted(status: ExitStatus) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        use tokio::signal::unix::SignalKind;

        if status.signal() == Some(SignalKind::interrupt().as_raw_value()) {
            return true;
        }
    }
    status.code() == Some(INTERRUPTED)
}

impl Write for PagedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(running) = &mut self.running {
            return running.write(bytes);
        }
        self.held.extend_from_slice(bytes);
        if !self.fits.push(bytes) {
            let mut running = RunningPager::begin(&self.command)?;
            running.write_all(&std::mem::take(&mut self.held))?;
            self.running = Some(running);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.running.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl RunningPager {
    fn begin(command: &str) -> io::Result<Self> {
        let mut begun = system_shell(command);
        begun.stdin(Stdio::piped());
        if env::var_os("LESS").is_none() {
            begun.env("LESS", LESS);
        }
        let mut child = begun.spawn()?;
        let input = child.stdin.take().map(BufWriter::new);
        Ok(Self { child, input })
    }

    /// Uses the input. Once nobody reads it, errors don't matter.
    fn with_input<T: Default>(
        &mut self,
        act: impl FnOnce(&mut BufWriter<ChildStdin>) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let Some(input) = &mut self.input else {
            return Ok(None);
        };
        match act(input) {
            Ok(done) => Ok(Some(done)),
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                // Dropping the whole writer would try to write the rest.
                if let Some(input) = self.input.take() {
                    drop(input.into_parts());
                }
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

impl Write for RunningPager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.with_input(|input| input.write(bytes))?;
        Ok(written.unwrap_or(bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with_input(Write::flush).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(text: &str) -> bool {
        let mut fits = WindowFit::new(3, 8);
        // In pieces, one of which ends within a character.
        text.as_bytes().chunks(3).all(|piece| fits.push(piece))
    }

    #[test]
    fn text_fits_by_its_lines_and_their_width() {
        assert!(fits(""));
        assert!(fits("12345678\n12345678\n12345678\n"));
        assert!(!fits("1\n2\n3\n4\n"));
        assert!(!fits("123456789\n"));
        // Characters are counted by the columns that they take, and colors take none.
        assert!(fits("ääääéééé\n"));
        assert!(!fits("日本語日本\n"));
        assert!(fits("\u{1b}[31m12345678\u{1b}[0m\n"));
        // A line without end.
        assert!(!fits(&"1".repeat(1000)));
    }

    #[test]
    fn an_empty_name_is_no_pager() {
        let named = |command: &str| Pager {
            command: Some(command.to_owned()),
            ..Pager::default()
        };
        assert_eq!(named("  ").command(), None);
        assert_eq!(named("more -d").command().unwrap(), "more -d");
    }
}
