//! Errors of workers: the engine makes texts of them, and here they keep their kind and get the worker's address.

use datafusion::error::DataFusionError;
use tiledb_engine::ErrorKind;
use url::Url;

use crate::Error;
use crate::error::kind_of;

/// Encloses an error of ours in the text of another. Texts of errors have no such characters.
const BEGIN: char = '\u{2}';
const END: char = '\u{3}';

/// Which process reads an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorReader {
    /// The coordinator, whose user sees it.
    Coordinator,
    /// A worker, which passes it on.
    Worker,
}

/// The kinds that mean something to programs.
const KINDS: [(&str, ErrorKind); 12] = [
    ("NotFound", ErrorKind::NotFound),
    ("NotAnArray", ErrorKind::NotAnArray),
    ("Corrupt", ErrorKind::Corrupt),
    ("Unsupported", ErrorKind::Unsupported),
    ("InvalidInput", ErrorKind::InvalidInput),
    ("Encryption", ErrorKind::Encryption),
    ("NotEncrypted", ErrorKind::NotEncrypted),
    ("External", ErrorKind::External),
    ("Conflict", ErrorKind::Conflict),
    ("PermissionDenied", ErrorKind::PermissionDenied),
    ("Storage", ErrorKind::Storage),
    ("Internal", ErrorKind::Internal),
];

/// An error of a worker, with its kind in its text.
pub(crate) fn leaving(error: DataFusionError) -> DataFusionError {
    let kind = kind_of(&error);
    let named = KINDS.iter().find(|(_, known)| Some(*known) == kind);
    match named {
        Some((name, _)) => {
            DataFusionError::Execution(format!("{BEGIN}{name}{BEGIN}{}{END}", text(&error)))
        }
        None => error,
    }
}

/// The text of an error, with its causes.
fn text(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let text = text.strip_prefix("External error: ").unwrap_or(&text);
    text.replace([BEGIN, END], " ")
}

/// An error that came from a worker.
pub(crate) fn arrived(
    error: DataFusionError,
    worker: &Url,
    reader: ErrorReader,
) -> DataFusionError {
    let text = error.to_string();
    let marked = text.split_once(BEGIN).and_then(|(_, rest)| {
        let (kind, rest) = rest.split_once(BEGIN)?;
        let (_, kind) = KINDS.iter().find(|(name, _)| *name == kind)?;
        Some((*kind, rest.split(END).next().unwrap_or_default().to_owned()))
    });
    match marked {
        // The first worker that passes an error on has named the worker that it comes from.
        Some((kind, message)) => {
            let message = named(message, worker);
            match reader {
                ErrorReader::Coordinator => {
                    DataFusionError::External(Box::new(Error::new(kind, message)))
                }
                ErrorReader::Worker => leaving(DataFusionError::External(Box::new(Error::new(
                    kind, message,
                )))),
            }
        }
        None if matches!(error, DataFusionError::ResourcesExhausted(_)) => {
            let message = match error {
                DataFusionError::ResourcesExhausted(message) => message,
                other => other.to_string(),
            };
            let hint = if message.contains(WORKER) {
                ""
            } else {
                ": give the worker more memory with its option -m"
            };
            DataFusionError::ResourcesExhausted(format!("{}{hint}", named(message, worker)))
        }
        None if text.contains(WORKER) => error,
        None => DataFusionError::Execution(named(plain(&text), worker)),
    }
}

const WORKER: &str = "worker http";

/// What the transport says of a connection that ended.
const BROKEN: [&str; 4] = [
    "h2 protocol error",
    "transport error",
    "connection error",
    "operation was canceled",
];

fn named(message: String, worker: &Url) -> String {
    if message.contains(WORKER) {
        return message;
    }
    format!("worker {worker}: {message}")
}

/// The text of an error without the words that only its enums, and those of its transport, need.
fn plain(text: &str) -> String {
    let text = text.strip_prefix("Execution error: ").unwrap_or(text);
    let text = text.strip_prefix("External error: ").unwrap_or(text);
    if BROKEN.iter().any(|broken| text.contains(broken)) {
        return "the connection broke off: the process there was stopped, isn't a worker of this release, or wants TLS or another \
                certificate"
            .to_owned();
    }
    // A status of gRPC: `code: '…', message: "…", source: …`.
    let message = text.split_once("message: \"").map(|(_, rest)| rest);
    let message = message.and_then(|rest| Some(rest.split_once('"')?.0));
    message
        .filter(|_| text.starts_with("code: "))
        .unwrap_or(text)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url() -> Url {
        Url::parse("http://a.example:7071").unwrap()
    }

    #[test]
    fn kinds_cross_any_number_of_workers() {
        for (_, kind) in KINDS {
            let error = Error::new(kind, "what was found").with("array", "s3://b/a");
            let mut error = leaving(DataFusionError::External(Box::new(error)));
            for _ in 0..2 {
                // The engine sends the text alone.
                let text = error.to_string();
                let sent = DataFusionError::External(text.into());
                error = arrived(sent, &url(), ErrorReader::Worker);
            }
            let error = arrived(error, &url(), ErrorReader::Coordinator);
            assert_eq!(kind_of(&error), Some(kind));
            let text = error.to_string();
            assert_eq!(
                text.matches("worker http://a.example:7071/").count(),
                1,
                "{text}"
            );
            assert!(
                text.contains("what was found") && text.contains("s3://b/a"),
                "{text}"
            );
            assert!(!text.contains([BEGIN, END]), "{text:?}");
        }
    }

    #[test]
    fn other_errors_name_the_worker() {
        let full = DataFusionError::ResourcesExhausted("4 GB are used".to_owned());
        let full = arrived(leaving(full), &url(), ErrorReader::Coordinator);
        assert!(matches!(full, DataFusionError::ResourcesExhausted(_)));
        assert!(full.to_string().contains("-m") && full.to_string().contains("a.example"));
        let cast = DataFusionError::Execution("can't cast".to_owned());
        let cast = arrived(cast, &url(), ErrorReader::Coordinator).to_string();
        assert!(
            cast.contains("worker http://a.example:7071/: can't cast"),
            "{cast}"
        );
    }
}
