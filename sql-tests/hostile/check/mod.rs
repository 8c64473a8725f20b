//! The auditor: every golden array passes, because what libtiledb wrote is without errors, whatever its oddities; and each damage is
//! found where it is.

mod damages;
mod forge;
mod invocations;
mod statistics;

use std::collections::BTreeSet;
use std::path::PathBuf;

use datafusion::prelude::SessionContext;
use datafusion_tiledb::{Array, TileDbTable};
use futures::TryStreamExt;
use libtest_mimic::Failed;
use serde_json::Value;
use tiledb_engine::maintain::check::{CheckOptions, Finding, Severity, check};
use tiledb_engine::storage::{Location, Storage};

use crate::support::array_files::Files;
use crate::support::golden;
use crate::support::trials::SqlTrial;
use crate::trial;

trials!(golden_arrays());

/// What is found at a place.
pub async fn findings(
    location: Location,
    options: CheckOptions,
) -> Result<Vec<Finding>, datafusion_tiledb::Error> {
    check(Storage::new(location), options).try_collect().await
}

/// What is found in files.
pub async fn of_files(files: &Files) -> Vec<Finding> {
    let found = findings(files.in_memory().await, CheckOptions::default()).await;
    found.expect("memory does not fail")
}

/// The arrays with findings that aren't leftovers: the rules, and why.
const FINDINGS: [(&str, &[&str], &str); 21] = [
    (
        "delete_dropped",
        &["delete-field"],
        "the attribute of a delete was dropped, and libtiledb cannot read the array either",
    ),
    (
        "v17_bitsort_lost_",
        &["unreadable-tile"],
        "libtiledb did not keep the coordinates behind bitsort",
    ),
    (
        "refused_ascii",
        &["invalid-text"],
        "it has bytes that aren't text",
    ),
    (
        "refused_utf8",
        &["invalid-text"],
        "it has bytes that aren't text",
    ),
    (
        "refused_utf16",
        &["invalid-text"],
        "it has bytes that aren't text",
    ),
    (
        "refused_utf32",
        &["invalid-text"],
        "it has bytes that aren't text",
    ),
    (
        "sparse_strings_high_bytes",
        &["signed-string-order"],
        "libtiledb orders strings by signed bytes",
    ),
    (
        "sparse_strings_high_bytes_tiles",
        &["signed-string-order"],
        "libtiledb orders strings by signed bytes",
    ),
    ("delete_by_codes", &["unknown-code"], CODES),
    ("delete_by_labels", &["unknown-code"], CODES),
    ("delete_by_ordered_labels", &["unknown-code"], CODES),
    ("delete_enumeration_extended", &["unknown-code"], CODES),
    ("encrypted_enumerations", &["unknown-code"], CODES),
    ("enum_boolean_codes", &["unknown-code"], CODES),
    ("enum_empty", &["unknown-code"], CODES),
    ("enum_extended", &["unknown-code"], CODES),
    ("enum_numbers", &["unknown-code"], CODES),
    ("enum_numbers_dense", &["unknown-code"], CODES),
    ("enum_numbers_extended", &["unknown-code"], CODES),
    ("enum_values", &["unknown-code"], CODES),
    ("enum_strings", &["unknown-code"], CODES),
];
const CODES: &str = "it has codes outside of the enumeration";

fn golden_arrays() -> Vec<SqlTrial> {
    let all = golden::arrays().into_iter();
    all.map(|(folder, entry)| {
        let name = entry["name"].as_str().unwrap_or_default().to_owned();
        trial(format!("golden::{name}"), move || {
            crate::block_on(passes(folder.join(&name), entry))
        })
    })
    .collect()
}

async fn passes(array: PathBuf, entry: Value) -> Result<(), Failed> {
    let name = array.file_name().unwrap_or_default().to_string_lossy();
    let mut builder = TileDbTable::builder(array.display().to_string());
    for (key, value) in golden::options(&entry) {
        builder = builder.option(&key, &value)?;
    }
    let mut check = Array::check(builder.storage()?, CheckOptions::default())?;
    let mut found = Vec::new();
    while let Some(finding) = check.try_next().await? {
        if finding.severity() != Severity::Leftover {
            found.push(finding);
        }
    }
    let known = FINDINGS
        .iter()
        .find(|(known, _, _)| match known.strip_suffix('_') {
            Some(_) => name.starts_with(known),
            None => *known == name,
        });
    let rules: BTreeSet<&str> = found.iter().map(|f| f.rule.name()).collect();
    let expected: BTreeSet<&str> = known
        .iter()
        .flat_map(|(_, rules, _)| *rules)
        .copied()
        .collect();
    if rules != expected {
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        return Err(format!("expected {expected:?}\n{}", shown.join("\n")).into());
    }
    Ok(())
}

trial!(interrupted_vacuum);
/// A vacuum that stops between its list of ignored fragments and the removal of their commits leaves nothing that worries.
async fn interrupted_vacuum() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("a").display().to_string();
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    let run = async |sql: &str| {
        let sql = sql.replace('$', &place);
        datafusion_tiledb::execute(&ctx, &sql)
            .await?
            .collect()
            .await
    };
    for sql in [
        "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$'",
        "INSERT INTO t VALUES (1, 1)",
        "INSERT INTO t VALUES (2, 2)",
        "SELECT * FROM tiledb_consolidate('$', mode => 'commits')",
        "SELECT * FROM tiledb_consolidate('$')",
    ] {
        run(sql).await?;
    }
    let commits = folder.path().join("a/__commits");
    let before = Files::of(&folder.path().join("a"));
    run("SELECT * FROM tiledb_vacuum('$', min_age => '0')").await?;
    let after = Files::of(&folder.path().join("a"));
    let ignores = after.0.keys().filter(|path| path.ends_with(".ign"));
    if ignores.count() != 1 {
        return Err("the vacuum writes no list of ignored fragments".into());
    }
    // All that the vacuum removed is there again.
    before.write(&folder.path().join("a"));
    let found = of_files(&Files::of(&folder.path().join("a"))).await;
    let worrying: Vec<_> = found
        .iter()
        .filter(|finding| finding.severity() != Severity::Leftover)
        .map(ToString::to_string)
        .collect();
    // Commits in a list and in files of their own are there with or without the vacuum.
    if worrying
        .iter()
        .any(|line| !line.contains("committed-twice"))
    {
        return Err(worrying.join("\n").into());
    }
    // Without the list of what is replaced, the same files are a warning.
    for entry in std::fs::read_dir(commits)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "vac") {
            std::fs::remove_file(path)?;
        }
    }
    let found = of_files(&Files::of(&folder.path().join("a"))).await;
    if !found
        .iter()
        .any(|finding| finding.rule.name() == "ignored-and-committed")
    {
        return Err("nothing is found without the list of replaced fragments".into());
    }
    Ok(())
}
