//! The statements of `arrays/ours.sql` still write the arrays that are kept: libtiledb's rows, and the bytes of that day.
//!
//! What libtiledb reads of these arrays is recorded beside them, as of all golden arrays. Here they are written anew. Names of
//! fragments, schemas and enumerations hold random numbers, so files are told apart by their names without them; and files that
//! hold such names (schemas with enumerations, metadata of fragments, lists of commits, deletes) or are encrypted with a random
//! start are only looked for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use datafusion::prelude::SessionContext;
use datafusion_tiledb::execute;
use libtest_mimic::Failed;
use serde_json::Value;

use crate::support::array_files::Files;
use crate::support::golden;
use crate::support::trials::SqlTrial;
use crate::{block_on, data, trial};

/// The name of an array and the statements that write it.
type Section = (String, String);

trials!(each_array());

fn each_array() -> Vec<SqlTrial> {
    let arrays = sections().into_iter().map(|(name, statements)| {
        trial(name.clone(), move || {
            block_on(written_again(&name, &statements))
        })
    });
    arrays.collect()
}

fn sections() -> Vec<Section> {
    let text =
        fs::read_to_string(data().join("arrays/ours.sql")).expect("the statements are there");
    let sections = text.split("\n--- ").skip(1);
    let section = |section: &str| {
        let (head, statements) = section.split_once('\n').expect("statements follow");
        let end = head.find([' ', ':']).unwrap_or(head.len());
        (head[..end].to_owned(), statements.to_owned())
    };
    sections.map(section).collect()
}

/// The golden arrays that this project wrote, with their folder.
fn kept() -> Vec<(PathBuf, Value)> {
    let ours = |entry: &Value| {
        entry["name"]
            .as_str()
            .is_some_and(|n| n.starts_with("ours_"))
    };
    let mut arrays = golden::arrays();
    arrays.retain(|(_, entry)| ours(entry));
    arrays
}

trial!(all_are_kept);
fn all_are_kept() -> Result<(), Failed> {
    let kept: Vec<String> = kept()
        .into_iter()
        .filter_map(|(_, entry)| entry["name"].as_str().map(str::to_owned))
        .collect();
    let mut named: Vec<String> = sections().into_iter().map(|(name, _)| name).collect();
    named.sort();
    if named == kept {
        Ok(())
    } else {
        Err(format!("ours.sql writes {named:?}, kept are {kept:?}").into())
    }
}

async fn written_again(name: &str, statements: &str) -> Result<(), Failed> {
    let mut arrays = kept().into_iter();
    let found = arrays.find(|(_, entry)| entry["name"] == name);
    let (folder, entry) = found.ok_or("the array is not kept: run make_arrays/make.py ours_")?;
    let scratch = tempfile::tempdir()?;
    let array = scratch.path().join(name);
    write(&array, statements, &entry).await?;
    golden::reads_now(&array, &folder, &entry).await?;
    golden::reads_then(&array, &folder, &entry).await?;
    let encrypted = entry.get("options").is_some();
    same_files(
        &Files::of(&folder.join(name)),
        &Files::of(&array),
        encrypted,
    )
}

async fn write(array: &Path, statements: &str, entry: &Value) -> Result<(), Failed> {
    let key = entry["options"]["tiledb.encryption_key"].as_str();
    let statements = statements
        .replace("$ARRAY", &array.display().to_string())
        .replace("$KEY", key.unwrap_or_default());
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    for statement in statements.split(";\n").map(str::trim) {
        if statement.is_empty() {
            continue;
        }
        let frame = execute(&ctx, statement)
            .await
            .map_err(|e| format!("{statement}: {e}"))?;
        let done = frame.collect().await;
        done.map_err(|e| format!("{statement}: {e}"))?;
    }
    Ok(())
}

/// Files by their paths without random parts; some have the same.
fn by_path(files: &Files) -> BTreeMap<String, Vec<&[u8]>> {
    let mut by_path: BTreeMap<String, Vec<&[u8]>> = BTreeMap::new();
    for (path, bytes) in &files.0 {
        by_path.entry(without_random(path)).or_default().push(bytes);
    }
    for bytes in by_path.values_mut() {
        bytes.sort_unstable();
    }
    by_path
}

/// A path with `*` for each run of 32 hexadecimal digits, which is what a UUID is in a name.
fn without_random(path: &str) -> String {
    let mut rest = path;
    let mut known = String::new();
    while let Some(first) = rest.chars().next() {
        let digits = rest
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(rest.len());
        match digits {
            32 => known.push('*'),
            0 => known.push(first),
            _ => known.push_str(&rest[..digits]),
        }
        rest = &rest[if digits == 0 {
            first.len_utf8()
        } else {
            digits
        }..];
    }
    known
}

fn same_files(kept: &Files, written: &Files, encrypted: bool) -> Result<(), Failed> {
    let has_enumerations = kept.0.keys().any(|path| path.contains("__enumerations/"));
    let (kept, written) = (by_path(kept), by_path(written));
    let names = |files: &BTreeMap<String, Vec<&[u8]>>| {
        let names = files
            .iter()
            .map(|(path, files)| (path.clone(), files.len()));
        names.collect::<Vec<_>>()
    };
    if names(&kept) != names(&written) {
        let message = format!(
            "the files were {:?} and are {:?}",
            names(&kept),
            names(&written)
        );
        return Err(message.into());
    }
    let holds_names = |path: &str| {
        path.ends_with("__fragment_metadata.tdb")
            || path.starts_with("__fragment_meta/")
            || (path.starts_with("__commits/") && !path.ends_with(".wrt"))
            || (path.starts_with("__meta/") && path.ends_with(".vac"))
            || (path.starts_with("__schema/") && has_enumerations)
    };
    let mut compared = 0;
    for (path, bytes) in &kept {
        if encrypted || holds_names(path) {
            continue;
        }
        compared += 1;
        if written.get(path) != Some(bytes) {
            return Err(format!(
                "the bytes of {path} are others than those that are kept: if they are meant to be, write the arrays anew"
            )
            .into());
        }
    }
    if compared > 0 || encrypted {
        Ok(())
    } else {
        Err("no file was compared".into())
    }
}
