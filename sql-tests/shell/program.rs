//! `tiledb-sql` as its users see it: flags, formats, exit status, what stands on stdout and what on stderr; and among other programs and files: pipes, paths with any name, Parquet, CSV and JSON beside arrays.

use std::fs;
use std::path::Path;

use libtest_mimic::Failed;

use crate::support::array_files::Files;
use crate::support::shell_place::{Place, path, ran};

trial!(commands);
fn commands(place: &Place) -> Result<(), Failed> {
    let array = path("quickstart_sparse");
    let create = format!("CREATE EXTERNAL TABLE q STORED AS TILEDB LOCATION '{array}'");
    let count = "SELECT count(*) AS n FROM q; SELECT max(a) AS m FROM q;";
    place
        .run(&["-q", "--format", "csv", "-c", &create, "-c", count])?
        .gave("n\n3\nm\n3\n")
}

trial!(files);
fn files(place: &Place) -> Result<(), Failed> {
    let array = path("quickstart_sparse");
    let text =
        format!("-- a script\nSELECT count(*) AS n\n  FROM '{array}';\n/* ; */ SELECT ';' AS s;\n");
    fs::write(place.0.join("a script.sql"), text)?;
    place
        .run(&["-q", "--format", "csv", "-f", "a script.sql"])?
        .gave("n\n3\ns\n;\n")?;
    place
        .run(&["-f", "nowhere.sql"])?
        .failed("", &["nowhere.sql"])?;
    fs::write(
        place.0.join("bad.sql"),
        "SELECT 1 AS a;\nSELECT\n nothing;\nSELECT 2;\n",
    )?;
    place
        .run(&["-q", "--format", "csv", "-f", "bad.sql"])?
        .failed("a\n1\n", &["bad.sql", "nothing"])
}

trial!(stdin);
pub fn stdin(place: &Place) -> Result<(), Failed> {
    let array = path("quickstart_sparse");
    let script = format!("SELECT count(*) AS n FROM '{array}';\nSELECT 'ü' AS u;\n");
    place
        .run_with_input(&["-q", "--format", "csv"], &script)?
        .gave("n\n3\nu\nü\n")?;
    // As in a session what follows a failure still runs, but the failure is not forgotten.
    place
        .run_with_input(
            &["-q", "--format", "csv"],
            "SELECT nothing;\nSELECT 2 AS b;\n",
        )?
        .failed("b\n2\n", &["nothing"])?;
    place
        .run_with_input(&["-q", "--format", "csv", "-f", "-"], &script)?
        .gave("n\n3\nu\nü\n")
}

trial!(formats);
fn formats(place: &Place) -> Result<(), Failed> {
    let sql = format!(
        "SELECT \"rows\", a FROM '{}' WHERE a < 3 ORDER BY a",
        path("quickstart_dense")
    );
    for (format, out) in [
        ("csv", "rows,a\n1,1\n1,2\n"),
        ("tsv", "rows\ta\n1\t1\n1\t2\n"),
        ("json", "[{\"rows\":1,\"a\":1},{\"rows\":1,\"a\":2}]\n"),
        ("nd-json", "{\"rows\":1,\"a\":1}\n{\"rows\":1,\"a\":2}\n"),
        (
            "table",
            "+-------+-------+\n| rows  | a     |\n| int32 | int32 |\n+-------+-------+\n| 1     | 1     |\n| 1     | 2     |\n+-------+-------+\n",
        ),
    ] {
        let ran = place.run(&["-q", "--format", format, "-c", &sql])?;
        if ran.status != Some(0) || !ran.err.is_empty() || ran.out.trim() != out.trim() {
            return Err(format!("{format}: {}", ran.text()).into());
        }
    }
    let ran = place.run(&["--format", "yaml", "-c", &sql])?;
    if ran.status != Some(2) || !ran.err.contains("yaml") || !ran.out.is_empty() {
        return Err(ran.text().into());
    }
    Ok(())
}

trial!(rows_shown);
fn rows_shown(place: &Place) -> Result<(), Failed> {
    let sql = format!("SELECT a FROM '{}'", path("rtree_three_levels"));
    let shown = |arguments: &[&str]| -> Result<usize, Failed> {
        let ran = place.run(&[arguments, &["-c", &sql]].concat())?;
        ran.has(&["| a "])?;
        Ok(ran.out.lines().filter(|l| l.starts_with("| ")).count())
    };
    let found = [
        shown(&[])?,
        shown(&["--maxrows", "3"])?,
        shown(&["--maxrows", "inf"])?,
    ];
    if found[0] > 50 || found[1] > 8 || found[2] < 1000 || found[1] >= found[0] {
        return Err(format!("{found:?} rows are shown").into());
    }
    // What other programs read is never cut.
    let whole = place.run(&["-q", "--maxrows", "inf", "--format", "csv", "-c", &sql])?;
    for arguments in [&["-b", "50"][..], &["-b", "50", "--maxrows", "3"]] {
        let format = ["-q", "--format", "csv", "-c", &sql];
        let lines = place
            .run(&[arguments, &format].concat())?
            .out
            .lines()
            .count();
        if lines != whole.out.lines().count() || lines < 1000 {
            return Err(format!("{lines} lines of CSV under {arguments:?}").into());
        }
    }
    Ok(())
}

