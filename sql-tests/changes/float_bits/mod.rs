//! The bits of floats: SQL sees one NaN, and one coordinate for -0.0 and 0.0, while stored values keep their bits.
//!
//! The tests compare the answers of SQL with plain DataFusion over rows in memory that hold the one NaN. They look for the
//! stored bits in the files of arrays without filters. libtiledb writes coordinates of -0.0, and this library doesn't, so the
//! tests put them into files.

mod zeros;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float32Array, Float64Array, Int64Array, ListArray, RecordBatch,
};
use datafusion::arrow::datatypes::{Float32Type, Float64Type};
use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;

use crate::support::neutral_rows;
use crate::support::session_shapes::{SHAPES, USUAL};

/// The NaN of 0/0 on x86, the missing values of R and of VCF, a NaN with all bits set, and the usual NaN.
const DOUBLES: [u64; 5] = [
    0xFFF8_0000_0000_0000,
    0x7FF0_0000_0000_07A2,
    0xFFF0_0000_0000_0001,
    0xFFFF_FFFF_FFFF_FFFF,
    0x7FF8_0000_0000_0000,
];

const SINGLES: [u32; 5] = [
    0xFFC0_0000,
    0x7F80_07A2,
    0x7F80_0001,
    0xFFFF_FFFF,
    0x7FC0_0000,
];

const ROWS: i64 = 40;

fn double(i: i64, odd: bool) -> f64 {
    let which = usize::try_from(i / 4).expect("rows are counted");
    match i % 4 {
        0 if odd => f64::from_bits(DOUBLES[which % DOUBLES.len()]),
        0 => f64::NAN,
        1 => [f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0][which % 4],
        _ => f64::from(i32::try_from(i).expect("rows are few")) - 17.5,
    }
}

fn single(i: i64, odd: bool) -> f32 {
    let which = usize::try_from(i / 4).expect("rows are counted");
    match i % 4 {
        0 if odd => f32::from_bits(SINGLES[which % SINGLES.len()]),
        0 => f32::NAN,
        1 => [f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0][which % 4],
        _ => f32::from(i16::try_from(i).expect("rows are few")) - 17.5,
    }
}

/// Rows with NaNs of many kinds, or with the one NaN.
fn rows(odd: bool) -> RecordBatch {
    let numbers = || 0..ROWS;
    let lists = numbers().map(|i| Some(vec![Some(double(i, odd)), Some(1.5)]));
    let singles = numbers().map(|i| Some((0..i % 3).map(move |j| Some(single(i - j, odd)))));
    let some = numbers().map(|i| (i % 5 > 0).then(|| double(i, odd)));
    let columns: [(&str, ArrayRef); 6] = [
        ("k", Arc::new(Int64Array::from_iter_values(numbers()))),
        (
            "v",
            Arc::new(Float64Array::from_iter_values(
                numbers().map(|i| double(i, odd)),
            )),
        ),
        (
            "r",
            Arc::new(Float32Array::from_iter_values(
                numbers().map(|i| single(i, odd)),
            )),
        ),
        ("n", Arc::new(some.collect::<Float64Array>())),
        (
            "l",
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists)),
        ),
        (
            "s",
            Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(singles)),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("columns are as long as each other")
}

/// An array without filters whose tiles hold a few cells, so that their statistics matter.
const CREATE: &str = "CREATE EXTERNAL TABLE {} (k BIGINT NOT NULL, v DOUBLE NOT NULL, r REAL NOT NULL, n DOUBLE, l DOUBLE[2] NOT NULL, \
     s REAL[] NOT NULL, w INT, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '{}' OPTIONS ('tiledb.capacity' '6', \
     'tiledb.dim.k.domain' '[0, 1000]', 'tiledb.dim.k.filters' '', 'tiledb.attr.v.filters' '', 'tiledb.attr.r.filters' '', \
     'tiledb.attr.n.filters' '', 'tiledb.attr.l.filters' '', 'tiledb.attr.s.filters' '')";

async fn create(ctx: &SessionContext, name: &str, folder: &Path) -> Result<PathBuf, Failed> {
    let array = folder.join(name);
    let place = array.display().to_string();
    run(
        ctx,
        &CREATE.replacen("{}", name, 1).replacen("{}", &place, 1),
    )
    .await?;
    Ok(array)
}

const CONDITIONS: [&str; 24] = [
    "v = 'NaN'::DOUBLE",
    "r = 'NaN'::REAL",
    "v <> 'NaN'::DOUBLE",
    "v > 6",
    "r > 6",
    "v >= 'inf'",
    "v < 1",
    "v < '-inf'::DOUBLE",
    "r <= '-inf'::REAL",
    "NOT (v <= 1e308)",
    "v BETWEEN 5 AND 'NaN'::DOUBLE",
    "v IN ('NaN'::DOUBLE, 0.5)",
    "v NOT IN ('NaN'::DOUBLE, 0.5)",
    "v IN (1.5, 2.5, 3.5, 4.5, 5.5, 'NaN'::DOUBLE)",
    "n IS NOT DISTINCT FROM 'NaN'::DOUBLE",
    "n IS DISTINCT FROM v",
    "n = v",
    "v = r",
    "isnan(v)",
    "NOT isnan(n) OR n > 3",
    "v = 0",
    "l[1] = 'NaN'::DOUBLE",
    "l[1] > 3 AND s[1] > 0",
    "array_has(l, 'NaN'::DOUBLE)",
];

