//! The one public error.
//!
//! An [`Error`] is a kind a caller can match on, a sentence that says what was found and what was
//! expected, context pairs that say where (`array`, `fragment`, `file`, `attribute`, `tile`, …), and the
//! error underneath, if any. Lower layers build one with the constructors named after the kinds and each
//! layer above adds the context it knows with [`Error::with`].

use std::fmt;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error: few kinds, each of which a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The path or object does not exist.
    NotFound,
    /// Something is there, but it is not a TileDB array.
    NotAnArray,
    /// There is a TileDB group instead of an array.
    IsAGroup,
    /// Something is there, but it is not a TileDB group.
    NotAGroup,
    /// There is a TileDB array instead of a group.
    IsAnArray,
    /// Bytes on storage contradict the format or each other.
    Corrupt,
    /// The array uses a version or feature that this release does not handle.
    Unsupported,
    /// An option, argument or value given by the user is not valid.
    InvalidInput,
    /// The array is encrypted and no key was given, the key does not fit, or one was given for an array that is not
    /// encrypted.
    Encryption,
    /// Something in an encrypted array or group is not encrypted, so that whoever put it there need not have known the key.
    NotEncrypted,
    /// A member of a group, or the array of a dimension label, lies outside what was opened, where it may not be opened; see
    /// [`ExternalMembers`](crate::storage::ExternalMembers).
    External,
    /// The name is taken.
    AlreadyExists,
    /// Another writer has changed the array since it was read; read it again, and repeat what failed.
    Conflict,
    /// The storage denies access to the file: credentials are missing, wrong or not sufficient.
    PermissionDenied,
    /// The storage failed.
    Storage,
    /// The memory granted to the query is not enough.
    OutOfMemory,
    /// A broken assumption inside this crate; please report it.
    Internal,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "not found",
            Self::NotAnArray | Self::IsAGroup => "not a TileDB array",
            Self::NotAGroup | Self::IsAnArray => "not a TileDB group",
            Self::Corrupt => "corrupt data",
            Self::Unsupported => "not supported",
            Self::InvalidInput => "invalid input",
            Self::Encryption | Self::NotEncrypted => "encryption",
            Self::External => "outside",
            Self::AlreadyExists => "already exists",
            Self::Conflict => "conflict",
            Self::PermissionDenied | Self::Storage => "storage error",
            Self::OutOfMemory => "out of memory",
            Self::Internal => "internal error",
        })
    }
}

