//! Rows that programs write without SQL are those that INSERT would have written, or the array is as it was.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, DictionaryArray, Float64Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StringViewArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Int8Type, Schema};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_tiledb::{Array, ArrayBuilder, EncryptionKey, Location, SchemaEvolution};
use futures::stream;
use libtest_mimic::Failed;
use object_store::memory::InMemory;

use super::expect;
use crate::support::array_files::Files;
use crate::support::neutral_rows;

fn columns() -> Schema {
    Schema::new(vec![
        Field::new("x", DataType::Int32, false),
        Field::new("name", DataType::Utf8, false),
        Field::new("v", DataType::Float64, true),
        Field::new("note", DataType::Utf8, true),
    ])
}

async fn create(folder: &Path) -> Result<String, Failed> {
    let path = folder.join("array").display().to_string();
    let builder = ArrayBuilder::new(&columns(), ["x", "name"])?
        .domain("x", "-1000", "2000000")?
        .tile("x", "100")?;
    builder.create(Location::local(&path)?).await?;
    Ok(path)
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| {
        let nullable = column.logical_null_count() > 0;
        (name, column, nullable)
    });
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

async fn rows(path: &str) -> Result<Vec<String>, Failed> {
    let array = Array::open(path).await?;
    Ok(neutral_rows::rows(&array.scan().collect().await?))
}

trial!(as_sql);
/// Columns in another order and of other types, some of them missing; rows that replace others.
async fn as_sql() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = create(folder.path()).await?;
    let array = Array::open(&path).await?;
    let names: ArrayRef = Arc::new(StringViewArray::from(vec!["é", "", "b"]));
    let given = batch(vec![
        (
            "v",
            Arc::new(Int16Array::from(vec![Some(3), None, Some(-1)])),
        ),
        ("name", Arc::clone(&names)),
        ("x", Arc::new(Int64Array::from(vec![1500, -1000, 0]))),
    ]);
    expect("rows written", array.insert().batches([given]).await?, 3)?;
    expect("rows of none", array.insert().batches([]).await?, 0)?;
    let notes: DictionaryArray<Int8Type> = [None, Some("n"), Some("m")].into_iter().collect();
    let halves = batch(vec![
        ("x", Arc::new(Int32Array::from(vec![0, 1, 2]))),
        ("name", Arc::new(StringArray::from(vec!["b", "b", "b"]))),
        ("v", Arc::new(Float64Array::from(vec![f64::NAN, -0.0, 0.5]))),
        ("note", Arc::new(notes)),
    ]);
    let halves = [halves.slice(0, 1), halves.slice(1, 2)];
    let written = array.insert().partitions(3).batches(halves).await?;
    expect("rows written later", written, 3)?;

    let other = tempfile::tempdir()?;
    let wanted = create(other.path()).await?;
    let ctx = datafusion::prelude::SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    for values in [
        "(1500, 'é', 3, NULL), (-1000, '', NULL, NULL), (0, 'b', -1, NULL)",
        "(0, 'b', 'NaN', NULL), (1, 'b', -0.0, 'n'), (2, 'b', 0.5, 'm')",
    ] {
        let open =
            format!("CREATE OR REPLACE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{wanted}'");
        ctx.sql(&open).await?.collect().await?;
        let insert = format!("INSERT INTO t VALUES {values}");
        ctx.sql(&insert).await?.collect().await?;
    }
    expect("rows", rows(&path).await?, rows(&wanted).await?)?;
    expect("fragments", Array::open(&path).await?.fragments()?.len(), 2)?;
    expect("what was opened", array.fragments()?.len(), 0)
}

