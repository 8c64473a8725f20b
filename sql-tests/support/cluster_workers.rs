//! Workers in this process, on sockets of 127.0.0.1.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::cluster;
use datafusion_tiledb::cluster::trust::ClusterTrust;
use datafusion_tiledb::cluster::worker::ClusterWorker;
use datafusion_tiledb::cluster::worker_urls::WorkerUrls;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The addresses of the workers that all tests share.
static SHARED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A worker on a thread of its own, until it is dropped.
pub struct TestWorker {
    pub url: String,
    _stop: oneshot::Sender<()>,
}

impl TestWorker {
    /// Starts a worker.
    pub fn start(trust: ClusterTrust) -> Self {
        Self::start_as(SessionConfig::new(), Arc::<RuntimeEnv>::default(), trust)
    }

    /// Starts a worker with the engine, the object stores and the memory of a session.
    pub fn start_in(ctx: &SessionContext) -> Self {
        Self::start_as(
            ctx.copied_config(),
            ctx.runtime_env(),
            ClusterTrust::default(),
        )
    }

    fn start_as(config: SessionConfig, memory: Arc<RuntimeEnv>, trust: ClusterTrust) -> Self {
        let scheme = if trust.tls.is_some() { "https" } else { "http" };
        let (stop, stopped) = oneshot::channel::<()>();
        let (listening, listens) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime starts");
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let address = listener.local_addr().expect("an address");
                listening.send(address).expect("the test waits");
                let worker = ClusterWorker::new(&config, memory, trust);
                let stop = async {
                    // The sender is dropped.
                    let _ = stopped.await;
                };
                worker.serve(listener, stop).await.expect("a worker serves");
            });
        });
        let address = listens.recv().expect("the worker listens");
        Self {
            url: format!("{scheme}://{address}"),
            _stop: stop,
        }
    }
}

/// The addresses of workers that live as long as the process.
pub fn shared(count: usize) -> WorkerUrls {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    while shared.len() < count {
        let worker = TestWorker::start(ClusterTrust::default());
        shared.push(worker.url.clone());
        std::mem::forget(worker);
    }
    shared[..count].join(",").parse().expect("addresses")
}

/// Makes a session run on workers whatever can travel, however small it is.
pub fn coordinate(ctx: &SessionContext, workers: usize) -> Result<()> {
    with_workers(ctx, shared(workers), ClusterTrust::default())
}

/// Makes a session run on these workers whatever can travel.
pub fn with_workers(ctx: &SessionContext, workers: WorkerUrls, trust: ClusterTrust) -> Result<()> {
    let coordinated = cluster::coordinate_session(ctx, workers, trust);
    coordinated.map_err(|e| DataFusionError::External(e.into()))?;
    let state = ctx.state_ref();
    let mut state = state.write();
    let options = state.config_mut().options_mut();
    options.set("tiledb.bytes_per_task", "1")?;
    options.set("tiledb.send_stored_rows", "true")
}
