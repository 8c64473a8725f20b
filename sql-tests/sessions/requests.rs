//! What is asked of the storage, counted: opening, opening again, slices, columns, counts.
//!
//! Requests are what a query costs on a cloud store, so their number and their ranges are part of the contract.

use std::ops::Range;
use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use tiledb_engine::storage::{LoggedRequest, MetadataCache, RequestKind, RequestLog};

use crate::support::array_files::{Files, METADATA_FILE};
use crate::support::golden;

/// A table whose requests are logged, with a cache of its own.
struct Logged {
    ctx: SessionContext,
    log: Arc<RequestLog>,
    cache: Arc<MetadataCache>,
}

impl Logged {
    async fn open(array: &str) -> Result<Self, Failed> {
        Self::open_with(array, Arc::new(MetadataCache::new(16 << 20))).await
    }

    async fn open_with(array: &str, cache: Arc<MetadataCache>) -> Result<Self, Failed> {
        let log = Arc::new(RequestLog::new());
        let path = golden::folder().join(array).display().to_string();
        let table = TileDbTable::builder(path)
            .request_log(Arc::clone(&log))
            .cache(Arc::clone(&cache))
            .open()
            .await?;
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        ctx.register_table("t", Arc::new(table))?;
        Ok(Self { ctx, log, cache })
    }

    /// The requests of a query, after it gave `rows` rows.
    async fn query(&self, sql: &str, rows: usize) -> Result<Vec<LoggedRequest>, Failed> {
        self.log.clear();
        let batches = self.ctx.sql(sql).await?.collect().await?;
        let found: usize = batches.iter().map(|b| b.num_rows()).sum();
        expect(&format!("rows of {sql}"), &found, &rows)?;
        Ok(self.log.entries())
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, wanted: &T) -> Result<(), Failed> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: expected {wanted:?}, found {found:?}").into())
}

fn count_of(requests: &[LoggedRequest], kind: RequestKind) -> usize {
    requests.iter().filter(|r| r.kind == kind).count()
}

/// The ranges read of each data file, as (file without folders, range).
fn data(requests: &[LoggedRequest]) -> Vec<(String, Range<u64>)> {
    let mut ranges: Vec<_> = requests
        .iter()
        .filter(|r| r.kind == RequestKind::Range && !r.file.ends_with(METADATA_FILE))
        .map(|r| {
            let (start, len) = (r.offset.unwrap_or(0), r.bytes_asked.unwrap_or(0));
            let name = r.file.rsplit('/').next().unwrap_or_default().to_owned();
            (name, start..start + len)
        })
        .collect();
    ranges.sort_by(|a, b| (&a.0, a.1.start).cmp(&(&b.0, b.1.start)));
    ranges
}

fn ranges(wanted: &[(&str, Range<u64>)]) -> Vec<(String, Range<u64>)> {
    let owned = |(name, range): &(&str, Range<u64>)| ((*name).to_owned(), range.clone());
    wanted.iter().map(owned).collect()
}

trial!(opening);
/// Four folders are listed; the schema, the enumeration and each footer are read once.
async fn opening() -> Result<(), Failed> {
    let table = Logged::open("weather_stations").await?;
    let requests = table.log.entries();
    expect("lists", &count_of(&requests, RequestKind::List), &4)?;
    expect("footers", &count_of(&requests, RequestKind::Suffix), &2)?;
    expect(
        "schema and enumeration",
        &count_of(&requests, RequestKind::Get),
        &2,
    )?;
    expect("all", &requests.len(), &8)
}

trial!(consolidated_footers);
/// One file of consolidated fragment metadata saves the footers of four fragments, not that of a newer one.
async fn consolidated_footers() -> Result<(), Failed> {
    for (array, newer) in [
        ("fragment_metadata_consolidated", 0),
        ("fragment_metadata_consolidated_dense", 1),
    ] {
        let table = Logged::open(array).await?;
        let requests = table.log.entries();
        expect("footers", &count_of(&requests, RequestKind::Suffix), &newer)?;
        expect(
            "schema and footers",
            &count_of(&requests, RequestKind::Get),
            &2,
        )?;
        expect("all", &requests.len(), &(6 + newer))?;
    }
    Ok(())
}

