//! Files and folders of this machine that begin like the typed path.
//!
//! Arrays and groups are folders, too, but a path is complete once it names one.

use std::fs;
use std::path::Path;

/// A file or folder that can complete a path.
#[derive(Debug, PartialEq, Eq)]
pub struct PathEntry {
    /// The path as typed, completed.
    pub path: String,
    /// The last part of the path, for the list.
    pub name: String,
    /// Whether the path can go on inside it.
    pub is_folder: bool,
}

/// The files and folders whose paths begin like `typed`; hidden ones only if a dot was typed.
pub fn entries(typed: &str) -> Vec<PathEntry> {
    let separator = |c: char| c == '/' || c == std::path::MAIN_SEPARATOR;
    let (folder, begins) = match typed.rfind(separator) {
        Some(at) => typed.split_at_checked(at + 1).unwrap_or((typed, "")),
        None => ("", typed),
    };
    if folder.contains("://") {
        return Vec::new();
    }
    let place = match folder.strip_prefix("~/") {
        Some(rest) => std::env::home_dir().unwrap_or_default().join(rest),
        None if folder.is_empty() => Path::new(".").to_owned(),
        None => Path::new(folder).to_owned(),
    };
    let Ok(listed) = fs::read_dir(place) else {
        return Vec::new();
    };
    let mut entries = listed
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let hidden = name.starts_with('.') && !begins.starts_with('.');
            if hidden || !name.starts_with(begins) {
                return None;
            }
            let path = entry.path();
            Some(PathEntry {
                path: format!("{folder}{name}"),
                name,
                is_folder: path.is_dir() && !is_object(&path),
            })
        })
        .collect::<Vec<_>>();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

/// Whether a folder is an array or a group.
fn is_object(folder: &Path) -> bool {
    let marks = [
        "__schema",
        "__array_schema.tdb",
        "__group",
        "__tiledb_group.tdb",
    ];
    marks.iter().any(|mark| folder.join(mark).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_no_folders_to_look_into() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["weather/__schema", "exp/__group", "weeks", ".hidden"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("week.csv"), "").unwrap();
        let found = |typed: &str| {
            let entries = entries(&format!("{}/{typed}", folder.path().display())).into_iter();
            entries.map(|e| (e.name, e.is_folder)).collect::<Vec<_>>()
        };
        let entry = |name: &str, is_folder| (name.to_owned(), is_folder);
        assert_eq!(
            found("we"),
            [
                entry("weather", false),
                entry("week.csv", false),
                entry("weeks", true)
            ]
        );
        assert_eq!(found("").len(), 4);
        assert_eq!(found("."), [entry(".hidden", true)]);
        assert!(found("nothing/x").is_empty());
        assert!(entries("s3://bucket/x").is_empty());
    }
}
