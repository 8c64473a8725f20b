//! How far plans say that they have come: from nothing to all, in every way that a scan can go; and what those say that write,
//! consolidate, vacuum and check.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::progress::{
    MaintenanceWatch, RunningMaintenance, ScanProgress, WriteProgress, progress_of, writing_of,
};
use datafusion_tiledb::to_datafusion_error;
use libtest_mimic::Failed;

use crate::block_on;
use crate::support::golden;

/// How far a query has come before it runs and when it has ended.
async fn before_and_after(
    sql: &str,
    partitions: usize,
) -> Result<(Option<ScanProgress>, Option<ScanProgress>), Failed> {
    let config = SessionConfig::new().with_target_partitions(partitions);
    let ctx = SessionContext::new_with_config(config);
    datafusion_tiledb::register(&ctx)?;
    let arrays = golden::folder().display().to_string();
    let frame = ctx.sql(&sql.replace("$ARRAYS", &arrays)).await?;
    let plan = frame.create_physical_plan().await?;
    let before = progress_of(&plan);
    collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    Ok((before, progress_of(&plan)))
}

trial!(to_the_end);
async fn to_the_end() -> Result<(), Failed> {
    for partitions in [1, 3] {
        for sql in [
            "SELECT * FROM '$ARRAYS/weather_stations'",
            "SELECT station, avg(temperature) FROM '$ARRAYS/weather_stations' GROUP BY station",
            "SELECT * FROM '$ARRAYS/weather_stations' ORDER BY station, time",
            "SELECT * FROM '$ARRAYS/elevation' WHERE height > 1000",
            "SELECT y, sum(height) FROM '$ARRAYS/elevation' GROUP BY y",
            "SELECT sum(height) FROM '$ARRAYS/elevation' WHERE y > 3",
            "SELECT * FROM '$ARRAYS/elevation' a JOIN '$ARRAYS/weather_stations' b ON a.height = b.wind",
        ] {
            let (before, after) = before_and_after(sql, partitions).await?;
            let (Some(before), Some(after)) = (before, after) else {
                return Err(format!("{sql}: a scan tells nothing").into());
            };
            if before.done != 0 || before.all == 0 || after.done != after.all {
                return Err(format!("{sql}: {before:?}, then {after:?}").into());
            }
        }
    }
    let nothing = before_and_after("SELECT 1", 1).await?;
    match nothing {
        (None, None) => Ok(()),
        some => Err(format!("no array, but {some:?}").into()),
    }
}

trial!(of_writing);
/// Rows of a statement that writes: these, and as many bytes as the files of data hold.
async fn of_writing() -> Result<(), Failed> {
    const ROWS: u64 = 3000;
    let columns = "(k BIGINT NOT NULL, a DOUBLE, PRIMARY KEY (k)) STORED AS TILEDB LOCATION";
    let rows = format!("SELECT 7919 * value % 100003 AS k, value / 2.0 AS a FROM range(0, {ROWS})");
    for (name, create, statement) in [
        (
            "sparse",
            format!(
                "CREATE EXTERNAL TABLE sparse {columns} '$SCRATCH/sparse' OPTIONS ('capacity' '100')"
            ),
            format!("INSERT INTO sparse {rows}"),
        ),
        (
            "dense",
            format!(
                "CREATE EXTERNAL TABLE dense {columns} '$SCRATCH/dense' OPTIONS ('array_type' 'dense', 'dim.k.domain' '[0, 199999]', 'dim.k.tile' '1000')"
            ),
            format!("INSERT INTO dense {rows}"),
        ),
        (
            "copied",
            "SELECT 1".to_owned(),
            format!("COPY ({rows}) TO '$SCRATCH/copied' STORED AS TILEDB PARTITIONED BY (k)"),
        ),
    ] {
        let scratch = tempfile::tempdir()?;
        let ctx = SessionContext::new();
        datafusion_tiledb::register(&ctx)?;
        let place = scratch.path().display().to_string();
        let sql = |sql: &str| sql.replace("$SCRATCH", &place);
        ctx.sql(&sql(&create)).await?.collect().await?;
        let plan = ctx
            .sql(&sql(&statement))
            .await?
            .create_physical_plan()
            .await?;
        let before = writing_of(&plan).unwrap_or_default();
        if (before.rows_read, before.rows_written, before.bytes_written) != (0, 0, 0) {
            return Err(format!("{name}: {before:?} before anything was done").into());
        }
        collect(Arc::clone(&plan), ctx.task_ctx()).await?;
        let after = writing_of(&plan);
        let expected = WriteProgress {
            rows_read: ROWS,
            // Rows of dense arrays are put into their tiles as they come.
            sorts: name != "dense",
            rows_written: ROWS,
            bytes_written: bytes_below(&scratch.path().join(name).join("__fragments"))?,
        };
        if after != Some(expected) {
            return Err(format!("{name}: {after:?}, expected {expected:?}").into());
        }
    }
    Ok(())
}