trial!(again);
/// What was parsed once is not read again: a second opening lists, and nothing else.
async fn again() -> Result<(), Failed> {
    for array in [
        "weather_stations",
        "fragment_metadata_consolidated",
        "enum_values",
        "dense_overlapping",
        "delete_many",
        "delete_consolidated_twice",
    ] {
        let first = Logged::open(array).await?;
        let rows = first.ctx.sql("SELECT * FROM t").await?.count().await?;
        first.query("SELECT * FROM t", rows).await?;
        let second = Logged::open_with(array, Arc::clone(&first.cache)).await?;
        let requests = second.log.entries();
        expect("lists", &count_of(&requests, RequestKind::List), &4)?;
        expect(
            &format!("requests of opening {array} again"),
            &requests.len(),
            &4,
        )?;
        let requests = second.query("SELECT * FROM t", rows).await?;
        let metadata = requests.iter().filter(|r| r.file.ends_with(METADATA_FILE));
        expect("metadata read again", &metadata.count(), &0)?;
        expect(
            "data read",
            &(count_of(&requests, RequestKind::Range) > 0),
            &true,
        )?;
    }
    Ok(())
}

trial!(empty_array);
/// An array without fragments has nothing to read but its schema.
async fn empty_array() -> Result<(), Failed> {
    for array in ["sparse_empty", "dense_empty"] {
        let table = Logged::open(array).await?;
        let requests = table.log.entries();
        expect("lists", &count_of(&requests, RequestKind::List), &4)?;
        expect("all", &requests.len(), &5)?;
        let requests = table.query("SELECT * FROM t", 0).await?;
        expect(
            "lists",
            &count_of(&requests, RequestKind::List),
            &requests.len(),
        )?;
    }
    Ok(())
}

trial!(count);
/// COUNT(*) of what metadata proves touches no data file.
async fn count() -> Result<(), Failed> {
    for array in [
        "rtree_three_levels",
        "dense_overlapping",
        "quickstart_sparse",
    ] {
        let table = Logged::open(array).await?;
        let requests = table.query("SELECT count(*) FROM t", 1).await?;
        expect(&format!("data of {array}"), &data(&requests), &Vec::new())?;
    }
    Ok(())
}

trial!(one_column);
/// A projection reads the files of its columns and no others.
async fn one_column() -> Result<(), Failed> {
    let table = Logged::open("rtree_three_levels").await?;
    let requests = table.query("SELECT a FROM t", 1000).await?;
    expect("files", &data(&requests), &ranges(&[("a0.tdb", 0..9000)]))?;
    let requests = table.query("SELECT y FROM t", 1000).await?;
    expect("files", &data(&requests), &ranges(&[("d1.tdb", 0..15_250)]))?;
    let table = Logged::open("dense_nullable_var").await?;
    let dense = table.query("SELECT * FROM t", 40).await?;
    let all: Vec<String> = data(&dense).into_iter().map(|(file, _)| file).collect();
    expect("files of all columns", &all.len(), &6)?;
    let column = table.ctx.table("t").await?.schema().columns();
    let name = &column.last().ok_or("no column")?.name;
    let requests = table
        .query(&format!("SELECT \"{name}\" FROM t"), 40)
        .await?;
    let files: Vec<String> = data(&requests).into_iter().map(|(file, _)| file).collect();
    expect(
        "files",
        &files,
        &["a1.tdb", "a1_validity.tdb", "a1_var.tdb"]
            .map(str::to_owned)
            .to_vec(),
    )
}

/// Where the tiles of `rtree_three_levels` lie: 250 tiles of 4 cells, 36 bytes each in a0, 61 in d0 and d1.
fn tiles_of_a(tiles: Range<u64>) -> Range<u64> {
    tiles.start * 36..tiles.end * 36
}

fn tiles_of_d(tiles: Range<u64>) -> Range<u64> {
    tiles.start * 61..tiles.end * 61
}

