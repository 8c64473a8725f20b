//! What the program's log tells, seen through the shell: enough to see what is opened, planned and broken, and no secrets.

use libtest_mimic::Failed;

use crate::hostile::encryption::{KEY, keeps_secrets};
use crate::support::array_files::Files;
use crate::support::shell_place::{Place, path, ran};

/// What goes to stderr besides the answer.
fn told(place: &Place, level: &str, sql: &str) -> Result<String, Failed> {
    let mut command = place.command(&["-q", "--format", "csv", "-c", sql]);
    let command = command
        .env(
            "RUST_LOG",
            format!("datafusion_tiledb={level},tiledb_engine={level}"),
        )
        .env("TILEDB_ENCRYPTION_KEY", KEY);
    let ran = ran(command.output()?);
    match ran.status {
        Some(0) => Ok(ran.err),
        _ => Err(ran.err.into()),
    }
}

fn expect(text: &str, words: &[&str]) -> Result<(), Failed> {
    match words.iter().find(|word| !text.contains(*word)) {
        Some(word) => Err(format!("\"{word}\" is missing in: {text}").into()),
        None => Ok(()),
    }
}

trial!(of_a_query);
fn of_a_query(place: &Place) -> Result<(), Failed> {
    let array = path("rtree_three_levels");
    let sql = format!("SELECT a FROM '{array}' WHERE x = 1 AND y = 461");
    let debug = told(place, "debug", &sql)?;
    expect(
        &debug,
        &[
            &array,
            "opened as of",
            "1 fragments",
            " units, ",
            "outside the ranges",
        ],
    )?;
    assert!(!debug.contains("TRACE"), "{debug}");
    let trace = told(place, "trace", &sql)?;
    expect(&trace, &["List ", "Range ", "a0.tdb at ", "was not held"])?;
    assert_eq!(told(place, "warn", &sql)?, "");

    let mut broken = Files::golden("weather_stations");
    let enumeration = broken.find("__enumerations/");
    broken.0.remove(&enumeration);
    broken.write(&place.0.join("broken"));
    let warned = told(place, "warn", "SELECT count(*), max(wind) FROM './broken'")?;
    expect(
        &warned,
        &[
            "WARN",
            "the attribute \"condition\" cannot be read",
            "broken",
        ],
    )?;
    assert_eq!(warned.matches("\"condition\"").count(), 1, "{warned}");
    Ok(())
}

trial!(without_secrets);
fn without_secrets(place: &Place) -> Result<(), Failed> {
    let sql = format!("SELECT * FROM '{}'", path("encrypted_sparse"));
    let trace = told(place, "trace", &sql)?;
    expect(&trace, &["encrypted_sparse", "opened as of"])?;
    keeps_secrets("the log", &trace)
}

