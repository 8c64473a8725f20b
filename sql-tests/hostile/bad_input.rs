//! Bad input, a test per kind: each gives an error that names the thing, what was found and what was expected.
//!
//! Damage by chance, and of each kind of file, is in `mutation`, sizes forged with care in `forged_sizes`; here is
//! what may lie at a path, what a user may ask, and what other releases wrote.

use std::process::Command;

use datafusion::prelude::{SessionConfig, SessionContext};
use libtest_mimic::Failed;

use crate::support::array_files::{
    Files, METADATA_FILE, contents, join_footer, plain_tile, split_footer,
};
use crate::support::refusals::{ALL, edit_schema, read, read_files, refused};
use crate::support::shell_place::{Place, Ran, ran};
use crate::support::{allocations, golden};

#[cfg(unix)]
#[cfg(unix)]
#[cfg(unix)]
trial!(full_disk);
/// A file that cannot grow is what a full disk is: the statement names it, and leaves nothing behind.
#[cfg(unix)]
fn full_disk(place: &Place) -> Result<(), Failed> {
    let create = "CREATE EXTERNAL TABLE t (k BIGINT NOT NULL, s VARCHAR NOT NULL, PRIMARY KEY (k)) STORED AS TILEDB LOCATION './t'";
    place
        .run(&["-q", "-c", create, "-c", "INSERT INTO t VALUES (1, 'a')"])?
        .has(&["1"])?;
    // Files of 32 kB; what is written of a larger one is an error instead of a signal.
    let limited = |sql: &str| -> Result<Ran, Failed> {
        let shell = place.command(&[]);
        let mut limited = Command::new("sh");
        limited.args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "sh"]);
        limited.arg(shell.get_program()).args(["-q", "-c", sql]);
        limited.current_dir(&place.0).env("HOME", &place.0);
        Ok(ran(limited.output()?))
    };
    let rows = "SELECT value AS k, md5(CAST(value AS VARCHAR)) AS s FROM range(10, 20000)";
    let open = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION './t'";
    for (sql, file) in [
        (format!("{open}; INSERT INTO t {rows}"), "t/__fragments/"),
        (
            format!("{open}; INSERT OVERWRITE t {rows}"),
            "t/__fragments/",
        ),
        (
            format!("COPY ({rows}) TO './u' STORED AS TILEDB PARTITIONED BY (k)"),
            "u/__fragments/",
        ),
    ] {
        let words = ["cannot write ", file, "_var.tdb", "File too large"];
        limited(&sql)?.failed("", &words)?;
    }
    let read = ["-q", "--format", "csv", "-c", open];
    let count = "SELECT count(*) AS n, min(s) AS s FROM t";
    let found = place.run(&[&read[..], &["-c", count]].concat())?;
    found.gave("n,s\n1,a\n")?;
    let clean = "1 fragments, ";
    let checked = place.run(&["check", "./t"])?;
    checked.has(&[clean, "0 errors, 0 warnings, 0 leftovers"])?;
    let again = format!("COPY ({rows}) TO './u' STORED AS TILEDB PARTITIONED BY (k)");
    place.run(&["-q", "-c", &again])?.has(&["19990"])
}

trial!(places);
/// Places that aren't arrays, by the builder and as a table name.
async fn places() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(place("empty"))?;
    std::fs::create_dir_all(place("stuff/inside"))?;
    std::fs::write(place("stuff/notes.md"), "no array")?;
    std::fs::create_dir_all(place("group/__group"))?;
    std::fs::write(place("group/__tiledb_group.tdb"), "")?;
    std::fs::write(place("file.tdb"), "no array")?;
    for (name, words) in [
        ("missing", ["missing", "check the path"]),
        ("empty", ["empty", "check the path"]),
        ("stuff", ["stuff", "no __schema"]),
        ("group", ["group", "TileDB group"]),
        ("file.tdb", ["file.tdb", "not"]),
        ("file.tdb/deeper", ["file.tdb", "not"]),
    ] {
        refused(name, read(&place(name), &[], ALL).await, &words)?;
        let ctx = SessionContext::new().enable_url_table();
        datafusion_tiledb::register(&ctx)?;
        let path = place(name).display().to_string();
        let sql = format!("SELECT * FROM '{path}'");
        let outcome = ctx.sql(&sql).await.map(|_| 0).map_err(|e| e.to_string());
        refused(&sql, outcome, &[&path])?;
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{path}'");
        let outcome = ctx.sql(&sql).await.map(|_| 0).map_err(|e| e.to_string());
        refused(&sql, outcome, &words)?;
    }
    Ok(())
}