/// The number of the only tile that a query reads, from its range of a0.tdb.
fn tile_of(requests: &[LoggedRequest]) -> Option<u64> {
    let found = data(requests);
    let (_, range) = found.iter().find(|(file, _)| file == "a0.tdb")?;
    (range.end - range.start == 36).then_some(range.start / 36)
}

trial!(one_tile);
/// A slice inside one tile reads that tile alone: its bytes, from the file of each column that is needed.
async fn one_tile() -> Result<(), Failed> {
    let table = Logged::open("rtree_three_levels").await?;
    // Two cells of the golden answer, one of them the third last line.
    for (x, y, a) in [(1, 461, 10), (101, 525, 812)] {
        let sql = format!("SELECT a FROM t WHERE x = {x} AND y = {y} AND a = {a}");
        let requests = table.query(&sql, 1).await?;
        let tile = tile_of(&requests).ok_or("more or less than one tile was read")?;
        let wanted = [
            ("a0.tdb", tiles_of_a(tile..tile + 1)),
            ("d0.tdb", tiles_of_d(tile..tile + 1)),
            ("d1.tdb", tiles_of_d(tile..tile + 1)),
        ];
        expect("ranges", &data(&requests), &ranges(&wanted))?;
    }
    Ok(())
}

trial!(neighbours_at_once);
/// Tiles that follow each other in a file are one request, also where a gap between them costs less than another.
async fn neighbours_at_once() -> Result<(), Failed> {
    let table = Logged::open("rtree_three_levels").await?;
    let sql = "SELECT * FROM t WHERE x BETWEEN 100 AND 110";
    let rows = table.ctx.sql(sql).await?.count().await?;
    let requests = table.query(sql, rows).await?;
    let found = data(&requests);
    let files: Vec<&str> = found.iter().map(|(file, _)| file.as_str()).collect();
    expect(
        "one request a file",
        &files,
        &vec!["a0.tdb", "d0.tdb", "d1.tdb"],
    )?;
    let a = found[0].1.clone();
    expect("whole tiles", &((a.end - a.start) % 36), &0)?;
    let (first, last) = (a.start / 36, a.end / 36);
    expect("not the whole file", &(last - first < 100), &true)?;
    expect(
        "the same tiles of each",
        &found[1].1,
        &tiles_of_d(first..last),
    )
}

trial!(nothing_matches);
/// Where the predicate leaves no row, only its own columns were fetched.
async fn nothing_matches() -> Result<(), Failed> {
    let table = Logged::open("rtree_three_levels").await?;
    // Statistics say that there is no such value, but not that there is no such remainder.
    let requests = table.query("SELECT * FROM t WHERE a = -5", 0).await?;
    expect("files", &data(&requests), &Vec::new())?;
    let requests = table.query("SELECT * FROM t WHERE a % 7 = -5", 0).await?;
    expect("files", &data(&requests), &ranges(&[("a0.tdb", 0..9000)]))?;
    // Outside of every box there is nothing to fetch at all.
    let requests = table
        .query("SELECT * FROM t WHERE x > 4000000000", 0)
        .await?;
    expect("files", &data(&requests), &Vec::new())?;
    let table = Logged::open("dense_overlapping").await?;
    let requests = table
        .query("SELECT v FROM t WHERE a < -5 AND a > -10", 0)
        .await?;
    let files = data(&requests);
    expect(
        "files",
        &files.iter().all(|(file, _)| file == "a0.tdb"),
        &true,
    )
}

trial!(dense_slice);
/// A dense slice reads the tiles it cuts; `dense_global_write` has four of 4 x 4 cells, 84 bytes each.
async fn dense_slice() -> Result<(), Failed> {
    let table = Logged::open("dense_global_write").await?;
    for (filter, rows, tiles) in [
        ("y = 0 AND x >= 6", 2, 1..2),
        ("y >= 4", 32, 2..4),
        ("y IN (1, 2) AND x = 0", 2, 0..1),
        ("y + x > 100", 0, 0..0),
    ] {
        let requests = table
            .query(&format!("SELECT a FROM t WHERE {filter}"), rows)
            .await?;
        let wanted = [("a0.tdb", tiles.start * 84..tiles.end * 84)];
        let wanted = if tiles.is_empty() {
            Vec::new()
        } else {
            ranges(&wanted)
        };
        expect(filter, &data(&requests), &wanted)?;
    }
    // Coordinates of dense cells are computed, not read.
    let requests = table.query("SELECT y, x FROM t", 64).await?;
    expect("ranges", &data(&requests), &Vec::new())
}

