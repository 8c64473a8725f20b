//! Every golden array of several fragments is consolidated, and reads as before, at all times; then vacuumed, and reads as
//! before; and the auditor finds no error. Lists of what was or would be done agree. One array of eight is tried;
//! `GOLDEN=each` tries each.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::register;
use libtest_mimic::Failed;
use serde_json::Value;
use tiledb_engine::format::commit::{CommitEntryKind, parse_consolidated_commits};
use tiledb_engine::format::delete_condition::DeleteCondition;

use crate::support::array_files::{Files, METADATA_FILE, contents, nested_delete};
use crate::support::shell_place::{Place, Ran};
use crate::support::trials::{SqlTrial, in_group};
use crate::support::{golden, neutral_rows};

/// Why fragments may stay as they are: parts of messages.
const REFUSED: [&str; 4] = [
    "has NaN as its coordinate",
    "filter bitsort is read, but not written",
    "cannot be written by this release",
    // The attribute of a delete was dropped; libtiledb cannot read the array either.
    "which the array's schema no longer has",
];

/// Arrays whose windows of time show something else afterwards, and why.
const HISTORY_LOST: [(&str, &str); 5] = [
    ("_consolidated_sparse", BY_CELL),
    ("_kept_dups", BY_CELL),
    ("evolved", DROPPED),
    ("upgraded", DROPPED),
    ("dropped", DROPPED),
];
const BY_CELL: &str = "windows that begin in the middle of a merged fragment of old formats show nothing of it, and its cells now";
const DROPPED: &str = "attributes that were dropped later are not in the merged fragment";

trials!(wholly_consolidated());

fn wholly_consolidated() -> Vec<SqlTrial> {
    let trials = golden::on_one_of(16, 1, |array, entry| async move {
        refused_or(whole(&array, &entry).await)
    });
    in_group("golden", trials)
}

trials!(newest_consolidated());

/// Others than those that are consolidated with all times.
fn newest_consolidated() -> Vec<SqlTrial> {
    let trials = golden::on_one_of(16, 10, |array, entry| async move {
        refused_or(newest(&array, &entry).await)
    });
    in_group("newest", trials)
}

/// The columns of a report, which CSV names without rows, too.
const REPORT_HEADER: &str =
    "mode,action,object,inputs,bytes_read,bytes_written,bytes_freed,gain,outcome\n";

trial!(in_the_shell);
/// The subcommands print what the functions give; `check --repair` removes what is old enough, and nothing else.
fn in_the_shell(place: &Place) -> Result<(), Failed> {
    place.array(SEVERAL, "a")?;
    let contains = |ran: &Ran, words: &[&str]| match ran.status {
        Some(0) if words.iter().all(|word| ran.out.contains(word)) => Ok(()),
        _ => Err(Failed::from(format!("{words:?}: {}", ran.text()))),
    };
    let planned = ["-q", "--format", "csv", "consolidate", "a", "--dry-run"];
    contains(
        &place.run(&planned)?,
        &["5 fragments become 1", ",planned\n"],
    )?;
    let done = ["-q", "--format", "csv", "consolidate", "a", "--verify"];
    contains(&place.run(&done)?, &["5 fragments become 1", ",done\n"])?;
    let kept = place.run(&["-q", "--format", "csv", "vacuum", "a"])?;
    contains(
        &kept,
        &[
            "fragments,remove,__fragments/__1000_1000_",
            "skipped: it was replaced less than 10 minutes ago, and queries may still read it",
        ],
    )?;
    let removed = ["-q", "--format", "csv", "vacuum", "a", "--min-age", "0"];
    contains(
        &place.run(&removed)?,
        &["fragments,remove,__fragments/__1000_1000_", ",done\n"],
    )?;
    place
        .run(&["consolidate", "a", "--mode", "cells"])?
        .failed("", &["the mode 'cells' is unknown"])?;
    // Leftovers of writers, one of which may still be at work.
    let orphan = place
        .0
        .join("a/__fragments/__7_7_0123456789abcdef0123456789abcdef_22");
    std::fs::create_dir_all(&orphan)?;
    std::fs::write(orphan.join("a0.tdb"), "half")?;
    // The times in the name of a consolidation say nothing of when it ran.
    let empty = orphan.with_file_name("__7_9_0123456789abcdef0123456789abcdef_22");
    std::fs::create_dir(&empty)?;
    std::fs::write(place.0.join("a/__commits.__7_7_x.wrt.staged"), "")?;
    let young = place.run(&["check", "a", "--repair"])?;
    contains(&young, &["0 errors, 0 warnings, 3 leftovers."])?;
    if !orphan.exists() || !empty.exists() {
        return Err("what may belong to a running write was removed".into());
    }
    #[cfg(unix)]
    {
        let times = std::fs::FileTimes::new();
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 86_400);
        std::fs::File::open(&empty)?.set_times(times.set_modified(long_ago))?;
        place.run(&["-q", "check", "a", "--repair", "--min-age", "1 day"])?;
        if !orphan.exists() || empty.exists() {
            return Err("an old empty folder alone is removed".into());
        }
    }
    let repaired = place.run(&[
        "--format",
        "csv",
        "check",
        "a",
        "--repair",
        "--min-age",
        "0",
    ])?;
    contains(
        &repaired,
        &["leftovers,remove,__fragments/__7_7_0123", ".staged,"],
    )?;
    contains(
        &place.run(&["check", "a"])?,
        &["0 errors, 0 warnings, 0 leftovers."],
    )
}

