//! Reading without SQL: `reader::<array>` reads golden arrays, now and at their times. The other tests compare scans with the
//! statements that mean the same, and look at what is refused, what is read, and what is known before reading.

mod description;
mod insert;
mod like_sql;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, RecordBatch};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::logical_expr::{Expr, exists, in_subquery, scalar_subquery};
use datafusion::prelude::{SessionConfig, SessionContext, col, ident, lit};
use datafusion::scalar::ScalarValue;
use datafusion_tiledb::to_datafusion_error;
use datafusion_tiledb::{Array, ArrayScan, ErrorKind, TileDbSessionExt};
use futures::TryStreamExt;
use libtest_mimic::Failed;
use serde_json::Value;
use tiledb_engine::storage::{RequestKind, RequestLog};

use crate::support::array_files::Files;
use crate::support::shown_rows::ShownColumns;
use crate::support::{golden, neutral_rows};

trials!(golden::on_one_of_four(3, golden_array));

fn path(array: &str) -> String {
    golden::folder().join(array).display().to_string()
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Result<(), Failed> {
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{what}: expected {wanted:?}, found {found:?}").into())
    }
}

/// A golden array reads as libtiledb reads it, at each of its times, and the box around it is around all of its cells.
async fn golden_array(place: PathBuf, entry: Value) -> Result<(), Failed> {
    // libtiledb's answers hold the bytes of text as they are stored.
    let mut builder = Array::builder(place.display().to_string()).option("fixed_text", "raw")?;
    for (key, value) in golden::options(&entry) {
        builder = builder.option(&key, &value)?;
    }
    let array = builder.open_array().await?;
    let batches = array.scan().collect().await?;
    let answers = |window: &str| {
        let file = format!("{}{window}.expected.jsonl", place.display());
        let text = fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
        Ok::<_, Failed>(text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>())
    };
    let as_libtiledb = |what: &str, found: &[RecordBatch], wanted: Vec<String>| {
        let wanted = wanted.iter().map(String::as_str).collect::<Vec<_>>();
        let columns = match found.first() {
            Some(batch) => ShownColumns::of(&batch.schema()),
            None => ShownColumns::of(&array.schema()),
        };
        let compared = columns.compare(&wanted, &neutral_rows::rows(found));
        compared.map_err(|wrong| Failed::from(format!("{what}: {wrong}")))
    };
    as_libtiledb("rows", &batches, answers("")?)?;
    check_box(&array, &batches)?;
    for window in entry["windows"].as_array().into_iter().flatten() {
        if let (Some(0), Some(end)) = (window[0].as_u64(), window[1].as_u64()) {
            let then = array.scan().at(end).collect().await?;
            let wanted = answers(&format!("@0-{end}"))?;
            as_libtiledb(&format!("rows at {end}"), &then, wanted)?;
        }
    }
    Ok(())
}

fn check_box(array: &Array, batches: &[RecordBatch]) -> Result<(), Failed> {
    let around = array.non_empty_domain().unwrap_or_default();
    for (number, side) in around.iter().enumerate() {
        let columns = batches.iter().map(|batch| batch.column(number));
        let mut cells = Vec::new();
        for column in columns {
            for row in 0..column.len() {
                cells.push(ScalarValue::try_from_array(column, row)?);
            }
        }
        // Floats among which NaN is, and what Arrow cannot hold, make no promise.
        let is_nan = |cell: &ScalarValue| match cell {
            ScalarValue::Float32(Some(f)) => f.is_nan(),
            ScalarValue::Float64(Some(f)) => f.is_nan(),
            _ => false,
        };
        let shown =
            |end: &ScalarValue| end.data_type() == *array.schema().field(number).data_type();
        let promised = !cells.iter().any(is_nan) && shown(&side.low) && shown(&side.high);
        // Nor do coordinates that a filter changed, or dates that libtiledb 1.6 and 1.7 compared without their sign.
        let doubtful = ["lossy", "v03_dates", "v04_dates"]
            .iter()
            .any(|name| array.uri().contains(name));
        if promised && !doubtful && !cells.iter().all(|c| side.low <= *c && *c <= side.high) {
            return Err(format!("cells lie outside of {side:?}").into());
        }
    }
    if batches.iter().any(|b| b.num_rows() > 0) && around.is_empty() {
        Err("there are rows outside of all boxes".into())
    } else {
        Ok(())
    }
}

trial!(requests);
/// Conditions become ranges and prune tiles, as in a query, and an array that is open is not listed again.
async fn requests() -> Result<(), Failed> {
    let log = Arc::new(RequestLog::new());
    let array = Array::builder(path("rtree_three_levels"))
        .request_log(Arc::clone(&log))
        .open_array()
        .await?;
    let bytes_of = async |scan: ArrayScan| {
        log.clear();
        scan.collect().await?;
        let requests = log.entries();
        let lists = requests
            .iter()
            .filter(|r| r.kind == RequestKind::List)
            .count();
        let bytes: u64 = requests.iter().filter_map(|r| r.bytes_returned).sum();
        Ok::<_, Failed>((lists, bytes))
    };
    let scan = || array.scan().columns(["a"]);
    let point = col("x").eq(lit(1)).and(col("y").eq(lit(461)));
    let in_ranges = || scan().range("x", 1..=1).range("y", 461..=461);
    // What a scan knows of the tiles is kept for the next one.
    bytes_of(scan()).await?;
    bytes_of(in_ranges()).await?;
    let all = bytes_of(scan()).await?;
    let ranged = bytes_of(in_ranges()).await?;
    let filtered = bytes_of(scan().filter(point)).await?;
    let nothing = bytes_of(scan().range("x", 4_000_000_000_u32..)).await?;
    let then = bytes_of(scan().at(u64::MAX)).await?;
    expect("lists", [all.0, ranged.0, filtered.0, nothing.0], [0; 4])?;
    expect("bytes", (ranged.1, nothing.1), (filtered.1, 0))?;
    assert!(ranged.1 > 0 && ranged.1 < all.1, "{ranged:?} {all:?}");
    assert!(then.0 > 0, "{then:?}");
    Ok(())
}

