//! Every request is counted and logged here, when it starts and when its bytes are there.

use bytes::Bytes;

use super::Storage;
use crate::storage::request_log::{IoCounters, Request, RequestKind, RequestLog};

impl Storage {
    pub(super) fn start(
        &self,
        kind: RequestKind,
        file: &str,
        offset: Option<u64>,
        bytes_asked: Option<u64>,
    ) -> Ticket<'_> {
        self.counters.add_request();
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
        }
    }
}

/// A request under way.
pub(super) struct Ticket<'a> {
    counters: &'a IoCounters,
    entry: Option<(&'a RequestLog, usize)>,
}

impl Ticket<'_> {
    pub(super) fn finish(self, bytes: u64) {
        self.counters.add_bytes(bytes);
        if let Some((log, number)) = self.entry {
            log.finish(number, bytes);
        }
    }
}

pub(super) fn finish_ranges(tickets: Vec<Ticket<'_>>, buffers: &[Bytes]) {
    for (ticket, buffer) in tickets.into_iter().zip(buffers) {
        ticket.finish(buffer.len() as u64);
    }
}
