//! Every format can print the report of a statement: a statement that has changed something doesn't fail over a list in its
//! report.

use libtest_mimic::{Failed, Trial};

use crate::shell::{Place, Test, shell_trial};

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 2] = [
        ("changes_in_every_format", changes_in_every_format),
        ("nested_values", nested_values),
    ];
    tests
        .into_iter()
        .map(|(name, test)| shell_trial(name, test))
        .collect()
}

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
    "SELECT * FROM tiledb_vacuum('./t')",
    "SELECT * FROM tiledb_create_group('./g')",
    "SELECT * FROM tiledb_add_member('./g', '../t', name => 't')",
    "SELECT * FROM tiledb_remove_member('./g', 't')",
    "SELECT * FROM tiledb_check('./t')",
];

fn changes_in_every_format(place: &Place) -> Result<(), Failed> {
    for format in FORMATS {
        let place = Place(place.0.join(format));
        std::fs::create_dir(&place.0)?;
        let create = "CREATE EXTERNAL TABLE t (k INT NOT NULL, v INT, e VARCHAR, PRIMARY KEY (k)) STORED AS TILEDB \
             LOCATION './t' OPTIONS ('tiledb.attr.e.enumeration' '[\"a\"]')";
        let statements = CHANGES.iter().flat_map(|sql| ["-c", *sql]);
        let arguments = ["-q", "--format", format, "-c", create];
        let arguments = arguments.into_iter().chain(statements).collect::<Vec<_>>();
        let ran = place.run(&arguments)?;
        assert!(
            ran.status == Some(0) && ran.err.is_empty(),
            "{format}: {}",
            ran.err
        );
    }
    Ok(())
}

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
