//! A query over two workers in this process: `cargo run --features cluster --example cluster`. With addresses, the workers are those:
//! `cargo run --features cluster --example cluster http://10.0.0.1:7071,http://10.0.0.2:7071`

use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::cluster::trust::ClusterTrust;
use datafusion_tiledb::cluster::worker::ClusterWorker;
use datafusion_tiledb::{cluster, execute};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workers = match std::env::args().nth(1) {
        Some(workers) => workers,
        None => format!("{},{}", worker().await?, worker().await?),
    };
    let ctx = SessionContext::new();
    cluster::coordinate_session(&ctx, workers.parse()?, ClusterTrust::default())?;

    // The array of this example is small. Usually, tasks are larger.
    execute(&ctx, "SET tiledb.bytes_per_task = '1 kB'").await?;
    let sql = "SELECT station, count(*) AS readings, min(temperature) AS coldest
               FROM './examples/data/weather_stations' GROUP BY station ORDER BY station";
    execute(&ctx, &format!("EXPLAIN {sql}"))
        .await?
        .show()
        .await?;
    execute(&ctx, sql).await?.show().await?;
    Ok(())
}

/// Starts a worker, and returns its address. It only listens to this machine.
async fn worker() -> Result<String, Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let runtime = Arc::<RuntimeEnv>::default();
    let worker = ClusterWorker::new(&SessionConfig::new(), runtime, ClusterTrust::default());
    tokio::spawn(worker.serve(listener, std::future::pending()));
    Ok(format!("http://{address}"))
}
