//! The log of the requests that a server has served.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use hyper::{Method, StatusCode};

use super::faults::RequestHead;

/// A request whose answer was sent, or which was given up.
#[derive(Debug, Clone)]
pub struct ServedRequest {
    /// The method.
    pub method: Method,
    /// The bucket and the key, decoded, as in [`objects`](super::S3Server::objects).
    pub path: String,
    /// The query, still encoded.
    pub query: String,
    /// The `Range` header.
    pub range: Option<String>,
    /// The status, if the server answered at all.
    pub status: Option<u16>,
    /// The number of bytes of the answer's body that were sent.
    pub bytes_sent: usize,
    /// The number of bytes of the request's body.
    pub bytes_received: usize,
    /// The time at which the headers of the request had come.
    pub begin: Instant,
    /// The time before the last byte of the answer was sent, or at which the request was given up.
    pub end: Instant,
}

/// The log.
#[derive(Debug, Default)]
pub struct RequestLog(Mutex<Vec<ServedRequest>>);

impl RequestLog {
    /// The requests, in the order in which they began.
    pub fn requests(&self) -> Vec<ServedRequest> {
        let log = self.0.lock().expect("nobody panics while holding it");
        let mut requests = log.clone();
        requests.sort_by_key(|request| request.begin);
        requests
    }

    /// Forgets all requests.
    pub fn clear(&self) {
        let mut log = self.0.lock().expect("nobody panics while holding it");
        log.clear();
    }

    /// Begins the record of a request.
    pub fn begin(self: &Arc<Self>, head: RequestHead) -> RequestRecord {
        let begin = Instant::now();
        RequestRecord {
            log: Arc::clone(self),
            request: Some(ServedRequest {
                method: head.method,
                path: head.path,
                query: head.query,
                range: head.range,
                status: None,
                bytes_sent: 0,
                bytes_received: 0,
                begin,
                end: begin,
            }),
        }
    }
}

/// The record of a request that is being served. It gets into the log when it is finished or dropped.
pub struct RequestRecord {
    log: Arc<RequestLog>,
    /// The request, unless the record is finished.
    request: Option<ServedRequest>,
}

impl RequestRecord {
    /// Notes the size of the request's body.
    pub fn received(&mut self, bytes: usize) {
        if let Some(request) = &mut self.request {
            request.bytes_received += bytes;
        }
    }

    /// Notes that an answer begins.
    pub fn answers(&mut self, status: StatusCode) {
        if let Some(request) = &mut self.request {
            request.status = Some(status.as_u16());
        }
    }

    /// Notes bytes of the answer's body.
    pub fn sent(&mut self, bytes: usize) {
        if let Some(request) = &mut self.request {
            request.bytes_sent += bytes;
        }
    }

    /// Ends the record.
    pub fn finish(&mut self) {
        let Some(mut request) = self.request.take() else {
            return;
        };
        request.end = Instant::now();
        let mut log = self.log.0.lock().expect("nobody panics while holding it");
        log.push(request);
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The length of the longest sequence of requests in which each begins after the one before has ended.
pub fn longest_chain(mut requests: Vec<ServedRequest>) -> usize {
    requests.sort_by_key(|request| request.end);
    let mut length = 0;
    let mut last_end = None;
    for request in requests {
        if last_end.is_none_or(|end| request.begin >= end) {
            length += 1;
            last_end = Some(request.end);
        }
    }
    length
}