trial!(settings);
fn settings(place: &Place) -> Result<(), Failed> {
    let show = "SHOW datafusion.execution.batch_size";
    place
        .run(&["-q", "--format", "csv", "-b", "123", "-c", show])?
        .has(&["123"])?;
    place
        .run(&["-q", "--format", "csv", "-c", show])?
        .has(&["16384"])?;
    let sql = format!(
        "SELECT count(DISTINCT temperature) AS n FROM '{}'",
        path("weather_stations")
    );
    place
        .run(&["-q", "--format", "csv", "-m", "1g", "-c", &sql])?
        .has(&["n\n"])?;
    let sql = format!("SELECT * FROM '{}'", path("weather_stations"));
    place
        .run(&["-q", "-m", "1k", "-c", &sql])?
        .failed("", &["memory", "weather_stations", "raise the limit"])
}

trial!(rc_file);
fn rc_file(place: &Place) -> Result<(), Failed> {
    fs::write(
        place.0.join("start.sql"),
        "CREATE VIEW v AS SELECT 7 AS seven;",
    )?;
    let ran = place.run_with_input(
        &["-q", "--format", "csv", "--rc", "start.sql"],
        "SELECT * FROM v;\n",
    )?;
    ran.has(&["seven\n7\n"])?;
    let ran = place.run_with_input(&["-q", "--rc", "nowhere.sql"], "SELECT 1;\n")?;
    if ran.status != Some(1) || !ran.err.contains("nowhere.sql") {
        return Err(ran.text().into());
    }
    Ok(())
}

trial!(about);
fn about(place: &Place) -> Result<(), Failed> {
    place
        .run(&["--version"])?
        .has(&["tiledb-sql", env!("CARGO_PKG_VERSION"), "DataFusion 55"])?;
    place.run(&["--help"])?.has(&[
        "Examples:",
        "CREATE EXTERNAL TABLE",
        "STORED AS TILEDB",
        "tiledb.timestamp",
        "EXPLAIN ANALYZE",
        "Exit status",
        "--format",
    ])
}

trial!(failures);
fn failures(place: &Place) -> Result<(), Failed> {
    fs::create_dir(place.0.join("empty"))?;
    let array = path("weather_stations");
    let group = place.0.join("group");
    fs::create_dir_all(group.join("__group"))?;
    fs::write(group.join("__tiledb_group.tdb"), "")?;
    for (sql, words) in [
        ("SELECT * FROM './nowhere'".to_owned(), vec!["nowhere"]),
        ("SELECT * FROM './empty'".to_owned(), vec!["empty"]),
        (
            "SELECT * FROM './group'".to_owned(),
            vec!["group", "TileDB group"],
        ),
        ("SELEC 1".to_owned(), vec!["SELEC"]),
        (format!("SELECT nothing FROM '{array}'"), vec!["nothing"]),
        (
            format!("SELECT * FROM '{array}' WHERE station > 5"),
            vec!["Bergen", "Int64"],
        ),
        (
            format!("SELECT * FROM '{array}?timestamp=noon'"),
            vec!["tiledb.timestamp", "noon"],
        ),
        (
            format!(
                "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{array}' OPTIONS ('tiledb.color' 'red')"
            ),
            vec!["color", "tiledb.timestamp"],
        ),
        (
            format!("SELECT * FROM '{}'", path("encrypted_sparse")),
            vec!["encrypted"],
        ),
        (
            format!("SELECT * FROM '{}'", path("delete_dropped")),
            vec!["delete"],
        ),
        (
            format!("DELETE FROM '{}' WHERE a > 3", path("quickstart_dense")),
            vec!["DELETE", "dense"],
        ),
    ] {
        let ran = place.run(&[
            "-q",
            "--format",
            "csv",
            "-c",
            "SELECT 1 AS a",
            "-c",
            &sql,
            "-c",
            "SELECT 2",
        ])?;
        ran.failed("a\n1\n", &words)
            .map_err(|e| format!("{sql}: {}", e.message().unwrap_or_default()))?;
    }
    Ok(())
}