trial!(dense);
/// Only the given cells of a dense array change.
async fn dense() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    Files::golden("quickstart_dense").write(folder.path());
    let path = folder.path().display().to_string();
    let array = Array::open(&path).await?;
    let before = rows(&path).await?;
    let given = batch(vec![
        ("cols", Arc::new(Int32Array::from(vec![4, 1]))),
        ("rows", Arc::new(Int32Array::from(vec![1, 3]))),
        ("a", Arc::new(Int32Array::from(vec![-14, -31]))),
    ]);
    expect("rows written", array.insert().batches([given]).await?, 2)?;
    let mut changed = before
        .iter()
        .map(|row| match row.as_str() {
            "[1,4,4]" => "[1,4,-14]".to_owned(),
            "[3,1,9]" => "[3,1,-31]".to_owned(),
            other => other.to_owned(),
        })
        .collect::<Vec<_>>();
    changed.sort_unstable();
    let mut found = rows(&path).await?;
    found.sort_unstable();
    assert!(found != before, "{found:?}");
    expect("rows", found, changed)
}

/// The side of a dense array of 16 tiles, and of its tiles.
const SIDE: i32 = 64;

/// The cells of some lines of a dense array: batches of one line each.
fn lines(lines: std::ops::Range<i32>) -> impl Iterator<Item = RecordBatch> {
    lines.map(|y| cells((0..SIDE).map(|x| (y, x)).collect()))
}

fn cells(places: Vec<(i32, i32)>) -> RecordBatch {
    let column = |of: fn(&(i32, i32)) -> i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(places.iter().map(of)))
    };
    let texts = places.iter().map(|(y, x)| format!("{y:020}/{x}"));
    batch(vec![
        ("y", column(|(y, _)| *y)),
        ("x", column(|(_, x)| *x)),
        ("v", column(|(y, x)| y * SIDE + x)),
        ("s", Arc::new(StringArray::from_iter_values(texts))),
    ])
}

trial!(dense_tiles);
/// Tiles that have all their cells are filtered while others come, and however little memory there is, all are written.
async fn dense_tiles() -> Result<(), Failed> {
    let columns = Schema::new(vec![
        Field::new("y", DataType::Int32, false),
        Field::new("x", DataType::Int32, false),
        Field::new("v", DataType::Int32, false),
        Field::new("s", DataType::Utf8, false),
    ]);
    let all = neutral_rows::rows(&lines(0..SIDE).collect::<Vec<_>>());
    for kilobytes in [1 << 20, 800, 400, 200, 120] {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("array").display().to_string();
        let mut builder = ArrayBuilder::new(&columns, ["y", "x"])?.dense();
        for dimension in ["y", "x"] {
            builder = builder
                .domain(dimension, "0", "63")?
                .tile(dimension, "16")?;
        }
        builder.create(Location::local(&path)?).await?;
        let array = Array::open(&path).await?;
        let pool = || Arc::new(FairSpillPool::new(kilobytes << 10));
        let inserting = || array.insert().partitions(1).memory_pool(pool());
        for (again, which) in [
            (vec![cells(vec![(3, 5)])], "(y = 3, x = 5)"),
            (lines(0..SIDE).collect(), "(y = "),
        ] {
            let twice = lines(0..SIDE).chain(again);
            let why = format!("two rows have the coordinates {which}");
            match inserting().batches(twice).await.map_err(|e| e.to_string()) {
                Err(e) if e.contains(&why) => {}
                other => return Err(format!("{kilobytes} KB, {why}: {other:?}").into()),
            }
        }
        expect("rows of what failed", rows(&path).await?.len(), 0)?;
        // A part, with holes between its cells, and then the rest.
        let some = lines(0..40).chain([cells(vec![(50, 1), (63, 63)])]);
        let written = inserting().batches(some).await?;
        expect("rows of a part", written, 40 * SIDE as u64 + 2)?;
        let array = Array::open(&path).await?;
        let rest = array.insert().partitions(1).memory_pool(pool());
        expect(
            "rows of the rest",
            rest.batches(lines(40..SIDE)).await?,
            24 * SIDE as u64,
        )?;
        let mut found = rows(&path).await?;
        let mut expected = all.clone();
        found.sort_unstable();
        expected.sort_unstable();
        expect("rows", found, expected)?;
    }
    Ok(())
}

fn ints(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

fn text(value: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![value]))
}