trial!(deletes);
/// A delete costs one small read when the array is opened, and the fields it looks at; nothing once it is processed.
async fn deletes() -> Result<(), Failed> {
    // Schema, footer, delete; the delete inside a .con file is at hand with it; one of three deletes is not processed,
    // which the section of processed conditions tells.
    for (array, gets, ranges) in [
        ("delete_simple", 2, 0),
        ("delete_commits_consolidated", 2, 0),
        ("delete_nothing", 2, 0),
        ("delete_consolidated_twice", 2, 1),
    ] {
        let table = Logged::open(array).await?;
        let requests = table.log.entries();
        let count = |kind| count_of(&requests, kind);
        expect(
            &format!("files of {array}"),
            &count(RequestKind::Get),
            &gets,
        )?;
        expect(
            &format!("sections of {array}"),
            &count(RequestKind::Range),
            &ranges,
        )?;
    }
    let files = |requests: &[LoggedRequest]| {
        let files = data(requests).into_iter().map(|(file, _)| file);
        files.collect::<Vec<String>>()
    };
    // Deleted by `a`, which no one else asks for; what is asked for and tested, too, is read once.
    let table = Logged::open("delete_simple").await?;
    let requests = table.query("SELECT d FROM t", 28).await?;
    expect(
        "files",
        &files(&requests),
        &vec!["a0.tdb".into(), "d0.tdb".into()],
    )?;
    let requests = table.query("SELECT a FROM t WHERE a > 3", 24).await?;
    expect("files", &files(&requests), &vec!["a0.tdb".into()])?;
    let requests = table.query("SELECT count(*) FROM t", 1).await?;
    expect("files", &files(&requests), &vec!["a0.tdb".into()])?;
    // By a dimension, out of the reach of every tile: as if there were no delete.
    let table = Logged::open("delete_nothing").await?;
    let requests = table.query("SELECT count(*) FROM t", 1).await?;
    expect("files", &files(&requests), &Vec::new())?;
    let requests = table.query("SELECT a FROM t", 120).await?;
    let column = vec!["a0.tdb".to_owned(), "a0_validity.tdb".to_owned()];
    expect("files", &files(&requests), &column)?;
    // Newer than every delete that is left: what is recorded decides alone.
    let table = Logged::open("delete_consolidated").await?;
    let requests = table.query("SELECT a FROM t", 29).await?;
    let found = files(&requests);
    expect(
        "recorded times",
        &found.contains(&"dt.tdb".to_owned()),
        &true,
    )?;
    expect("conditions", &found.contains(&"dci.tdb".to_owned()), &false)
}

trial!(memory_as_files);
/// An object store answers with the same requests as the file system.
async fn memory_as_files() -> Result<(), Failed> {
    let files = Logged::open("weather_stations").await?;
    let log = Arc::new(RequestLog::new());
    let table = TileDbTable::builder(Files::golden("weather_stations").in_memory().await)
        .request_log(Arc::clone(&log))
        .cache(Arc::new(MetadataCache::new(16 << 20)))
        .open()
        .await?;
    let kinds = |requests: &[LoggedRequest]| {
        let mut all: Vec<_> = requests
            .iter()
            .map(|r| (format!("{:?}", r.kind), r.file.clone()))
            .collect();
        all.sort();
        all
    };
    expect(
        "opening",
        &kinds(&log.entries()),
        &kinds(&files.log.entries()),
    )?;
    let memory = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    memory.register_table("t", Arc::new(table))?;
    log.clear();
    memory.sql("SELECT * FROM t").await?.collect().await?;
    let requests = files.query("SELECT * FROM t", 2000).await?;
    expect("reading", &kinds(&log.entries()), &kinds(&requests))
}