/// An error of this crate. See the [module documentation](self).
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` whose message says what was found and what was expected.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            context: Vec::new(),
            source: None,
        }))
    }

    /// An [`ErrorKind::NotFound`] error.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// An [`ErrorKind::NotAnArray`] error.
    pub fn not_an_array(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotAnArray, message)
    }

    /// An [`ErrorKind::Corrupt`] error.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// An [`ErrorKind::Unsupported`] error.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// An [`ErrorKind::InvalidInput`] error.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// An [`ErrorKind::Encryption`] error.
    pub fn encryption(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Encryption, message)
    }

    /// An [`ErrorKind::AlreadyExists`] error.
    pub fn already_exists(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::AlreadyExists, message)
    }

    /// An [`ErrorKind::Conflict`] error.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// An [`ErrorKind::Storage`] error.
    pub fn storage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Storage, message)
    }

    /// An [`ErrorKind::OutOfMemory`] error.
    pub fn out_of_memory(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::OutOfMemory, message)
    }

    /// An [`ErrorKind::Internal`] error.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Adds where it happened. A key that already exists keeps its first, most precise value.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        if self.0.context.iter().all(|(k, _)| *k != key) {
            self.0.context.push((key, value.to_string()));
        }
        self
    }

    /// A copy of this error for another caller; its source, which cannot be copied, becomes text.
    #[must_use]
    pub fn again(&self) -> Self {
        let inner = &self.0;
        let source = inner.source.as_ref().map(ToString::to_string);
        Self(Box::new(Inner {
            kind: inner.kind,
            message: inner.message.clone(),
            context: inner.context.clone(),
            source: source.map(Into::into),
        }))
    }

    /// Whether the stored data are at fault, so that trying again gives the same error.
    pub(crate) fn is_about_data(&self) -> bool {
        matches!(self.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported)
    }

    /// Changes the kind of the error, where the caller knows more than the code that made it.
    #[must_use]
    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Attaches the underlying error.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The kind, for matching.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence, without kind and context.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The context pairs, innermost first.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(k, v)| (*k, v.as_str()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.0.message)?;
        for (i, (key, value)) in self.0.context.iter().enumerate() {
            let separator = if i == 0 { " (" } else { ", " };
            write!(f, "{separator}{key} {value}")?;
        }
        if !self.0.context.is_empty() {
            f.write_str(")")?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|e| e as &(dyn std::error::Error + 'static))
    }
}

impl From<std::num::TryFromIntError> for Error {
    fn from(source: std::num::TryFromIntError) -> Self {
        Self::corrupt("a length does not fit this machine's address space").with_source(source)
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// Adds context to the error of a result.
pub trait ResultExt<T> {
    /// See [`Error::with`]; `value` is computed only for an error.
    fn context<D: fmt::Display>(self, key: &'static str, value: impl FnOnce() -> D) -> Result<T>;
}

impl<T> ResultExt<T> for Result<T> {
    fn context<D: fmt::Display>(self, key: &'static str, value: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|e| e.with(key, value()))
    }
}

/// Removes what may be secret in a URL, for messages: `user:password@`, and the query of a signed address. The container in a URL
/// of Azure stays.
pub(crate) fn url_without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    if scheme.eq_ignore_ascii_case("file") {
        return url.to_owned();
    }
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    let (user, rest) = split_user(rest);
    let container = user.filter(|_| {
        scheme
            .get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case("abfs"))
    });
    let container = container.map(|user| user.split(':').next().unwrap_or_default());
    match container {
        Some(container) => format!("{scheme}://{container}@{rest}"),
        None => format!("{scheme}://{rest}"),
    }
}

/// Whether a URL holds a password.
pub fn has_password(url: &str) -> bool {
    let user = url
        .split_once("://")
        .and_then(|(_, rest)| split_user(rest).0);
    user.is_some_and(|user| user.contains(':'))
}

/// The user and password of a URL without its scheme, and the rest. A password may hold slashes that were not escaped.
fn split_user(rest: &str) -> (Option<&str>, &str) {
    let authority = rest.split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    let is_cut = port.is_some_and(|port| !port.bytes().all(|b| b.is_ascii_digit()));
    let at = match (authority.rfind('@'), rest.rfind('@')) {
        (None, Some(at)) if is_cut && !authority.ends_with(']') => Some(at),
        (at, _) => at,
    };
    match at.and_then(|at| rest.split_at_checked(at)) {
        Some((user, host)) => (Some(user), host.strip_prefix('@').unwrap_or(host)),
        None => (None, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_kind_message_and_context_once_each() {
        let error = Error::corrupt("tile offsets end at 8192 but the file has 8000 bytes")
            .with("file", "a0.tdb")
            .with("fragment", "__1_1_x_22")
            .with("file", "outer.tdb");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(
            error.to_string(),
            "corrupt data: tile offsets end at 8192 but the file has 8000 bytes (file a0.tdb, fragment __1_1_x_22)"
        );
    }

    #[test]
    fn urls_are_shown_without_secrets() {
        for (url, shown, password) in [
            ("s3://b/a/", "s3://b/a/", false),
            ("s3://AK:s/e@b/a", "s3://b/a", true),
            ("https://u:p@h/a?sig=x", "https://h/a", true),
            ("abfss://c@h/a@b", "abfss://c@h/a@b", false),
            ("abfss://c:s@h/a@b", "abfss://c@h/a@b", true),
            ("s3://:s@b/a", "s3://b/a", true),
            ("http://[::1]/a@b", "http://[::1]/a@b", false),
            ("http://h:80/a@b", "http://h:80/a@b", false),
            ("/a?b", "/a?b", false),
        ] {
            assert_eq!(url_without_secrets(url), shown);
            assert_eq!(has_password(url), password, "{url}");
        }
    }
}
