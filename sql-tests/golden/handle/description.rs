//! What an array tells before its cells are read.

use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use datafusion_tiledb::{Array, OpenOptions};
use libtest_mimic::Failed;
use tiledb_engine::{ArrowValue, DimensionRange};

use super::{expect, path};
use crate::support::neutral_rows;

fn scalar(value: &ArrowValue) -> ScalarValue {
    ScalarValue::try_from_array(value.as_array(), 0).expect("an array of one value")
}

fn ends(ranges: Option<Vec<DimensionRange>>) -> Vec<(String, ScalarValue, ScalarValue)> {
    let ranges = ranges.unwrap_or_default().into_iter();
    let ends = |r: DimensionRange| (r.dimension, scalar(&r.low), scalar(&r.high));
    ranges.map(ends).collect()
}

trial!(fragments);
async fn fragments() -> Result<(), Failed> {
    let weather = Array::open(path("weather_stations")).await?;
    expect("sparse", weather.is_dense(), false)?;
    expect("uri", weather.uri(), &path("weather_stations"))?;
    expect(
        "dimensions",
        weather.dimensions(),
        vec!["station".to_owned(), "time".to_owned()],
    )?;
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    for array in [
        "weather_stations",
        "versions_square",
        "dense_overlapping",
        "nan_fragments",
    ] {
        let array = Array::open(path(array)).await?;
        let sql = format!(
            "SELECT fragment, timestamp_start, timestamp_end, format_version, dense, cells \
             FROM tiledb_fragments('{}') WHERE visible",
            array.uri()
        );
        let told = neutral_rows::rows(&ctx.sql(&sql).await?.collect().await?);
        let mut found = Vec::new();
        for f in array.fragments()? {
            let row = serde_json::json!([
                f.name,
                f.timestamp_start,
                f.timestamp_end,
                f.format_version,
                f.is_dense,
                f.cells
            ]);
            found.push(row.to_string());
        }
        found.sort();
        expect(array.uri(), found, told)?;
    }
    Ok(())
}

trial!(boxes);
async fn boxes() -> Result<(), Failed> {
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    let overlapping = Array::open(path("dense_partial_unaligned")).await?;
    expect("dense", overlapping.is_dense(), true)?;
    let int = |n: i32| ScalarValue::Int32(Some(n));
    let sql = format!(
        "SELECT min(y), max(y), min(x), max(x) FROM '{}'",
        overlapping.uri()
    );
    let bounds = ctx.sql(&sql).await?.collect().await?;
    let bound = |i: usize| ScalarValue::try_from_array(bounds[0].column(i), 0);
    let wanted = vec![
        ("y".to_owned(), bound(0)?, bound(1)?),
        ("x".to_owned(), bound(2)?, bound(3)?),
    ];
    expect("box", ends(overlapping.non_empty_domain()), wanted)?;
    let quick = Array::open(path("quickstart_dense")).await?;
    let wanted = vec![
        ("rows".to_owned(), int(1), int(4)),
        ("cols".to_owned(), int(1), int(4)),
    ];
    expect(
        "box",
        ends(quick.fragments()?.remove(0).non_empty_domain),
        wanted,
    )?;
    let weather = Array::open(path("weather_stations")).await?;
    let days = weather.non_empty_domain().unwrap_or_default();
    let shown = days.iter().map(ToString::to_string).collect::<Vec<_>>();
    let wanted = [
        "station from Bergen to Zurich",
        "time from 2024-01-01T00:00:00 to 2024-03-03T06:00:00",
    ];
    expect("box as text", shown, wanted.map(str::to_owned).to_vec())?;
    for empty in ["sparse_empty", "dense_empty"] {
        let empty = Array::open(path(empty)).await?;
        expect("no box", empty.non_empty_domain(), None)?;
        expect("no fragments", empty.fragments()?.len(), 0)?;
    }
    let nan = Array::open(path("nan_fragments")).await?;
    let numbers = ends(nan.non_empty_domain());
    assert!(
        numbers.iter().all(|(_, low, high)| low <= high),
        "{numbers:?}"
    );
    Ok(())
}

trial!(metadata);
async fn metadata() -> Result<(), Failed> {
    let array = Array::open(path("metadata")).await?;
    let metadata = array.metadata().await?;
    let value = |key: &str| metadata.get(key).map(scalar);
    let text = |text: &str| Some(ScalarValue::Utf8View(Some(text.to_owned())));
    expect(
        "scale",
        value("scale"),
        Some(ScalarValue::Float64(Some(0.5))),
    )?;
    expect("unit", value("unit"), text("größe"))?;
    expect("empty", value("empty"), text(""))?;
    let then = OpenOptions::new()
        .timestamp_end(0)
        .open(path("metadata"))
        .await;
    assert!(then.is_err() || then?.metadata().await?.is_empty());
    // The table function tells the same keys and, where it has them, the same numbers.
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    for array in [
        "metadata",
        "metadata_types",
        "metadata_history",
        "quickstart_dense",
    ] {
        let array = Array::open(path(array)).await?;
        let sql = format!(
            "SELECT key, int_value, float_value FROM tiledb_metadata('{}')",
            array.uri()
        );
        let mut keys = 0;
        let metadata = array.metadata().await?;
        for batch in ctx.sql(&sql).await?.collect().await? {
            for row in 0..batch.num_rows() {
                let told = |column: usize| ScalarValue::try_from_array(batch.column(column), row);
                let key = told(0)?.to_string();
                let value = scalar(metadata.get(&key).ok_or_else(|| format!("no key {key}"))?);
                keys += 1;
                let number = told(if value.data_type().is_floating() {
                    2
                } else {
                    1
                })?;
                if value.data_type().is_numeric() && !number.is_null() {
                    expect(&key, value.cast_to(&number.data_type())?, number)?;
                }
            }
        }
        expect("keys", keys, metadata.len())?;
    }
    Ok(())
}
