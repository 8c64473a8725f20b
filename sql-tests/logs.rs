//! What the program's log tells, seen through the shell: enough to see what is opened, planned and broken, and no secrets.

use libtest_mimic::{Failed, Trial};

use crate::encryption::{KEY, keeps_secrets};
use crate::shell::{Place, path, ran, shell_trial};
use crate::workshop::Files;

pub fn trials() -> Vec<Trial> {
    vec![
        shell_trial("log_of_a_query", of_a_query),
        shell_trial("log_without_secrets", without_secrets),
    ]
}

/// What goes to stderr besides the answer.
fn told(place: &Place, level: &str, sql: &str) -> Result<String, Failed> {
    let mut command = place.command(&["-q", "--format", "csv", "-c", sql]);
    let command = command
        .env("RUST_LOG", format!("datafusion_tiledb={level}"))
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

fn without_secrets(place: &Place) -> Result<(), Failed> {
    let sql = format!("SELECT * FROM '{}'", path("encrypted_sparse"));
    let trace = told(place, "trace", &sql)?;
    expect(&trace, &["encrypted_sparse", "opened as of"])?;
    keeps_secrets("the log", &trace)
}
