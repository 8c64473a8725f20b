//! Makes arrays smaller: fragments, deletes and other commits are left out, one after the other.

use std::collections::BTreeSet;

use crate::workshop::Files;

/// What one write, delete or consolidation left on storage has one name, which all its files bear: `__<time>_<time>_…`.
pub fn writes(files: &Files) -> Vec<String> {
    let mut names = BTreeSet::new();
    for path in files.0.keys() {
        for part in path.split('/') {
            let stem = part.split('.').next().unwrap_or(part);
            let time = stem
                .strip_prefix("__")
                .and_then(|rest| rest.split('_').next());
            let dated =
                time.is_some_and(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()));
            if dated && !path.starts_with("__schema/") && !path.starts_with("__meta/") {
                names.insert(stem.to_owned());
            }
        }
    }
    names.into_iter().collect()
}

/// The files without those of one write.
pub fn without(files: &Files, write: &str) -> Files {
    let mut left = files.clone();
    left.0.retain(|path, _| {
        !path
            .split('/')
            .any(|part| part.split('.').next() == Some(write))
    });
    left
}
