//! `tiledb-sql worker`: a process that runs parts of queries for coordinators, and how coordinators find it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::cluster;
use datafusion_tiledb::cluster::tls::ClusterTls;
use datafusion_tiledb::cluster::trust::{ClusterToken, ClusterTrust};
use datafusion_tiledb::cluster::worker::ClusterWorker;
use datafusion_tiledb::cluster::worker_urls::WorkerUrls;
use datafusion_tiledb::to_datafusion_error;
use tokio::net::TcpListener;

use crate::interrupt::Interruptible;
use crate::report;
use crate::shell::Shell;

/// How coordinators and workers know each other.
#[derive(Debug, Clone, Default, Args)]
pub struct TrustArgs {
    /// Share the token in this file with all workers and coordinators
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Show the certificate in this PEM file, and encrypt what is sent
    #[arg(long, global = true, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert, in a PEM file
    #[arg(long, global = true, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Believe the certificates of the authorities in this PEM file, instead of those that the system believes
    #[arg(long, global = true, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
}

impl TrustArgs {
    fn trust(&self) -> Result<ClusterTrust> {
        let token = self.token_file.as_deref().map(ClusterToken::from_file);
        Ok(ClusterTrust {
            token: token.transpose().map_err(to_datafusion_error)?,
            tls: self.tls().map_err(to_datafusion_error)?,
        })
    }

    fn tls(&self) -> datafusion_tiledb::Result<Option<ClusterTls>> {
        let mut tls = None;
        if let (Some(certificates), Some(key)) = (&self.tls_cert, &self.tls_key) {
            tls = Some(ClusterTls::default().with_identity_files(certificates, key)?);
        }
        if let Some(authority) = &self.tls_ca {
            tls = Some(tls.unwrap_or_default().with_authority_file(authority)?);
        }
        Ok(tls)
    }
}

/// Run parts of queries for sessions with --workers, until Ctrl-C
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7071")]
    pub listen: SocketAddr,

    /// Listen beyond this machine without TLS, or without knowing whom for: whoever reaches the port can read what this process can
    #[arg(long)]
    pub insecure: bool,
}

/// Makes a session run its queries on workers.
pub fn use_workers(ctx: &SessionContext, workers: &WorkerUrls, trust: &TrustArgs) -> Result<()> {
    let coordinated = cluster::coordinate_session(ctx, workers.clone(), trust.trust()?);
    coordinated.map_err(to_datafusion_error)
}

impl Shell {
    /// Serves coordinators until Ctrl-C.
    pub async fn work(&self, args: &WorkerArgs, trust: &TrustArgs) -> ExitCode {
        let running = Interruptible::begin();
        match running.run(self.serve(args, trust)).await {
            // Ctrl-C is how a worker ends.
            None | Some(Ok(())) => ExitCode::SUCCESS,
            Some(Err(error)) => report::failure(&error, None),
        }
    }

    async fn serve(&self, args: &WorkerArgs, trust: &TrustArgs) -> Result<()> {
        let trust = trust.trust()?;
        if !args.listen.ip().is_loopback() && !trust.is_closed() && !args.insecure {
            return Err(DataFusionError::Configuration(format!(
                "a worker runs whatever plan it is sent, so on {} it needs --tls-cert and --tls-key, and --token-file or --tls-ca; \
                 --insecure lets it listen all the same",
                args.listen.ip()
            )));
        }
        let listener = TcpListener::bind(args.listen).await.map_err(|e| {
            DataFusionError::Configuration(format!(
                "the worker can't listen on {}: {e}",
                args.listen
            ))
        })?;
        let runtime = self.ctx.runtime_env();
        let memory = match runtime.memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => format!("{} MB for queries", bytes >> 20),
            _ => "no limit of memory".to_owned(),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let scheme = if trust.tls.is_some() { "https" } else { "http" };
        println!(
            "worker at {scheme}://{}, {cores} cores, {memory}",
            listener.local_addr()?
        );
        let worker = ClusterWorker::new(&self.ctx.copied_config(), runtime, trust);
        let served = worker.serve(listener, std::future::pending()).await;
        served.map_err(to_datafusion_error)
    }
}
