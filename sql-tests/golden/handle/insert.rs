//! Rows that programs write without SQL are those that INSERT would have written, or the array is as it was. There are two
//! doors: [`Array::insert`], and [`TileDbTable::insert_rows`] with a session's memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, DictionaryArray, Float64Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StringViewArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Int8Type, Schema};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{
    Array, ArrayBuilder, EncryptionKey, ErrorKind, Location, OpenOptions, SchemaEvolution,
    TableOptions, TileDbSessionExt, TileDbTable,
};
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

pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| {
        let nullable = column.logical_null_count() > 0;
        (name, column, nullable)
    });
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// A way to insert record batches.
#[derive(Debug, Clone, Copy, PartialEq)]
enum InsertDoor {
    Array,
    Table,
    /// [`TileDbTable::insert_rows`] in a session that knows nothing of arrays.
    PlainSession,
}

const DOORS: [InsertDoor; 3] = [
    InsertDoor::Array,
    InsertDoor::Table,
    InsertDoor::PlainSession,
];

impl InsertDoor {
    /// Inserts batches with a number of partitions, which may be 0.
    async fn insert(
        self,
        path: &str,
        options: &TableOptions,
        partitions: usize,
        batches: Vec<RecordBatch>,
    ) -> Result<u64, String> {
        if self == Self::Array {
            let options = OpenOptions::from(options);
            let array = options.open(path).await.map_err(|e| e.to_string())?;
            let insert = array.insert().partitions(partitions);
            return insert.batches(batches).await.map_err(|e| e.to_string());
        }
        let ctx = match self {
            Self::PlainSession => SessionContext::new(),
            _ => session(partitions, Arc::new(FairSpillPool::new(1 << 30))),
        };
        let table = TileDbTable::builder(path).options(options.clone());
        let table = table.open().await.map_err(|e| e.to_string())?;
        let rows = ctx.read_batches(batches).map_err(|e| e.to_string())?;
        let written = table.insert_rows(rows, InsertOp::Append).await;
        written.map_err(|e| e.to_string())
    }

    async fn append(self, path: &str, batches: Vec<RecordBatch>) -> Result<u64, String> {
        self.insert(path, &TableOptions::default(), 2, batches)
            .await
    }
}

pub fn session(partitions: usize, pool: Arc<dyn MemoryPool>) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(partitions);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc();
    let ctx = SessionContext::new_with_config_rt(config, runtime.expect("a runtime"));
    datafusion_tiledb::register(&ctx).expect("a session with arrays");
    ctx
}

pub async fn rows(path: &str) -> Result<Vec<String>, Failed> {
    let array = Array::open(path).await?;
    Ok(neutral_rows::rows(&array.scan().collect().await?))
}

trial!(as_sql);
/// Columns in another order and of other types, some of them missing; rows that replace others.
async fn as_sql() -> Result<(), Failed> {
    let other = tempfile::tempdir()?;
    let wanted = create(other.path()).await?;
    let ctx = SessionContext::new();
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
    let names: ArrayRef = Arc::new(StringViewArray::from(vec!["é", "", "b"]));
    let given = batch(vec![
        (
            "v",
            Arc::new(Int16Array::from(vec![Some(3), None, Some(-1)])),
        ),
        ("name", Arc::clone(&names)),
        ("x", Arc::new(Int64Array::from(vec![1500, -1000, 0]))),
    ]);
    let notes: DictionaryArray<Int8Type> = [None, Some("n"), Some("m")].into_iter().collect();
    let halves = batch(vec![
        ("x", Arc::new(Int32Array::from(vec![0, 1, 2]))),
        ("name", Arc::new(StringArray::from(vec!["b", "b", "b"]))),
        ("v", Arc::new(Float64Array::from(vec![f64::NAN, -0.0, 0.5]))),
        ("note", Arc::new(notes)),
    ]);
    for door in DOORS {
        let folder = tempfile::tempdir()?;
        let path = create(folder.path()).await?;
        let opened = Array::open(&path).await?;
        expect(
            "rows written",
            door.append(&path, vec![given.clone()]).await?,
            3,
        )?;
        let none = door.append(&path, vec![given.slice(0, 0)]).await?;
        expect("rows of none", none, 0)?;
        let halves = vec![halves.slice(0, 1), halves.slice(1, 2)];
        let options = TableOptions::default();
        let written = door.insert(&path, &options, 3, halves).await?;
        expect("rows written later", written, 3)?;
        expect("rows", rows(&path).await?, rows(&wanted).await?)?;
        let fragments = Array::open(&path).await?.fragments()?.len();
        expect("fragments", fragments, 2)?;
        expect("what was opened", opened.fragments()?.len(), 0)?;
    }
    let array = Array::open(&wanted).await?;
    expect("rows of no batches", array.insert().batches([]).await?, 0)
}

