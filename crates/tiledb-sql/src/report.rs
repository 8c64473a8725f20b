//! Errors for the user: one message on stderr, without wrappers, backtraces or panics.
//!
//! Messages leave out possible secrets, even where DataFusion repeats the user's text. `datafusion_tiledb::options::secrets` finds
//! them. The history doesn't keep statements with a secret either.
//!
//! DataFusion nests an error once per layer it passes ("External error: External error: …"); here only the
//! innermost sentence and the context that was added on purpose are kept.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{LazyLock, Mutex, PoisonError};

use datafusion::arrow::error::ArrowError;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion_tiledb::options::secrets::StatementSecrets;
use futures::FutureExt;
use zeroize::Zeroizing;

use crate::caret;

/// The place of the last panic, which its payload does not hold.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// An error with a sentence as its only content.
pub fn message(text: impl Into<String>) -> DataFusionError {
    DataFusionError::External(text.into().into())
}

/// Prints the error, unless it only means that nobody reads the output any more, and returns the exit status.
pub fn failure(error: &DataFusionError, place: Option<&str>) -> ExitCode {
    if is_closed_output(error) {
        return ExitCode::SUCCESS;
    }
    print(error, place);
    ExitCode::FAILURE
}

/// Prints the error to stderr as `Error: message` or `Error (place): message`.
pub fn print(error: &DataFusionError, place: Option<&str>) {
    use io::Write;
    let place = place.map(|p| format!(" ({p})")).unwrap_or_default();
    let text = describe(error);
    let shown = if is_syntax(error) {
        let statement = STATEMENT.lock().unwrap_or_else(PoisonError::into_inner);
        caret::under(&statement, &text).unwrap_or_default()
    } else {
        String::new()
    };
    // If stderr is closed, too, nothing can be reported.
    let _ = writeln!(
        io::stderr(),
        "Error{place}: {}{}",
        masked(&text),
        masked(&shown)
    );
}

/// Whether an error is one of syntax.
fn is_syntax(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::SQL(..))
}

/// The secrets of the running statement.
static SECRETS: Mutex<StatementSecrets> = Mutex::new(StatementSecrets::none());

/// The running statement.
static STATEMENT: LazyLock<Mutex<Zeroizing<String>>> = LazyLock::new(Mutex::default);

/// Keeps a statement until the next one, so that messages about it leave its secrets out and show the place of an error.
pub fn begin_statement(statement: &str) {
    *SECRETS.lock().unwrap_or_else(PoisonError::into_inner) = StatementSecrets::of(statement);
    *STATEMENT.lock().unwrap_or_else(PoisonError::into_inner) =
        Zeroizing::new(statement.to_owned());
}

/// A message without possible secrets.
pub fn masked(text: &str) -> String {
    let secrets = SECRETS.lock().unwrap_or_else(PoisonError::into_inner);
    secrets.masked(text)
}

/// The stderr of the log, without possible secrets.
pub struct MaskedLog;

impl io::Write for MaskedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = masked(&String::from_utf8_lossy(bytes));
        io::stderr().write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The error of an interrupted statement.
#[derive(Debug)]
struct InterruptError;

impl fmt::Display for InterruptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl StdError for InterruptError {}

/// The error of a statement that the user interrupted.
pub fn interrupt() -> DataFusionError {
    DataFusionError::External(Box::new(InterruptError))
}

/// Whether [`interrupt`] made this error.
pub fn is_interrupt(error: &DataFusionError) -> bool {
    matches!(error, DataFusionError::External(inner) if inner.is::<InterruptError>())
}

/// Reports that a statement was interrupted, over the `^C` that the terminal shows.
pub fn print_interrupt() {
    use io::{IsTerminal, Write};
    let mut stderr = io::stderr();
    let over = if stderr.is_terminal() { "\r" } else { "" };
    let _ = writeln!(stderr, "{over}Interrupted.");
}

/// Reports that an interrupted statement is still running.
pub fn print_cancelling() {
    use io::{IsTerminal, Write};
    let mut stderr = io::stderr();
    let over = if stderr.is_terminal() { "\r" } else { "" };
    let _ = writeln!(
        stderr,
        "{over}Cancelling… Press Ctrl-C again to leave the shell."
    );
}

/// `; did you mean …?` for the name most like a misspelled one, with `before` in front; nothing if none is like it.
pub fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>, before: &str) -> String {
    match datafusion_tiledb::options::most_similar(name, known) {
        Some(similar) => format!("; did you mean {before}{similar}?"),
        None => String::new(),
    }
}

/// Whether the error means that the reader of our output has gone.
pub fn is_closed_output(error: &DataFusionError) -> bool {
    let closed = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    // Only the forms that printing a result can produce: a broken connection to a store is a real error.
    match error {
        DataFusionError::IoError(e) => closed(e),
        DataFusionError::ArrowError(e, _) => match e.as_ref() {
            ArrowError::IoError(_, e) => closed(e),
            ArrowError::CsvError(text) => text.contains("Broken pipe"),
            _ => false,
        },
        DataFusionError::External(e) => e
            .downcast_ref::<DataFusionError>()
            .is_some_and(is_closed_output),
        _ => false,
    }
}