/// Makes an array with a delete of a part of its rows.
const ARRAY_WITH_DELETE: [&str; 7] = [
    "-q",
    "-c",
    "CREATE EXTERNAL TABLE t (x INT NOT NULL, v INT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 'a'",
    "-c",
    "INSERT INTO t SELECT i, i % 3 FROM unnest(range(0, 9)) AS u(i)",
    "-c",
    "DELETE FROM t WHERE x BETWEEN 2 AND 6 AND v = 1",
];

trial!(repairs_deletes);
/// The consolidation finds deletes that libtiledb misreads wherever they are stored, and rewrites them. The array shows the
/// same rows at every time as before.
fn repairs_deletes(place: &Place) -> Result<(), Failed> {
    place.run(&ARRAY_WITH_DELETE)?.has(&[])?;
    let commits = place.0.join("a/__commits");
    let files = |extension: &str| -> Result<Vec<PathBuf>, Failed> {
        let mut paths = fs::read_dir(&commits)?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|found| found == extension));
        Ok(paths)
    };
    for delete in files("del")? {
        fs::write(&delete, nested_delete(&fs::read(&delete)?))?;
    }
    let listed = ["-q", "consolidate", "a", "--mode", "commits"];
    place.run(&listed)?.has(&["which lists 2 commits"])?;
    let written = files("wrt")?[0]
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .as_deref()
        .and_then(|name| name.split('_').nth(2))
        .unwrap_or_default()
        .to_owned();
    let rows = || -> Result<String, Failed> {
        let then =
            format!("SELECT count(*), sum(x) FROM tiledb_scan('./a', timestamp => '{written}')");
        let now = "SELECT * FROM './a' ORDER BY x";
        let ran = place.run(&["-q", "--format", "csv", "-c", &then, "-c", now])?;
        ran.has(&["9,36\n", "8,2\n"])?;
        Ok(ran.out)
    };
    let before = rows()?;
    let found = place.run(&["check", "a"])?;
    let nested = found.out.matches("error delete-nesting: ").count();
    if found.status != Some(1) || nested != 2 {
        return Err(found.text().into());
    }
    let dry = ["-q", "consolidate", "a", "--mode", "deletes", "--dry-run"];
    place
        .run(&dry)?
        .has(&["rewrite", ".del", ".con", "planned"])?;
    let repaired = place.run(&["-q", "check", "a", "--repair"])?;
    if repaired.out.matches("| rewrite |").count() != 2 || rows()? != before {
        return Err(repaired.text().into());
    }
    place.run(&["check", "a"])?.has(&["0 errors, 0 warnings"])?;
    place
        .run(&[
            "-q",
            "--format",
            "csv",
            "consolidate",
            "a",
            "--mode",
            "deletes",
        ])?
        .gave(REPORT_HEADER)?;
    let list = fs::read(&files("con")?[0])?;
    let mut stored = vec![fs::read(&files("del")?[0])?];
    for entry in parse_consolidated_commits(&list)? {
        if let CommitEntryKind::Delete { range } = entry.kind {
            stored.push(list[range].to_vec());
        }
    }
    let flat = |file: &Vec<u8>| {
        let condition = DeleteCondition::decode_delete(&contents(file)).ok();
        condition.is_some_and(|condition| condition.clone().flat() == condition)
    };
    if stored.len() == 2 && stored.iter().all(flat) {
        Ok(())
    } else {
        Err("the conditions are not flat".into())
    }
}

/// An array of several fragments.
const SEVERAL: &str = "commits_vacuumed";

