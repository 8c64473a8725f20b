//! Counting and logging of requests, when they start and when they end.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Storage;
use crate::storage::request_log::{IoCounters, Request, RequestKind, RequestLog};

/// Requests that take longer than this are logged at a higher level.
const SLOW: Duration = Duration::from_secs(1);

impl Storage {
    pub(super) fn start(
        &self,
        kind: RequestKind,
        file: &str,
        offset: Option<u64>,
        bytes_asked: Option<u64>,
    ) -> Ticket<'_> {
        self.counters.add_request();
        let told = log::log_enabled!(log::Level::Debug).then(|| {
            let at = offset.map(|offset| format!(" at {offset}"));
            let (uri, at) = (self.location.uri_of(file), at.unwrap_or_default());
            (format!("{kind:?} {uri}{at}"), Instant::now())
        });
        let entry = self.log.as_deref().map(|log| {
            let number = log.start(Request {
                kind,
                file: file.to_owned(),
                offset,
                bytes_asked,
                bytes_returned: None,
            });
            (log, number)
        });
        Ticket {
            counters: &self.counters,
            entry,
            told,
        }
    }
}

/// A running request.
pub(super) struct Ticket<'a> {
    counters: &'a IoCounters,
    entry: Option<(&'a RequestLog, usize)>,
    /// The message for the program's log when the request ends, if the log is enabled.
    told: Option<(String, Instant)>,
}

impl Ticket<'_> {
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

pub(super) fn finish_ranges(tickets: Vec<Ticket<'_>>, buffers: &[Bytes]) {
    for (ticket, buffer) in tickets.into_iter().zip(buffers) {
        ticket.finish(buffer.len() as u64);
    }
}
