//! Dimension labels from the outside: what is asked of the storage, labels elsewhere, and label arrays that are
//! missing, broken, or not what the labelled array says.
//!
//! Answers are in `dimension_labels.slt`; here are the arrays that no function of libtiledb writes.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use tiledb_engine::storage::{MetadataCache, RequestKind, RequestLog, release_buffers};
use tiledb_engine::tile::tile_memory::release_tile_memory;

use crate::support::array_files::{Files, contents, plain_tile};
use crate::support::golden;

/// A session with the array as table `t`.
async fn session(files: &Files, log: &Arc<RequestLog>) -> Result<SessionContext, String> {
    let table = TileDbTable::builder("memory")
        .location(files.in_memory().await)
        .request_log(Arc::clone(log))
        .cache(Arc::new(MetadataCache::new(16 << 20)))
        .open()
        .await
        .map_err(|e| e.to_string())?;
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = SessionContext::new_with_config(config);
    ctx.register_table("t", Arc::new(table))
        .map_err(|e| e.to_string())?;
    Ok(ctx)
}

/// The rows of an answer: cells by blanks.
async fn rows(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let frame = ctx.sql(sql).await.map_err(|e| e.to_string())?;
    let batches = frame.collect().await.map_err(|e| e.to_string())?;
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|c| {
                let text = array_value_to_string(c, row).expect("displayable");
                if c.is_null(row) {
                    "NULL".to_owned()
                } else {
                    text
                }
            });
            rows.push(cells.collect::<Vec<_>>().join(" "));
        }
    }
    Ok(rows)
}

async fn answer(files: &Files, sql: &str) -> Result<Vec<String>, String> {
    rows(&session(files, &Arc::default()).await?, sql).await
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Result<(), Failed> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: expected {wanted:?}, found {found:?}").into())
}

fn refused(what: &str, outcome: Result<Vec<String>, String>, words: &[&str]) -> Result<(), Failed> {
    match outcome {
        Ok(rows) => Err(format!("{what}: expected an error with {words:?}, found {rows:?}").into()),
        Err(e) if words.iter().all(|word| e.contains(word)) && !e.contains("internal error") => {
            Ok(())
        }
        Err(e) => Err(format!("{what}: expected an error with {words:?}, found {e}").into()),
    }
}

trial!(requests);
/// A query that names no label lists the array alone and reads none of its labels.
async fn requests() -> Result<(), Failed> {
    let log = Arc::new(RequestLog::new());
    let ctx = session(&Files::golden("dimension_labels"), &log).await?;
    let lists = || {
        let entries = log.entries();
        let lists = entries.iter().filter(|r| r.kind == RequestKind::List);
        (lists.count(), entries.len())
    };
    expect("opening", lists(), (4, 6))?;
    for (sql, arrays) in [
        ("SELECT d, a FROM t WHERE d > 3 AND a <> 5", 1),
        ("SELECT count(*) FROM t", 1),
        ("SELECT depth FROM t", 2),
        ("SELECT a FROM t WHERE rank < 3", 2),
        ("SELECT depth FROM t WHERE depth > 2", 2),
        ("SELECT rank FROM t WHERE depth > 2", 3),
        ("SELECT * FROM t", 3),
        ("SELECT a FROM t WHERE depth + a > 3", 2),
        ("EXPLAIN SELECT a FROM t", 1),
    ] {
        log.clear();
        rows(&ctx, sql).await?;
        expect(&format!("lists of {sql}"), lists().0, 4 * arrays)?;
    }
    // No row can match, so no label is looked at.
    log.clear();
    expect(
        "rows",
        rows(&ctx, "SELECT a FROM t WHERE d = 77 AND depth > 0")
            .await?
            .len(),
        0,
    )?;
    let read = log
        .entries()
        .iter()
        .filter(|r| r.file.ends_with("a0.tdb"))
        .count();
    expect("label tiles read", read, 0)
}