trial!(options);
/// Options that do not exist, and values that are none.
pub async fn options() -> Result<(), Failed> {
    let array = golden::folder().join("quickstart_dense");
    for (options, words) in [
        (
            vec![("color", "red")],
            vec!["unknown option", "color", "tiledb.timestamp"],
        ),
        (
            vec![("timestamp", "yesterday")],
            vec!["tiledb.timestamp", "yesterday", "ISO 8601"],
        ),
        (
            vec![("timestamp", "")],
            vec!["tiledb.timestamp", "ISO 8601"],
        ),
        (vec![("timestamp", "1900-01-01")], vec!["before 1970"]),
        (
            vec![("timestamp", "99999999999999999999999")],
            vec!["too large"],
        ),
        (
            vec![("empty_cells", "maybe")],
            vec!["tiledb.empty_cells", "maybe", "fill or null or skip"],
        ),
        (vec![("capacity", "100")], vec!["tiledb.capacity", "array"]),
        (
            vec![("encryption_key", "hunter2")],
            vec!["tiledb.encryption_key", "32 bytes", "64 hexadecimal digits"],
        ),
        (
            vec![("timestamp_start", "2000"), ("timestamp_end", "1000")],
            vec!["2000", "1000"],
        ),
    ] {
        let outcome = read(&array, &options, ALL).await;
        if outcome.as_ref().is_err_and(|e| e.contains("hunter2")) {
            return Err("the key is in the message".into());
        }
        refused(&format!("{options:?}"), outcome, &words)?;
        let pairs: Vec<String> = options
            .iter()
            .map(|(k, v)| format!("'tiledb.{k}' '{v}'"))
            .collect();
        let sql = format!(
            "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{}' OPTIONS ({})",
            array.display(),
            pairs.join(", ")
        );
        let ctx = SessionContext::new_with_config_rt(SessionConfig::new(), allocations::runtime());
        datafusion_tiledb::register(&ctx)?;
        let outcome = ctx.sql(&sql).await.map(|_| 0).map_err(|e| e.to_string());
        refused(&sql, outcome, &words)?;
    }
    Ok(())
}

trial!(wrong_types);
/// A value of the wrong type in a filter is told as such, and never matches by accident.
async fn wrong_types() -> Result<(), Failed> {
    let dense = golden::folder().join("quickstart_dense");
    let weather = golden::folder().join("weather_stations");
    for (array, filter, words) in [
        (&dense, "\"rows\" = 'abc'", ["abc", "Int32"]),
        (&dense, "\"rows\" BETWEEN 1 AND 'x'", ["x", "Int64"]),
        (
            &dense,
            "\"rows\" = TIMESTAMP '2024-01-01'",
            ["Int32", "Timestamp"],
        ),
        (&dense, "a = 'abc'", ["abc", "Int32"]),
        (&dense, "nothing = 1", ["nothing", "No field"]),
        (&weather, "station > 5", ["Bergen", "Int64"]),
        (&weather, "time = 'noon'", ["noon", "imestamp"]),
        (&weather, "time > 'x' OR station = 'y'", ["x", "imestamp"]),
    ] {
        let sql = format!("SELECT * FROM t WHERE {filter}");
        refused(&sql, read(array, &[], &sql).await, &words)?;
    }
    // Values of the right kind that the type cannot hold match nothing, or everything.
    for (filter, rows) in [
        ("\"rows\" = 3000000000", 0),
        ("\"rows\" < 3000000000", 16),
        ("\"rows\" = 1.5", 0),
        ("\"rows\" > -9e30", 16),
        ("\"rows\" = NULL", 0),
        ("\"rows\" IN (1, NULL)", 4),
    ] {
        let found = read(&dense, &[], &format!("SELECT * FROM t WHERE {filter}")).await?;
        if found != rows {
            return Err(format!("{filter}: expected {rows} rows, found {found}").into());
        }
    }
    Ok(())
}

