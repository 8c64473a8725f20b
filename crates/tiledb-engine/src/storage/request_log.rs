//! Requests to the store: counters that are always on, and a log for tests.
//!
//! A request is logged when it starts and completed when it ends, so a cancelled or failed one stays in the log without
//! returned bytes, and the order is the order in which requests were issued.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestKind {
    /// A folder is listed.
    List,
    /// A whole object is read.
    Get,
    /// A range of an object is read.
    Range,
    /// The end of an object is read.
    Suffix,
    /// Size and modification time of an object are read.
    Head,
    /// An object, or a part of one, is written.
    Put,
    /// An object or a folder is removed.
    Delete,
}

/// One request to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedRequest {
    /// The kind of request.
    pub kind: RequestKind,
    /// The file, or the folder, relative to the array.
    pub file: String,
    /// The start of the range; `None` for other kinds.
    pub offset: Option<u64>,
    /// The number of bytes requested, if the request has one.
    pub bytes_asked: Option<u64>,
    /// The number of bytes returned; `None` until the request succeeds.
    pub bytes_returned: Option<u64>,
}

/// A log of every request, for tests and for analysis.
#[derive(Debug, Default)]
pub struct RequestLog {
    state: Mutex<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    requests: Vec<LoggedRequest>,
    /// The number of requests that were cleared, which is the number of the first one in `requests`.
    cleared: usize,
}

impl RequestLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// All requests in the order they were issued.
    pub fn entries(&self) -> Vec<LoggedRequest> {
        self.state().requests.clone()
    }

    /// The number of requests issued.
    pub fn len(&self) -> usize {
        self.state().requests.len()
    }

    /// Whether no request was issued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of requests of one kind.
    pub fn count(&self, kind: RequestKind) -> usize {
        let state = self.state();
        state.requests.iter().filter(|r| r.kind == kind).count()
    }

    /// The sum of all bytes returned.
    pub fn bytes_returned(&self) -> u64 {
        let state = self.state();
        state.requests.iter().filter_map(|r| r.bytes_returned).sum()
    }

    /// Clears all entries.
    pub fn clear(&self) {
        let mut state = self.state();
        state.cleared += state.requests.len();
        state.requests.clear();
    }

    /// Logs a request and returns its number.
    pub(super) fn start(&self, request: LoggedRequest) -> usize {
        let mut state = self.state();
        state.requests.push(request);
        state.cleared + state.requests.len() - 1
    }

    /// Completes the request with this number, unless it was cleared.
    pub(super) fn finish(&self, number: usize, bytes: u64) {
        let mut state = self.state();
        let Some(idx) = number.checked_sub(state.cleared) else {
            return;
        };
        if let Some(request) = state.requests.get_mut(idx) {
            request.bytes_returned = Some(bytes);
        }
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counters of requests and bytes; share one per query to measure that query.
#[derive(Debug, Default)]
pub struct IoCounters {
    requests: AtomicU64,
    bytes_fetched: AtomicU64,
}

/// The values of [`IoCounters`] at one moment; subtract earlier ones to get the difference.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoCounts {
    /// Requests issued.
    pub requests: u64,
    /// Bytes returned by them.
    pub bytes_fetched: u64,
}

impl IoCounters {
    /// Counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// The counts now.
    pub fn counts(&self) -> IoCounts {
        IoCounts {
            requests: self.requests.load(Ordering::Relaxed),
            bytes_fetched: self.bytes_fetched.load(Ordering::Relaxed),
        }
    }

    pub(super) fn add_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes_fetched.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Counters of bytes that came from the disk in place of a store behind a network.
#[derive(Debug, Default)]
pub struct CacheReads {
    hits: AtomicU64,
    bytes: AtomicU64,
    files: AtomicU64,
}

impl CacheReads {
    /// Counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// The ranges that were found.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The reads of several ranges of a file that found all of them.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    #[cfg(feature = "cache")]
    pub(super) fn add_hit(&self, bytes: u64) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    #[cfg(feature = "cache")]
    pub(super) fn add_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }
}

impl Sub for IoCounts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            bytes_fetched: self.bytes_fetched.saturating_sub(earlier.bytes_fetched),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(file: &str) -> LoggedRequest {
        LoggedRequest {
            kind: RequestKind::Get,
            file: file.to_owned(),
            offset: None,
            bytes_asked: None,
            bytes_returned: None,
        }
    }

    #[test]
    fn a_request_finished_after_clear_does_not_touch_a_newer_one() {
        let log = RequestLog::new();
        let old = log.start(request("old"));
        log.clear();
        let new = log.start(request("new"));
        log.finish(old, 7);
        assert_eq!(log.bytes_returned(), 0);
        log.finish(new, 5);
        assert_eq!(log.bytes_returned(), 5);
        assert_eq!(log.count(RequestKind::Get), 1);
    }

    #[test]
    fn counts_subtract() {
        let counters = IoCounters::new();
        counters.add_request();
        let before = counters.counts();
        counters.add_request();
        counters.add_bytes(10);
        let delta = counters.counts() - before;
        assert_eq!((delta.requests, delta.bytes_fetched), (1, 10));
    }
}
