//! The tasks that a worker runs now.
//!
//! For each task, its coordinator holds a stream to the worker open until the task is done. So the open streams are the tasks. Their
//! number is a header of the answer to the question what the worker is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body_util::BodyExt;
use tonic::body::Body;
use tower::{Layer, Service};

/// The header with the number of tasks.
static TASKS_HEADER: HeaderName = HeaderName::from_static("tiledb-tasks");

/// The method that is open as long as a task.
const TASK_METHOD: &str = "/CoordinatorChannel";
/// The method that tells what a worker is.
const FACTS_METHOD: &str = "/GetWorkerInfo";

/// The number of tasks in the headers of an answer.
pub(super) fn tasks_in(headers: &HeaderMap) -> Option<u64> {
    headers.get(&TASKS_HEADER)?.to_str().ok()?.parse().ok()
}

/// Counts the tasks that run.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskCounter {
    running: Arc<AtomicU64>,
}

impl TaskCounter {
    fn begin(&self) -> RunningTask {
        self.running.fetch_add(1, Ordering::Relaxed);
        RunningTask(self.clone())
    }

    fn running(&self) -> u64 {
        self.running.load(Ordering::Relaxed)
    }
}

/// A task that counts until it is dropped.
struct RunningTask(TaskCounter);

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S> Layer<S> for TaskCounter {
    type Service = CountedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CountedService {
            inner,
            counter: self.clone(),
        }
    }
}

/// A worker's service, with a count of its tasks.
#[derive(Debug, Clone)]
pub(super) struct CountedService<S> {
    inner: S,
    counter: TaskCounter,
}

impl<S> Service<Request<Body>> for CountedService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.uri().path().to_owned();
        let counter = self.counter.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            if method.ends_with(TASK_METHOD) {
                let task = counter.begin();
                let counted = |body: Body| {
                    Body::new(body.map_frame(move |frame| {
                        // The closure holds the task as long as the stream is open.
                        let _ = &task;
                        frame
                    }))
                };
                return Ok(answer.await?.map(counted));
            }
            let mut answer = answer.await?;
            // A refusal has its status among its headers, and says nothing else.
            if method.ends_with(FACTS_METHOD) && !answer.headers().contains_key("grpc-status") {
                let running = counter.running();
                answer
                    .headers_mut()
                    .insert(TASKS_HEADER.clone(), running.into());
            }
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn tasks_count_until_their_streams_are_dropped() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let counter = TaskCounter::default();
        let answer = async |path: &str| {
            let echo = tower::service_fn(async |request: Request<Body>| {
                let open =
                    http_body_util::Full::new(prost::bytes::Bytes::from_static(b"a message"));
                let mut answer = Response::new(Body::new(open));
                if request.uri().path().starts_with("/refused") {
                    answer.headers_mut().insert("grpc-status", 16.into());
                }
                Ok::<_, Infallible>(answer)
            });
            let request = Request::builder().uri(path).body(Body::default());
            let mut service = counter.layer(echo);
            service.call(request.unwrap()).await.unwrap()
        };
        runtime.block_on(async {
            let tasks = async || tasks_in(answer("/worker/GetWorkerInfo").await.headers());
            assert_eq!(tasks().await, Some(0));
            let first = answer("/worker/CoordinatorChannel").await;
            let second = answer("/worker/CoordinatorChannel").await;
            answer("/worker/ExecuteTask").await;
            assert_eq!(tasks().await, Some(2));
            drop(first);
            assert_eq!(tasks().await, Some(1));
            drop(second);
            assert_eq!(tasks().await, Some(0));
            let refused = answer("/refused/GetWorkerInfo").await;
            assert_eq!(tasks_in(refused.headers()), None);
        });
    }
}