async fn refuses_columns(array: &Array) -> Result<(), Failed> {
    let nothing: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    for (columns, why) in [
        (
            vec![("x", ints(1))],
            "the rows have no column \"name\", which cannot be NULL",
        ),
        (
            vec![("x", ints(1)), ("name", text("a")), ("w", ints(1))],
            "the array has no column \"w\"; its columns are x, name, v, note",
        ),
        (
            vec![("x", ints(1)), ("name", text("a")), ("X", ints(1))],
            "the array has no column \"X\"",
        ),
        (
            vec![("x", ints(1 << 40)), ("name", text("a"))],
            "1099511627776",
        ),
        (vec![("x", ints(2_000_001)), ("name", text("a"))], "2000001"),
        (vec![("x", text("one")), ("name", text("a"))], "one"),
        (vec![("x", ints(1)), ("name", Arc::clone(&nothing))], "NULL"),
    ] {
        let refused = array.insert().batches([batch(columns)]).await;
        match refused.map_err(|e| e.to_string()) {
            Err(e) if e.contains(why) => {}
            other => return Err(format!("expected {why}, found {other:?}").into()),
        }
    }
    Ok(())
}

trial!(refused);
/// What does not fit is an error that says why, and nothing is written.
async fn refused() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = create(folder.path()).await?;
    let array = Array::open(&path).await?;
    refuses_columns(&array).await?;
    let twice = Schema::new(vec![
        Field::new("x", DataType::Int64, false),
        Field::new("x", DataType::Int64, false),
    ]);
    let twice = RecordBatch::try_new(Arc::new(twice), vec![ints(1), ints(2)])?;
    let key = [("x", ints(1)), ("name", text("a"))];
    let one = || batch(key.to_vec());
    let different = [
        one(),
        batch(vec![("x", ints(2)), ("name", text("b")), ("v", ints(2))]),
    ];
    let past = Array::builder(&path)
        .timestamp_end(1000)
        .open_array()
        .await?;
    let repeated = batch(vec![
        ("x", Arc::new(Int64Array::from(vec![1, 1]))),
        ("name", Arc::new(StringArray::from(vec!["a", "a"]))),
    ]);
    for (done, why) in [
        (array.insert().batches([twice]).await, "given twice"),
        (array.insert().batches(different).await, "different columns"),
        (past.insert().batches([one()]).await, "the past"),
        (
            array.insert().partitions(0).batches([one()]).await,
            "partitions is 0",
        ),
        (
            array.insert().batches([repeated]).await,
            "allows no duplicates",
        ),
    ] {
        match done.map_err(|e| e.to_string()) {
            Err(e) if e.contains(why) => {}
            other => return Err(format!("expected {why}, found {other:?}").into()),
        }
    }
    let evolution = SchemaEvolution::new().drop_column("note");
    evolution.apply(Location::local(&path)?).await?;
    expect("rows", rows(&path).await?.len(), 0)?;
    let fragments = fs::read_dir(Path::new(&path).join("__fragments"));
    expect("fragments", fragments.map_or(0, Iterator::count), 0)?;
    // The columns are those of the present.
    expect("rows written", array.insert().batches([one()]).await?, 1)?;
    expect(
        "rows",
        rows(&path).await?,
        vec!["[1,\"a\",null]".to_owned()],
    )
}

trial!(overwrites);
/// All cells are replaced at once, also by none.
async fn overwrites() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = create(folder.path()).await?;
    let one = |x: i64| {
        batch(vec![
            ("x", Arc::new(Int64Array::from(vec![x]))),
            ("name", Arc::new(StringArray::from(vec!["a"]))),
        ])
    };
    let open = async || Array::open(&path).await;
    open().await?.insert().batches([one(1), one(2)]).await?;
    let written = open().await?.insert().overwrite().batches([one(3)]).await?;
    expect("rows written", written, 1)?;
    expect(
        "rows",
        rows(&path).await?,
        vec!["[3,\"a\",null,null]".to_owned()],
    )?;
    open().await?.insert().overwrite().batches([]).await?;
    expect("rows of none", rows(&path).await?.len(), 0)
}

const MANY: i64 = 500_000;

