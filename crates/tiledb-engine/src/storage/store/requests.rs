//! Counting and logging of requests, when they start and when they end, and the errors of those that fail, which name
//! the file.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Storage;
use crate::error::{Error, Result};
use crate::storage::failures;
use crate::storage::request_log::{IoCounters, LoggedRequest, RequestKind, RequestLog};

/// Requests that take longer than this are logged at a higher level.
const SLOW: Duration = Duration::from_secs(1);

impl Storage {
    pub(super) fn start(
        &self,
        kind: RequestKind,
        file: &str,
        offset: Option<u64>,
        bytes_asked: Option<u64>,
    ) -> RequestTicket<'_> {
        self.counters.add_request();
        let told = log::log_enabled!(log::Level::Debug).then(|| {
            let at = offset.map(|offset| format!(" at {offset}"));
            let (uri, at) = (self.location.uri_of(file), at.unwrap_or_default());
            (format!("{kind:?} {uri}{at}"), Instant::now())
        });
        let entry = self.log.as_deref().map(|log| {
            let number = log.start(LoggedRequest {
                kind,
                file: file.to_owned(),
                offset,
                bytes_asked,
                bytes_returned: None,
            });
            (log, number)
        });
        RequestTicket {
            counters: &self.counters,
            entry,
            told,
        }
    }
}

impl Storage {
    pub(super) fn start_ranges(
        &self,
        file: &str,
        requests: &[Range<u64>],
    ) -> Vec<RequestTicket<'_>> {
        let start = |r: &Range<u64>| {
            let len = Some(r.end - r.start);
            self.start(RequestKind::Range, file, Some(r.start), len)
        };
        requests.iter().map(start).collect()
    }
}

/// A running request.
pub(super) struct RequestTicket<'a> {
    counters: &'a IoCounters,
    entry: Option<(&'a RequestLog, usize)>,
    /// The message for the program's log when the request ends, if the log is enabled.
    told: Option<(String, Instant)>,
}

impl RequestTicket<'_> {
    pub(super) fn finish(self, bytes: u64) {
        self.counters.add_bytes(bytes);
        if let Some((log, number)) = self.entry {
            log.finish(number, bytes);
        }
        let Some((request, begun)) = self.told else {
            return;
        };
        match begun.elapsed() {
            slow if slow >= SLOW => log::debug!("{request}: {bytes} bytes, slow: {slow:.1?}"),
            took => log::trace!("{request}: {bytes} bytes in {took:.1?}"),
        }
    }
}

pub(super) fn finish_ranges(tickets: Vec<RequestTicket<'_>>, buffers: &[Bytes]) {
    for (ticket, buffer) in tickets.into_iter().zip(buffers) {
        ticket.finish(buffer.len() as u64);
    }
}

impl Storage {
    /// HTTP servers reject any range of an empty object, so the end of an empty file must be distinguished from a
    /// failure.
    pub(super) async fn suffix_failed(&self, file: &str, error: object_store::Error) -> Error {
        match self.size_after(file, &error).await {
            Some(0) => self
                .corrupt(format!("file {file} is empty"))
                .with_source(error),
            _ => self.failed("read", file, error),
        }
    }

    /// Whether a range read failed because the file is too short; stores report this in many ways.
    pub(super) async fn range_failed(
        &self,
        file: &str,
        error: object_store::Error,
        asked: &[Range<u64>],
    ) -> Error {
        match self.size_after(file, &error).await {
            Some(size) if asked.iter().any(|r| r.end > size) => self.truncated(file, size, asked),
            _ => self.failed("read", file, error),
        }
    }

    /// The size of a file whose read failed, unless the cause of the failure is already clear.
    async fn size_after(&self, file: &str, error: &object_store::Error) -> Option<u64> {
        if !matches!(error, object_store::Error::Generic { .. }) {
            return None;
        }
        self.head(file).await.ok().flatten().map(|info| info.bytes)
    }

    pub(super) fn check_len(&self, file: &str, bytes: &Bytes, asked: u64) -> Result<()> {
        if bytes.len() as u64 == asked {
            return Ok(());
        }
        Err(self.storage_error(format!(
            "the store returned {} bytes of {file} where {asked} were asked for and announced",
            bytes.len()
        )))
    }

    pub(super) fn truncated(&self, file: &str, size: u64, asked: &[Range<u64>]) -> Error {
        let needed = asked.iter().find(|r| r.end > size && !r.is_empty());
        let Range { start, end } = needed.cloned().unwrap_or_default();
        self.corrupt(format!(
            "file {file} has {size} bytes but bytes {start}..{end} are needed: the file is truncated"
        ))
    }

    fn corrupt(&self, message: String) -> Error {
        Error::corrupt(message).with("array", self.uri())
    }

    pub(super) fn storage_error(&self, message: String) -> Error {
        Error::storage(message).with("array", self.uri())
    }

    pub(super) fn missing(&self, file: &str) -> Error {
        failures::missing(&self.location.uri_of(file))
    }

    pub(super) fn failed(&self, verb: &str, file: &str, error: object_store::Error) -> Error {
        failures::of_store(verb, &self.location.uri_of(file), error)
    }

    pub(super) fn io_failed(&self, file: &str, error: io::Error) -> Error {
        failures::of_file("read", &self.location.uri_of(file), error)
    }

    pub(super) fn list_failed(&self, folder: &str, error: io::Error) -> Error {
        failures::of_file("list", &self.location.uri_of(folder), error)
    }

    pub(super) fn write_failed(&self, file: &str, error: io::Error) -> Error {
        failures::of_file("write", &self.location.uri_of(file), error)
    }
}
