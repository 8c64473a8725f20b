//! Single files that are cut, or have a flipped bit.

use std::panic;

use libtest_mimic::Failed;

use crate::support::array_files::Files;
use crate::support::refusals::read as read_folder;
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

trials!(single_files());

/// A kind of file: array, a part of the path, and whether every cut is an error.
const KINDS: [(&str, &str, &str, bool); 19] = [
    ("schema", "weather_stations", "__schema/__1000", true),
    ("enumeration", "weather_stations", "__enumerations/", true),
    (
        "fragment_metadata",
        "weather_stations",
        "__1000_1000_/__fragment_metadata",
        true,
    ),
    (
        "fragment_metadata_dense",
        "dense_nullable_var",
        "__fragment_metadata",
        true,
    ),
    ("fixed", "quickstart_sparse", "a0.tdb", true),
    (
        "fixed_filtered",
        "weather_stations",
        "__1000_1000_/a0.tdb",
        true,
    ),
    ("offsets", "weather_stations", "__1000_1000_/a3.tdb", true),
    ("var", "weather_stations", "__1000_1000_/a3_var.tdb", true),
    (
        "validity",
        "weather_stations",
        "__1000_1000_/a1_validity.tdb",
        true,
    ),
    ("dimension", "weather_stations", "__1000_1000_/d1.tdb", true),
    (
        "dimension_var",
        "weather_stations",
        "__1000_1000_/d0_var.tdb",
        true,
    ),
    ("dense_offsets", "dense_nullable_var", "a0.tdb", true),
    ("dense_var", "dense_nullable_var", "a0_var.tdb", true),
    (
        "dense_validity",
        "dense_nullable_var",
        "a0_validity.tdb",
        true,
    ),
    ("timestamps", "sparse_consolidated_strings", "t.tdb", true),
    ("consolidated_commits", "commits_vacuumed", ".con", false),
    ("ignored_commits", "commits_ignored", ".ign", false),
    ("vacuum", "sparse_consolidated_kept", ".vac", false),
    (
        "consolidated_metadata",
        "fragment_metadata_consolidated",
        ".meta",
        true,
    ),
];

/// Every kind of file, cut at every length, emptied, and with single bits flipped.
///
/// A file that is cut is an error that names the file or its fragment (lists of names may be cut between two names). A flipped
/// bit is such an error too, or an answer: values without a checksum cannot tell.
fn single_files() -> Vec<SqlTrial> {
    let mut trials = Vec::new();
    for (kind, array, part, strict) in KINDS {
        trials.push(trial(format!("{kind}_cut"), move || {
            block_on(cut(array, part, strict))
        }));
        trials.push(trial(format!("{kind}_flipped"), move || {
            block_on(flipped(Files::golden(array), part))
        }));
        if part.contains("__schema/") || part.contains("__enum") || part.contains("__fragment_m") {
            trials.push(trial(format!("{kind}_plain_flipped"), move || {
                block_on(flipped(Files::golden(array).plain(), part))
            }));
        }
    }
    trials
}

/// The file whose path holds the parts between the blanks that `_/` stands for.
fn find(files: &Files, part: &str) -> String {
    let (fragment, name) = part.rsplit_once("_/").unwrap_or(("", part));
    let mut paths = files.find_all(name).into_iter();
    paths
        .find(|path| path.contains(fragment))
        .unwrap_or_else(|| panic!("no {part}"))
}

/// Whether the message says where: the file, or the fragment it belongs to.
fn is_located(message: &str, path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    let fragment = path.split('/').nth(1).unwrap_or_default();
    let named =
        message.contains(file) || path.starts_with("__fragments/") && message.contains(fragment);
    // A fragment is named by the lists of commits; the damaged name is the place.
    let listed = path.starts_with("__commits/") && message.contains("__fragments/");
    (named || listed) && !message.contains("internal error") && !message.contains("panic")
}

async fn outcome_of(files: &Files) -> Result<usize, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    files.write_aged(folder.path());
    let limit = std::time::Duration::from_secs(10);
    let reading = read_folder(folder.path(), &[], "SELECT * FROM t");
    let outcome = tokio::time::timeout(limit, reading).await;
    outcome.unwrap_or_else(|_| Err("panic: no answer after ten seconds".to_owned()))
}

async fn cut(array: &str, part: &str, strict: bool) -> Result<(), Failed> {
    let files = Files::golden(array);
    let path = find(&files, part);
    let bytes = files.0[&path].len();
    let mut lengths = vec![
        0,
        1,
        4,
        7,
        8,
        20,
        34,
        42,
        bytes / 3,
        bytes / 2,
        bytes - 9,
        bytes - 8,
        bytes - 1,
    ];
    lengths.retain(|len| *len < bytes);
    for len in lengths {
        let mut damaged = files.clone();
        damaged.edit(&path, |file| file.truncate(len));
        match outcome_of(&damaged).await {
            Err(message) if is_located(&message, &path) => {}
            Err(message) => return Err(format!("{path} cut to {len}: {message}").into()),
            Ok(_) if !strict && (len == 0 || files.0[&path][len - 1] == b'\n') => {}
            Ok(rows) => return Err(format!("{path} cut to {len} of {bytes}: {rows} rows").into()),
        }
    }
    Ok(())
}

async fn flipped(files: Files, part: &str) -> Result<(), Failed> {
    let path = find(&files, part);
    let bits = files.0[&path].len() * 8;
    // A hundred bits, the first and last bytes among them.
    let step = (bits / 60).max(1) | 1;
    let sample = (0..bits.min(24))
        .chain((24..bits).step_by(step))
        .chain(bits.saturating_sub(16)..bits);
    let mut refusals = 0;
    for bit in sample {
        let mut damaged = files.clone();
        damaged.edit(&path, |file| file[bit / 8] ^= 1 << (bit % 8));
        match outcome_of(&damaged).await {
            Ok(_) => {}
            Err(message) if is_located(&message, &path) => refusals += 1,
            // Where the damaged file describes others, the one that no longer fits is told.
            Err(message)
                if ["fragment __", "__schema/", "enumeration "]
                    .iter()
                    .any(|w| message.contains(w)) =>
            {
                refusals += 1
            }
            Err(message) => return Err(format!("{path}, bit {bit}: {message}").into()),
        }
    }
    if refusals == 0 {
        return Err(format!("{path}: no flipped bit was found").into());
    }
    Ok(())
}
