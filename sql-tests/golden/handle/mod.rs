//! Arrays without SQL: `handle::<array>` reads golden arrays, now and at their times. The other tests compare scans and inserts
//! with the statements that mean the same, and look at what is refused, what is read, and what is known before reading.

mod boxes;
mod description;
mod insert;
mod insert_dense;
mod like_sql;
mod own_rows;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, RecordBatch};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::scalar::ScalarValue;
use datafusion_tiledb::{
    Array, ErrorKind, OpenOptions, TableOptions, TileDbSessionExt, TileDbTable,
};
use futures::TryStreamExt;
use libtest_mimic::Failed;
use serde_json::Value;
use tiledb_engine::ArrayScan;
use tiledb_engine::storage::{RequestKind, RequestLog};

use crate::support::array_files::Files;
use crate::support::shown_rows::ShownColumns;
use crate::support::{golden, neutral_rows};

trials!(golden::on_one_of(8, 3, golden_array));

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

/// Opens an array with options of tables.
async fn open_with<'a>(
    uri: &str,
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Array, Failed> {
    let mut table = TableOptions::default();
    for (key, value) in options {
        table.set(key, value)?;
    }
    Ok(OpenOptions::from(&table).open(uri).await?)
}

/// A golden array reads as libtiledb reads it, at each of its times, and the box around it is around all of its cells.
async fn golden_array(place: PathBuf, entry: Value) -> Result<(), Failed> {
    // libtiledb's answers hold the bytes of text as they are stored.
    let options = golden::options(&entry);
    let options = options
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    let options = options.chain([("fixed_text", "raw")]);
    let array = open_with(&place.display().to_string(), options).await?;
    let batches = array.scan().collect().await?;
    let answers = |window: &str| {
        let file = format!("{}{window}.expected.jsonl", place.display());
        let text = fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
        Ok::<_, Failed>(text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>())
    };
    let as_libtiledb = |what: &str, found: &[RecordBatch], wanted: Vec<String>| {
        // Labels, the last columns, aren't shown without SQL.
        let shown = found
            .first()
            .map_or(array.schema().fields().len(), RecordBatch::num_columns);
        let wanted = wanted
            .into_iter()
            .map(|row| match serde_json::from_str(&row) {
                Ok(Value::Array(mut columns)) if columns.len() > shown => {
                    columns.truncate(shown);
                    Value::Array(columns).to_string()
                }
                _ => row,
            });
        let wanted = wanted.collect::<Vec<_>>();
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
    boxes::check(&array, &batches).await?;
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
        let ends = [&side.low, &side.high];
        let shown = ends.map(|end| end.data_type() == array.schema().field(number).data_type());
        let [low, high] = ends.map(|end| ScalarValue::try_from_array(end.as_array(), 0));
        let (low, high) = (low?, high?);
        let promised = !cells.iter().any(is_nan) && shown == [true; 2];
        // Nor do coordinates that a filter changed, or dates that libtiledb 1.6 and 1.7 compared without their sign.
        let doubtful = ["lossy", "v03_dates", "v04_dates"]
            .iter()
            .any(|name| array.uri().contains(name));
        if promised && !doubtful && !cells.iter().all(|c| low <= *c && *c <= high) {
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
/// Ranges prune tiles as those of a query do, and an array that is open is not listed again.
async fn requests() -> Result<(), Failed> {
    let log = Arc::new(RequestLog::new());
    let options = OpenOptions::new().request_log(Arc::clone(&log));
    let array = options.open(path("rtree_three_levels")).await?;
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
    let table = TileDbTable::builder(path("rtree_three_levels")).request_log(Arc::clone(&log));
    let ctx = SessionContext::new();
    ctx.register_table("t", Arc::new(table.open().await?))?;
    let point = "SELECT a FROM t WHERE x = 1 AND y = 461";
    let in_ranges = || scan().range("x", 1..=1).range("y", 461..=461);
    // What a scan knows of the tiles is kept for the next one.
    bytes_of(scan()).await?;
    bytes_of(in_ranges()).await?;
    let all = bytes_of(scan()).await?;
    let ranged = bytes_of(in_ranges()).await?;
    log.clear();
    ctx.sql(point).await?.collect().await?;
    let filtered = log.entries().iter().filter_map(|r| r.bytes_returned).sum();
    let nothing = bytes_of(scan().range("x", 4_000_000_000_u32..)).await?;
    let then = bytes_of(scan().at(u64::MAX)).await?;
    expect("lists", [all.0, ranged.0, nothing.0], [0; 3])?;
    expect("bytes", (ranged.1, nothing.1), (filtered, 0))?;
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
    let budget = |bytes| {
        let pool = Arc::new(GreedyMemoryPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(pool)
            .build_arc()?;
        let ctx = SessionContext::new_with_config_rt(SessionConfig::new(), runtime);
        Ok::<_, Failed>(ctx.tiledb_budget("scan"))
    };
    let enough = array.scan().memory(budget(64 << 20)?).collect().await?;
    assert!(!enough.is_empty());
    let few = array.scan().memory(budget(100)?).collect().await;
    match few.map_err(|e| e.kind()) {
        Err(ErrorKind::OutOfMemory) => Ok(()),
        other => Err(format!("a pool of 100 bytes was enough: {other:?}").into()),
    }
}

trial!(one_thread);
/// A runtime of one thread is enough.
fn one_thread() -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let rows = runtime.block_on(async {
        let array = Array::open(path("weather_stations")).await?;
        let scan = array
            .scan()
            .columns(["station"])
            .range("time", .."2024-02-01");
        Ok::<_, datafusion_tiledb::Error>(scan.collect().await?.len())
    })?;
    expect("some rows", rows > 0, true)
}

trial!(locations);
/// An array in an object store is found by a session, or by its store.
async fn locations() -> Result<(), Failed> {
    let ctx = SessionContext::new();
    let location = Files::golden("quickstart_dense").in_memory().await;
    let url = url::Url::parse("memory://store")?;
    ctx.register_object_store(&url, Arc::clone(location.store()));
    let uri = format!("memory://store/{}", location.root());
    let here = Array::open(path("quickstart_dense")).await?;
    let wanted = neutral_rows::rows(&here.scan().collect().await?);
    let by_builder = TileDbTable::builder(&uri).session(&ctx).storage()?;
    for array in [
        Array::open(ctx.tiledb_location(&uri)?).await?,
        Array::open(by_builder).await?,
        Array::open(location).await?,
    ] {
        let found = array.scan().collect().await?;
        expect("rows", neutral_rows::rows(&found), wanted.clone())?;
        let none = array.scan().limit(0).collect().await?;
        expect("rows", neutral_rows::rows(&none).len(), 0)?;
    }
    Ok(())
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
    fails(scan().columns(["y", "Y"]), &["\"Y\"", "\"y\""]).await?;
    fails(scan().range("z", 0..1), &columns).await?;
    fails(scan().columns(["y", "x", "y"]), &["\"y\"", "twice"]).await?;
    fails(
        scan().range("a", 0..1),
        &["\"a\" isn't a dimension", "\"y\", \"x\""],
    )
    .await?;
    let too_large = ["dimension y", "'5000000000'", "INT32"];
    fails(scan().range("y", 0..5_000_000_000_i64), &too_large).await?;
    fails(
        scan().range("x", 0.5..2.0),
        &["dimension x", "'0.5'", "INT32"],
    )
    .await?;
    fails(scan().range("x", .."three"), &["dimension x", "'three'"]).await?;
    fails(scan().range("x", ""..), &["dimension x", "''"]).await?;
    fails(scan().batch_size(0), &["batch_size is 0"]).await?;
    fails(
        scan().batch_size(usize::MAX),
        &["batch_size is ", "at most"],
    )
    .await?;
    let floats = Array::open(path("dim_sparse_floats")).await?;
    let beyond = ["dimension x", "1e300", "FLOAT32"];
    fails(floats.scan().range("x", ..=1e300), &beyond).await?;
    fails(scan().partitions(0), &["partitions is 0"]).await?;
    let window = OpenOptions::new().timestamp_start(1500);
    let window = window.open(path("versions_square")).await?;
    fails(window.scan().at(1000), &["1500", "1000"]).await?;
    let versions = OpenOptions::new().all_versions();
    let Err(dense) = versions.open(path("quickstart_dense")).await else {
        return Err("a dense array has no versions to show".into());
    };
    expect("kind", dense.kind(), ErrorKind::InvalidInput)?;
    for (nothing, kind) in [
        (path("no_such_array"), ErrorKind::NotFound),
        ("nostore://bucket/array".to_owned(), ErrorKind::Unsupported),
    ] {
        let Err(error) = Array::open(&nothing).await else {
            return Err(format!("{nothing} was opened").into());
        };
        expect("kind", error.kind(), kind)?;
    }
    Ok(())
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
    let gone = Array::open(gone.in_memory().await).await?;
    fails(
        gone.scan(),
        &["\"condition\" cannot be read", "__enumerations/"],
    )
    .await?;
    let others = gone.scan().columns(["station", "wind"]).collect().await?;
    assert!(!others.is_empty());
    let lossy = open_with(&path("refused_utf8"), [("invalid_utf8", "lossy")]).await?;
    let rows = lossy.scan().collect().await?;
    expect("rows", neutral_rows::rows(&rows).len(), 3)
}