trial!(few_tiles);
/// Of forty tiles of labels, those are read that can hold what is asked.
async fn few_tiles() -> Result<(), Failed> {
    let log = Arc::new(RequestLog::new());
    let ctx = session(&Files::golden("labels_many_tiles"), &log).await?;
    // A tile of 50 labels of 8 bytes takes 420 bytes.
    let bytes = || {
        let entries = log.entries();
        let data = entries.iter().filter(|r| r.file.ends_with("a0.tdb"));
        data.map(|r| r.bytes_returned.unwrap_or(0)).sum::<u64>()
    };
    for (sql, count, most) in [
        ("SELECT depth FROM t WHERE d BETWEEN 510 AND 520", 11, 420),
        ("SELECT depth FROM t WHERE d IN (507, 520)", 2, 420),
    ] {
        log.clear();
        expect(sql, rows(&ctx, sql).await?.len(), count)?;
        if bytes() > most {
            return Err(format!("{sql}: {} bytes were read, expected {most}", bytes()).into());
        }
    }
    Ok(())
}

/// What a label's entry says, to be changed.
#[derive(Debug, Clone)]
struct Entry {
    dimension: u32,
    name: String,
    relative: bool,
    uri: String,
    attribute: String,
    order: u8,
    datatype: u8,
    cell_val_num: u32,
    external: bool,
}

impl Entry {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.dimension.to_le_bytes().to_vec();
        bytes.extend((self.name.len() as u32).to_le_bytes());
        bytes.extend(self.name.as_bytes());
        bytes.push(self.relative.into());
        bytes.extend((self.uri.len() as u64).to_le_bytes());
        bytes.extend(self.uri.as_bytes());
        bytes.extend((self.attribute.len() as u32).to_le_bytes());
        bytes.extend(self.attribute.as_bytes());
        bytes.extend([self.order, self.datatype]);
        bytes.extend(self.cell_val_num.to_le_bytes());
        bytes.push(self.external.into());
        bytes
    }
}

/// `dimension_labels` with the entry of its label `depth` changed.
fn changed(change: impl FnOnce(&mut Entry)) -> Files {
    let mut entry = Entry {
        dimension: 0,
        name: "depth".into(),
        relative: true,
        uri: "__labels/l0".into(),
        attribute: "label".into(),
        order: 1,
        datatype: 3,
        cell_val_num: 1,
        external: false,
    };
    let old = entry.encode();
    change(&mut entry);
    let mut files = Files::golden("dimension_labels");
    let schema = files.find("__schema/__1000");
    files.edit(&schema, |tile| {
        let schema = contents(tile);
        let at = schema.windows(old.len()).position(|w| w == old);
        let at = at.expect("the entry is as libtiledb wrote it");
        let new = [&schema[..at], &entry.encode(), &schema[at + old.len()..]].concat();
        *tile = plain_tile(&new);
    });
    files
}

/// With another array's files in a folder of it.
fn with(mut files: Files, folder: &str, other: &Files) -> Files {
    for (path, bytes) in &other.0 {
        files.0.insert(format!("{folder}/{path}"), bytes.clone());
    }
    files
}

/// The labels of `dimension_labels`, moved away.
fn moved(files: &mut Files) -> Files {
    let mut labels = Files::golden("dimension_labels");
    labels.0 = files
        .0
        .iter()
        .filter_map(|(p, b)| Some((p.strip_prefix("__labels/l0/")?.to_owned(), b.clone())))
        .collect();
    files.0.retain(|path, _| !path.starts_with("__labels/l0/"));
    labels
}

const DEPTHS: &str = "SELECT d, depth, rank FROM t WHERE depth BETWEEN 1 AND 2 ORDER BY d";
const WANTED: [&str; 3] = ["3 1.0 8", "4 1.5 7", "5 2.0 6"];

