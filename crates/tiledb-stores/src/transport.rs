//! The transport of requests: answers that stop or are cut off become errors that `object_store` retries, and errors come in words.
//!
//! `object_store` limits the time of a whole request, also of one whose answer makes progress, and retries nothing that is cut off
//! while the body of a listing arrives. So its time limit is off, and here a request fails if no byte arrives for some time. Bodies
//! other than those of objects are read whole before they are passed on, so that a request whose answer is cut off fails as a whole
//! and is sent again.
//!
//! The body of a refusal is XML or a page. It is replaced by the [`StoreRefusal`] that it holds, which [`StoreRefusal::find`] takes out of
//! the text of the error.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use http::{HeaderMap, Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};
use object_store::{ClientOptions, Result};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::refusal::{REGION_HEADER, StoreRefusal};

/// The most bytes of the body of a refusal.
const MOST_REFUSAL_BYTES: usize = 64 << 10;
/// While a body is sent, no one sees its progress: it may take as long as at this rate, in bytes per second.
const SLOWEST_UPLOAD: u64 = 64 << 10;

/// Connects with a limit of silence.
#[derive(Debug)]
pub(crate) struct SteadyConnector {
    /// The longest time without a byte.
    pub silence: Duration,
}

impl HttpConnector for SteadyConnector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        Ok(HttpClient::new(SteadyTransport {
            client: ReqwestConnector::default().connect(options)?,
            silence: self.silence,
        }))
    }
}

#[derive(Debug)]
struct SteadyTransport {
    client: HttpClient,
    silence: Duration,
}

#[async_trait]
impl HttpService for SteadyTransport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_object = reads_object(&request);
        let sent_bytes = request.body().content_length() as u64;
        let patience = self.silence + Duration::from_secs(sent_bytes / SLOWEST_UPLOAD);
        let answer = timeout(patience, self.client.execute(request)).await;
        let (parts, body) = answer.map_err(|_| silent(patience))??.into_parts();
        let body = HttpResponseBody::new(SteadyBody::new(body, self.silence));
        if is_refused(parts.status, &parts.headers) {
            return Ok(refused(parts, body).await);
        }
        let body = match is_object {
            true => body,
            false => body.bytes().await?.into(),
        };
        Ok(HttpResponse::from_parts(parts, body))
    }
}

/// Whether the answer to a request is the contents of an object. Listings have a query.
fn reads_object(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let is_listing = query.contains("list-type=") || query.contains("comp=");
    request.method() == Method::GET && !is_listing
}

/// Whether an answer is a refusal. A redirection of S3 says which region the bucket is in.
fn is_refused(status: StatusCode, headers: &HeaderMap) -> bool {
    let is_elsewhere = status.is_redirection() && headers.contains_key(REGION_HEADER);
    status.is_client_error() || status.is_server_error() || is_elsewhere
}

/// The answer with the words of a refusal as its body.
async fn refused(mut parts: http::response::Parts, body: HttpResponseBody) -> HttpResponse {
    let mut pieces = body.bytes_stream();
    let mut bytes = Vec::new();
    while bytes.len() < MOST_REFUSAL_BYTES
        && let Ok(Some(piece)) = pieces.try_next().await
    {
        bytes.extend_from_slice(&piece);
    }
    let refusal = StoreRefusal::of(parts.status.as_u16(), &parts.headers, &bytes);
    if parts.status.is_redirection() {
        // The body of a redirection would be dropped, and with it the region of the bucket.
        parts.status = StatusCode::BAD_REQUEST;
    }
    parts.headers.remove(http::header::CONTENT_LENGTH);
    HttpResponse::from_parts(parts, refusal.encoded().into())
}

/// No byte arrived for some time.
#[derive(Debug)]
pub(crate) struct SilenceError(Duration);

impl fmt::Display for SilenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no byte arrived for {:?}", self.0)
    }
}

impl std::error::Error for SilenceError {}

/// The error for a silence. Every request is sent again after it: what writes either overwrites with the same bytes, or creates an
/// object that nobody else creates, and an object that exists is compared.
fn silent(time: Duration) -> HttpError {
    HttpError::new(HttpErrorKind::Request, SilenceError(time))
}

/// A body that fails after a long silence.
struct SteadyBody {
    body: HttpResponseBody,
    silence: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl SteadyBody {
    fn new(body: HttpResponseBody, silence: Duration) -> Self {
        Self {
            body,
            silence,
            alarm: Box::pin(sleep(silence)),
        }
    }
}

impl Body for SteadyBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            let silence = self.silence;
            self.alarm.as_mut().reset(Instant::now() + silence);
            return Poll::Ready(frame);
        }
        let silence = self.silence;
        let alarm = self.alarm.as_mut().poll(cx);
        alarm.map(|()| Some(Err(silent(silence))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