/// The error as one message.
pub fn describe(error: &DataFusionError) -> String {
    match error {
        DataFusionError::External(inner) => describe_boxed(inner.as_ref()),
        DataFusionError::Shared(inner) => describe(inner),
        DataFusionError::Diagnostic(_, inner) => describe(inner),
        // The name of an optimizer rule doesn't help the user.
        DataFusionError::Context(context, inner) if !context.contains(' ') => describe(inner),
        DataFusionError::Context(context, inner) => format!("{context}: {}", describe(inner)),
        DataFusionError::Collection(errors) => {
            let mut lines: Vec<_> = errors.iter().map(describe).collect();
            lines.dedup();
            lines.join("\n")
        }
        DataFusionError::ArrowError(inner, _) => describe_arrow(inner),
        DataFusionError::SQL(inner, _) => match inner.as_ref() {
            ParserError::ParserError(text) | ParserError::TokenizerError(text) => {
                format!("SQL syntax: {text}")
            }
            other => format!("SQL syntax: {other}"),
        },
        DataFusionError::Plan(text) => missing_location(text).unwrap_or_else(|| sentence(error)),
        _ => sentence(error),
    }
}

/// Prefixes of DataFusion's messages. They name the part of DataFusion that failed, which users don't need to know.
const PREFIXES: [&str; 5] = [
    "Error during planning: ",
    "Schema error: ",
    "Execution error: ",
    "External error: ",
    "Invalid or Unsupported Configuration: ",
];

/// DataFusion's own sentence, without the backtrace it may carry.
fn sentence(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let text = PREFIXES
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(&text);
    text.trim_end().to_owned()
}

fn describe_boxed(error: &(dyn StdError + Send + Sync + 'static)) -> String {
    if let Some(inner) = error.downcast_ref::<DataFusionError>() {
        describe(inner)
    } else if let Some(inner) = error.downcast_ref::<ArrowError>() {
        describe_arrow(inner)
    } else {
        error.to_string()
    }
}

fn describe_arrow(error: &ArrowError) -> String {
    match error {
        ArrowError::ExternalError(inner) => describe_boxed(inner.as_ref()),
        other => other.to_string(),
    }
}

/// Replaces `table 'datafusion.public./data/x' not found`, which is about a path, by a sentence about the path.
fn missing_location(text: &str) -> Option<String> {
    let name = text.strip_prefix("table '")?.strip_suffix("' not found")?;
    let location = name.splitn(3, '.').nth(2)?;
    if location.contains('/') && Path::new(location).is_file() {
        Some(format!(
            "the name of the file '{location}' doesn't show its format: give it a table, as in CREATE EXTERNAL TABLE t STORED AS CSV \
             LOCATION '{location}'"
        ))
    } else if location.contains('/') {
        Some(format!(
            "'{location}' isn't a TileDB array, nor a file or folder of files that can be read as a table"
        ))
    } else if Path::new(location).is_dir() {
        Some(format!(
            "there is no table '{location}'; to read the folder of that name, write './{location}'"
        ))
    } else {
        None
    }
}

/// Keeps panics silent, but records them; [`catch_panic`] reports them. A panic of `println!` because nobody reads any more
/// ends the process quietly.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        let text = payload_text(info.payload());
        if text.starts_with("failed printing to") && text.contains("Broken pipe") {
            std::process::exit(0);
        }
        let place = info
            .location()
            .map(|l| format!(" at {l}"))
            .unwrap_or_default();
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = format!("{text}{place}");
    }));
}

/// How the message of a caught panic begins.
const PANIC: &str = "internal error: ";

/// Whether [`catch_panic`] made this error.
pub fn is_panic(error: &DataFusionError) -> bool {
    describe(error).starts_with(PANIC)
}

/// Turns a panic inside the future into an error.
pub async fn catch_panic<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    match AssertUnwindSafe(future).catch_unwind().await {
        Ok(result) => result,
        Err(payload) => {
            let known = LAST_PANIC
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let text = if known.is_empty() {
                payload_text(payload.as_ref()).to_owned()
            } else {
                known
            };
            Err(message(format!(
                "{PANIC}{text}; this is a bug, please report it with the statement that caused it"
            )))
        }
    }
}

fn payload_text(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "a panic without a message"
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn nesting_is_stripped() {
        let inner = datafusion_tiledb::Error::corrupt("bad magic").with("file", "a0.tdb");
        let error = DataFusionError::External(Box::new(inner));
        let error = ArrowError::ExternalError(Box::new(error));
        let error = DataFusionError::ArrowError(Box::new(error), None);
        let error = DataFusionError::Shared(Arc::new(DataFusionError::External(Box::new(error))));
        assert_eq!(describe(&error), "corrupt data: bad magic (file a0.tdb)");
    }

    #[test]
    fn a_missing_path_is_called_a_path() {
        let error = DataFusionError::Plan(
            "table 'datafusion.public./no/such.parquet' not found".to_owned(),
        );
        assert!(describe(&error).starts_with("'/no/such.parquet' isn't a TileDB array"));
        let error =
            DataFusionError::Plan("table 'datafusion.public../Cargo.toml' not found".to_owned());
        assert!(describe(&error).contains("STORED AS CSV"), "{error}");
        let error = DataFusionError::Plan("table 'datafusion.public.t' not found".to_owned());
        assert_eq!(describe(&error), "table 'datafusion.public.t' not found");
    }

    #[test]
    fn only_our_own_output_closing_is_quiet() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_closed_output(&DataFusionError::IoError(broken())));
        assert!(!is_closed_output(&DataFusionError::External(Box::new(
            broken()
        ))));
    }

    #[tokio::test]
    async fn a_panic_becomes_an_error() {
        async fn boom() -> Result<()> {
            panic!("boom")
        }
        let error = catch_panic(boom()).await.unwrap_err();
        assert!(
            describe(&error).starts_with("internal error: boom"),
            "{error}"
        );
    }
}
