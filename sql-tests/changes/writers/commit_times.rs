//! The times of commits: a statement changes nothing at earlier instants, libtiledb finds commits in an order in which it can
//! consolidate them, and a table that shows a part of the array's time changes nothing.

use std::fs;
use std::path::Path;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;

use super::{run, session};
use crate::support::faulty_store::execute;
use crate::support::neutral_rows;

/// An array, and statements with the rows that each of them leaves.
struct ArrayHistory {
    name: &'static str,
    options: &'static str,
    steps: &'static [(&'static str, &'static [&'static str])],
}

const SPARSE_STORY: ArrayHistory = ArrayHistory {
    name: "sparse",
    options: "'tiledb.capacity' '3'",
    steps: &[
        (
            "INSERT INTO t VALUES (1, 10), (2, 20)",
            &["[1,10]", "[2,20]"],
        ),
        (
            "INSERT OVERWRITE t VALUES (1, 11), (3, 30)",
            &["[1,11]", "[3,30]"],
        ),
        (
            "UPDATE t SET v = v + 5 WHERE v < 100",
            &["[1,16]", "[3,35]"],
        ),
        ("DELETE FROM t WHERE k = 3", &["[1,16]"]),
        ("UPDATE t SET k = 4 WHERE k = 1", &["[4,16]"]),
        (
            "MERGE INTO t USING (VALUES (4, 44), (5, 55)) AS n(k, v) ON t.k = n.k WHEN MATCHED THEN DELETE \
             WHEN NOT MATCHED THEN INSERT (k, v) VALUES (n.k, n.v)",
            &["[5,55]"],
        ),
        (
            "INSERT OVERWRITE t VALUES (1, 12), (5, 55)",
            &["[1,12]", "[5,55]"],
        ),
        ("INSERT OVERWRITE t SELECT k, v FROM t WHERE k > 7", &[]),
        ("INSERT OVERWRITE t VALUES (6, 60)", &["[6,60]"]),
        ("TRUNCATE TABLE t", &[]),
        ("INSERT OVERWRITE t VALUES (7, 70)", &["[7,70]"]),
    ],
};

const DUPLICATES_STORY: ArrayHistory = ArrayHistory {
    name: "duplicates",
    options: "'tiledb.allows_duplicates' 'true', 'tiledb.capacity' '3'",
    steps: &[
        (
            "INSERT INTO t VALUES (1, 10), (1, 20)",
            &["[1,10]", "[1,20]"],
        ),
        ("UPDATE t SET v = v + 1 WHERE v < 15", &["[1,11]", "[1,20]"]),
        ("UPDATE t SET v = 9 WHERE k = 1", &["[1,9]", "[1,9]"]),
        (
            "INSERT OVERWRITE t VALUES (1, 11), (3, 30)",
            &["[1,11]", "[3,30]"],
        ),
        ("DELETE FROM t WHERE v = 30", &["[1,11]"]),
        ("INSERT OVERWRITE t VALUES (3, 30)", &["[3,30]"]),
    ],
};

const DENSE_STORY: ArrayHistory = ArrayHistory {
    name: "dense",
    options: "'tiledb.array_type' 'dense', 'tiledb.dim.k.domain' '[1, 99]', 'tiledb.dim.k.tile' '2'",
    steps: &[
        (
            "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (4, 40), (5, 50), (6, 60)",
            &["[1,10]", "[2,20]", "[3,30]", "[4,40]", "[5,50]", "[6,60]"],
        ),
        // The statement writes two fragments.
        (
            "INSERT INTO t VALUES (1, 11), (6, 61)",
            &["[1,11]", "[2,20]", "[3,30]", "[4,40]", "[5,50]", "[6,61]"],
        ),
        (
            "UPDATE t SET v = 0 WHERE k IN (2, 5)",
            &["[1,11]", "[2,0]", "[3,30]", "[4,40]", "[5,0]", "[6,61]"],
        ),
        (
            "INSERT OVERWRITE t SELECT k, v + 1 FROM t",
            &["[1,12]", "[2,1]", "[3,31]", "[4,41]", "[5,1]", "[6,62]"],
        ),
        ("TRUNCATE TABLE t", &[]),
        ("INSERT INTO t VALUES (3, 3), (4, 4)", &["[3,3]", "[4,4]"]),
    ],
};

const STORIES: [&ArrayHistory; 3] = [&SPARSE_STORY, &DUPLICATES_STORY, &DENSE_STORY];

async fn begin(ctx: &SessionContext, array: &Path, options: &str) -> Result<(), Failed> {
    let location = array.display();
    let columns = "(k INT NOT NULL, v INT NOT NULL, PRIMARY KEY (k))";
    run(ctx, &format!("CREATE EXTERNAL TABLE t {columns} STORED AS TILEDB LOCATION '{location}' OPTIONS ({options})")).await
}