trial!(long_chains);
/// Chains of ten thousand conditions and more are answered, and those that are too long for the stack are refused.
fn long_chains(place: &Place) -> Result<(), Failed> {
    let array = path("elevation");
    let asked = |condition: String, expected: &str| {
        let sql = format!("SELECT count(*) AS n FROM '{array}' WHERE {condition};");
        let ran = place.run_with_input(&["-q", "--format", "csv"], &sql)?;
        ran.gave(&format!("n\n{expected}\n"))
    };
    let chain = |term: &dyn Fn(u32) -> String, terms, by: &str| {
        let terms = (0..terms).map(term).collect::<Vec<_>>();
        terms.join(by)
    };
    let listed = place.run(&[
        "-q",
        "--format",
        "csv",
        "-c",
        &format!("SELECT count(*), count(*) FILTER (WHERE y IN (3, 5)), count(*) FILTER (WHERE x = y) FROM '{array}'"),
    ])?;
    let counts = listed.out.lines().last().unwrap_or_default();
    let [all, of_two, on_diagonal] = counts.split(',').collect::<Vec<_>>()[..] else {
        return Err(listed.text().into());
    };
    // Far from all others, so that the list isn't a range.
    let equal = |i: u32| format!("y = {}", if i < 2 { 3 + 2 * i } else { 1_000 + 2 * i });
    asked(chain(&equal, 10_000, " OR "), of_two)?;
    let others = |i: u32| format!("{} <> y", 1_000 + 2 * i);
    asked(chain(&others, 10_000, " AND "), all)?;
    let pairs = |i: u32| format!("(x = {i} AND y = {i})");
    asked(chain(&pairs, 300, " OR "), on_diagonal)?;

    let sum = |terms| format!("SELECT {} AS n;", chain(&|_| "1".to_owned(), terms, "+"));
    let ran = place.run_with_input(&["-q", "--format", "csv"], &sum(200))?;
    ran.gave("n\n200\n")?;
    let ran = place.run_with_input(&["-q"], &sum(20_002))?;
    ran.failed("", &["20001 operators in one chain"])
}

trial!(damage);
fn damage(place: &Place) -> Result<(), Failed> {
    let mut files = Files::golden("weather_stations");
    let data = files.find("a3_var.tdb");
    files.edit(&data, |file| file.truncate(file.len() / 2));
    files.write(&place.0.join("cut"));
    let name = data.rsplit('/').next().unwrap_or_default();
    place
        .run(&["-q", "--format", "csv", "-c", "SELECT * FROM './cut'"])?
        .failed("", &[name, "truncated", "cut"])?;
    // The other columns are as good as ever.
    let sql = "SELECT count(temperature) AS n FROM './cut'";
    place
        .run(&["-q", "--format", "csv", "-c", sql])?
        .gave("n\n2000\n")?;
    // A commit whose fragment is gone: still an array, and the message says what it misses.
    let mut files = Files::golden("weather_stations");
    files
        .0
        .retain(|path, _| !path.contains("__fragments/__1000_1000_"));
    files.write(&place.0.join("gone"));
    let words = [
        "corrupt data",
        "__fragments/__1000_1000_",
        "does not exist",
        "gone",
    ];
    place
        .run(&["-q", "-c", "SELECT * FROM './gone'"])?
        .failed("", &words)
}

trial!(groups);
fn groups(place: &Place) -> Result<(), Failed> {
    let group = crate::support::fixtures::root()
        .join("groups/experiment")
        .display()
        .to_string();
    let attach = format!("/* a group */\nATTACH '{group}' AS exp;");
    let csv = ["-q", "--format", "csv"];
    let with = |more: &[&str]| {
        let more = more.iter().flat_map(|sql| ["-c", sql]);
        place.run(&csv.into_iter().chain(more).collect::<Vec<_>>())
    };
    let count = "SELECT count(*) AS n FROM exp.ms.\"RNA/var\"";
    with(&[&attach, count])?.gave("n\n2\n")?;
    with(&[&format!("{attach} {count}; DETACH exp;")])?.gave("n\n2\n")?;
    let listed = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = 'exp' AND table_schema LIKE 'ms%' ORDER BY 1";
    with(&[&attach, listed])?
        .gave("table_schema,table_name\nms/RNA,var\nms/RNA/X,data\nms/protein,var\n")?;
    with(&[&attach, "\\d exp.obs"])?.has(&["soma_joinid", "cell_type"])?;
    place.run(&["-c", &attach])?.has(&["0 row(s) fetched"])?;
    let dated = format!("ATTACH '{group}' (timestamp '2100-01-01')");
    with(&[
        &dated,
        "SELECT count(*) AS n FROM experiment.ms.\"RNA/var\"",
    ])?
    .gave("n\n2\n")?;
    with(&[&attach, "DETACH exp; SELECT * FROM exp.obs"])?.failed("", &["exp"])?;
    with(&[&attach, &attach])?.failed("", &["already exists: the catalog \"exp\""])?;
    with(&["ATTACH 'nowhere' AS x"])?.failed("", &["not found: no group is here", "nowhere"])?;
    with(&["ATTACH 'x' AS"])?.failed("", &["expected a name"])?;
    with(&["ATTACH 'x' AS y (aws.region 'z')"])?.failed("", &["options of an object store"])?;
    let member = format!("SELECT * FROM '{group}'");
    with(&[&member])?.failed("", &["TileDB group", "obs (array)", "ATTACH"])?;
    let script = format!(
        "ATTACH '{group}' AS exp;\nSELECT 1 AS a;\nDETACH nothing;\nSELECT count(*) AS n FROM exp.obs;\n"
    );
    place.run_with_input(&csv, &script)?.failed(
        "a\n1\nn\n4\n",
        &["stdin, line 3", "no group is attached as \"nothing\""],
    )
}

