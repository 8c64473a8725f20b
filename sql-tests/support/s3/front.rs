//! What happens to a request before and after s3s: it is logged, delayed and hit by faults.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, Request, Response, StatusCode};
use s3s::Body;
use s3s::service::S3Service;

use super::error_answers::{
    BUCKET_REGION, error_answer, region_header, signed_region, wrong_region,
};
use super::faults::{FaultSchedule, RequestFault, RequestHead};
use super::options::S3ServerOptions;
use super::request_log::{RequestLog, RequestRecord};
use super::sending::{AnswerBody, BodyDelivery, BodyEnding, ConnectionCut, SharedBandwidth};

/// The state that changes while a server runs.
#[derive(Default)]
pub struct ServerConditions {
    pub log: Arc<RequestLog>,
    pub faults: FaultSchedule,
    pub bandwidth: Arc<SharedBandwidth>,
    latency: Mutex<Duration>,
}

impl ServerConditions {
    pub fn set_latency(&self, latency: Duration) {
        *self.latency.lock().expect("nobody panics while holding it") = latency;
    }

    async fn wait_for_latency(&self) {
        let latency = *self.latency.lock().expect("nobody panics while holding it");
        // Even the shortest sleep takes a millisecond.
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
    }
}

/// The service that hyper calls.
pub struct S3Front {
    pub service: S3Service,
    pub options: Arc<S3ServerOptions>,
    pub conditions: Arc<ServerConditions>,
}

/// The fault for an answer: how many bytes of its body are sent, and what happens behind them.
fn ending(fault: RequestFault, whole: &mut Bytes) -> BodyEnding {
    let (sent, ending) = match fault {
        RequestFault::CutBody(sent) => (sent, BodyEnding::Cut),
        RequestFault::StallBody(sent) => (sent, BodyEnding::Stall),
        _ => return BodyEnding::Complete,
    };
    if sent >= whole.len() {
        return BodyEnding::Complete;
    }
    whole.truncate(sent);
    ending
}

/// Puts what Google's clients say into S3's words: the condition that an object is new, and the token of an account, which counts
/// for nothing here.
fn from_google(headers: &mut HeaderMap) {
    let is_token = |value: &HeaderValue| value.as_bytes().starts_with(b"Bearer");
    if headers.get(AUTHORIZATION).is_some_and(is_token) {
        headers.remove(AUTHORIZATION);
    }
    if let Some(generation) = headers.remove("x-goog-if-generation-match") {
        assert_eq!(generation, "0", "objects have no generations here");
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    }
}

/// Whether an answer has a body. Some never have, whatever their `Content-Length` is.
fn has_body(method: &Method, status: StatusCode) -> bool {
    method != Method::HEAD && status != StatusCode::NOT_MODIFIED && status != StatusCode::NO_CONTENT
}

impl S3Front {
    /// Serves a request. The error closes the connection.
    pub async fn serve(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<AnswerBody>, ConnectionCut> {
        let (head, fault) = self.conditions.faults.next(&request);
        let mut record = self.conditions.log.begin(head.clone());
        let (parts, body) = request.into_parts();
        // An answer before the end of a body would reset the connection.
        let body = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
        record.received(body.len());
        self.conditions.wait_for_latency().await;
        let answer = match fault {
            RequestFault::CutBeforeHeaders => return Err(ConnectionCut),
            RequestFault::StallBeforeHeaders => return std::future::pending().await,
            RequestFault::Status {
                status,
                code,
                message,
            } => {
                let status = StatusCode::from_u16(status).expect("the plan has a valid status");
                error_answer(status, code, message, &[])
            }
            _ => {
                let mut parts = parts;
                from_google(&mut parts.headers);
                let request = Request::from_parts(parts, Body::from(body));
                self.answer(&head, request).await?
            }
        };
        if fault == RequestFault::AnswerLost {
            return Err(ConnectionCut);
        }
        Ok(self.deliver(&head.method, answer, fault, record))
    }

    /// The whole answer to a request.
    async fn answer(
        &self,
        head: &RequestHead,
        request: Request<Body>,
    ) -> Result<Response<Bytes>, ConnectionCut> {
        let bucket = self.options.bucket(head.bucket());
        let region = bucket.and_then(|bucket| Some((bucket, bucket.region.as_deref()?)));
        if let Some((bucket, region)) = region
            && let Some(signed) = signed_region(request.headers())
            && signed != region
            && !head.asks_for_location()
        {
            let answer = self.options.wrong_region;
            return Ok(wrong_region(answer, bucket, region, signed));
        }
        let answer = self.service.call(request).await;
        let (mut parts, body) = answer.map_err(|_| ConnectionCut)?.into_parts();
        let whole = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
        if let Some((bucket, region)) = region
            && head.method == Method::HEAD
            && head.path == bucket.name
        {
            // S3 names the region of a bucket even to those who may not read it.
            parts.headers.insert(BUCKET_REGION, region_header(region));
        }
        Ok(Response::from_parts(parts, whole))
    }

    /// Gives an answer to hyper.
    fn deliver(
        &self,
        method: &Method,
        answer: Response<Bytes>,
        fault: RequestFault,
        mut record: RequestRecord,
    ) -> Response<AnswerBody> {
        let (mut parts, mut whole) = answer.into_parts();
        record.answers(parts.status);
        if !has_body(method, parts.status) {
            whole.clear();
        }
        if let RequestFault::TruncateBody(bytes) = fault {
            whole.truncate(bytes);
        }
        if has_body(method, parts.status) {
            let length = HeaderValue::from(whole.len());
            parts.headers.insert(CONTENT_LENGTH, length);
        }
        let ending = ending(fault, &mut whole);
        let delivery = BodyDelivery {
            rest: whole,
            ending,
            bandwidth: Arc::clone(&self.conditions.bandwidth),
            record,
        };
        Response::from_parts(parts, delivery.into_body())
    }
}
