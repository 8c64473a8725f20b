//! The repository stays small enough to clone and search quickly, and every system can hold its files. The arrays that tests
//! read lie in archives, no other file is large, and every path is valid on Windows.
//!
//! No file of the sources and tests has more than 500 lines, and no function more than 80: who opens a file finds one idea in it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Failed;

/// The largest size in bytes of a file that is neither an archive nor an archive's list.
const LARGEST_FILE: u64 = 1 << 20;
/// The only folder whose arrays aren't archived.
const PLAIN_ARRAYS: &str = "examples/data/";
/// Windows allows 260 characters, of which the folder of the clone needs some.
const LONGEST_PATH: usize = 200;
/// A file may have so many lines.
const FILE_LINES: usize = 500;
/// A function may have so many lines, from its `fn` to its closing brace.
const FUNCTION_LINES: usize = 80;

trial!(tracked_files_fit);
/// Says how the tracked files break these rules.
fn tracked_files_fit() -> Result<(), Failed> {
    let package = crate::repository();
    let paths = tracked(package)?;
    let sizes = paths.iter().filter_map(|path| {
        // Git may still track a file that was just removed.
        let size = fs::metadata(package.join(path)).ok()?.len();
        Some((path.as_str(), size))
    });
    let mut wrong = problems(&paths);
    wrong.extend(sizes.filter_map(|(path, size)| too_large(path, size)));
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n").into())
    }
}

fn problems(paths: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut folded = HashMap::new();
    for path in paths {
        if let Some(why) = refused_by_windows(path) {
            wrong.push(format!("{path:?} {why}, which Windows cannot have"));
        }
        if !path.starts_with(PLAIN_ARRAYS) && path.split('/').any(is_of_array) {
            wrong.push(format!(
                "{path:?} is a file of an array: pack it into the archives of sql-tests"
            ));
        }
        if path.chars().count() > LONGEST_PATH {
            wrong.push(format!("{path:?} has more than {LONGEST_PATH} characters"));
        }
        if let Some(other) = folded.insert(path.to_lowercase(), path) {
            wrong.push(format!(
                "{path:?} differs from {other:?} in upper and lower case alone"
            ));
        }
    }
    wrong
}

/// Whether a name belongs to a file or folder of an array or group.
fn is_of_array(name: &str) -> bool {
    let folders = [
        "__commits",
        "__fragments",
        "__group",
        "__labels",
        "__meta",
        "__schema",
    ];
    name.ends_with(".tdb") || folders.contains(&name)
}

/// Reports that a file is too large to be tracked.
fn too_large(path: &str, size: u64) -> Option<String> {
    let packed = [".tar.zst", ".tar.xz", ".files.txt"];
    let is_packed = packed.iter().any(|end| path.ends_with(end));
    (size > LARGEST_FILE && !is_packed).then(|| {
        format!("{path:?} has {size} bytes, more than {LARGEST_FILE}: pack it into the archives of sql-tests")
    })
}

/// Says why Windows can have no file at a path.
pub fn refused_by_windows(path: &str) -> Option<String> {
    path.split('/').find_map(|name| {
        let is_bad = |c: &char| c.is_control() || "<>:\"\\|?*".contains(*c);
        if let Some(bad) = name.chars().find(is_bad) {
            return Some(format!("has a name with {bad:?}"));
        }
        if name.ends_with(['.', ' ']) {
            return Some(format!(
                "has the name {name:?}, with a dot or a blank at its end"
            ));
        }
        let stem = name.split('.').next().unwrap_or_default();
        let stem = stem.trim_end().to_ascii_uppercase();
        let numbered = |device: &str| {
            let number = stem.strip_prefix(device);
            number.is_some_and(|n| n.len() == 1 && n.chars().all(|c| ('1'..='9').contains(&c)))
        };
        let is_device = ["CON", "PRN", "AUX", "NUL"].contains(&stem.as_str());
        (is_device || numbered("COM") || numbered("LPT"))
            .then(|| format!("has the name {name:?}, that of a device"))
    })
}

/// The paths that git tracks; where there is no git, all below the folder that `.gitignore` does not name.
fn tracked(package: &Path) -> Result<Vec<String>, String> {
    let git = Command::new("git")
        .arg("-C")
        .arg(package)
        .args(["ls-files", "-z"])
        .output();
    if let Ok(git) = git
        && git.status.success()
        && !git.stdout.is_empty()
    {
        let paths = String::from_utf8_lossy(&git.stdout);
        let paths = paths.split_terminator('\0');
        return Ok(paths.map(str::to_owned).collect());
    }
    let ignored = fs::read_to_string(package.join(".gitignore")).map_err(|e| e.to_string())?;
    let mut ignored: Vec<&str> = ignored
        .lines()
        .filter_map(|l| l.strip_prefix('/'))
        .collect();
    ignored.push(".git");
    let mut paths = Vec::new();
    walk(package, "", &ignored, &mut paths)
        .map_err(|e| format!("cannot list {}: {e}", package.display()))?;
    Ok(paths)
}