trial!(broken_pipe);
fn broken_pipe(place: &Place) -> Result<(), Failed> {
    let array = path("weather_stations");
    let sql = format!("SELECT * FROM '{array}' a CROSS JOIN '{array}' b");
    let mut child = place
        .command(&["-q", "--format", "csv", "-c", &sql])
        .spawn()?;
    // The reader reads nothing and goes.
    drop(child.stdout.take());
    let ran = ran(child.wait_with_output()?);
    if ran.err.is_empty() && ran.status.is_some() {
        return Ok(());
    }
    Err(ran.text().into())
}

trial!(names);
fn names(place: &Place) -> Result<(), Failed> {
    for name in [
        "größe 100% #1",
        "arrays/日本語",
        "it's",
        "a+b?c",
        "deep/er/w.x_y",
    ] {
        place.array("quickstart_sparse", name)?;
        let quoted = name.replace('\'', "''");
        let create = format!("CREATE EXTERNAL TABLE q STORED AS TILEDB LOCATION '{quoted}'");
        let ran = place.run(&[
            "-q",
            "--format",
            "csv",
            "-c",
            &create,
            "-c",
            "SELECT sum(a) AS s FROM q",
        ])?;
        ran.gave("s\n6\n")
            .map_err(|e| format!("{name}: {}", e.message().unwrap_or_default()))?;
        for sql in [
            "EXPLAIN SELECT * FROM q",
            "EXPLAIN FORMAT INDENT SELECT * FROM q",
            "EXPLAIN ANALYZE SELECT * FROM q",
        ] {
            place
                .run(&["-q", "-c", &create, "-c", sql])?
                .has(&["DataSourceExec"])?;
        }
        if name.contains('?') {
            continue; // In a table name the question mark begins options.
        }
        let absolute = place.0.join(name).display().to_string().replace('\'', "''");
        for path in [format!("./{quoted}"), format!("./{quoted}/"), absolute] {
            let sql = format!("SELECT sum(a) AS s FROM '{path}'");
            let ran = place.run(&["-q", "--format", "csv", "-c", &sql])?;
            ran.gave("s\n6\n")
                .map_err(|e| format!("{path}: {}", e.message().unwrap_or_default()))?;
            place
                .run(&["-q", "-c", &format!("EXPLAIN {sql}")])?
                .has(&["DataSourceExec"])?;
        }
    }
    Ok(())
}

trial!(other_files);
/// Parquet, CSV and JSON are read and written as in datafusion-cli, and joined with arrays.
fn other_files(place: &Place) -> Result<(), Failed> {
    let array = path("weather_stations");
    for (extension, header) in [
        ("parquet", ""),
        ("csv", " OPTIONS ('format.has_header' 'true')"),
        ("json", ""),
    ] {
        let file = format!("stations.{extension}");
        let copy = format!(
            "COPY (SELECT DISTINCT station, upper(station) AS loud FROM '{array}') TO '{file}'{header}"
        );
        place.run(&["-q", "-c", &copy])?.has(&[])?;
        assert!(Path::new(&place.0.join(&file)).exists());
        let join = format!(
            "SELECT count(*) AS n, count(DISTINCT s.loud) = count(DISTINCT w.station) AS same
             FROM '{array}' w JOIN '{file}' s ON s.station = w.station"
        );
        place
            .run(&["-q", "--format", "csv", "-c", &join])?
            .gave("n,same\n2000,true\n")?;
    }
    Ok(())
}
