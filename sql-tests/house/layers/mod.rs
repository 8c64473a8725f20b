//! The layers of the crates depend downward only, folders of one level do not see each other, and the modules of one folder
//! form no circle. Files and functions are short, types have names of their own, and arrays are tracked in archives.
//!
//! The rule keeps `format`, `filter` and `geometry` pure functions that can be fuzzed alone, and SQL out of the engine.
//! It is checked on the text, without comments.

mod limits;
mod modules;
mod type_names;

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;

pub use self::limits::refused_by_windows;

/// A crate of the workspace.
struct CrateRules {
    /// The folder of its sources.
    src: &'static str,
    /// Each folder or file of `src`, with its level: it may use what has a lower one. Without levels, only circles are forbidden.
    levels: &'static [(&'static str, u8)],
    /// Crates that may only be used from a level up.
    crates: &'static [(&'static str, u8)],
}

/// No level is as high.
const NEVER: u8 = u8::MAX;

const CRATES: [CrateRules; 4] = [
    CrateRules {
        src: "crates/tiledb-engine/src",
        levels: &[
            ("error", 0),
            ("fuzzed", 0),
            ("growth", 0),
            ("format", 1),
            ("memory", 1),
            ("filter", 2),
            ("geometry", 2),
            ("simulated", 3),
            ("arrow", 3),
            ("storage", 4),
            ("array", 5),
            ("stats", 6),
            ("tile", 6),
            ("scan", 7),
            ("write", 8),
            ("maintain", 9),
            ("handle", 10),
        ],
        crates: &[
            ("object_store", 3),
            ("tiledb_stores", 3),
            ("tokio", 3),
            ("arrow", 3),
            ("datafusion", NEVER),
            ("datafusion_tiledb", NEVER),
        ],
    },
    CrateRules {
        src: "src",
        levels: &[
            ("error", 0),
            ("sent_errors", 1),
            ("options", 1),
            ("stores", 2),
            ("upstream", 2),
            ("expressions", 2),
            ("create", 2),
            ("labels", 3),
            ("scan", 4),
            ("dml", 5),
            ("table", 6),
            ("statements", 7),
            ("diff", 7),
            ("optimizer", 8),
            ("catalog", 9),
            ("functions", 10),
            ("evolve", 11),
            ("session", 12),
            ("cluster", 13),
        ],
        crates: &[("tiledb_sql", NEVER)],
    },
    CrateRules {
        src: "crates/tiledb-sql/src",
        levels: &[],
        crates: &[],
    },
    CrateRules {
        src: "crates/tiledb-stores/src",
        levels: &[],
        crates: &[
            ("arrow", NEVER),
            ("datafusion", NEVER),
            ("tiledb_engine", NEVER),
        ],
    },
];

trial!(depend_downward_only);
/// Scans the sources of all crates, and lists every edge that goes upward or sideways, and every circle among the modules of a
/// folder.
fn depend_downward_only() -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for rules in &CRATES {
        wrong.extend(rules.broken()?);
    }
    wrong.sort();
    wrong.dedup();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n").into())
    }
}

impl CrateRules {
    fn broken(&self) -> Result<Vec<String>, String> {
        let Self { src, levels, .. } = self;
        let folder = root().join(src);
        let modules = modules(&folder).map_err(|e| format!("cannot read {src}: {e}"))?;
        let mut wrong = modules::circles(&modules);
        if levels.is_empty() {
            return Ok(wrong);
        }
        for (module, text) in &modules {
            let Some(layer) = module.first() else {
                continue;
            };
            let Some(level) = level_of(levels, layer) else {
                wrong.push(format!(
                    "{src}/{layer} has no level in sql-tests/house/layers/mod.rs"
                ));
                continue;
            };
            let name = format!("{src}/{}", module.join("/"));
            for used in modules::used(text, module) {
                let folder = used.first().map_or("", String::as_str);
                if folder != layer && level_of(levels, folder).is_some_and(|l| l >= level) {
                    wrong.push(format!("{name} uses crate::{folder}"));
                }
            }
            for (used, lowest) in self.crates {
                if level < *lowest && names_crate(text, used) {
                    wrong.push(format!("{name} uses {used}"));
                }
            }
        }
        Ok(wrong)
    }
}

fn root() -> &'static Path {
    crate::repository()
}

trial!(files_and_functions_are_short);
/// Scans the sources of all crates and the tests, and lists every file and every function that is too long.
fn files_and_functions_are_short() -> Result<(), Failed> {
    let mut files = Vec::new();
    for src in CRATES.iter().map(|rules| rules.src).chain(["sql-tests"]) {
        let folder = root().join(src);
        rust_files(&folder, &mut files).map_err(|e| format!("cannot list {src}: {e}"))?;
    }
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)
            .map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        let name = file.strip_prefix(root()).unwrap_or(&file).display();
        wrong.extend(limits::too_long(&name.to_string(), &text));
    }
    wrong.sort();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n").into())
    }
}

/// The modules of a crate by their paths.
fn modules(src: &Path) -> std::io::Result<modules::Modules> {
    let mut files = Vec::new();
    rust_files(src, &mut files)?;
    let mut modules = modules::Modules::new();
    for file in files {
        let inside = file.strip_prefix(src).unwrap_or(&file).with_extension("");
        let names = inside
            .iter()
            .map(|name| name.to_string_lossy().into_owned());
        let mut path = names.collect::<Vec<_>>();
        path.pop_if(|name| matches!(name.as_str(), "mod" | "lib"));
        modules.insert(path, fs::read_to_string(&file)?);
    }
    Ok(modules)
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

/// Whether the code names something in another crate.
fn names_crate(text: &str, name: &str) -> bool {
    let code = text
        .lines()
        .map(str::trim_start)
        .filter(|l| !l.starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let path = format!("{name}::");
    // `::arrow::` and `my_arrow::` are other things.
    code.match_indices(&path).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':')
    })
}