const QUERIES: [&str; 12] = [
    "SELECT min(v), max(v), min(r), max(r), min(n), max(n) FROM {}",
    "SELECT min(v), max(r), min(n) FROM {} WHERE k < 24",
    "SELECT v, count(*) FROM {} WHERE v <> 0 GROUP BY v",
    "SELECT r, n, count(*) FROM {} WHERE r <> 0 AND n <> 0 GROUP BY r, n",
    "SELECT DISTINCT n FROM {} WHERE n IS DISTINCT FROM 0",
    "SELECT count(DISTINCT v) FROM {} WHERE v <> 0",
    "SELECT l, count(*) FROM {} WHERE l[1] <> 0 GROUP BY l",
    "SELECT k, rank() OVER (ORDER BY v), row_number() OVER (PARTITION BY r ORDER BY k) FROM {}",
    "SELECT k FROM {} ORDER BY v DESC, k LIMIT 12",
    "SELECT k FROM {} ORDER BY r, k LIMIT 12",
    "SELECT a.k, b.k FROM {} a JOIN {} b ON a.v = b.n WHERE a.k < 20",
    "SELECT k FROM {} WHERE v IN (SELECT n FROM {} WHERE k < 10)",
];

trial!(one_nan);
/// Comparisons, groups, orders, joins and statistics see one NaN.
async fn one_nan() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    for (number, shape) in [USUAL].into_iter().chain(SHAPES).enumerate() {
        if shape.wraps_tables() {
            continue;
        }
        let ctx = shape.context()?;
        ctx.register_batch("given", rows(true))?;
        ctx.register_batch("plain", rows(false))?;
        // A sort of a few rows in many partitions reserves more memory than some sessions have.
        ctx.sql("SET datafusion.execution.sort_spill_reservation_bytes = 0")
            .await?;
        let place = folder.path().join(number.to_string());
        fs::create_dir(&place)?;
        create(&ctx, "t", &place).await?;
        for half in ["k % 8 < 4", "k % 8 >= 4"] {
            let insert = format!("INSERT INTO t SELECT *, 0 FROM given WHERE {half}");
            run(&ctx, &insert).await?;
        }
        let conditions = CONDITIONS
            .iter()
            .map(|c| format!("SELECT * EXCEPT (w) FROM {{}} WHERE {c}"));
        let queries = QUERIES.iter().map(|query| (*query).to_owned());
        for query in conditions.chain(queries) {
            // Rows in memory have no column w.
            let of = |table: &str, query: &str| query.replace("{}", table);
            let memory = of("plain", &query.replace("* EXCEPT (w)", "*"));
            let expected = found(&ctx, &memory).await?;
            let rows = found(&ctx, &of("t", &query)).await?;
            if rows != expected {
                return Err(format!("{query}: {rows:?}, expected {expected:?}").into());
            }
        }
        // DataFusion compares this constant by its bits.
        let nan = found(&ctx, "SELECT count(*) FROM t WHERE v = 0.0::DOUBLE / 0.0").await?;
        assert_eq!(nan, ["[10]"]);
    }
    Ok(())
}

/// How often each NaN occurs in the files of the array's present fragments.
fn stored(array: &Path) -> Result<Vec<usize>, Failed> {
    let (mut doubles, mut singles) = (Vec::new(), Vec::new());
    for fragment in fs::read_dir(array.join("__fragments"))? {
        for file in fs::read_dir(fragment?.path())? {
            let path = file?.path();
            // Two FLOATs with all bits set look like one DOUBLE, so each pattern is searched only in the files of its type.
            let name = path.file_name().and_then(|name| name.to_str());
            match name.and_then(|name| name.get(..2)) {
                Some("a0" | "a2" | "a3") => doubles.push(fs::read(path)?),
                Some("a1" | "a4") => singles.push(fs::read(path)?),
                _ => {}
            }
        }
    }
    let count = |files: &[Vec<u8>], pattern: &[u8]| {
        let files = files.iter();
        // Patterns with all bits set follow each other without a boundary.
        let found = files.map(|file| {
            let (mut count, mut rest) = (0, file.as_slice());
            while rest.len() >= pattern.len() {
                let is_there = rest.starts_with(pattern);
                count += usize::from(is_there);
                rest = &rest[if is_there { pattern.len() } else { 1 }..];
            }
            count
        });
        found.sum::<usize>()
    };
    let of_doubles = DOUBLES
        .iter()
        .map(|bits| count(&doubles, &bits.to_le_bytes()));
    let of_singles = SINGLES
        .iter()
        .filter(|bits| **bits != u32::MAX)
        .map(|bits| count(&singles, &bits.to_le_bytes()));
    Ok(of_doubles.chain(of_singles).collect())
}

