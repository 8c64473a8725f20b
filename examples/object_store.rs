//! An array in an object store. Without an argument the store is in memory: `cargo run --example object_store`. With the features
//! `aws`, `gcp` or `azure` it may be any: `cargo run --features aws --example object_store s3://bucket/readings`

use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{Engine, StoreRegistry, execute};
use object_store::memory::InMemory;
use url::Url;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The registry makes the stores that URLs name. It looks for credentials where the programs of their services do.
    let registry = Arc::new(StoreRegistry::new(&Engine::shared()));
    let runtime = RuntimeEnvBuilder::new().with_object_store_registry(Arc::clone(&registry) as _);
    let config = SessionConfig::new().with_extension(registry);
    let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc()?);
    datafusion_tiledb::register(&ctx)?;

    // Stores that the program has made itself come first.
    ctx.register_object_store(&Url::parse("shelf://memory")?, Arc::new(InMemory::new()));

    let array = std::env::args().nth(1);
    let array = array.unwrap_or_else(|| "shelf://memory/readings".to_owned());
    let create = format!(
        "CREATE EXTERNAL TABLE readings (station VARCHAR, day DATE, temperature DOUBLE, PRIMARY KEY (station, day))
         STORED AS TILEDB LOCATION '{array}'"
    );
    for sql in [
        create.as_str(),
        "INSERT INTO readings VALUES ('Bergen', '2024-02-29', 4.5), ('Oslo', '2024-02-29', -3.0)",
        "INSERT INTO readings VALUES ('Oslo', '2024-03-01', -1.0)",
        "SELECT * FROM readings WHERE station = 'Oslo' ORDER BY day",
    ] {
        execute(&ctx, sql).await?.show().await?;
    }
    Ok(())
}