trial!(elsewhere);
/// Below the array, beside it, or anywhere else; in whatever order the entry promises.
async fn elsewhere() -> Result<(), Failed> {
    let wanted = WANTED.map(str::to_owned).to_vec();
    for order in 0..=2 {
        let files = changed(|e| e.order = order);
        expect("an order", answer(&files, DEPTHS).await?, wanted.clone())?;
    }
    for uri in [
        "memory:///array/__labels/l0",
        "memory:///array/x/../__labels/l0",
    ] {
        let files = changed(|e| (e.relative, e.uri, e.external) = (false, uri.into(), true));
        expect(uri, answer(&files, DEPTHS).await?, wanted.clone())?;
    }
    let folder = tempfile::tempdir()?;
    let place = folder.path().display().to_string();
    for (relative, uri) in [
        (true, "../other/labels".to_owned()),
        (true, "./../other/labels/".to_owned()),
        (false, format!("{place}/other/labels")),
        (false, format!("file://{place}/other/labels")),
    ] {
        let mut files =
            changed(|e| (e.relative, e.uri, e.external) = (relative, uri.clone(), true));
        moved(&mut files).write(&folder.path().join("other/labels"));
        let array = folder.path().join(format!("array_{}", uri.len()));
        files.write(&array);
        for (external, words) in [
            (None, Some("lies outside")),
            (Some("none"), Some("lies outside")),
            (Some("same_store"), None),
            (Some(place.as_str()), None),
            (Some("/elsewhere"), Some("lies outside")),
        ] {
            let ctx = SessionContext::new();
            let mut table = TileDbTable::builder(array.display().to_string());
            if let Some(external) = external {
                table = table.option("external_members", external)?;
            }
            ctx.register_table("t", Arc::new(table.open().await?))?;
            match words {
                None => expect(&uri, rows(&ctx, DEPTHS).await?, wanted.clone())?,
                Some(words) => {
                    let refused = rows(&ctx, DEPTHS).await;
                    refused_because(&uri, refused, words)?;
                }
            }
        }
    }
    Ok(())
}

fn refused_because(
    what: &str,
    outcome: Result<Vec<String>, String>,
    words: &str,
) -> Result<(), Failed> {
    refused(what, outcome, &[words, "label depth", "external_members"])
}

trial!(nullable_and_codes);
/// An array of the user's may hold NULLs, or codes of an enumeration, which a label shows as they are.
async fn nullable_and_codes() -> Result<(), Failed> {
    let nullable = Files::golden("dense_nullable_fixed");
    let files = changed(|e| {
        (e.uri, e.attribute, e.external) = ("shared".into(), "f".into(), true);
    });
    let files = with(files, "shared", &nullable);
    // By the golden answer its cells are y/3, but NULL at 3 and from 10 to 19.
    let found = answer(&files, "SELECT d, depth FROM t WHERE d >= 9 ORDER BY d").await?;
    expect(
        "rows",
        found,
        vec!["9 3.0".to_owned(), "10 NULL".to_owned()],
    )?;
    let found = answer(&files, "SELECT d FROM t WHERE depth IS NULL").await?;
    expect("NULL", found, vec!["3".to_owned(), "10".to_owned()])?;
    let found = answer(&files, "SELECT count(*) FROM t WHERE depth > 0").await?;
    expect("not NULL", found, vec!["8".to_owned()])?;
    // Labels made with the array cannot be NULL.
    let files = changed(|e| (e.uri, e.attribute) = ("shared".into(), "f".into()));
    let outcome = answer(&with(files, "shared", &nullable), "SELECT depth FROM t").await;
    refused("a nullable label", outcome, &["depth", "may be NULL"])?;

    let codes = Files::golden("enum_dense");
    let files = changed(|e| {
        (e.uri, e.attribute, e.external) = ("shared".into(), "c".into(), true);
        e.datatype = 6;
    });
    let files = with(files, "shared", &codes);
    let found = answer(&files, "SELECT arrow_typeof(depth) FROM t LIMIT 1").await?;
    expect("type", found, vec!["UInt8".to_owned()])?;
    answer(&files, "SELECT * FROM t WHERE depth < 3").await?;
    Ok(())
}

