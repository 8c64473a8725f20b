//! Workers: processes that run parts of queries for coordinators.

use std::fmt;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext};
use tiledb_engine::Engine;
use tokio::net::TcpListener;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::channels::WorkerChannels;
use super::codec::TileDbCodec;
use super::task_counter::TaskCounter;
use super::tasks::TaskSettings;
use super::trust::{ClusterTrust, TokenCheck};
use super::worker_facts::WorkerFacts;
use crate::error::to_datafusion_error;
use crate::optimizer::enumerated::sent;
use crate::options::settings::TileDbSettings;
use crate::session::StatementDepth;
use crate::stores::registry::StoreRegistry;
use crate::{Error, Result};

/// A plan, or a message of a plan, is no longer than this.
const LONGEST_MESSAGE: usize = 256 << 20;

/// A partial aggregate gives up grouping if most of its first rows are groups of their own. It looks at more rows than in one process,
/// where a row that isn't grouped is passed on for less than it takes to send it.
const ROWS_BEFORE_GIVING_UP: usize = 1 << 20;

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
    /// The listener fails, or the certificate and its key don't go together.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<()> {
        let service = self
            .worker
            .into_worker_server()
            .max_decoding_message_size(LONGEST_MESSAGE);
        let mut server = Server::builder();
        if let Some(tls) = &self.trust.tls {
            let tls = tls.of_worker(self.trust.token.is_some())?;
            server = server.tls_config(tls).map_err(|e| {
                Error::invalid("the certificate and the key don't go together").with_source(e)
            })?;
        }
        let service = InterceptedService::new(service, TokenCheck(self.trust));
        server
            .layer(TaskCounter::default())
            .add_service(service)
            // Small answers don't wait until the packet before them is acknowledged.
            .serve_with_incoming_shutdown(
                TcpIncoming::from(listener).with_nodelay(Some(true)),
                stop,
            )
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
        let options = config.options_mut();
        options.extensions.insert(self.settings.clone());
        let execution = &mut options.execution;
        execution.skip_partial_aggregation_probe_rows_threshold = ROWS_BEFORE_GIVING_UP;
        if let Some(engine) = &self.engine {
            config.set_extension(Arc::clone(engine));
        }
        if let Some(stores) = &self.stores {
            config.set_extension(Arc::clone(stores));
        }
        if let Some(depth) = &self.depth {
            config.set_extension(Arc::clone(depth));
        }
        sent::install(&mut builder);
        let builder = builder
            .with_distributed_user_codec(TileDbCodec)
            .with_distributed_channel_resolver(self.channels.clone());
        Ok(crate::equip(builder).map_err(to_datafusion_error)?.build())
    }
}
