//! docs/format-support.md says nothing that the golden arrays do not prove.
//!
//! Each cell names arrays; each must be there, have fragments of the row's version and one of the column's words in
//! its manifest, and be among those that the golden tests read to the end. A dash must mean that there is none.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::golden::answers;
use crate::repository;
use crate::support::golden;

/// A table of the page: the words of each column, and the cells of each row by version.
struct Table {
    columns: Vec<Vec<String>>,
    rows: Vec<(u64, Vec<String>)>,
}

/// An array of the manifests.
struct Known {
    versions: Vec<u64>,
    words: Vec<String>,
    read: bool,
}

trial!(each_cell_is_proven);
fn each_cell_is_proven() -> Result<(), Failed> {
    let page = fs::read_to_string(repository().join("docs/format-support.md"))?;
    let known = known_arrays();
    let tables = tables(&page);
    let mut wrong = Vec::new();
    for table in &tables {
        let versions: Vec<u64> = table.rows.iter().map(|(version, _)| *version).collect();
        if versions != (1..=23).collect::<Vec<_>>() {
            wrong.push(format!("a table has the versions {versions:?}"));
        }
        for (version, cells) in &table.rows {
            for (column, (cell, words)) in cells.iter().zip(&table.columns).enumerate() {
                let entry = format!("format {version}, {words:?}: {cell}");
                if let Err(why) = check(cell, *version, words, &known) {
                    wrong.push(format!("{entry}: {why}"));
                }
                let other = cell.strip_prefix("as ").map(str::parse::<u64>);
                let named = |v: u64| {
                    let row = table.rows.iter().find(|(version, _)| *version == v);
                    row.is_some_and(|(_, cells)| cells[column].starts_with('`'))
                };
                if other.is_some_and(|v| !v.is_ok_and(named)) {
                    wrong.push(format!("{entry}: that row names no array"));
                }
            }
        }
    }
    if tables.len() < 4 {
        wrong.push(format!("{} tables were found", tables.len()));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("\n").into())
}

fn check(
    cell: &str,
    version: u64,
    words: &[String],
    known: &HashMap<String, Known>,
) -> Result<(), String> {
    let fits = |array: &Known| array.words.iter().any(|word| words.contains(word));
    if cell == "—" {
        let own = known
            .iter()
            .find(|(_, a)| a.versions == [version] && fits(a));
        return own.map_or(Ok(()), |(name, _)| Err(format!("{name} has it")));
    }
    if cell.starts_with("as ") {
        return Ok(());
    }
    let names = backticked(cell);
    if names.is_empty() {
        return Err("names no array".to_owned());
    }
    for name in names {
        let name = if version == 22 {
            name
        } else {
            format!("v{version:02}_{name}")
        };
        let array = known.get(&name).ok_or(format!("{name} is not there"))?;
        if !array.versions.contains(&version) {
            return Err(format!("{name} has the versions {:?}", array.versions));
        }
        if !fits(array) {
            return Err(format!("{name} has only the words {:?}", array.words));
        }
        if !array.read {
            return Err(format!("{name} is not read by the golden tests"));
        }
    }
    Ok(())
}

fn known_arrays() -> HashMap<String, Known> {
    let run: Vec<String> = answers::each_array()
        .iter()
        .map(|t| t.name().to_owned())
        .collect();
    let strings = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.filter_map(|v| v.as_str().map(str::to_owned)).collect()
    };
    golden::arrays()
        .into_iter()
        .map(|(folder, entry)| {
            let name = entry["name"].as_str().unwrap_or_default().to_owned();
            let listed = entry["formats"]
                .as_array()
                .map(|l| l.iter().filter_map(Value::as_u64).collect::<Vec<_>>());
            let known = Known {
                versions: listed.unwrap_or_else(|| named_versions(&folder.join(&name))),
                words: strings(&entry["features"]),
                read: golden::is_read(&entry) && run.contains(&name),
            };
            (name, known)
        })
        .collect()
}

/// The format versions in the names of an array's fragments.
fn named_versions(array: &Path) -> Vec<u64> {
    let fragments = fs::read_dir(array.join("__fragments"));
    let names = fragments.into_iter().flatten().flatten();
    let mut versions: Vec<u64> = names
        .filter_map(|f| f.file_name().to_str()?.rsplit_once('_')?.1.parse().ok())
        .collect();
    versions.sort_unstable();
    versions.dedup();
    versions
}

fn tables(page: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<String> = line
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect();
        match (cells[0].parse(), tables.last_mut()) {
            (Ok(version), Some(table)) => table.rows.push((version, cells[1..].to_vec())),
            _ => tables.push(Table {
                columns: cells[1..].iter().map(|c| backticked(c)).collect(),
                rows: Vec::new(),
            }),
        }
    }
    tables
}

/// What stands between backticks.
fn backticked(text: &str) -> Vec<String> {
    let parts = text.split('`').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}