async fn rows(ctx: &SessionContext, query: &str) -> Result<Vec<String>, Failed> {
    Ok(neutral_rows::rows(&ctx.sql(query).await?.collect().await?))
}

/// Whether the array shows at each of these times the rows that a statement left, and the same rows as before at the instants
/// around it.
async fn check_instants(
    ctx: &SessionContext,
    array: &Path,
    story: &ArrayHistory,
    times: &[u64],
    after: &str,
) -> Result<(), Failed> {
    let mut before: &[&str] = &[];
    for ((statement, expected), time) in story.steps.iter().zip(times) {
        for (at, expected) in [
            (time - 1, before),
            (*time, *expected),
            (time + 1, *expected),
        ] {
            if times.contains(&at) && at != *time {
                continue;
            }
            let query = format!("SELECT k, v FROM '{}?timestamp={at}'", array.display());
            let found = rows(ctx, &query).await?;
            if found != expected {
                let (name, offset) = (story.name, at as i64 - *time as i64);
                return Err(format!(
                    "{name}, {after}: {offset} ms from {statement}: {found:?}, not {expected:?}"
                )
                .into());
            }
        }
        before = expected;
    }
    Ok(())
}

/// All times in the names of commits.
fn times_of_commits(array: &Path) -> Result<Vec<u64>, Failed> {
    let mut times = Vec::new();
    for file in fs::read_dir(array.join("__commits"))? {
        let name = file?.file_name().to_string_lossy().into_owned();
        let time = name.trim_start_matches('_').split('_').nth(1);
        times.push(time.ok_or("a name without a time")?.parse()?);
    }
    Ok(times)
}

trial!(no_earlier_instant_changes);
async fn no_earlier_instant_changes() -> Result<(), Failed> {
    for story in STORIES {
        let folder = tempfile::tempdir()?;
        let array = folder.path().join("array");
        let ctx = session()?;
        begin(&ctx, &array, story.options).await?;
        let mut times = Vec::new();
        for (number, (statement, _)) in story.steps.iter().enumerate() {
            run(&ctx, statement).await?;
            times.push(
                times_of_commits(&array)?
                    .into_iter()
                    .max()
                    .ok_or("no commit")?,
            );
            // The times of statements differ by more than the instants that are compared.
            tokio::time::sleep(Duration::from_millis(4)).await;
            check_instants(&ctx, &array, story, &times, &format!("{number}")).await?;
            check_order(&array, statement)?;
        }
    }
    Ok(())
}

trial!(no_earlier_instant_changes_at_chosen_times);
async fn no_earlier_instant_changes_at_chosen_times() -> Result<(), Failed> {
    let tended: [&[&str]; 4] = [
        &[],
        &[
            "tiledb_consolidate('$A', mode => 'commits')",
            "tiledb_vacuum('$A', mode => 'commits')",
        ],
        &["tiledb_consolidate('$A', verify => true)"],
        &[
            "tiledb_consolidate('$A', mode => 'fragment_metadata')",
            "tiledb_consolidate('$A')",
            "tiledb_consolidate('$A', mode => 'commits')",
        ],
    ];
    for story in STORIES {
        for functions in tended {
            let folder = tempfile::tempdir()?;
            let array = folder.path().join("array");
            let ctx = session()?;
            begin(
                &ctx,
                &array,
                &format!("{}, 'tiledb.write_timestamp' '1'", story.options),
            )
            .await?;
            // The times follow each other directly.
            let times = (0..story.steps.len() as u64)
                .map(|step| 100 + step)
                .collect::<Vec<_>>();
            for ((statement, _), time) in story.steps.iter().zip(&times) {
                run(&ctx, "DROP TABLE t").await?;
                run(&ctx, &format!("CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{}' OPTIONS ('tiledb.write_timestamp' '{time}')", array.display())).await?;
                run(&ctx, statement).await?;
            }
            for function in functions {
                let function = function.replace("$A", &array.display().to_string());
                rows(&ctx, &format!("SELECT * FROM {function}")).await?;
                check_order(&array, &function)?;
            }
            check_instants(&ctx, &array, story, &times, &format!("{functions:?}")).await?;
            let findings = format!(
                "SELECT rule, object FROM tiledb_check('{}') WHERE severity <> 'leftover'",
                array.display()
            );
            let findings = rows(&ctx, &findings).await?;
            if !findings.is_empty() {
                return Err(format!("{}, {functions:?}: {findings:?}", story.name).into());
            }
        }
    }
    Ok(())
}