trial!(dense);
/// Only the given cells of a dense array change.
async fn dense() -> Result<(), Failed> {
    for door in DOORS {
        let folder = tempfile::tempdir()?;
        Files::golden("quickstart_dense").write(folder.path());
        let path = folder.path().display().to_string();
        let before = rows(&path).await?;
        let given = batch(vec![
            ("cols", Arc::new(Int32Array::from(vec![4, 1]))),
            ("rows", Arc::new(Int32Array::from(vec![1, 3]))),
            ("a", Arc::new(Int32Array::from(vec![-14, -31]))),
        ]);
        expect("rows written", door.append(&path, vec![given]).await?, 2)?;
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
        expect("rows", found, changed)?;
    }
    Ok(())
}

fn ints(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

fn text(value: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![value]))
}

async fn refuses_columns(door: InsertDoor, path: &str) -> Result<(), Failed> {
    let nothing: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    for (columns, why) in [
        (
            vec![("x", ints(1))],
            "the rows have no column \"name\", which can",
        ),
        (
            vec![("x", ints(1)), ("name", text("a")), ("w", ints(1))],
            "the array has no column \"w\"",
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
        (
            vec![
                ("x", Arc::new(Float64Array::from(vec![1.5]))),
                ("name", text("a")),
            ],
            "1.5",
        ),
        (vec![("x", ints(1)), ("name", Arc::clone(&nothing))], "NULL"),
    ] {
        match door.append(path, vec![batch(columns)]).await {
            Err(e) if e.contains(why) => {}
            other => return Err(format!("{door:?}: expected {why}, found {other:?}").into()),
        }
    }
    Ok(())
}

trial!(refused);
/// What does not fit is an error that says why, and nothing is written.
async fn refused() -> Result<(), Failed> {
    for door in DOORS {
        refuses(door).await?;
    }
    Ok(())
}

async fn refuses(door: InsertDoor) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = create(folder.path()).await?;
    refuses_columns(door, &path).await?;
    let key = [("x", ints(1)), ("name", text("a"))];
    let one = || batch(key.to_vec());
    let mut past = TableOptions::default();
    past.set("timestamp_end", "1000")?;
    let repeated = batch(vec![
        ("x", Arc::new(Int64Array::from(vec![1, 1]))),
        ("name", Arc::new(StringArray::from(vec!["a", "a"]))),
    ]);
    for (done, why) in [
        (door.insert(&path, &past, 2, vec![one()]).await, " past"),
        (
            door.append(&path, vec![repeated]).await,
            "allows no duplicates",
        ),
    ] {
        match done {
            Err(e) if e.contains(why) => {}
            other => return Err(format!("{door:?}: expected {why}, found {other:?}").into()),
        }
    }
    expect("rows", rows(&path).await?.len(), 0)?;
    let fragments = fs::read_dir(Path::new(&path).join("__fragments"));
    expect("fragments", fragments.map_or(0, Iterator::count), 0)
}

