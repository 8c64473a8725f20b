//! Conversion of errors of stores and files.

use std::io;

use tiledb_stores::{StoreFailure, StoreFailureKind};

use crate::error::{Error, ErrorKind};

/// The error for a store that could not `verb` (read, list) `uri`.
pub(super) fn of_store(verb: &str, uri: &str, error: object_store::Error) -> Error {
    if is_missing(&error) {
        return missing(uri);
    }
    if verb == "list"
        && let Some(why) = no_listing(uri, &error)
    {
        return Error::not_an_array(format!(
            "cannot list {uri}: {why}; an array can only be read from a web server that lists folders (WebDAV), \
             or from an object store"
        ))
        .with_source(error);
    }
    if let Some(failure) = StoreFailure::in_error(&error) {
        let kind = match failure.kind() {
            StoreFailureKind::AccessDenied => ErrorKind::PermissionDenied,
            _ => ErrorKind::Storage,
        };
        return Error::new(kind, failure.to_string());
    }
    let refused = matches!(
        error,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. }
    );
    let kind = if refused || io_kind(&error) == Some(io::ErrorKind::PermissionDenied) {
        ErrorKind::PermissionDenied
    } else {
        ErrorKind::Storage
    };
    Error::new(kind, format!("cannot {verb} {uri}")).with_source(error)
}

/// The error for a system that could not `verb` (read, write) the local file `uri`.
pub(super) fn of_file(verb: &str, uri: &str, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if verb == "read" => {
            return missing(uri);
        }
        io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ErrorKind::PermissionDenied
        }
        _ => ErrorKind::Storage,
    };
    Error::new(kind, format!("cannot {verb} {uri}")).with_source(error)
}

/// The error for something that does not exist.
pub(super) fn missing(uri: &str) -> Error {
    Error::not_found(format!("{uri} does not exist"))
}

/// Whether the object does not exist. A path below a regular file does not exist either, which local stores report by
/// another error.
pub(super) fn is_missing(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. })
        || io_kind(error) == Some(io::ErrorKind::NotADirectory)
}

/// The reason why a web server offers no listings, if an error shows that. Most servers offer none: they refuse the request
/// with various status codes, or answer it with a page.
fn no_listing(uri: &str, error: &object_store::Error) -> Option<String> {
    /// Bad Request, Forbidden, Method Not Allowed, Not Implemented.
    const REFUSALS: [&str; 4] = ["400", "403", "405", "501"];
    if !uri.starts_with("http://") && !uri.starts_with("https://") {
        return None;
    }
    // The error types of the client are private.
    let text = error.to_string();
    let after = ["status code: ", "(status "]
        .iter()
        .find_map(|before| text.split_once(before));
    let status = after.map(|(_, rest)| rest);
    let refused = REFUSALS
        .iter()
        .find(|refusal| status.is_some_and(|status| status.starts_with(*refusal)));
    match refused {
        Some(status) => Some(format!("the web server answers with status {status}")),
        None if text.contains("PROPFIND") => Some("the web server answers with a page".to_owned()),
        None => None,
    }
}

/// The error kind of the operating system, if the error came from it.
fn io_kind(error: &object_store::Error) -> Option<io::ErrorKind> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_can_act_on_is_told_apart() {
        let generic = |kind| object_store::Error::Generic {
            store: "local",
            source: Box::new(io::Error::from(kind)),
        };
        let path = "a/b".to_owned();
        for (error, expected) in [
            (generic(io::ErrorKind::NotADirectory), ErrorKind::NotFound),
            (
                generic(io::ErrorKind::PermissionDenied),
                ErrorKind::PermissionDenied,
            ),
            (generic(io::ErrorKind::TimedOut), ErrorKind::Storage),
            (
                object_store::Error::NotFound {
                    path: path.clone(),
                    source: "no".into(),
                },
                ErrorKind::NotFound,
            ),
            (
                object_store::Error::Unauthenticated {
                    path: path.clone(),
                    source: "who?".into(),
                },
                ErrorKind::PermissionDenied,
            ),
            (
                object_store::Error::PermissionDenied {
                    path,
                    source: "no".into(),
                },
                ErrorKind::PermissionDenied,
            ),
        ] {
            let found = of_store("read", "memory:///a/b", error);
            assert_eq!(found.kind(), expected, "{found}");
            assert!(found.message().contains("memory:///a/b"), "{found}");
        }
        let found = of_file(
            "read",
            "file:///a",
            io::Error::from(io::ErrorKind::PermissionDenied),
        );
        assert_eq!(found.kind(), ErrorKind::PermissionDenied);
    }
}