/// The commits that libtiledb consolidates, in the order in which it finds them: first the commits in lists that aren't
/// ignored, sorted by their paths; then the commits with their own files. libtiledb names the consolidated file by the start of
/// the first commit and the end of the last one, and fails if that isn't a valid range.
fn check_order(array: &Path, after: &str) -> Result<(), Failed> {
    let commits = array.join("__commits");
    let mut files = Vec::new();
    for file in fs::read_dir(&commits)? {
        files.push(file?.file_name().to_string_lossy().into_owned());
    }
    files.sort();
    let ended = |file: &&String, ends: &[&str]| ends.iter().any(|end| file.ends_with(end));
    let mut ignored = Vec::new();
    for file in files.iter().filter(|file| ended(file, &[".ign"])) {
        let text = fs::read_to_string(commits.join(file))?;
        ignored.extend(text.lines().map(str::to_owned));
    }
    let mut listed = Vec::new();
    for file in files.iter().filter(|file| ended(file, &[".con"])) {
        let bytes = fs::read(commits.join(file))?;
        let mut rest = bytes.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8(rest[..end].to_vec())?;
            rest = &rest[end + 1..];
            if line.ends_with(".del") {
                let (size, tile) = rest.split_first_chunk::<8>().ok_or("a delete is cut")?;
                rest = &tile[usize::try_from(u64::from_le_bytes(*size))?..];
            }
            if !ignored.contains(&line) {
                listed.push(line);
            }
        }
    }
    listed.sort();
    listed.dedup();
    let own = files
        .iter()
        .filter(|file| ended(file, &[".wrt", ".del"]))
        .map(|file| format!("__commits/{file}"))
        .filter(|path| !listed.contains(path))
        .collect::<Vec<_>>();
    let all = listed.iter().chain(&own);
    let time = |path: &String, place: usize| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let time = name.trim_start_matches('_').split('_').nth(place);
        time.and_then(|time| time.parse::<u64>().ok())
    };
    let (first, last) = (all.clone().next(), all.last());
    let (Some(first), Some(last)) = (first, last) else {
        return Ok(());
    };
    match time(first, 0) <= time(last, 1) {
        true => Ok(()),
        false => Err(format!(
            "after {after}, libtiledb would name a list of commits by {first} and {last}"
        )
        .into()),
    }
}

trial!(commits_are_listed_in_order);
/// Tests lists of several commits beside older commit files, which are removed later, and beside commits of an earlier time.
async fn commits_are_listed_in_order() -> Result<(), Failed> {
    let several = [
        "INSERT INTO t VALUES (2, 1), (50, 4), (97, 8)",
        "UPDATE t SET v = 9 WHERE k IN (2, 97)",
        "INSERT OVERWRITE t SELECT k, 5 FROM t",
    ];
    let vacuum = "SELECT * FROM tiledb_vacuum('$A', min_age => '0')";
    let tended = [
        "SELECT * FROM tiledb_consolidate('$A', max_fragments => 2)",
        vacuum,
        "SELECT * FROM tiledb_consolidate('$A', mode => 'commits')",
        "SELECT * FROM tiledb_vacuum('$A', mode => 'commits')",
        "SELECT * FROM tiledb_consolidate('$A')",
        vacuum,
        "SELECT * FROM tiledb_vacuum('$A', mode => 'commits')",
    ];
    for options in [
        DENSE_STORY.options,
        SPARSE_STORY.options,
        DUPLICATES_STORY.options,
    ] {
        let folder = tempfile::tempdir()?;
        let array = folder.path().join("array");
        let ctx = session()?;
        begin(&ctx, &array, options).await?;
        run(
            &ctx,
            "INSERT INTO t SELECT value, 0 FROM generate_series(1, 99)",
        )
        .await?;
        run(
            &ctx,
            "INSERT INTO t SELECT value, 1 FROM generate_series(1, 99)",
        )
        .await?;
        for statement in several {
            run(&ctx, statement).await?;
            check_order(&array, statement)?;
        }
        let before = rows(&ctx, "SELECT k, v FROM t").await?;
        for function in tended {
            let function = function.replace("$A", &array.display().to_string());
            rows(&ctx, &function).await?;
            check_order(&array, &function)?;
            run(&ctx, several[0]).await?;
            check_order(&array, several[0])?;
            if options == DENSE_STORY.options {
                run(&ctx, several[1]).await?;
                run(&ctx, several[2]).await?;
                check_order(&array, several[2])?;
                let now = rows(&ctx, "SELECT k, v FROM t").await?;
                assert_eq!(now, before, "{function}");
            }
        }
    }
    Ok(())
}