/// Rows in an order that is far from the array's, in batches of 1,000.
fn shuffled() -> impl Iterator<Item = Result<RecordBatch, DataFusionError>> {
    (0..MANY / 1000).map(|n| {
        let xs = (0..1000)
            .map(|i| (n * 1000 + i) * 7919 % MANY)
            .collect::<Vec<_>>();
        let names = xs.iter().map(|x| format!("{x:064}")).collect::<Vec<_>>();
        Ok(batch(vec![
            ("x", Arc::new(Int64Array::from(xs)) as ArrayRef),
            ("name", Arc::new(StringArray::from(names))),
        ]))
    })
}

trial!(beyond_memory);
/// The stream is larger than the memory pool.
async fn beyond_memory() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = create(folder.path()).await?;
    let array = Array::open(&path).await?;
    let mut batches = shuffled().peekable();
    let schema = match batches.peek() {
        Some(Ok(batch)) => batch.schema(),
        _ => return Err("there are batches".into()),
    };
    let bytes = shuffled()
        .flatten()
        .map(|batch| batch.get_array_memory_size());
    let pool = Arc::new(FairSpillPool::new(32 << 20));
    let bytes = bytes.sum::<usize>();
    assert!(
        bytes > 32 << 20,
        "the rows have {bytes} bytes, which the pool holds"
    );
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)));
    let insert = array.insert().partitions(1).memory_pool(pool);
    expect("rows written", insert.stream(stream).await?, MANY as u64)?;
    let array = Array::open(&path).await?;
    let found = array.scan().range("x", 7919..=7919).collect().await?;
    let found = neutral_rows::rows(&found);
    expect(
        "a row",
        found,
        vec![format!("[7919,\"{:064}\",null,null]", 7919)],
    )?;
    let cells = array
        .fragments()?
        .iter()
        .map(|f| f.cells.unwrap_or(0))
        .sum::<u64>();
    expect("cells", cells, MANY as u64)
}

trial!(fails_late);
/// A stream that fails after many rows leaves neither rows nor files.
async fn fails_late() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = create(folder.path()).await?;
    let before = Files::of(Path::new(&path)).0;
    let array = Array::open(&path).await?;
    let broken = DataFusionError::Execution("the sensor fell off".to_owned());
    let batches = shuffled().take(50).chain([Err(broken)]).collect::<Vec<_>>();
    let schema = batches[0]
        .as_ref()
        .map(RecordBatch::schema)
        .expect("a batch");
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)));
    match array
        .insert()
        .stream(stream)
        .await
        .map_err(|e| e.to_string())
    {
        Err(e) if e.contains("the sensor fell off") => {}
        other => return Err(format!("expected the stream's error, found {other:?}").into()),
    }
    let after = Files::of(Path::new(&path)).0;
    expect(
        "files",
        after.keys().collect::<Vec<_>>(),
        before.keys().collect(),
    )
}

trial!(elsewhere);
/// In an object store, encrypted, and at another time.
async fn elsewhere() -> Result<(), Failed> {
    let location = Location::new(Arc::new(InMemory::new()), "far/array".into(), "far");
    let key = || EncryptionKey::new(b"0123456789abcdef0123456789abcdef");
    let builder =
        ArrayBuilder::new(&columns(), ["x", "name"])?.encryption_key(Some(Arc::new(key())));
    builder.create(location.clone()).await?;
    let open = || {
        Array::builder("far")
            .location(location.clone())
            .encryption_key(key())
    };
    let array = open()
        .option("write_timestamp", "5000")?
        .open_array()
        .await?;
    let one = batch(vec![
        ("x", Arc::new(Int64Array::from(vec![1]))),
        ("name", Arc::new(StringArray::from(vec!["a"]))),
    ]);
    expect("rows written", array.insert().batches([one]).await?, 1)?;
    let at = async |end: u64| {
        let array = open().timestamp_end(end).open_array().await?;
        Ok::<_, Failed>(neutral_rows::rows(&array.scan().collect().await?).len())
    };
    expect("rows before", at(4999).await?, 0)?;
    expect("rows then", at(5000).await?, 1)
}