trial!(of_a_second_run);
/// A statement that somebody overtakes between its first rows and its commit runs twice. How far it has come is told of the second
/// run, and its metrics count what both did.
async fn of_a_second_run() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let place = scratch.path().join("t").display().to_string();
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    let create = format!(
        "CREATE EXTERNAL TABLE t (k BIGINT NOT NULL, a DOUBLE, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '{place}' \
         OPTIONS ('array_type' 'dense', 'dim.k.domain' '[0, 99]', 'dim.k.tile' '10')"
    );
    ctx.sql(&create).await?.collect().await?;
    ctx.register_udf(overtaken(place.clone()));
    // The statement gives every second cell of each tile, and takes the others from the array.
    let insert = "INSERT INTO t SELECT overtaken(2 * value) AS k, 1.5 AS a FROM range(0, 50)";
    let plan = ctx.sql(insert).await?.create_physical_plan().await?;
    collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    let fragments = fs::read_dir(Path::new(&place).join("__fragments"))?;
    let mut bytes = Vec::new();
    for fragment in fragments {
        bytes.push(bytes_below(&fragment?.path())?);
    }
    // The statement's fragment has ten tiles and that of the other session one, so the statement's is the larger one.
    bytes.sort_unstable();
    let [_, bytes_written] = bytes.as_slice() else {
        return Err(format!("{} fragments", bytes.len()).into());
    };
    let expected = WriteProgress {
        rows_read: 50,
        sorts: false,
        rows_written: 50,
        bytes_written: *bytes_written,
    };
    let after = writing_of(&plan);
    if after != Some(expected) {
        return Err(format!("{after:?}, expected {expected:?}").into());
    }
    let metrics = plan.metrics().ok_or("the plan has no metrics")?;
    let counted = ["rows_written", "fragments_written"]
        .map(|name| metrics.sum_by_name(name).map(|value| value.as_usize()));
    if counted != [Some(100), Some(1)] {
        return Err(format!("{counted:?} rows and fragments are counted").into());
    }
    let sum = ctx
        .sql("SELECT sum(a) AS a, count(a) AS n FROM t")
        .await?
        .collect()
        .await?;
    let sum = pretty_format_batches(&sum)?.to_string();
    // The cells are the 50 of the statement and the one at 31, which the other session wrote.
    if sum.contains("| 82.0 | 51 |") {
        Ok(())
    } else {
        Err(sum.into())
    }
}

/// A function that gives back its argument. During its first call, another session puts a cell into the array.
fn overtaken(array: String) -> ScalarUDF {
    let is_first = Arc::new(AtomicBool::new(true));
    let body = move |args: &[ColumnarValue]| {
        if is_first.swap(false, Ordering::SeqCst) {
            let array = array.clone();
            let other = std::thread::spawn(move || {
                block_on(async {
                    let ctx = SessionContext::new();
                    datafusion_tiledb::register(&ctx).map_err(to_datafusion_error)?;
                    let open =
                        format!("CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{array}'");
                    ctx.sql(&open).await?.collect().await?;
                    let insert = ctx.sql("INSERT INTO t VALUES (31, 7.0)").await?;
                    insert.collect().await
                })
            });
            let ended = other.join();
            ended.map_err(|_| DataFusionError::Execution("a thread panicked".into()))??;
        }
        Ok(args[0].clone())
    };
    create_udf(
        "overtaken",
        vec![DataType::Int64],
        DataType::Int64,
        Volatility::Volatile,
        Arc::new(body),
    )
}

/// The bytes of all files below a folder.
fn bytes_below(folder: &Path) -> Result<u64, Failed> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            bytes_below(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes)
}

trial!(of_maintenance);
/// Five fragments of 40 cells each become one, and go; what is left is checked.
async fn of_maintenance() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let place = scratch.path().join("t").display().to_string();
    let watch = Arc::new(MaintenanceWatch::default());
    let config = SessionConfig::new().with_extension(Arc::clone(&watch));
    let ctx = SessionContext::new_with_config(config);
    datafusion_tiledb::register(&ctx)?;
    let run = async |sql: &str| -> Result<(), Failed> {
        ctx.sql(&sql.replace("$T", &place)).await?.collect().await?;
        Ok(())
    };
    run("CREATE EXTERNAL TABLE t (k BIGINT NOT NULL, a INT, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '$T' OPTIONS ('capacity' '16')").await?;
    for first in [0, 40, 80, 120, 160] {
        let until = first + 40;
        run(&format!(
            "INSERT INTO t SELECT value, 1 FROM range({first}, {until})"
        ))
        .await?;
    }
    assert!(watch.latest().is_none(), "{:?}", watch.latest());

    run("SELECT * FROM tiledb_consolidate('$T')").await?;
    let Some(RunningMaintenance::Consolidation(done)) = watch.latest() else {
        return Err(format!("{:?}", watch.latest()).into());
    };
    let cells = (done.done(), done.total());
    let (tiles, fragments) = (done.written().tiles(), done.fragments());
    // 200 cells fill 13 tiles of 16.
    assert_eq!((cells, tiles, fragments), ((200, 200), 13, 1));
    assert!(done.written().bytes() > 0);

    let before = bytes_below(Path::new(&place).join("__fragments").as_path())?;
    run("SELECT * FROM tiledb_vacuum('$T', min_age => '0')").await?;
    let Some(RunningMaintenance::Vacuum(done)) = watch.latest() else {
        return Err(format!("{:?}", watch.latest()).into());
    };
    let gone = before - bytes_below(Path::new(&place).join("__fragments").as_path())?;
    assert!(
        done.bytes() >= gone && gone > 0,
        "{} of {gone}",
        done.bytes()
    );
    // Of each fragment the commit and the folder, and the list that they were replaced.
    assert!(
        done.done() == done.total() && done.total() >= 11,
        "{done:?}"
    );

    run("SELECT * FROM tiledb_check('$T')").await?;
    let Some(RunningMaintenance::Check(done)) = watch.latest() else {
        return Err(format!("{:?}", watch.latest()).into());
    };
    let counts = done.counts();
    assert_eq!((counts.fragments, counts.all_fragments), (1, 1));
    assert_eq!(counts.cells, 200);

    watch.forget();
    assert!(watch.latest().is_none());
    Ok(())
}