trial!(missing);
/// Without the array of one label, everything but that label is there.
async fn missing() -> Result<(), Failed> {
    let mut files = Files::golden("dimension_labels");
    moved(&mut files);
    let found = answer(&files, "SELECT d, a, rank FROM t WHERE rank > 8 ORDER BY d").await?;
    expect("rows", found, vec!["1 0 10".to_owned(), "2 1 9".to_owned()])?;
    let found = answer(&files, "SELECT count(*) FROM t").await?;
    expect("count", found, vec!["10".to_owned()])?;
    for sql in [
        "SELECT * FROM t",
        "SELECT depth FROM t",
        "SELECT a FROM t WHERE depth > 0",
        "SELECT a FROM t WHERE depth > a",
    ] {
        refused(
            sql,
            answer(&files, sql).await,
            &["label depth", "__labels/l0", "EXCEPT (\"depth\")"],
        )?;
    }
    Ok(())
}

trial!(not_what_was_said);
/// A label array that is not what the labelled array says is an error of its label alone.
async fn not_what_was_said() -> Result<(), Failed> {
    let sparse = Files::golden("quickstart_sparse");
    let grid = Files::golden("dense_global_write");
    let dates = Files::golden("labels_on_datetime_day");
    let itself: fn(&mut Entry) = |e| e.uri = ".".into();
    let shared: fn(&mut Entry) = |e| e.uri = "shared".into();
    let cases: Vec<(&str, Files, &[&str])> = vec![
        (
            "the array itself",
            changed(itself),
            &["no attribute", "label"],
        ),
        (
            "a sparse array",
            with(changed(shared), "shared", &sparse),
            &["sparse"],
        ),
        (
            "a grid",
            with(changed(shared), "shared", &grid),
            &["2 dimensions"],
        ),
        (
            "another index",
            with(changed(shared), "shared", &dates),
            &["DATETIME_DAY", "INT32"],
        ),
        (
            "another attribute",
            changed(|e| e.attribute = "x".into()),
            &["no attribute", "x"],
        ),
        (
            "another type",
            changed(|e| e.datatype = 2),
            &["FLOAT32", "FLOAT64"],
        ),
        (
            "nothing",
            changed(|e| e.uri = "nowhere".into()),
            &["nowhere"],
        ),
        (
            "a store nobody knows",
            changed(|e| (e.relative, e.uri) = (false, "s3://bucket/labels".into())),
            &["s3://bucket"],
        ),
    ];
    for (what, files, words) in cases {
        expect(
            what,
            answer(&files, "SELECT a, rank FROM t").await?.len(),
            10,
        )?;
        let words = [words, &["label depth"]].concat();
        refused(what, answer(&files, "SELECT depth FROM t").await, &words)?;
        refused(
            what,
            answer(&files, "SELECT a FROM t WHERE depth > 1").await,
            &words,
        )?;
    }
    let files = changed(|e| e.cell_val_num = 2);
    let outcome = answer(&files, "SELECT depth FROM t").await;
    refused("another shape", outcome, &["FLOAT64", "label depth"])?;
    // What the schema says of the label alone costs no other column, and is told with the way to do without.
    for (what, files, word) in [
        (
            "no such dimension",
            changed(|e| e.dimension = 7),
            "dimension 7",
        ),
        (
            "no such type",
            changed(|e| e.datatype = 99),
            "datatype code is 99",
        ),
        (
            "no values",
            changed(|e| e.cell_val_num = 0),
            "expected at least 1",
        ),
    ] {
        let others = answer(&files, "SELECT * EXCEPT (depth) FROM t").await?;
        expect(what, others.len(), 10)?;
        let words = [word, "label depth", "EXCEPT (\"depth\")"];
        for sql in ["SELECT * FROM t", "SELECT a FROM t WHERE depth IS NULL"] {
            refused(what, answer(&files, sql).await, &words)?;
        }
    }
    // What makes the schema itself wrong is an error of the array.
    for (what, files, word) in [
        (
            "a name twice",
            changed(|e| e.name = "a".into()),
            "two fields",
        ),
        ("no such order", changed(|e| e.order = 9), "data order"),
    ] {
        refused(what, answer(&files, "SELECT a FROM t").await, &[word])?;
    }
    Ok(())
}

