//! Failed requests, in words: what was refused, where the credentials came from, and what to do.

use std::error::Error as StdError;
use std::fmt;

use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;

use crate::failure::{StoreFailure, StoreFailureKind};
use crate::refusal::StoreRefusal;
use crate::store_url::{StoreService, StoreUrl};
use crate::transport::SilenceError;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreOperation {
    List,
    Read,
    Write,
    Remove,
}

impl StoreOperation {
    fn verb(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Write => "write",
            Self::Remove => "remove",
        }
    }

    /// The permission that an operation needs.
    fn permission(self, service: StoreService) -> &'static str {
        match (service, self) {
            (StoreService::GoogleCloud, Self::List) => "storage.objects.list",
            (StoreService::GoogleCloud, Self::Read) => "storage.objects.get",
            (StoreService::GoogleCloud, Self::Write) => "storage.objects.create",
            (StoreService::GoogleCloud, Self::Remove) => "storage.objects.delete",
            (StoreService::Azure, Self::List | Self::Read) => "Storage Blob Data Reader",
            (StoreService::Azure, _) => "Storage Blob Data Contributor",
            (StoreService::Web, Self::List) => "PROPFIND with Depth 1",
            (StoreService::Web, Self::Read) => "GET",
            (_, Self::List) => "s3:ListBucket",
            (_, Self::Read) => "s3:GetObject",
            (_, Self::Write) => "s3:PutObject",
            (_, Self::Remove) => "s3:DeleteObject",
        }
    }
}

/// What is known of a request that failed.
pub(crate) struct FailedRequest<'a> {
    /// The store.
    pub url: &'a StoreUrl,
    /// What the request was to do.
    pub operation: StoreOperation,
    /// The object, or the prefix that was listed.
    pub path: &'a Path,
    /// The source of the credentials, as the end of the sentence "the request was …".
    pub credentials: &'a str,
}