trial!(as_it_was_opened);
/// What is written later does not show, unless it is asked for by its time.
async fn as_it_was_opened() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let files = Files::golden("versions_square");
    let first = |path: &str| path.contains("__1000_1000") || !path.contains("/__");
    let mut early = files.clone();
    early
        .0
        .retain(|path, _| first(path) || path.starts_with("__schema"));
    early.write(folder.path());
    let array = Array::open(folder.path().display().to_string()).await?;
    let rows = neutral_rows::rows(&array.scan().collect().await?);
    let fragments = array.fragments()?;
    files.write(folder.path());
    expect(
        "rows",
        &neutral_rows::rows(&array.scan().collect().await?),
        &rows,
    )?;
    expect("fragments", &array.fragments()?, &fragments)?;
    let now = Array::open(folder.path().display().to_string()).await?;
    let rows_now = neutral_rows::rows(&now.scan().collect().await?);
    assert!(rows_now.len() > rows.len(), "{rows:?} {rows_now:?}");
    let then = array.scan().at(u64::MAX).collect().await?;
    expect(
        "rows at the end of time",
        neutral_rows::rows(&then),
        rows_now,
    )
}

trial!(partitions);
/// Streams of partitions together give every row once.
async fn partitions() -> Result<(), Failed> {
    let array = Array::open(path("weather_stations")).await?;
    let wanted = neutral_rows::rows(&array.scan().collect().await?);
    for partitions in [1, 2, 7] {
        let streams = array.scan().partitions(partitions).streams().await?;
        assert!(
            !streams.is_empty() && streams.len() <= partitions,
            "{partitions}"
        );
        let reads = streams
            .into_iter()
            .map(|stream| stream.try_collect::<Vec<_>>());
        let batches = futures::future::try_join_all(reads).await?.concat();
        expect("rows", neutral_rows::rows(&batches), wanted.clone())?;
    }
    Ok(())
}

trial!(memory);
async fn memory() -> Result<(), Failed> {
    let array = Array::open(path("weather_stations")).await?;
    let pool = |bytes| Arc::new(GreedyMemoryPool::new(bytes));
    let enough = array.scan().memory_pool(pool(64 << 20)).collect().await?;
    assert!(!enough.is_empty());
    let few = array.scan().memory_pool(pool(100)).collect().await;
    match few.map_err(|e| e.find_root().to_string()) {
        Err(e) if e.contains("memory") => Ok(()),
        other => Err(format!("a pool of 100 bytes was enough: {other:?}").into()),
    }
}

trial!(one_thread);
/// A runtime of one thread is enough.
fn one_thread() -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let rows = runtime.block_on(async {
        let array = Array::open(path("weather_stations"))
            .await
            .map_err(to_datafusion_error)?;
        let scan = array
            .scan()
            .columns(["station"])
            .filter(col("temperature").lt(lit(0)));
        Ok::<_, DataFusionError>(scan.collect().await?.len())
    })?;
    expect("some rows", rows > 0, true)
}

trial!(sessions);
/// Object stores and memory are those of the session with which the array was opened.
async fn sessions() -> Result<(), Failed> {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    let location = Files::golden("quickstart_dense").in_memory().await;
    let url = url::Url::parse("memory://store")?;
    ctx.register_object_store(&url, Arc::clone(location.store()));
    let uri = format!("memory://store/{}", location.root());
    let array = Array::builder(&uri).session(&ctx).open_array().await?;
    let wanted = Array::open(path("quickstart_dense"))
        .await?
        .scan()
        .collect()
        .await?;
    let found = array.scan().collect().await?;
    expect(
        "rows",
        neutral_rows::rows(&found),
        neutral_rows::rows(&wanted),
    )?;
    let array = Array::builder("elsewhere")
        .location(location)
        .open_array()
        .await?;
    let found = array.scan().limit(0).collect().await?;
    expect("rows", neutral_rows::rows(&found).len(), 0)
}

/// The error of a scan has all of the words.
async fn fails(scan: ArrayScan, words: &[&str]) -> Result<(), Failed> {
    let what = format!("{scan:?}");
    let Err(error) = scan.stream().await else {
        return Err(format!("no error: {what}").into());
    };
    let error = error.to_string();
    if words.iter().all(|word| error.contains(word)) {
        Ok(())
    } else {
        Err(format!("expected {words:?} in: {error}").into())
    }
}

trial!(refused);
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

    let other = SessionContext::new()
        .read_tiledb(&path("quickstart_dense"))
        .await?;
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

trial!(unreadable);
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
    let gone = Array::builder("memory")
        .location(gone.in_memory().await)
        .open_array()
        .await?;
    fails(
        gone.scan(),
        &["\"condition\" cannot be read", "__enumerations/"],
    )
    .await?;
    let others = gone.scan().columns(["station", "wind"]).collect().await?;
    assert!(!others.is_empty());
    let lossy = Array::builder(path("refused_utf8")).option("invalid_utf8", "lossy")?;
    let rows = lossy.open_array().await?.scan().collect().await?;
    expect("rows", neutral_rows::rows(&rows).len(), 3)
}
