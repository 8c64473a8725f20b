//! What the shell prints of results. Every format can print the report of a statement: a statement that has changed something
//! doesn't fail over a list in its report.

use libtest_mimic::Failed;

use crate::support::shell_place::Place;

const FORMATS: [&str; 6] = ["csv", "tsv", "table", "json", "nd-json", "markdown"];

/// The statements that change something and report it. In this order, each has something to change.
const CHANGES: [&str; 13] = [
    "INSERT INTO './t' VALUES (1, 1, 'a'), (2, 2, 'a')",
    "UPDATE './t' SET v = 3 WHERE k = 1",
    "DELETE FROM './t' WHERE k = 2",
    "SELECT * FROM tiledb_evolve('./t', add => 'w INT')",
    "SELECT * FROM tiledb_extend_enumeration('./t', 'e', ['b'])",
    "SELECT * FROM tiledb_set_metadata('./t', 'key', 'value')",
    "SELECT * FROM tiledb_delete_metadata('./t', 'key')",
    "SELECT * FROM tiledb_consolidate('./t')",
    "SELECT * FROM tiledb_vacuum('./t', min_age => '0')",
    "SELECT * FROM tiledb_create_group('./g')",
    "SELECT * FROM tiledb_add_member('./g', '../t', name => 't')",
    "SELECT * FROM tiledb_remove_member('./g', 't')",
    "SELECT * FROM tiledb_check('./t')",
];

trial!(changes_in_every_format);
fn changes_in_every_format(place: &Place) -> Result<(), Failed> {
    for format in FORMATS {
        let place = Place(place.0.join(format));
        std::fs::create_dir(&place.0)?;
        let create = "CREATE EXTERNAL TABLE t (k INT NOT NULL, v INT, e VARCHAR, PRIMARY KEY (k)) STORED AS TILEDB \
             LOCATION './t' OPTIONS ('tiledb.attr.e.enumeration' '[\"a\"]')";
        let statements = CHANGES.iter().flat_map(|sql| ["-c", *sql]);
        let arguments = ["-q", "--format", format, "-c", create]
            .into_iter()
            .chain(statements)
            .collect::<Vec<_>>();
        let ran = place.run(&arguments)?;
        assert!(
            ran.status == Some(0) && ran.err.is_empty(),
            "{format}: {}",
            ran.err
        );
    }
    Ok(())
}

trial!(nested_values);
fn nested_values(place: &Place) -> Result<(), Failed> {
    let sql = "SELECT [1, NULL] AS l, struct('a,b' AS s, 1.5 AS n) AS r, [[1], []] AS ll, 'x' AS t UNION ALL SELECT NULL, NULL, NULL, NULL ORDER BY t";
    let run = |format| place.run(&["-q", "--format", format, "-c", sql]);
    run("csv")?.gave(concat!(
        "l,r,ll,t\n",
        "\"[1,null]\",\"{\"\"s\"\":\"\"a,b\"\",\"\"n\"\":1.5}\",\"[[1],[]]\",x\n",
        ",,,\n",
    ))?;
    run("tsv")?.gave(concat!(
        "l\tr\tll\tt\n",
        "[1,null]\t\"{\"\"s\"\":\"\"a,b\"\",\"\"n\"\":1.5}\"\t[[1],[]]\tx\n",
        "\t\t\t\n",
    ))
}

trial!(results_for_programs);
/// Programs find the columns of a result that has no rows or no values, and control characters don't move the borders of tables.
fn results_for_programs(place: &Place) -> Result<(), Failed> {
    let none = "SELECT 1 AS a, [1] AS l WHERE false";
    let null = "SELECT 1 AS a, CAST(NULL AS INT) AS b";
    let control = "SELECT 'x' || chr(9) || 'y' || chr(27) AS s";
    for (format, sql, printed) in [
        ("csv", none, "a,l\n"),
        ("tsv", none, "a\tl\n"),
        ("json", none, "[]\n"),
        ("nd-json", none, ""),
        ("csv", null, "a,b\n1,\n"),
        ("json", null, "[{\"a\":1,\"b\":null}]\n"),
        ("nd-json", null, "{\"a\":1,\"b\":null}\n"),
        (
            "table",
            control,
            "+------------+\n| s          |\n| text       |\n+------------+\n| x\\ty\\u{1b} |\n+------------+\n",
        ),
        ("csv", control, "s\nx\ty\u{1b}\n"),
        // A statement without columns prints nothing.
        ("csv", "SET datafusion.execution.batch_size = 100", ""),
        ("json", "SET datafusion.execution.batch_size = 100", ""),
    ] {
        let ran = place.run(&["-q", "--format", format, "-c", sql])?;
        ran.gave(printed)
            .map_err(|e| format!("{format}: {sql}: {e:?}"))?;
    }
    Ok(())
}

trial!(from_without_select);
fn from_without_select(place: &Place) -> Result<(), Failed> {
    let create = "CREATE EXTERNAL TABLE t (k INT NOT NULL, v INT, PRIMARY KEY (k)) STORED AS TILEDB LOCATION './t'";
    let insert = "INSERT INTO t VALUES (1, 10), (2, 20)";
    for (number, sql) in [
        "FROM './t' ORDER BY k",
        "FROM t ORDER BY k LIMIT 5",
        "WITH u AS (FROM t) FROM u ORDER BY k",
        "FROM (FROM t) AS u ORDER BY k",
        "SELECT * FROM (FROM t UNION FROM t) ORDER BY k",
        "FROM t SELECT k, v ORDER BY k",
        "PREPARE p AS FROM t ORDER BY k; EXECUTE p",
        "CREATE VIEW w AS FROM t; FROM w ORDER BY k",
        "CREATE TABLE m AS FROM t; FROM m ORDER BY k",
        "COPY (FROM t) TO './c.parquet'; FROM './c.parquet' ORDER BY k",
        "INSERT INTO t FROM t; FROM t ORDER BY k",
    ]
    .iter()
    .enumerate()
    {
        let place = Place(place.0.join(number.to_string()));
        std::fs::create_dir(&place.0)?;
        let ran = place.run(&[
            "-q", "--format", "csv", "-c", create, "-c", insert, "-c", sql,
        ])?;
        let rows = ran.out.rsplit_once("k,v\n").map(|(_, rows)| rows);
        assert_eq!(rows, Some("1,10\n2,20\n"), "{sql}: {}", ran.text());
    }
    Ok(())
}

trial!(scripts_of_windows);
/// Editors of Windows begin files with a byte order mark.
fn scripts_of_windows(place: &Place) -> Result<(), Failed> {
    std::fs::write(
        place.0.join("s.sql"),
        "\u{feff}SELECT 1 AS a;\r\nSELECT 2 AS a;\r\n",
    )?;
    let ran = place.run(&["-q", "--format", "csv", "-f", "s.sql"])?;
    ran.gave("a\n1\na\n2\n")?;
    std::fs::write(
        place.0.join("t.sql"),
        "SELECT 1 AS a;\n\u{feff}SELECT 2 AS a;\n",
    )?;
    let ran = place.run(&["-q", "-f", "t.sql"])?;
    assert_ne!(ran.status, Some(0), "a mark inside of a script is no mark");
    Ok(())
}