trial!(damaged);
/// Damage to a label array never panics, and never touches the other columns.
async fn damaged() -> Result<(), Failed> {
    let whole = Files::golden("dimension_labels");
    for path in whole.find_all("__labels/l0/") {
        let bytes = whole.0[&path].clone();
        for cut in [0, 1, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let mut files = whole.clone();
            files.edit(&path, |bytes| bytes.truncate(cut));
            expect(
                &path,
                answer(&files, "SELECT a, rank FROM t").await?.len(),
                10,
            )?;
            if !path.ends_with(".wrt") {
                let outcome = answer(&files, "SELECT a FROM t WHERE depth > 1").await;
                refused(&format!("{path} cut at {cut}"), outcome, &["depth"])?;
                let outcome = answer(&files, "SELECT depth FROM t").await;
                refused(&format!("{path} cut at {cut}"), outcome, &[])?;
            }
        }
        for byte in (0..bytes.len()).step_by(7) {
            let mut files = whole.clone();
            files.edit(&path, |bytes| bytes[byte] ^= 1 << (byte % 8));
            expect(
                &path,
                answer(&files, "SELECT a, rank FROM t").await?.len(),
                10,
            )?;
            let _ = answer(&files, "SELECT depth FROM t WHERE depth > 1").await;
        }
    }
    Ok(())
}

trial!(memory);
/// Labels take their memory from the pool and give it back; where there is none, the error says so.
async fn memory() -> Result<(), Failed> {
    for bytes in [0, 1000, 10_000, 100_000, 10_000_000] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool))
            .build_arc()?;
        let config = SessionConfig::new().with_target_partitions(3);
        let ctx = SessionContext::new_with_config_rt(config, runtime);
        let path = golden::folder().join("labels_many_tiles");
        let table = TileDbTable::open(path.display().to_string()).await?;
        ctx.register_table("t", Arc::new(table))?;
        for sql in [
            "SELECT depth, code FROM t",
            "SELECT d FROM t WHERE rank % 2 = 0",
        ] {
            match rows(&ctx, sql).await {
                Ok(_) if bytes < 10_000 => return Err(format!("{sql} in {bytes} bytes").into()),
                Err(e) if bytes > 1_000_000 || !e.contains("Resources exhausted") => {
                    return Err(format!("{sql} in {bytes} bytes: {e}").into());
                }
                _ => {}
            }
            release_buffers();
            release_tile_memory();
            expect("left in the pool", pool.reserved(), 0)?;
        }
    }
    Ok(())
}

trial!(every_session);
/// Projections in any order, under any number of partitions and any size of batches, see the same labels.
async fn every_session() -> Result<(), Failed> {
    let path = golden::folder().join("labels_sparse").display().to_string();
    let queries = [
        "SELECT phase, a, name, t, km, \"row\" FROM t ORDER BY a, phase, name",
        "SELECT name, km FROM t WHERE phase > 3000 ORDER BY name, km",
        "SELECT phase FROM t WHERE a < 35 AND km < 100 ORDER BY phase",
        "SELECT name FROM t ORDER BY name LIMIT 5 OFFSET 2",
        "SELECT count(*) FROM t WHERE name <> 'five' OR phase = 3000",
        "SELECT x.name, y.phase FROM t x JOIN t y ON x.name = y.name AND x.a < y.a ORDER BY 1, 2",
    ];
    let mut wanted: Vec<Vec<String>> = Vec::new();
    for (partitions, batch_size) in [(1, 8192), (1, 1), (4, 7), (16, 3)] {
        let config = SessionConfig::new()
            .with_target_partitions(partitions)
            .with_batch_size(batch_size);
        let ctx = SessionContext::new_with_config(config);
        ctx.register_table("t", Arc::new(TileDbTable::open(&path).await?))?;
        for (i, sql) in queries.iter().enumerate() {
            let found = rows(&ctx, sql).await?;
            match wanted.get(i) {
                None => wanted.push(found),
                Some(wanted) => expect(sql, &found, wanted)?,
            }
        }
    }
    Ok(())
}