trial!(refused_batches);
/// Batches that don't go together, and a budget that doesn't hold them, are refused. Dropped columns are known at once.
async fn refused_batches() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = create(folder.path()).await?;
    let array = Array::open(&path).await?;
    let twice = Schema::new(vec![
        Field::new("x", DataType::Int64, false),
        Field::new("x", DataType::Int64, false),
    ]);
    let twice = RecordBatch::try_new(Arc::new(twice), vec![ints(1), ints(2)])?;
    let one = || batch(vec![("x", ints(1)), ("name", text("a"))]);
    let different = [
        one(),
        batch(vec![("x", ints(2)), ("name", text("b")), ("v", ints(2))]),
    ];
    let half = batch(vec![
        ("x", Arc::new(Float64Array::from(vec![1.0, 1.5]))),
        ("name", Arc::new(StringArray::from(vec!["a", "b"]))),
    ]);
    let little = session(1, Arc::new(GreedyMemoryPool::new(50))).tiledb_budget("rows");
    for (done, why) in [
        (array.insert().batches([twice]).await, "given twice"),
        (array.insert().batches(different).await, "different columns"),
        (array.insert().batches([half]).await, "1.5 of type Float64"),
        (
            array.insert().partitions(0).batches([one()]).await,
            "partitions is 0",
        ),
        (
            array.insert().memory(little).batches([one()]).await,
            "emory",
        ),
    ] {
        match done.map_err(|e| e.to_string()) {
            Err(e) if e.contains(why) && e.contains(&path) => {}
            other => return Err(format!("expected {why}, found {other:?}").into()),
        }
    }
    let evolution = SchemaEvolution::new().drop_column("note");
    evolution.apply(Location::local(&path)?).await?;
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
    let one = |x: i64| batch(vec![("x", ints(x)), ("name", text("a"))]);
    let table = TileDbTable::open(&path).await?;
    let ctx = session(2, Arc::new(FairSpillPool::new(1 << 30)));
    let insert = async |batches: Vec<RecordBatch>, op: InsertOp| {
        table.insert_rows(ctx.read_batches(batches)?, op).await
    };
    insert(vec![one(1), one(2)], InsertOp::Append).await?;
    let written = insert(vec![one(3)], InsertOp::Overwrite).await?;
    expect("rows written", written, 1)?;
    expect(
        "rows",
        rows(&path).await?,
        vec!["[3,\"a\",null,null]".to_owned()],
    )?;
    insert(vec![one(3).slice(0, 0)], InsertOp::Overwrite).await?;
    expect("rows of none", rows(&path).await?.len(), 0)
}

trial!(at_once);
/// Inserts at the same time start again if they meet, and lose nothing.
async fn at_once() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    Files::golden("quickstart_dense").write(folder.path());
    let path = folder.path().display().to_string();
    let inserts = (1..=4).map(async |row: i32| {
        let cells = batch(vec![
            ("rows", Arc::new(Int32Array::from(vec![row]))),
            ("cols", Arc::new(Int32Array::from(vec![row]))),
            ("a", Arc::new(Int32Array::from(vec![-row]))),
        ]);
        Array::open(&path).await?.insert().batches([cells]).await
    });
    let written = futures::future::try_join_all(inserts).await?;
    expect("rows written", written, vec![1; 4])?;
    let found = rows(&path).await?;
    for row in 1..=4 {
        let cell = format!("[{row},{row},-{row}]");
        expect(&cell, found.contains(&cell), true)?;
    }
    expect("rows", found.len(), 16)
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
    let table = TileDbTable::open(&path).await?;
    let mut batches = shuffled().peekable();
    let schema = match batches.peek() {
        Some(Ok(batch)) => batch.schema(),
        _ => return Err("there are batches".into()),
    };
    let bytes = shuffled()
        .flatten()
        .map(|batch| batch.get_array_memory_size());
    let ctx = session(1, Arc::new(FairSpillPool::new(32 << 20)));
    let bytes = bytes.sum::<usize>();
    assert!(
        bytes > 32 << 20,
        "the rows have {bytes} bytes, which the pool holds"
    );
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)));
    let written = table.insert_stream(&ctx, stream, InsertOp::Append).await?;
    expect("rows written", written, MANY as u64)?;
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
    let table = TileDbTable::open(&path).await?;
    let broken = DataFusionError::Execution("the sensor fell off".to_owned());
    let batches = shuffled().take(50).chain([Err(broken)]).collect::<Vec<_>>();
    let schema = batches[0]
        .as_ref()
        .map(RecordBatch::schema)
        .expect("a batch");
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)));
    let ctx = session(2, Arc::new(FairSpillPool::new(1 << 30)));
    let written = table.insert_stream(&ctx, stream, InsertOp::Append).await;
    match written.map_err(|e| e.to_string()) {
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
    let open = || OpenOptions::new().encryption_key(key());
    let array = open().write_timestamp(5000).open(location.clone()).await?;
    let one = batch(vec![
        ("x", Arc::new(Int64Array::from(vec![1]))),
        ("name", Arc::new(StringArray::from(vec!["a"]))),
    ]);
    expect("rows written", array.insert().batches([one]).await?, 1)?;
    let at = async |end: u64| {
        let array = open().timestamp_end(end).open(location.clone()).await?;
        Ok::<_, Failed>(neutral_rows::rows(&array.scan().collect().await?).len())
    };
    expect("rows before", at(4999).await?, 0)?;
    expect("rows then", at(5000).await?, 1)?;
    match Array::open(location.clone()).await.map_err(|e| e.kind()) {
        Err(ErrorKind::Encryption) => Ok(()),
        other => Err(format!("opened without its key: {other:?}").into()),
    }
}