fn walk(
    folder: &Path,
    prefix: &str,
    ignored: &[&str],
    paths: &mut Vec<String>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if ignored.contains(&path.as_str()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &format!("{path}/"), ignored, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

trial!(finds_tracked);
/// Finds what is wrong with made-up paths, and the files of a folder without git.
fn finds_tracked() -> Result<(), Failed> {
    let bad = [
        "a/q?.rs",
        "a:b/c",
        "a\\b",
        "tab\there",
        "a./b",
        "a ",
        "nul",
        "a/Con.txt",
        "lpt9.tar.gz",
        "sql-tests/a/__schema/x",
        "a/b.tdb",
    ];
    let good = [
        "a/b.c",
        ".ci/run",
        "con_sole",
        "com0",
        "com10",
        "été/.x",
        "lpt",
        "src/__init__.py",
        "examples/data/a/__schema/x",
    ];
    let names = |paths: &[&str]| paths.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
    let missed = bad.iter().filter(|p| problems(&names(&[p])).len() != 1);
    let missed = missed.collect::<Vec<_>>();
    let others = problems(&names(&good));
    let counts = [
        problems(&names(&["a/B", "a/c", "A/b"])).len(),
        problems(&["x".repeat(LONGEST_PATH)]).len(),
        problems(&["x".repeat(LONGEST_PATH + 1)]).len(),
        too_large("a.md", LARGEST_FILE).into_iter().count(),
        too_large("a.md", LARGEST_FILE + 1).into_iter().count(),
        too_large("a.tar.zst", u64::MAX).into_iter().count(),
    ];
    if !missed.is_empty() || !others.is_empty() || counts != [1, 0, 1, 0, 1, 0] {
        return Err(format!("missed {missed:?}, found {others:?}, {counts:?}").into());
    }
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let made = || -> std::io::Result<()> {
        fs::create_dir_all(folder.path().join("a/target"))?;
        fs::create_dir_all(folder.path().join("target/b"))?;
        fs::write(folder.path().join(".gitignore"), "/target\n/a/c\n")?;
        for file in ["a/b", "a/c", "a/target/d", "target/b/e"] {
            fs::write(folder.path().join(file), "")?;
        }
        Ok(())
    };
    made().map_err(|e| e.to_string())?;
    let mut found = tracked(folder.path())?;
    found.sort();
    if found == [".gitignore", "a/b", "a/target/d"] {
        Ok(())
    } else {
        Err(format!("found {found:?}").into())
    }
}

/// Says what is too long in a file.
pub fn too_long(file: &str, text: &str) -> Vec<String> {
    let lines = text.lines().collect::<Vec<_>>();
    let mut found = Vec::new();
    if lines.len() > FILE_LINES {
        let count = lines.len();
        found.push(format!(
            "{file} has {count} lines, more than {FILE_LINES}: split it along its ideas"
        ));
    }
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else {
            continue;
        };
        let count = function_lines(&lines[start..]);
        if count > FUNCTION_LINES {
            let number = start + 1;
            found.push(format!(
                "{file}:{number}: {name} has {count} lines, more than {FUNCTION_LINES}"
            ));
        }
    }
    found
}

/// Finds the name of the function that begins on a line.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let (before, after) = match line.strip_prefix("fn ") {
        Some(after) => ("", after),
        None => line.split_once(" fn ")?,
    };
    let mut words = before.split_whitespace();
    // The last is the end of `pub(in …)`.
    let qualifies = |word: &str| {
        matches!(word, "pub" | "const" | "async" | "unsafe")
            || word.starts_with("pub(")
            || word.ends_with(')')
    };
    let name = after.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.all(qualifies).then(|| name.into_iter().next())?
}

/// Counts the lines of the function that begins on the first of these. As rustfmt writes them, functions end with a brace,
/// and declarations with a semicolon, on a line that is indented like the first.
fn function_lines(lines: &[&str]) -> usize {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let own = lines.first().map_or(0, |line| indentation(line));
    let ends = |(number, line): (usize, &&str)| {
        let closes = line.trim() == "}" || line.ends_with(';');
        let on_one_line = number == 0 && line.ends_with('}');
        (indentation(line) == own && closes) || on_one_line
    };
    let last = lines.iter().enumerate().position(ends);
    last.map_or(lines.len(), |last| last + 1)
}

trial!(finds_sizes);
/// Measures made-up files of the greatest lengths allowed, and of one line more.
fn finds_sizes() -> Result<(), Failed> {
    let text = |lines: usize| {
        let body = "        f();\n\n".repeat(lines / 2 - 1) + &"\n".repeat(lines % 2);
        format!(
            "trait T {{\n    fn a(\n        x: u8,\n    ) -> u8;\n    fn b() {{}}\n}}\n\
             impl S {{\n    pub(in crate::a) async fn one() {{\n{body}    }}\n    fn c() {{}}\n}}\n"
        )
    };
    let all = [
        too_long("a.rs", &text(80)),
        too_long("b.rs", &text(81)),
        too_long("c.rs", &"\n".repeat(500)),
        too_long("d.rs", &"\n".repeat(501)),
    ];
    let all = all.concat();
    let expected = [
        "b.rs:8: one has 81 lines, more than 80",
        "d.rs has 501 lines, more than 500: split it along its ideas",
    ];
    if all == expected {
        Ok(())
    } else {
        Err(format!("found {all:?}").into())
    }
}
