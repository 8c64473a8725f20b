//! Workers: processes that run parts of queries for coordinators.

use std::fmt;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext};
use serde::{Deserialize, Serialize};
use tiledb_engine::Engine;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use url::Url;

use super::RELEASE;
use super::channels::WorkerChannels;
use super::codec::TileDbCodec;
use super::tasks::TaskSettings;
use super::trust::{ClusterTrust, TokenCheck};
use crate::error::to_datafusion_error;
use crate::options::settings::TileDbSettings;
use crate::session::StatementDepth;
use crate::stores::registry::StoreRegistry;
use crate::{Error, Result};

/// A plan, or a message of a plan, is no longer than this.
const LONGEST_MESSAGE: usize = 256 << 20;

/// What a worker says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerFacts {
    /// Its release, such as `datafusion-tiledb 0.1.0`.
    pub release: String,
    /// The number of its processors.
    pub cores: usize,
    /// The size of its memory pool, if it is limited, in bytes.
    pub memory_bytes: Option<u64>,
}

impl WorkerFacts {
    fn of(runtime: &RuntimeEnv) -> Self {
        let memory_bytes = match runtime.memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => Some(bytes as u64),
            _ => None,
        };
        Self {
            release: RELEASE.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes,
        }
    }

    pub(super) fn parse(text: &str, url: &Url) -> Result<Self, DataFusionError> {
        postcard::from_bytes(&bytes_of(text).unwrap_or_default()).map_err(|_| {
            DataFusionError::Execution(format!(
                "worker {url}: it is no worker of {RELEASE}: run the same release on all machines"
            ))
        })
    }

    /// The facts as a text, because the engine sends texts.
    fn text(&self) -> String {
        let bytes = postcard::to_stdvec(self).unwrap_or_default();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn check_release(&self, url: &Url) -> Result<(), DataFusionError> {
        if self.release == RELEASE {
            return Ok(());
        }
        Err(DataFusionError::Execution(format!(
            "worker {url}: it is {:?} and the coordinator {RELEASE:?}: run the same release on all machines",
            self.release
        )))
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// A process that runs parts of queries.
///
/// It runs whatever plans it is sent, with the rights of its process. So it should listen to this machine only, or ask for a token.
pub struct ClusterWorker {
    worker: Worker,
    trust: ClusterTrust,
}

impl fmt::Debug for ClusterWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterWorker").finish_non_exhaustive()
    }
}

impl ClusterWorker {
    /// A worker with the settings, the engine and the object stores of a session's configuration, and with the memory pool and the
    /// disk of `runtime`. Other workers are asked with the same trust.
    pub fn new(config: &SessionConfig, runtime: Arc<RuntimeEnv>, trust: ClusterTrust) -> Self {
        let facts = WorkerFacts::of(&runtime);
        let session = WorkerSession {
            settings: TileDbSettings::of(config.options()),
            engine: config.get_extension::<Engine>(),
            stores: config.get_extension::<StoreRegistry>(),
            depth: config.get_extension::<StatementDepth>(),
            channels: WorkerChannels::of_worker(trust.clone()),
        };
        let session = Arc::new(session);
        let worker = Worker::from_session_builder(move |query: WorkerQueryContext| {
            let session = Arc::clone(&session);
            async move { session.of_query(query) }
        });
        Self {
            worker: worker.with_runtime_env(runtime).with_version(facts.text()),
            trust,
        }
    }

    /// Serves coordinators and other workers until `stop` is done. Tasks that run then are cut off.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<()> {
        let service = self
            .worker
            .into_worker_server()
            .max_decoding_message_size(LONGEST_MESSAGE);
        let service = InterceptedService::new(service, TokenCheck(self.trust));
        Server::builder()
            .tcp_nodelay(true)
            .add_service(service)
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop)
            .await
            .map_err(|e| Error::storage("the worker can't listen any longer").with_source(e))
    }
}

/// What the sessions of a worker's tasks have.
struct WorkerSession {
    settings: TileDbSettings,
    engine: Option<Arc<Engine>>,
    stores: Option<Arc<StoreRegistry>>,
    depth: Option<Arc<StatementDepth>>,
    channels: WorkerChannels,
}

impl WorkerSession {
    /// The session of a task.
    fn of_query(&self, query: WorkerQueryContext) -> Result<SessionState, DataFusionError> {
        let WorkerQueryContext { builder, headers } = query;
        let mut builder: SessionStateBuilder =
            builder.with_distributed_option_extension_from_headers::<TaskSettings>(&headers)?;
        let config = builder.config().get_or_insert_default();
        let batch_size = TaskSettings::of(config.options()).batch_size;
        if batch_size > 0 {
            *config = std::mem::take(config).with_batch_size(batch_size);
        }
        config
            .options_mut()
            .extensions
            .insert(self.settings.clone());
        if let Some(engine) = &self.engine {
            config.set_extension(Arc::clone(engine));
        }
        if let Some(stores) = &self.stores {
            config.set_extension(Arc::clone(stores));
        }
        if let Some(depth) = &self.depth {
            config.set_extension(Arc::clone(depth));
        }
        let builder = builder
            .with_distributed_user_codec(TileDbCodec)
            .with_distributed_channel_resolver(self.channels.clone());
        Ok(crate::equip(builder).map_err(to_datafusion_error)?.build())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_texts() {
        let url = Url::parse("http://a:1").unwrap();
        let facts = WorkerFacts {
            release: "datafusion-tiledb 9.9.9".to_owned(),
            cores: 3,
            memory_bytes: Some(1 << 40),
        };
        assert_eq!(WorkerFacts::parse(&facts.text(), &url).unwrap(), facts);
        let error = facts.check_release(&url).unwrap_err().to_string();
        assert!(
            error.contains("9.9.9") && error.contains(RELEASE),
            "{error}"
        );
        for wrong in ["", "1.0", "zz", "0", "ff"] {
            let error = WorkerFacts::parse(wrong, &url).unwrap_err().to_string();
            assert!(error.contains("no worker of"), "{error}");
        }
    }
}
