//! The layers of `src/` depend downward only, and folders of one level do not see each other.
//!
//! The rule keeps `format`, `filter` and the geometry in `array` pure functions that can be fuzzed alone, and SQL out of
//! everything below `sql`. It is checked on the text: comments are skipped, `crate::<folder>` counts as a use.

use std::fs;
use std::path::{Path, PathBuf};

/// Each folder or file of `src/`, with its level: it may use what has a lower one.
const LEVELS: [(&str, u8); 15] = [
    ("error", 0),
    ("format", 1),
    ("filter", 2),
    ("geometry", 2),
    ("storage", 3),
    ("arrow", 3),
    ("array", 4),
    ("stats", 5),
    ("tile", 5),
    ("scan", 6),
    ("write", 6),
    ("maintain", 7),
    ("sql", 8),
    ("server", 9),
    ("bin", 9),
];

/// Crates that may only be used from a level up.
const CRATES: [(&str, u8); 4] = [
    ("object_store", 3),
    ("tokio", 3),
    ("arrow", 3),
    ("datafusion", 8),
];

/// Scans `src/` and lists every edge that goes upward or sideways.
pub fn check() -> Result<(), String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files).map_err(|e| format!("cannot list {}: {e}", src.display()))?;
    let mut wrong = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&src).unwrap_or(&file);
        let first = inside.iter().next().unwrap_or_default().to_string_lossy();
        let layer = first.trim_end_matches(".rs");
        if layer == "lib" || layer == "bin" {
            continue;
        }
        let Some(level) = level_of(&LEVELS, layer) else {
            wrong.push(format!("src/{first} has no level in sql-tests/layers.rs"));
            continue;
        };
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        for used in uses(&text) {
            let too_high = match used.strip_prefix("crate::") {
                Some(folder) => {
                    folder != layer && level_of(&LEVELS, folder).is_some_and(|l| l >= level)
                }
                None => level_of(&CRATES, &used).is_some_and(|l| l > level),
            };
            if too_high {
                wrong.push(format!("{} uses {used}", inside.display()));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

fn level_of(table: &[(&str, u8)], name: &str) -> Option<u8> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, level)| *level)
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// What the code names: `crate::x` for each folder of ours, `x` for each crate.
fn uses(text: &str) -> Vec<String> {
    let code: Vec<_> = text
        .lines()
        .map(str::trim_start)
        .filter(|l| !l.starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for after in code.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            None => found.push(format!("crate::{}", word(after))),
            Some(group) => {
                let mut depth = 0;
                for item in group.split_inclusive([',', '{', '}']) {
                    if depth == 0 {
                        found.push(format!("crate::{}", word(item.trim_start())));
                    }
                    depth += i32::from(item.ends_with('{')) - i32::from(item.ends_with('}'));
                    if depth < 0 {
                        break;
                    }
                }
            }
        }
    }
    for (name, _) in CRATES {
        let path = format!("{name}::");
        let mut parts = code.split(path.as_str());
        let mut before = parts.next().unwrap_or_default();
        for part in parts {
            // `::arrow::` and `my_arrow::` are other things.
            if !before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                found.push(name.to_owned());
            }
            before = part;
        }
    }
    found
}

fn word(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}
