//! The plan of what goes wrong with which request.

use std::sync::{Arc, Mutex};

use hyper::{Method, Request, header};
use object_store::path::Path;

/// A request, as a plan sees it.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// The number of requests that came since the plan was set.
    pub number: usize,
    /// The method.
    pub method: Method,
    /// The bucket and the key, decoded, as in [`objects`](super::S3Server::objects).
    pub path: String,
    /// The query, still encoded.
    pub query: String,
    /// The `Range` header.
    pub range: Option<String>,
}

impl RequestHead {
    fn new<B>(request: &Request<B>, number: usize) -> Self {
        let encoded = request.uri().path();
        let path =
            Path::from_url_path(encoded).map_or_else(|_| encoded.to_owned(), |p| p.to_string());
        let range = request.headers().get(header::RANGE);
        Self {
            number,
            method: request.method().clone(),
            path,
            query: request.uri().query().unwrap_or("").to_owned(),
            range: range.map(|range| String::from_utf8_lossy(range.as_bytes()).into_owned()),
        }
    }

    /// The bucket, which is the first segment of the path.
    pub fn bucket(&self) -> &str {
        self.path
            .split_once('/')
            .map_or(&self.path, |(bucket, _)| bucket)
    }

    /// Whether the client asks where a bucket is, which all regions answer.
    pub(super) fn asks_for_location(&self) -> bool {
        let mut names = self.query.split('&').map(|part| part.trim_end_matches('='));
        names.any(|name| name == "location")
    }
}

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestFault {
    /// Nothing.
    #[default]
    None,
    /// The server closes the connection, and doesn't do what it is asked for.
    CutBeforeHeaders,
    /// The server sends the headers and so many bytes of the body, and closes the connection.
    CutBody(usize),
    /// The server sends nothing until the client gives up, and doesn't do what it is asked for.
    StallBeforeHeaders,
    /// The server sends the headers and so many bytes of the body, and nothing more until the client gives up.
    StallBody(usize),
    /// The server sends so many bytes as if they were the whole body.
    TruncateBody(usize),
    /// The server does what it is asked for, and closes the connection without an answer.
    AnswerLost,
    /// The server answers with an error, and doesn't do what it is asked for.
    Status {
        /// The status of the answer.
        status: u16,
        /// The code of the error.
        code: &'static str,
        /// The message of the error.
        message: &'static str,
    },
}

impl RequestFault {
    /// The answer of a service under too much load.
    pub const SLOW_DOWN: Self = Self::Status {
        status: 503,
        code: "SlowDown",
        message: "Please reduce your request rate.",
    };
}

/// What goes wrong with which request.
pub type FaultPlan = dyn Fn(&RequestHead) -> RequestFault + Send + Sync;

#[derive(Default)]
struct PlannedFaults {
    plan: Option<Arc<FaultPlan>>,
    requests: usize,
}

/// The plan of a server, which numbers its requests.
#[derive(Default)]
pub struct FaultSchedule(Mutex<PlannedFaults>);

impl FaultSchedule {
    /// Sets the plan for all requests from now on, and numbers them from 0.
    pub fn set(&self, plan: Option<Arc<FaultPlan>>) {
        *self.0.lock().expect("nobody panics while holding it") =
            PlannedFaults { plan, requests: 0 };
    }

    /// Numbers a request, and returns what goes wrong with it.
    pub fn next<B>(&self, request: &Request<B>) -> (RequestHead, RequestFault) {
        let (number, plan) = {
            let mut planned = self.0.lock().expect("nobody panics while holding it");
            planned.requests += 1;
            (planned.requests - 1, planned.plan.clone())
        };
        let head = RequestHead::new(request, number);
        let fault = plan.map_or(RequestFault::None, |plan| plan(&head));
        (head, fault)
    }
}