impl FailedRequest<'_> {
    /// Puts the cause of an error into words. Errors that callers act on keep their variant. Errors that aren't failures of the store
    /// stay as they are.
    pub fn explain(&self, error: object_store::Error) -> object_store::Error {
        use object_store::Error;

        if StoreFailure::in_error(&error).is_some() {
            return error;
        }
        let path = self.path.to_string();
        match &error {
            Error::NotFound { .. } => match self.failure_of(&error) {
                failure if failure.kind() == StoreFailureKind::NoBucket => self.generic(failure),
                failure => Error::NotFound {
                    path,
                    source: Box::new(failure),
                },
            },
            Error::PermissionDenied { .. } => Error::PermissionDenied {
                path,
                source: Box::new(self.failure_of(&error)),
            },
            Error::Unauthenticated { .. } => Error::Unauthenticated {
                path,
                source: Box::new(self.failure_of(&error)),
            },
            Error::Generic { .. } => match self.failure_of(&error) {
                failure if failure.kind() == StoreFailureKind::AccessDenied => {
                    Error::PermissionDenied {
                        path,
                        source: Box::new(failure),
                    }
                }
                failure => self.generic(failure),
            },
            _ => error,
        }
    }

    fn generic(&self, failure: StoreFailure) -> object_store::Error {
        object_store::Error::Generic {
            store: self.url.service().name(),
            source: Box::new(failure),
        }
    }

    fn failure_of(&self, error: &object_store::Error) -> StoreFailure {
        if let Some(refusal) = StoreRefusal::find(&error.to_string()) {
            return self.refused(&refusal);
        }
        match http_error(error) {
            Some(http) => self.unanswered(http),
            None => self.failure(StoreFailureKind::Refused, without_prefix(error)),
        }
    }

    fn failure(&self, kind: StoreFailureKind, why: impl fmt::Display) -> StoreFailure {
        let (verb, url) = (self.operation.verb(), self.url.url_of(self.path));
        StoreFailure::new(kind, format!("cannot {verb} {url}: {why}"))
    }

    /// The failure for a request that the store refused.
    fn refused(&self, refusal: &StoreRefusal) -> StoreFailure {
        let container = format!(
            "{} '{}'",
            self.url.service().container(),
            self.url.container()
        );
        let said = said(refusal);
        let code = refusal.code.as_str();
        if !refusal.region.is_empty() && matches!(refusal.status, 301 | 307 | 400) {
            let region = &refusal.region;
            let why = format!(
                "the {container} is in the region {region} ({said}): set aws.region to '{region}'"
            );
            let failure = self.failure(StoreFailureKind::Refused, why);
            return failure.in_region(region.clone());
        }
        if let Some((why, remedy)) = self.denial(refusal) {
            return self.denied(&said, &why, remedy);
        }
        match (refusal.status, code) {
            (
                _,
                "NoSuchBucket" | "ContainerNotFound" | "InvalidBucketName" | "InvalidResourceName",
            ) => {
                let why = format!(
                    "there is no {container} ({said}): check its name, and the account or endpoint that it should be in"
                );
                self.failure(StoreFailureKind::NoBucket, why)
            }
            (404, _) => self.failure(
                StoreFailureKind::Refused,
                format!("it does not exist ({said})"),
            ),
            (429 | 503, _) => {
                let why = format!(
                    "the store is overloaded, also after several attempts ({said}): try again later, or raise tiledb.retries and tiledb.retry_time"
                );
                self.failure(StoreFailureKind::Refused, why)
            }
            (500.., _) => {
                let why = format!(
                    "the store failed, also after several attempts ({said}): try again later"
                );
                self.failure(StoreFailureKind::Refused, why)
            }
            _ => self.failure(
                StoreFailureKind::Refused,
                format!("the store refused the request ({said})"),
            ),
        }
    }

    /// Why access was denied, and what to do, if it was.
    fn denial(&self, refusal: &StoreRefusal) -> Option<(String, &'static str)> {
        let (why, remedy) = match (refusal.status, refusal.code.as_str()) {
            (_, "InvalidAccessKeyId") => (
                "the store doesn't know the access key",
                "check the access key ID, and that the endpoint is the one that it is for",
            ),
            (_, "SignatureDoesNotMatch") => (
                "the secret key doesn't belong to the access key",
                "check the secret key",
            ),
            (
                _,
                "ExpiredToken"
                | "TokenRefreshRequired"
                | "InvalidToken"
                | "ExpiredAuthenticationToken",
            ) => (
                "the session token has expired or is not valid",
                "get new credentials",
            ),
            (_, "RequestTimeTooSkewed") => (
                "the clock of this machine differs too much from the store's",
                "set the clock",
            ),
            (401, _) | (403, "AuthenticationFailed" | "InvalidAuthenticationInfo") => {
                ("the store doesn't accept the credentials", "check them")
            }
            // Azure's code for a request that its network rules refuse, and azurite's for a wrong key.
            (403, "AuthorizationFailure") if refusal.message.contains("failed to authenticate") => {
                ("the store doesn't accept the credentials", "check them")
            }
            (403, _) => {
                let service = self.url.service();
                let why = format!(
                    "access was denied: it needs {} on {} '{}'",
                    self.operation.permission(service),
                    service.container(),
                    self.url.container()
                );
                return Some((why, "use credentials that have it"));
            }
            _ => return None,
        };
        Some((why.to_owned(), remedy))
    }

    fn denied(&self, said: &str, why: &str, remedy: &str) -> StoreFailure {
        let credentials = self.credentials;
        let why = format!("{why} ({said}); the request was {credentials}: {remedy}");
        self.failure(StoreFailureKind::AccessDenied, why)
    }

    /// The failure for a request without an answer.
    fn unanswered(&self, error: &HttpError) -> StoreFailure {
        let why = innermost(error);
        let is_silent = error
            .source()
            .is_some_and(|cause| cause.is::<SilenceError>());
        let why = match error.kind() {
            _ if is_silent => format!(
                "the store stopped answering, also after several attempts ({why}): try again later, or raise tiledb.request_timeout"
            ),
            HttpErrorKind::Connect => {
                format!("no connection could be made ({why}): check the endpoint and the network")
            }
            _ => format!(
                "the connection was cut, also after several attempts ({why}): try again later, or raise tiledb.retries"
            ),
        };
        self.failure(StoreFailureKind::Unreachable, why)
    }
}

/// What the store said: the status, its code, and its message.
fn said(refusal: &StoreRefusal) -> String {
    let StoreRefusal {
        status,
        code,
        message,
        ..
    } = refusal;
    match (code.as_str(), message.as_str()) {
        ("", "") => format!("status {status}"),
        (code, "") => format!("status {status}, {code}"),
        ("", message) => format!("status {status}: {message}"),
        (code, message) => format!("status {status}, {code}: {message}"),
    }
}

fn http_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a HttpError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(http) = error.downcast_ref::<HttpError>() {
            return Some(http);
        }
        cause = error.source();
    }
    None
}

/// The text of an error without the name of its store.
fn without_prefix(error: &object_store::Error) -> String {
    match error {
        object_store::Error::Generic { source, .. } => source.to_string(),
        error => error.to_string(),
    }
}

/// The text of the cause of all causes.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