trial!(beside_a_query);
/// A query that was planned before sees what it saw, while fragments are merged and commits are listed.
async fn beside_a_query() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("array");
    Files::golden(SEVERAL).write(&copy);
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    register(&ctx)?;
    let sql = format!("SELECT * FROM '{}'", copy.display());
    let planned = ctx.sql(&sql).await?.create_physical_plan().await?;
    let before = neutral_rows::rows(&ctx.sql(&sql).await?.collect().await?);
    let nothing = Value::Null;
    let done = care("tiledb_consolidate", &copy, &nothing, "").await?;
    care("tiledb_consolidate", &copy, &nothing, ", mode => 'commits'").await?;
    care("tiledb_vacuum", &copy, &nothing, ", min_age => '1 hour'").await?;
    let late = neutral_rows::rows(&collect(planned, ctx.task_ctx()).await?);
    let after = neutral_rows::rows(&ctx.sql(&sql).await?.collect().await?);
    if done.len() == 1 && late == before && after == before && !before.is_empty() {
        Ok(())
    } else {
        Err(format!("{done:?}: {before:?} became {late:?} and {after:?}").into())
    }
}

trial!(two_at_once);
/// Of two consolidations of the same fragments one remains, and no row is there twice.
async fn two_at_once() -> Result<(), Failed> {
    let files = Files::golden(SEVERAL);
    for delay in 0..12 {
        let folder = tempfile::tempdir()?;
        let copy = folder.path().join("array");
        files.write(&copy);
        let nothing = Value::Null;
        let before = rows(&copy).await?;
        let first = care("tiledb_consolidate", &copy, &nothing, "");
        let second = async {
            tokio::time::sleep(std::time::Duration::from_millis(delay)).await;
            care("tiledb_consolidate", &copy, &nothing, "").await
        };
        let (first, second) = futures::join!(first, second);
        let after = rows(&copy).await?;
        let errors = errors(&copy, &nothing).await?;
        if before != after || !errors.is_empty() || (first.is_err() && second.is_err()) {
            return Err(
                format!("{first:?} {second:?}: {before:?} became {after:?}, {errors:?}").into(),
            );
        }
    }
    Ok(())
}

trial!(beside_a_rival);
/// While a consolidation may yet be taken back, because another writer is about to replace one of the same fragments, what it
/// replaces stays.
async fn beside_a_rival() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("array");
    Files::golden(SEVERAL).write(&copy);
    let nothing = Value::Null;
    let before = rows(&copy).await?;
    care("tiledb_consolidate", &copy, &nothing, "").await?;
    let list = Files::of(&copy).find(".vac");
    let text = fs::read_to_string(copy.join(&list))?;
    let first = text.lines().next().ok_or("the list is empty")?;
    let rival = copy.join("__commits/__1_9_0123456789abcdef0123456789abcdef_22.vac.staged");
    fs::write(&rival, format!("{first}\n"))?;
    let removed = care("tiledb_vacuum", &copy, &nothing, ", min_age => '0'").await?;
    if !removed.is_empty() {
        return Err(format!("vacuumed beside a rival: {removed:?}").into());
    }
    // The other one withdraws: here the one whose list was to be believed.
    let taken_back = Files::of(&copy);
    fs::remove_file(copy.join(&list))?;
    let name = list.replace(".vac", ".wrt");
    fs::remove_file(copy.join(name))?;
    if rows(&copy).await? != before {
        return Err("rows are gone".into());
    }
    taken_back.write(&copy);
    // What a crash left long ago is no rival.
    let old = SystemTime::now() - Duration::from_secs(60);
    for file in [rival, copy.join(list)] {
        fs::File::options()
            .append(true)
            .open(file)?
            .set_modified(old)?;
    }
    let removed = care("tiledb_vacuum", &copy, &nothing, ", min_age => '0'").await?;
    if removed.len() > 4 && rows(&copy).await? == before {
        Ok(())
    } else {
        Err(format!("{removed:?}").into())
    }
}

async fn rows(array: &Path) -> Result<Vec<String>, Failed> {
    let ctx = SessionContext::new();
    register(&ctx)?;
    let sql = format!("SELECT * FROM '{}'", array.display());
    Ok(neutral_rows::rows(&ctx.sql(&sql).await?.collect().await?))
}

fn refused_or(result: Result<(), Failed>) -> Result<(), Failed> {
    match result {
        Err(error)
            if REFUSED
                .iter()
                .any(|reason| format!("{error:?}").contains(reason)) =>
        {
            Ok(())
        }
        result => result,
    }
}

/// The key of an encrypted array, as functions take it.
fn key(entry: &Value) -> Result<golden::Arguments, Failed> {
    let mut options = golden::options(entry);
    options.retain(|(name, _)| name.ends_with("encryption_key"));
    Ok(golden::Arguments::of(options)?)
}

/// A row of a report: action, object, inputs, outcome.
type Row = (String, String, u64, String);

