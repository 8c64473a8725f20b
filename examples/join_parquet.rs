//! One query over an array and a Parquet file: how cold it got in each country.
//!
//! `cargo run --example join_parquet`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::sync::Arc;

use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use datafusion_tiledb::TileDbTable;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ctx = SessionContext::new();

    // The array, opened as a table provider and given a name.
    let array = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/data/weather_stations"
    );
    ctx.register_table("weather", Arc::new(TileDbTable::open(array).await?))?;

    // The Parquet file, written by DataFusion itself.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("stations.parquet");
    let file = file
        .to_str()
        .ok_or("the temporary folder has a name that is not UTF-8")?;
    ctx.sql("SELECT * FROM (VALUES ('Bergen', 'NO'), ('Nuuk', 'GL'), ('Osaka', 'JP'), ('Zurich', 'CH')) t (station, country)")
        .await?
        .write_parquet(file, DataFrameWriteOptions::new(), None)
        .await?;
    ctx.register_parquet("stations", file, ParquetReadOptions::default())
        .await?;

    ctx.sql(
        "SELECT country, count(*) AS readings, min(temperature) AS coldest
         FROM weather JOIN stations USING (station)
         GROUP BY country ORDER BY country",
    )
    .await?
    .show()
    .await?;
    Ok(())
}