trial!(changes);
/// Cells of labelled arrays change, fragments become one and columns come; labels stay, and libtiledb 2.30 reads the rows that
/// stand here. What would write a label is refused.
async fn changes() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let dense = [
        "INSERT INTO t (d, a) VALUES (3, 33)",
        "UPDATE t SET a = 78 WHERE rank = 5",
        "UPDATE t SET a = rank WHERE d = 5",
        "REPLACE INTO t (d, a) VALUES (6, 66)",
        "SELECT * FROM tiledb_evolve('t', add => 'b INT')",
        "INSERT INTO t (d, a, b) VALUES (9, 90, 99)",
        "SELECT * FROM tiledb_consolidate('t', verify => true)",
        "SELECT * FROM tiledb_vacuum('t')",
    ];
    let path = folder.path().join("dense");
    let found = after("dimension_labels", &path, &dense).await?;
    let wanted = [
        "1 0 NULL 0.0 10",
        "2 1 NULL 0.5 9",
        "3 33 NULL 1.0 8",
        "4 3 NULL 1.5 7",
        "5 6 NULL 2.0 6",
        "6 66 NULL 2.5 5",
        "7 6 NULL 3.0 4",
        "8 7 NULL 3.5 3",
        "9 90 99 4.0 2",
        "10 9 NULL 4.5 1",
    ];
    expect("the dense array", found, wanted.map(str::to_owned).to_vec())?;
    let sparse = [
        "INSERT INTO t (x, y, a) VALUES (3, 4, 7), (1, 4, 8), (4, 1, 9)",
        "DELETE FROM t WHERE x = 2",
        "DELETE FROM t WHERE name < 'a' AND a = 7",
        "UPDATE t SET a = 80 WHERE y = 4",
        "SELECT * FROM tiledb_consolidate('t', verify => true)",
        "SELECT * FROM tiledb_vacuum('t')",
    ];
    let place = folder.path().join("sparse");
    let found = after("dimension_labels_sparse", &place, &sparse).await?;
    let wanted = ["1 3 5 \0", "1 4 80 \0", "4 1 9 \0"];
    expect(
        "the sparse array",
        found,
        wanted.map(str::to_owned).to_vec(),
    )?;

    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    for (table, place) in [("t", ""), ("up", "/__labels/l0"), ("down", "/__labels/l1")] {
        let place = format!("{}{place}", path.display());
        let table = format!("CREATE EXTERNAL TABLE {table} STORED AS TILEDB LOCATION '{place}'");
        rows(&ctx, &table).await?;
    }
    for (statement, words) in [
        (
            "INSERT INTO t (d, a, rank) VALUES (3, 33, 4)",
            &["the column rank", "leave it out"][..],
        ),
        (
            "UPDATE t SET rank = 3 WHERE d = 4",
            &["rank is neither a dimension nor an attribute"],
        ),
        (
            "SELECT * FROM tiledb_evolve('t', drop => 'rank')",
            &["rank", "labels do not change"],
        ),
        (
            "SELECT * FROM tiledb_evolve('t', add => 'rank INT')",
            &["\"rank\""],
        ),
        (
            "INSERT INTO up VALUES (3, 5.0)",
            &["label holds dimension labels in increasing order"],
        ),
        (
            "UPDATE down SET label = 7",
            &["label holds dimension labels in decreasing order"],
        ),
    ] {
        refused(statement, rows(&ctx, statement).await, words)?;
    }
    Ok(())
}

/// The rows of a copy of a golden array after statements about it as table `t`.
async fn after(golden: &str, path: &Path, statements: &[&str]) -> Result<Vec<String>, String> {
    Files::golden(golden).write(path);
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx).map_err(|e| e.to_string())?;
    let place = path.display();
    let table = format!("CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{place}'");
    for statement in statements {
        // A table keeps the columns that it was made with.
        rows(&ctx, "DROP TABLE IF EXISTS t").await?;
        rows(&ctx, &table).await?;
        let statement = statement.replace("('t'", &format!("('{place}'"));
        rows(&ctx, &statement)
            .await
            .map_err(|e| format!("{statement}: {e}"))?;
    }
    let found = rows(&ctx, &format!("SELECT * FROM tiledb_check('{place}')")).await?;
    if !found.is_empty() {
        return Err(format!("{golden}: {found:?}"));
    }
    rows(&ctx, &format!("SELECT * FROM '{place}' ORDER BY 1, 2")).await
}
