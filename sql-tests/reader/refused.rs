//! What a scan refuses, and says why.

use std::sync::Arc;

use datafusion::functions_aggregate::expr_fn::max;
use datafusion::logical_expr::{Expr, exists, in_subquery, scalar_subquery};
use datafusion::prelude::{SessionContext, col, ident, lit};
use datafusion::scalar::ScalarValue;
use datafusion_tiledb::{Array, ArrayScan, ErrorKind, TileDbSessionExt};
use libtest_mimic::Failed;

use super::{expect, path};
use crate::neutral;
use crate::workshop::Files;

/// The error of a scan has all of the words.
async fn fails(scan: ArrayScan, words: &[&str]) -> Result<(), Failed> {
    let what = format!("{scan:?}");
    let Err(error) = scan.stream().await else {
        return Err(format!("no error: {what}").into());
    };
    let error = error.to_string();
    match words.iter().all(|word| error.contains(word)) {
        true => Ok(()),
        false => Err(format!("expected {words:?} in: {error}").into()),
    }
}

pub async fn refused() -> Result<(), Failed> {
    let array = Array::open(path("dense_partial_unaligned")).await?;
    let scan = || array.scan();
    let columns = [
        "\"z\"",
        "\"y\", \"x\", \"a\", \"s\"",
        "dense_partial_unaligned",
    ];
    fails(scan().columns(["y", "z"]), &columns).await?;
    fails(scan().range("z", 0..1), &columns).await?;
    fails(scan().filter(col("z").eq(col("y"))), &columns).await?;
    fails(scan().filter(col("t.y").eq(lit(1))), &["\"t.y\"", "\"y\""]).await?;
    fails(
        scan().filter(ident("Y").eq(lit(1))),
        &["\"Y\"", "col() does not"],
    )
    .await?;
    fails(scan().columns(["y", "x", "y"]), &["\"y\"", "twice"]).await?;
    fails(
        scan().range("a", 0..1),
        &["\"a\" is no dimension", "\"y\", \"x\"", "filter"],
    )
    .await?;
    let too_large = ["dimension y", "Int64(5000000000)", "Int32"];
    fails(scan().range("y", 0..5_000_000_000_i64), &too_large).await?;
    fails(
        scan().range("x", 0.5..2.0),
        &["dimension x", "0.5", "Int32"],
    )
    .await?;
    fails(scan().range("x", .."3"), &["dimension x", "Utf8(\"3\")"]).await?;
    let null = ScalarValue::Int32(None);
    fails(scan().range("x", null.clone()..), &["Int32(NULL)"]).await?;
    fails(scan().filter(col("a") + lit(1)), &["non-boolean"]).await?;
    fails(scan().batch_size(0), &["batch_size is 0"]).await?;
    fails(scan().partitions(0), &["partitions is 0"]).await?;

    let other = SessionContext::new();
    let other = other.read_tiledb(&path("quickstart_dense")).await?;
    let rows = other
        .clone()
        .select_columns(&["rows"])?
        .into_unoptimized_plan();
    let beyond: [Expr; 4] = [
        in_subquery(col("y"), Arc::new(rows.clone())),
        exists(Arc::new(rows.clone())),
        col("y").eq(scalar_subquery(Arc::new(rows))),
        max(col("y")).gt(lit(3)),
    ];
    for filter in beyond {
        fails(scan().filter(filter), &["beyond a row"]).await?;
    }

    let window = Array::builder(path("versions_square")).timestamp_start(1500);
    fails(
        window.open_array().await?.scan().at(1000),
        &["1500", "1000"],
    )
    .await?;
    let Err(nothing) = Array::open(path("no_such_array")).await else {
        return Err("an array that is not there was opened".into());
    };
    expect("kind", nothing.kind(), ErrorKind::NotFound)
}

/// A column that cannot be read is an error of scans that ask for it, and of no others.
pub async fn unreadable() -> Result<(), Failed> {
    let array = Array::open(path("refused_utf8")).await?;
    let Err(error) = array.scan().collect().await else {
        return Err("bytes that are not UTF-8 were shown".into());
    };
    assert!(error.to_string().contains("attribute s"), "{error}");
    let mut gone = Files::golden("weather_stations");
    let enumeration = gone.find("__enumerations/");
    gone.0.remove(&enumeration);
    let gone = Array::builder("memory").location(gone.in_memory().await);
    let gone = gone.open_array().await?;
    fails(
        gone.scan(),
        &["\"condition\" cannot be read", "__enumerations/"],
    )
    .await?;
    let others = gone.scan().columns(["station", "wind"]).collect().await?;
    assert!(!others.is_empty());
    let lossy = Array::builder(path("refused_utf8")).option("invalid_utf8", "lossy")?;
    let rows = lossy.open_array().await?.scan().collect().await?;
    expect("rows", neutral::rows(&rows).len(), 3)
}
