//! The way to workers: connections with time limits, the token, and errors that name the worker.
//!
//! A worker that is killed, stopped or cut off answers no pings, so that its connection ends a few seconds later, and with it all
//! requests on it. The release of a worker is checked when it is first asked for anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tower::ServiceExt;
use url::Url;

use super::task_counter::tasks_in;
use super::trust::ClusterTrust;
use super::worker_facts::WorkerFacts;
use crate::sent_errors::{ErrorReader, arrived};

/// A connection that isn't made within this time fails.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// A worker that says nothing about itself within this time is down.
const GREETING_TIME: Duration = Duration::from_secs(3);
/// Workers are pinged this often,
const PING_INTERVAL: Duration = Duration::from_millis(1500);
/// and have this time to answer.
const PING_TIME: Duration = Duration::from_millis(2500);

/// Connections to workers, which sessions share.
#[derive(Clone)]
pub struct WorkerChannels {
    trust: ClusterTrust,
    reader: ErrorReader,
    connected: Arc<Mutex<HashMap<Url, Arc<OnceCell<BoxCloneSyncChannel>>>>>,
}

impl std::fmt::Debug for WorkerChannels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerChannels").finish_non_exhaustive()
    }
}

impl WorkerChannels {
    /// The connections of a coordinator.
    pub(super) fn of_coordinator(trust: ClusterTrust) -> Self {
        Self::new(trust, ErrorReader::Coordinator)
    }

    /// The connections of a worker, which asks other workers for rows.
    pub(super) fn of_worker(trust: ClusterTrust) -> Self {
        Self::new(trust, ErrorReader::Worker)
    }

    fn new(trust: ClusterTrust, reader: ErrorReader) -> Self {
        Self {
            trust,
            reader,
            connected: Arc::default(),
        }
    }

    /// What a worker says about itself.
    ///
    /// # Errors
    /// It can't be reached, refuses the token, or is no worker.
    pub async fn facts(&self, url: &Url) -> Result<WorkerFacts> {
        let channel = self.connect(url).await?;
        self.greet(url, channel).await
    }

    /// What a worker says about itself, and the number of tasks that it runs now.
    pub(super) async fn facts_and_tasks(&self, url: &Url) -> Result<(WorkerFacts, Option<u64>)> {
        let tasks = Arc::new(OnceLock::new());
        let seen = Arc::clone(&tasks);
        let channel = self.connect(url).await?.map_response(move |answer| {
            let answer: http::Response<Body> = answer;
            if let Some(tasks) = tasks_in(answer.headers()) {
                // A question has one answer.
                let _ = seen.set(tasks);
            }
            answer
        });
        let facts = self.greet(url, BoxCloneSyncChannel::new(channel)).await?;
        Ok((facts, tasks.get().copied()))
    }

    /// The connection to a worker of this release.
    async fn channel(&self, url: &Url) -> Result<BoxCloneSyncChannel> {
        let cell = {
            // A panic of another thread leaves the map consistent.
            let mut known = self
                .connected
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(url.clone()).or_default())
        };
        let connect = async || {
            let channel = self.connect(url).await?;
            let facts = self.greet(url, channel.clone()).await?;
            facts.check_release(url)?;
            Ok::<_, DataFusionError>(channel)
        };
        cell.get_or_try_init(connect).await.cloned()
    }

    /// Forgets the connection to a worker, so that the next request looks at the worker anew.
    fn forget(&self, url: &Url) {
        let mut known = self
            .connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.remove(url);
    }

    async fn connect(&self, url: &Url) -> Result<BoxCloneSyncChannel> {
        let failed = |what: &str, why: String| {
            DataFusionError::Execution(format!("worker {url}: {what}: {why}"))
        };
        let endpoint = Endpoint::from_shared(url.as_str().to_owned())
            .map_err(|e| failed("the address is wrong", e.to_string()))?;
        let endpoint = match (&self.trust.tls, url.scheme()) {
            (tls, "https") => {
                let tls = tls.clone().unwrap_or_default().of_client(url);
                let secure = endpoint.tls_config(tls);
                secure.map_err(|e| failed("TLS can't be set up", innermost(&e)))?
            }
            (Some(_), _) => {
                let why = "this session has certificates, and the worker's URL begins with http://";
                return Err(failed("nothing would be encrypted", why.to_owned()));
            }
            (None, _) => endpoint,
        };
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIME)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIME)
            .keep_alive_while_idle(true);
        let connected = timeout(CONNECT_TIME, endpoint.connect()).await;
        let channel = match connected {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return Err(failed("no connection", innermost(&error))),
            Err(_) => {
                return Err(failed(
                    "no connection",
                    format!("nobody answered within {} s", CONNECT_TIME.as_secs()),
                ));
            }
        };
        Ok(self.with_token(channel))
    }

    fn with_token(&self, channel: Channel) -> BoxCloneSyncChannel {
        let Some(header) = self.trust.header() else {
            return BoxCloneSyncChannel::new(channel);
        };
        BoxCloneSyncChannel::new(
            channel.map_request(move |mut request: http::Request<Body>| {
                request.headers_mut().insert(AUTHORIZATION, header.clone());
                request
            }),
        )
    }

    async fn greet(&self, url: &Url, channel: BoxCloneSyncChannel) -> Result<WorkerFacts> {
        let mut client = create_worker_client(channel);
        let answer = timeout(
            GREETING_TIME,
            client.get_worker_info(GetWorkerInfoRequest {}),
        );
        let answer = answer.await.map_err(|_| {
            DataFusionError::Execution(format!(
                "worker {url}: it didn't say what it is within {} s",
                GREETING_TIME.as_secs()
            ))
        })?;
        let answer = answer.map_err(|e| arrived(e, url, self.reader))?;
        WorkerFacts::parse(&answer.version, url)
    }
}

/// The text of the innermost cause of an error.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[async_trait]
impl ChannelResolver for WorkerChannels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let channel = self.channel(url).await?;
        Ok(Box::new(NamedChannel {
            inner: create_worker_client(channel),
            url: url.clone(),
            channels: self.clone(),
        }))
    }
}

/// The connection to a worker, whose errors name it.
struct NamedChannel {
    inner: Box<dyn WorkerChannel>,
    url: Url,
    channels: WorkerChannels,
}

impl NamedChannel {
    fn named(&self) -> impl Fn(DataFusionError) -> DataFusionError + Send + Sync + 'static {
        let (url, channels) = (self.url.clone(), self.channels.clone());
        move |error| {
            // It may be another worker when it comes back.
            channels.forget(&url);
            arrived(error, &url, channels.reader)
        }
    }
}

#[async_trait]
impl WorkerChannel for NamedChannel {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        set_plan_request: SetPlanRequest,
        c2w_stream: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let named = self.named();
        let opened = self
            .inner
            .coordinator_channel(headers, set_plan_request, c2w_stream, metrics, task_ctx)
            .await;
        let messages = opened.map_err(&named)?;
        Ok(messages.map_err(named).boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let started = self
            .inner
            .execute_task(headers, request, metrics, task_ctx)
            .await;
        let named = Arc::new(self.named());
        let streams = started.map_err(|e| named(e))?.into_iter();
        let streams = streams.map(|batches| {
            let named = Arc::clone(&named);
            batches.map_err(move |e| named(e)).boxed()
        });
        Ok(streams.collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse> {
        let named = self.named();
        self.inner.get_worker_info(request).await.map_err(named)
    }
}