trial!(future_schema);
async fn future_schema() -> Result<(), Failed> {
    for version in [24_u32, 1000, u32::MAX] {
        let mut files = Files::golden("quickstart_sparse");
        edit_schema(&mut files, |schema| {
            schema[..4].copy_from_slice(&version.to_le_bytes())
        });
        let words = [&version.to_string(), "newer", "23", "__schema/"];
        refused("schema", read_files(&files, ALL).await, &words)?;
    }
    Ok(())
}

trial!(future_fragment);
async fn future_fragment() -> Result<(), Failed> {
    let mut files = Files::golden("quickstart_sparse");
    files.rename(|path| path.replace("_22.wrt", "_24.wrt").replace("_22/", "_24/"));
    let metadata = files.find(METADATA_FILE);
    // The name alone contradicts the footer.
    refused(
        "name",
        read_files(&files, ALL).await,
        &["22", "24", "__1000_1000_"],
    )?;
    files.edit(&metadata, |file| {
        let (body, footer) = split_footer(file);
        let footer = [&24_u32.to_le_bytes(), &footer[4..]].concat();
        *file = join_footer(body, &footer);
    });
    refused(
        "footer",
        read_files(&files, ALL).await,
        &["24", "newer", "23", "__1000_1000_"],
    )
}

trial!(past_array);
async fn past_array() -> Result<(), Failed> {
    let mut files = Files::golden("quickstart_sparse");
    files.rename(|path| {
        if path.starts_with("__schema/") {
            "__array_schema.tdb".into()
        } else {
            path.into()
        }
    });
    refused(
        "a schema of another name",
        read_files(&files, ALL).await,
        &["__1000_1000_", "is not in __schema"],
    )?;
    // A commit without a fragment: up to format 11 there is none then, by libtiledb, too.
    let mut files = Files::golden("quickstart_sparse");
    let name = "__1_1_00000000000000000000000000000000_11";
    files.0.insert(format!("{name}.ok"), Vec::new());
    assert_eq!(read_files(&files, ALL).await?, 3);
    files.0.insert(format!("{name}/a0.tdb"), Vec::new());
    let words = [name];
    refused("no metadata", read_files(&files, ALL).await, &words)?;
    let mut files = Files::golden("quickstart_sparse");
    let name = "__1_1_00000000000000000000000000000000_12";
    files.0.insert(format!("__commits/{name}.wrt"), Vec::new());
    let words = [name];
    refused("no fragment", read_files(&files, ALL).await, &words)?;
    let mut files = Files::golden("quickstart_sparse");
    edit_schema(&mut files, |schema| schema[..4].fill(0));
    refused(
        "version 0",
        read_files(&files, ALL).await,
        &["format version 0", "older than 1", "__schema/"],
    )
}

trial!(misplaced_copies_of_footers);
/// A copy of a footer that is not where it is said to be costs a request, no more.
async fn misplaced_copies_of_footers() -> Result<(), Failed> {
    let mut files = Files::golden("fragment_metadata_consolidated");
    let rows = read_files(&files, ALL).await?;
    let meta = files.find(".meta");
    files.edit(&meta, |file| {
        let mut copies = contents(file);
        let number = |bytes: &[u8], at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
        };
        // The count, then for each fragment the length of its name, the name and the place.
        let second = 4 + 8 + number(&copies, 4) + 8;
        let place = second + 8 + number(&copies, second);
        let moved = (number(&copies, place) - 8) as u64;
        copies[place..place + 8].copy_from_slice(&moved.to_le_bytes());
        *file = plain_tile(&copies);
    });
    let found = read_files(&files, ALL).await?;
    if found == rows {
        return Ok(());
    }
    Err(format!("{found} rows instead of {rows}").into())
}