trial!(stored_bits_survive);
/// Values that are written again without being computed keep their bits.
async fn stored_bits_survive() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let ctx = USUAL.context()?;
    ctx.register_batch("given", rows(true))?;
    let first = create(&ctx, "t", folder.path()).await?;
    run(&ctx, "INSERT INTO t SELECT *, 0 FROM given").await?;
    let expected = stored(&first)?;
    assert!(expected.iter().all(|count| *count > 0), "{expected:?}");

    let plain = |name: &str| folder.path().join(name).display().to_string();
    let options = "OPTIONS ('tiledb.capacity' '6', 'tiledb.choose_by' 'types', 'tiledb.dim.k.filters' '', 'tiledb.attr.v.filters' '', \
         'tiledb.attr.r.filters' '', 'tiledb.attr.n.filters' '', 'tiledb.attr.l.filters' '', 'tiledb.attr.s.filters' '')";
    let copies = [
        ("copied", "t"),
        (
            "sorted",
            "(SELECT * FROM t WHERE v > 0 OR v <= 0 OR isnan(n) ORDER BY v, r)",
        ),
        (
            "joined",
            "(SELECT a.* FROM (SELECT * FROM t) a JOIN given g ON a.k = g.k AND a.v = a.v)",
        ),
    ];
    for (name, from) in copies {
        let to = plain(name);
        let copy = format!("COPY {from} TO '{to}' STORED AS TILEDB PARTITIONED BY (k) {options}");
        run(&ctx, &copy).await?;
        assert_eq!(stored(Path::new(&to))?, expected, "{copy}");
    }

    // Each statement writes all rows again, into an empty array.
    let statements = [
        "INSERT INTO u SELECT * FROM t",
        "INSERT INTO u SELECT k, v, r, n, l, s, w + 1 FROM t WHERE r > -1e30 OR r < 0 ORDER BY r LIMIT 100",
        "INSERT INTO u (s, l, n, r, v, k) SELECT s, l, n, r, CASE WHEN k >= 0 THEN v ELSE 0 END, k FROM t AS q",
        "INSERT OVERWRITE u SELECT * FROM t",
    ];
    for (number, statement) in statements.iter().enumerate() {
        let name = format!("u{number}");
        let array = create(&ctx, &name, folder.path()).await?;
        run(&ctx, &statement.replace(" u ", &format!(" {name} "))).await?;
        assert_eq!(stored(&array)?, expected, "{statement}");
    }

    // These statements write all rows once more.
    let changes = [
        "UPDATE t SET w = 7",
        "UPDATE t SET w = CAST(k AS INT) WHERE v > 1 OR v <= 1 OR v = 'NaN'::DOUBLE",
        "UPDATE t SET v = CASE WHEN k < 0 THEN 0 ELSE v END WHERE k + 0 < 100",
        "MERGE INTO t USING given AS g ON t.k = g.k WHEN MATCHED THEN UPDATE SET w = 9",
        "MERGE INTO t USING given AS g ON t.k = g.k WHEN MATCHED AND t.v >= 0 THEN UPDATE SET w = 8 WHEN MATCHED THEN UPDATE SET v = t.v, w = 1",
    ];
    for (times, statement) in (2..).zip(changes) {
        run(&ctx, statement).await?;
        let wanted = expected.iter().map(|count| count * times);
        assert_eq!(stored(&first)?, wanted.collect::<Vec<_>>(), "{statement}");
    }
    let place = first.display();
    run(
        &ctx,
        &format!("SELECT * FROM tiledb_consolidate('{place}')"),
    )
    .await?;
    run(
        &ctx,
        &format!("SELECT * FROM tiledb_vacuum('{place}', min_age => '0')"),
    )
    .await?;
    let wanted = expected.iter().map(|count| count * (changes.len() + 1));
    assert_eq!(stored(&first)?, wanted.collect::<Vec<_>>(), "consolidated");
    sound(&ctx, &first).await
}

async fn sound(ctx: &SessionContext, array: &Path) -> Result<(), Failed> {
    let place = array.display();
    let findings = format!(
        "SELECT rule, object, found FROM tiledb_check('{place}') WHERE severity <> 'leftover'"
    );
    match found(ctx, &findings).await?.as_slice() {
        [] => Ok(()),
        findings => Err(format!("check finds {findings:?}").into()),
    }
}

async fn run(ctx: &SessionContext, statement: &str) -> Result<(), Failed> {
    let told = |e| format!("{statement}: {e}");
    let done = ctx.sql(statement).await.map_err(told)?;
    done.collect().await.map_err(told)?;
    Ok(())
}

async fn found(ctx: &SessionContext, query: &str) -> Result<Vec<String>, Failed> {
    let told = |e| format!("{query}: {e}");
    let batches = ctx.sql(query).await.map_err(told)?;
    Ok(neutral_rows::rows(&batches.collect().await.map_err(told)?))
}