/// Statements that change `$T`, which functions name `$F`.
const CHANGES: [&str; 12] = [
    "INSERT INTO $T VALUES (8, 8)",
    "INSERT OVERWRITE $T VALUES (8, 8)",
    "DELETE FROM $T WHERE k < 100",
    "DELETE FROM $T",
    "DELETE FROM $T WHERE v + 0 < 100",
    "UPDATE $T SET v = v + 1",
    "UPDATE $T SET k = k + 10",
    "MERGE INTO $T AS m USING (VALUES (1, 2)) AS n(k, v) ON m.k = n.k WHEN MATCHED THEN UPDATE SET v = n.v",
    "TRUNCATE TABLE $T",
    "ALTER TABLE $T ADD COLUMN c INT",
    "SELECT * FROM tiledb_evolve($F, add => 'c INT')",
    "SELECT * FROM tiledb_set_metadata($F, 'a', 1)",
];

/// What their errors say about a window of time.
const REFUSALS: [&str; 4] = [
    "shows a window of time",
    "shows the past",
    "shows all versions",
    "the past does not change",
];

async fn takes_no_changes(ctx: &SessionContext, table: &str, argument: &str) -> Result<(), Failed> {
    for statement in CHANGES {
        let statement = statement.replace("$T", table).replace("$F", argument);
        let Err(error) = execute(ctx, &statement).await else {
            return Err(format!("{statement} is not refused").into());
        };
        let told = error.message().unwrap_or_default();
        if !REFUSALS.iter().any(|why| told.contains(why)) {
            return Err(format!("{statement}: {told}").into());
        }
    }
    Ok(())
}

trial!(a_window_of_time_takes_no_changes);
/// A table that shows only a part of the array's time refuses every statement that changes it, however it was opened.
async fn a_window_of_time_takes_no_changes() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("group/array");
    let (path, group) = (
        array.display(),
        folder.path().join("group").display().to_string(),
    );
    let ctx = session()?;
    execute(
        &ctx,
        &format!("SELECT * FROM tiledb_create_group('{group}')"),
    )
    .await?;
    begin(&ctx, &array, "'tiledb.write_timestamp' '50'").await?;
    execute(
        &ctx,
        &format!("SELECT * FROM tiledb_add_member('{group}', 'array', name => 'a')"),
    )
    .await?;
    run(&ctx, "INSERT INTO t VALUES (1, 10), (2, 20)").await?;
    tokio::time::sleep(Duration::from_millis(3)).await;
    let start = times_of_commits(&array)?
        .into_iter()
        .max()
        .ok_or("no commit")?
        + 1;
    run(&ctx, "INSERT INTO t VALUES (3, 30)").await?;
    let state = format!("SELECT k, v FROM '{path}'");
    let described = format!(
        "SELECT name FROM tiledb_schema('{path}') UNION ALL SELECT key FROM tiledb_metadata('{path}')"
    );
    let before = (rows(&ctx, &state).await?, rows(&ctx, &described).await?);
    let windows = [
        format!("timestamp_start={start}"),
        "timestamp=60".to_owned(),
        format!("timestamp_start={start}&timestamp_end=99999999999999"),
        "timestamp_start=1&all_versions=true".to_owned(),
    ];
    for (number, window) in windows.iter().enumerate() {
        let pairs = window.split('&').filter_map(|pair| pair.split_once('='));
        let options = pairs
            .clone()
            .map(|(key, value)| format!("'tiledb.{key}' '{value}'"))
            .collect::<Vec<_>>()
            .join(", ");
        run(&ctx, &format!("CREATE EXTERNAL TABLE w{number} STORED AS TILEDB LOCATION '{path}' OPTIONS ({options})")).await?;
        let mut ways = vec![
            (format!("w{number}"), format!("'w{number}'")),
            (format!("\"{path}?{window}\""), format!("'{path}?{window}'")),
        ];
        // A group also has a past, in which it doesn't have this member.
        if window.starts_with("timestamp_start") && !window.contains("all_versions") {
            let given = pairs
                .map(|(key, value)| format!("{key} {value}"))
                .collect::<Vec<_>>()
                .join(", ");
            execute(&ctx, &format!("ATTACH '{group}' AS g{number} ({given})")).await?;
            let name = format!("g{number}.a");
            ways.push((name.clone(), format!("'{name}'")));
        }
        for (table, argument) in &ways {
            takes_no_changes(&ctx, table, argument).await?;
        }
        let mut builder = TileDbTable::builder(path.to_string());
        for (key, value) in window.split('&').filter_map(|pair| pair.split_once('=')) {
            builder = builder.option(key, value)?;
        }
        let other = session()?;
        other.register_table("t", std::sync::Arc::new(builder.open().await?))?;
        if run(&other, "INSERT INTO t VALUES (8, 8)").await.is_ok() {
            return Err(format!("a table opened with {window} takes rows").into());
        }
    }
    let after = (rows(&ctx, &state).await?, rows(&ctx, &described).await?);
    assert_eq!(after, before);
    Ok(())
}