/// Runs one of the functions that care for arrays.
async fn care(call: &str, array: &Path, entry: &Value, options: &str) -> Result<Vec<Row>, Failed> {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    register(&ctx)?;
    let arguments = key(entry)?;
    let list = arguments.after(&array.display().to_string());
    let sql = format!("SELECT action, object, inputs, outcome FROM {call}({list}{options})");
    let mut rows = Vec::new();
    for batch in ctx.sql(&sql).await?.collect().await? {
        let text = |column: usize, row: usize| {
            let column = batch.column(column).as_string_view();
            column.value(row).to_owned()
        };
        for row in 0..batch.num_rows() {
            let inputs = batch.column(2).as_primitive::<UInt64Type>().value(row);
            rows.push((text(0, row), text(1, row), inputs, text(3, row)));
        }
    }
    Ok(rows)
}

/// The auditor's errors.
async fn errors(array: &Path, entry: &Value) -> Result<Vec<String>, Failed> {
    let ctx = SessionContext::new();
    register(&ctx)?;
    let arguments = key(entry)?;
    let list = arguments.after(&array.display().to_string());
    let sql = format!(
        "SELECT rule || ' ' || object FROM tiledb_check({list}) \
         WHERE severity = 'error' OR rule = 'staging-file' OR rule = 'fragment-without-commit'"
    );
    let mut found = Vec::new();
    for batch in ctx.sql(&sql).await?.collect().await? {
        let column = batch.column(0).as_string_view();
        found.extend(column.iter().flatten().map(str::to_owned));
    }
    found.sort();
    Ok(found)
}

fn parent(array: &Path) -> &Path {
    array.parent().unwrap_or(array)
}

/// Makes fragments old, so that those which nothing commits are what a crash left, and not about to be committed.
fn make_old(array: &Path) -> Result<(), Failed> {
    let Ok(fragments) = fs::read_dir(array.join("__fragments")) else {
        return Ok(());
    };
    let old = SystemTime::now() - Duration::from_secs(3600);
    for fragment in fragments {
        let metadata = fragment?.path().join(METADATA_FILE);
        if metadata.is_file() {
            let file = fs::File::options().append(true).open(metadata)?;
            file.set_modified(old)?;
        }
    }
    Ok(())
}

async fn whole(array: &Path, entry: &Value) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("array");
    Files::of(array).write(&copy);
    make_old(&copy)?;
    let before = errors(&copy, entry).await?;
    let planned = care("tiledb_consolidate", &copy, entry, ", dry_run => true").await?;
    let options = ", verify => true";
    let done = care("tiledb_consolidate", &copy, entry, options).await?;
    let inputs = |rows: &[Row]| rows.iter().map(|row| row.2).collect::<Vec<_>>();
    if inputs(&planned) != inputs(&done) {
        return Err(format!("planned {planned:?}, done {done:?}").into());
    }
    if done.is_empty() {
        return Ok(());
    }
    golden::reads_now(&copy, parent(array), entry).await?;
    let name = entry["name"].as_str().unwrap_or_default();
    let keeps_history = !HISTORY_LOST.iter().any(|(part, _)| name.contains(part));
    if keeps_history {
        golden::reads_then(&copy, parent(array), entry).await?;
    }
    let after = errors(&copy, entry).await?;
    if after != before {
        return Err(format!("{before:?} became {after:?}").into());
    }
    let planned = care(
        "tiledb_vacuum",
        &copy,
        entry,
        ", min_age => '0', dry_run => true",
    )
    .await?;
    let removed = care("tiledb_vacuum", &copy, entry, ", min_age => '0'").await?;
    // New lists have new names.
    let objects = |rows: &[Row]| {
        let rows = rows.iter().filter(|row| row.0 == "remove");
        rows.map(|row| row.1.clone()).collect::<Vec<_>>()
    };
    if objects(&planned) != objects(&removed) || objects(&removed).is_empty() {
        return Err(format!("planned {planned:?}, removed {removed:?}").into());
    }
    golden::reads_now(&copy, parent(array), entry).await?;
    let after = errors(&copy, entry).await?;
    if after.iter().all(|error| before.contains(error)) {
        Ok(())
    } else {
        Err(format!("{before:?} became {after:?} after vacuum").into())
    }
}

async fn newest(array: &Path, entry: &Value) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("array");
    Files::of(array).write(&copy);
    make_old(&copy)?;
    let before = errors(&copy, entry).await?;
    let options = ", timestamps => false, verify => true";
    let done = care("tiledb_consolidate", &copy, entry, options).await?;
    if done.is_empty() {
        return Ok(());
    }
    golden::reads_now(&copy, parent(array), entry).await?;
    let after = errors(&copy, entry).await?;
    if after == before {
        Ok(())
    } else {
        Err(format!("{before:?} became {after:?}").into())
    }
}