trial!(missing_behind_copies);
/// A copy of a footer may be left of a fragment whose files are gone. Then its metadata file is missing, not damaged.
async fn missing_behind_copies() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("a").display().to_string();
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    for sql in [
        "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$' OPTIONS ('tiledb.capacity' '2')",
        "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)",
        "DELETE FROM t WHERE v = 2",
        "INSERT INTO t VALUES (6, 6), (7, 7), (8, 8)",
        "SELECT * FROM tiledb_consolidate('$')",
        "SELECT * FROM tiledb_vacuum('$', min_age => '0')",
        "INSERT INTO t VALUES (9, 9)",
        "SELECT * FROM tiledb_consolidate('$', mode => 'fragment_metadata')",
    ] {
        let sql = sql.replace('$', &place);
        datafusion_tiledb::execute(&ctx, &sql)
            .await?
            .collect()
            .await?;
    }
    let mut files = Files::of(&folder.path().join("a"));
    let count = files.0.len();
    files.0.retain(|path, _| !path.ends_with(METADATA_FILE));
    if count - files.0.len() != 2 {
        return Err(format!("{} fragments", count - files.0.len()).into());
    }
    // Nothing is known of the array in another place.
    files.write(&folder.path().join("b"));
    let place = folder.path().join("b").display().to_string();
    for sql in [
        "SELECT * FROM '$'",
        "SELECT x FROM '$' WHERE v > 3",
        "SELECT count(*), min(v), sum(v) FROM '$'",
        "SELECT * FROM '$' WHERE x BETWEEN 3 AND 7 ORDER BY x",
    ] {
        let ctx = SessionContext::new();
        datafusion_tiledb::register(&ctx)?;
        let sql = sql.replace('$', &place);
        let answer = async {
            datafusion_tiledb::execute(&ctx, &sql)
                .await?
                .collect()
                .await
        };
        let error = match answer.await {
            Ok(_) => return Err(format!("{sql} succeeds").into()),
            Err(error) => error.to_string(),
        };
        if !error.contains(&format!("{METADATA_FILE} does not exist")) {
            return Err(format!("{sql}: {error}").into());
        }
    }
    Ok(())
}

trial!(missing_parts);
async fn missing_parts() -> Result<(), Failed> {
    let whole = Files::golden("weather_stations");
    let without = |part: &str| {
        let mut files = whole.clone();
        files.0.retain(|path, _| !path.contains(part));
        files
    };
    let fragment = "__fragments/__1000_1000_";
    refused(
        "folder of a fragment",
        read_files(&without(fragment), ALL).await,
        &[fragment, "does not exist"],
    )?;
    for file in [
        "a0.tdb",
        "a1_validity.tdb",
        "a3_var.tdb",
        "d0.tdb",
        "d0_var.tdb",
        METADATA_FILE,
    ] {
        // The file is gone from both fragments; which of them is read first is open.
        refused(
            file,
            read_files(&without(file), ALL).await,
            &[file, "__fragments/__", "does not exist"],
        )?;
    }
    let gone = read_files(&without("__enumerations/"), ALL).await;
    refused(
        "enumeration",
        gone,
        &["__schema/__enumerations/", "does not exist"],
    )?;
    // A column whose file is missing hurts only those who ask for it.
    read_files(&without("a0.tdb"), "SELECT time, wind FROM t").await?;
    let mut files = whole.clone();
    let schema = files.find("__schema/__1000");
    files.rename(|path| {
        if path == schema {
            "__schema/__1_1_00000000000000000000000000000000".into()
        } else {
            path.into()
        }
    });
    refused(
        "schema",
        read_files(&files, ALL).await,
        &[
            schema.rsplit('/').next().unwrap_or_default(),
            "named by a fragment",
        ],
    )
}

trial!(names);
async fn names() -> Result<(), Failed> {
    let commit = |name: &str| {
        let mut files = Files::golden("quickstart_sparse");
        files.0.insert(format!("__commits/{name}"), Vec::new());
        files
    };
    for name in [
        "__2_1_00000000000000000000000000000000_22.wrt",
        "__1_x_y_22.wrt",
        "__9_9_..%2F.._22.wrt",
    ] {
        refused(
            name,
            read_files(&commit(name), ALL).await,
            &["__commits/", name.trim_end_matches(".wrt")],
        )?;
    }
    // What is not a commit is no concern of ours.
    for name in ["notes.txt", "x.wrt", ".DS_Store", "__1_1_x_22.wrt.bak"] {
        read_files(&commit(name), ALL).await?;
    }
    Ok(())
}