trial!(nowhere);
/// A secret in every statement that takes one, in the right form or not: it is in no answer, no message and no log at its most
/// talkative. Whether the statement fails is of no concern here.
fn nowhere(place: &Place) -> Result<(), Failed> {
    const MARK: &str = "Zq7mark3d";
    place.array("encrypted_dense", "t")?;
    place.array("quickstart_sparse", "plain")?;
    let key = format!("{MARK}{}", &KEY[..32 - MARK.len()]);
    let functions = [
        "scan",
        "array",
        "schema",
        "enumerations",
        "metadata",
        "fragments",
        "tiles",
        "commits",
        "members",
        "check",
        "consolidate",
        "vacuum",
        "diff",
        "evolve",
    ];
    let mut statements: Vec<String> = functions
        .iter()
        .map(|name| format!("SELECT * FROM tiledb_{name}('./t', 'tiledb.encryption_key', '{key}')"))
        .collect();
    let more = [
        "CREATE VIEW v AS SELECT * FROM tiledb_scan('./t', 'tiledb.encryption_key', '$K'); SHOW CREATE TABLE v; SELECT * FROM information_schema.views",
        "SELECT * FROM tiledb_scan('./t', encryption_key => '$K')",
        "SELECT * FROM tiledb_scan('./t', '$K')",
        "SELECT * FROM tiledb_scan('./t', '$K', 'tiledb.encryption_key')",
        "EXPLAIN VERBOSE SELECT * FROM tiledb_scan('./t', 'encryption_key', '$K')",
        "SELECT * FROM './t?encryption_key=$K'",
        "CREATE EXTERNAL TABLE x STORED AS TILEDB LOCATION './t' OPTIONS ('tiledb.encryption_key' '$K')",
        "CREATE EXTERNAL TABLE x STORED AS TILEDB LOCATION './t' OPTIONS ('tiledb.encrytion_key' '$K')",
        "CREATE EXTERNAL TABLE x STORED AS TILEDB LOCATION './t' OPTIONS ('tiledb.encryption_key' $K)",
        "CREATE EXTERNAL TABLE x STORED AS TILEDB LOCATION './t' OPTIONS (encryption_key $K x)",
        "CREATE EXTERNAL TABLE x STORED AS TILEDB LOCATION 'az://u:$K@h/t'",
        "CREATE EXTERNAL TABLE x STORED AS TILEDB LOCATION './t' OPTIONS ('aws.secret_access_key' '$K')",
        "ATTACH 'az://u:$K@h/g' AS g",
        "ATTACH 's3://u:a/$K@h/g' AS g",
        "ATTACH 'https://h/g?sig=$K' AS g",
        "ATTACH './plain' AS g (encryption_key '$K')",
        "ATTACH './plain' AS g (encryption_key $K 5)",
        "ATTACH './plain' AS g (aws.secret_access_key '$K')",
        "ATTACH './plain' AS g (encryption_key $K)",
        "ATTACH './plain' AS g (encryption_key 12$K)",
        "ATTACH './plain' AS g (encryption_key ab-$K)",
        "ATTACH './plain' AS g (encryption_key 'ab'$K)",
        "ATTACH './plain' AS g (encryption_key ab $K, read_only)",
        "ATTACH './plain' AS g (encryption_key = [$K])",
        "ATTACH './plain' AS g ($K)",
        "ATTACH './plain' AS g OPTIONS (aws.secret_access_key 12/$K+x)",
        "ATTACH './plain' AS g (encryption_key '$K",
        "ALTER TABLE './plain' SET TBLPROPERTIES ('tiledb.encryption_key' = 12$K)",
        "ALTER TABLE './plain' SET TBLPROPERTIES ('tiledb.encryption_key' $K)",
        "ALTER TABLE './plain' SET TBLPROPERTIES ('tiledb.encryption_key' = 'ab'$K)",
        "CREATE EXTERNAL TABLE x STORED AS TILEDB LOCATION './t' OPTIONS ('tiledb.encryption_key' 12$K)",
        "CREATE EXTERNAL TABLE x STORED AS TILEDB LOCATION './t' OPTIONS (tiledb.encryption_key ab-$K)",
        "CREATE EXTERNAL TABLE x STORED AS TILEDB LOCATION './t' OPTIONS ('aws.secret_access_key' ab/$K+c)",
        "COPY (SELECT 1 AS x) TO './c' STORED AS TILEDB OPTIONS (tiledb.encryption_key 12$K)",
        "COPY (SELECT 1 AS x) TO './c' STORED AS TILEDB OPTIONS ('tiledb.encryption_key' 'ab' $K)",
        "SELECT * FROM 's3://u:$K@h/t'",
        "SELECT * FROM 's3://h/t?sig=$K'",
        "EXPLAIN SELECT * FROM 'https://u:$K@h/t.csv'",
        "COPY (SELECT 1 AS x) TO './c' STORED AS TILEDB OPTIONS ('tiledb.encryption_key' '$K')",
        "SET tiledb.encryption_key = '$K'; SHOW ALL; SELECT * FROM information_schema.df_settings",
        "SET tiledb.external_members = 'https://u:$K@h/'; SHOW ALL",
        "CREATE EXTERNAL TABLE e STORED AS TILEDB LOCATION './t' OPTIONS ('tiledb.encryption_key' '$GOOD'); EXPLAIN ANALYZE VERBOSE SELECT * FROM e; SHOW CREATE TABLE e; SHOW ALL VERBOSE",
    ];
    statements.extend(more.map(|sql| sql.replace("$K", &key).replace("$GOOD", KEY)));
    for sql in &statements {
        let mut command = place.command(&["-c", sql]);
        command.env("RUST_LOG", "trace");
        let told = ran(command.output()?).text();
        assert!(!told.contains(MARK), "{sql}: {told}");
        keeps_secrets(sql, &told)?;
    }
    Ok(())
}
