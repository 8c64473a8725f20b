//! An array without SQL: what it is, and some of its cells as record batches.
//!
//! `cargo run --example read_array`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Float64Type;
use datafusion_tiledb::Array;
use futures::TryStreamExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let array = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/data/weather_stations"
    );
    let weather = Array::open(array).await?;
    println!("dimensions: {}", weather.dimensions().join(", "));
    for range in weather.non_empty_domain().unwrap_or_default() {
        println!("  {range}");
    }
    for fragment in weather.fragments()? {
        println!("fragment {}: {:?} cells", fragment.name, fragment.cells);
    }

    let january = weather
        .scan()
        .columns(["time", "temperature"])
        .range("station", "Bergen"..="Bergen")
        .range("time", "2024-01-01".."2024-02-01");
    // `at` shows the cells as they were before a correction.
    let before = january.clone().at(1000);
    for (name, scan) in [("now", january), ("before the correction", before)] {
        let mut batches = scan.stream().await?;
        let (mut readings, mut frost) = (0, 0);
        while let Some(batch) = batches.try_next().await? {
            let temperatures = batch.column(1).as_primitive::<Float64Type>();
            readings += batch.num_rows();
            frost += temperatures.iter().flatten().filter(|t| *t < 0.0).count();
        }
        println!("{readings} readings in Bergen in January, {frost} of them below zero, {name}");
    }
    Ok(())
}
