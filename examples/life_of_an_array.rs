//! The life of an array: created, filled, changed, compared with its past, and tidied.
//!
//! `cargo run --example life_of_an_array`
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "an example shows its result, and a query with one row has one"
)]

use std::time::Duration;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimestampMillisecondType};
use datafusion::prelude::SessionContext;
use datafusion_tiledb::{
    Array, ArrayBuilder, ConsolidateMode, ConsolidateOptions, Location, VacuumMode, VacuumOptions,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("readings").display().to_string();

    // CREATE EXTERNAL TABLE with a PRIMARY KEY does the same in SQL.
    let columns = Schema::new(vec![
        Field::new("station", DataType::Utf8, false),
        Field::new("day", DataType::Int32, false),
        Field::new("temperature", DataType::Float64, true),
    ]);
    let array = ArrayBuilder::new(&columns, ["station", "day"])?.option("capacity", "1000")?;
    array.create(Location::local(&path)?).await?;

    // Each statement is one commit, which readers see whole or not at all.
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    let open = format!("CREATE EXTERNAL TABLE readings STORED AS TILEDB LOCATION '{path}'");
    ctx.sql(&open).await?.collect().await?;
    for statement in [
        "INSERT INTO readings SELECT s.station, i, i * 0.5 FROM unnest(['Bergen', 'Oslo']) AS s(station), unnest(range(1, 6)) AS d(i)",
        "UPDATE readings SET temperature = temperature - 10 WHERE station = 'Oslo' AND day > 3",
        "DELETE FROM readings WHERE day = 1",
    ] {
        println!("{statement}");
        ctx.sql(statement).await?.show().await?;
    }

    // What has changed since the first write; a query can also join two versions.
    let first = "SELECT min(timestamp_end) FROM tiledb_commits('readings')";
    let first = ctx.sql(first).await?.collect().await?;
    let first = first[0]
        .column(0)
        .as_primitive::<TimestampMillisecondType>()
        .value(0);
    let changes = format!(
        "SELECT station, day, change, old_temperature, new_temperature
         FROM tiledb_diff('{path}', {first}, '2100-01-01') ORDER BY station, day"
    );
    ctx.sql(&changes).await?.show().await?;

    // The fragments become one, and what it replaces is removed; the table goes on showing the same rows.
    for row in
        Array::consolidate(&path, ConsolidateOptions::new(ConsolidateMode::Fragments)).await?
    {
        println!("{}: {}", row.gain, row.outcome);
    }
    let mut vacuum = VacuumOptions::new(VacuumMode::Fragments);
    // Nobody else reads the array. By default, fragments that were just replaced stay for 10 minutes.
    vacuum.min_age = Duration::ZERO;
    for row in Array::vacuum(&path, vacuum).await? {
        println!("{}: {}", row.gain, row.outcome);
    }
    let rows = "SELECT station, count(*) AS days, avg(temperature) AS mean FROM readings GROUP BY station ORDER BY station";
    ctx.sql(rows).await?.show().await?;
    Ok(())
}
