//! Arrays in a DataFusion session of your own: register once, then any array is a table.
//!
//! `cargo run --example embed`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use datafusion::prelude::SessionContext;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;

    let array = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/elevation");
    let highest = format!("SELECT y, x, height FROM '{array}' ORDER BY height DESC LIMIT 3");
    ctx.sql(&highest).await?.show().await?;
    Ok(())
}
