//! An array before and after a correction: the same query at two times.
//!
//! Some readings of the weather array were corrected by a later write. `cargo run --example time_travel`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use datafusion_tiledb::TileDbTable;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ctx = SessionContext::new();
    let array = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/data/weather_stations"
    );

    // This array was first written at 1000 ms after 1970; real ones have real times.
    let before = TileDbTable::builder(array)
        .timestamp_end(1000)
        .open()
        .await?;
    ctx.register_table("before", Arc::new(before))?;
    ctx.register_table("now", Arc::new(TileDbTable::open(array).await?))?;

    ctx.sql(
        "SELECT station, time, before.temperature AS was, now.temperature AS is
         FROM before JOIN now USING (station, time)
         WHERE before.temperature <> now.temperature
         ORDER BY station, time LIMIT 5",
    )
    .await?
    .show()
    .await?;
    Ok(())
}
