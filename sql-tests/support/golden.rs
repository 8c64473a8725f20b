//! The golden arrays: which there are, tests of each or of some, and whether one reads as libtiledb reads it, at every window
//! of time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::support::shown_rows::ShownColumns;
use crate::support::trials::SqlTrial;
use crate::support::{allocations, fixtures, neutral_rows, turns};
use crate::{block_on, data, trial};

/// The folder of the golden arrays.
pub fn folder() -> PathBuf {
    fixtures::root().join("arrays")
}

/// The arrays of a manifest, `arrays/manifest.json` or `arrays/old/manifest.json`, with their folder.
fn manifest(place: &str) -> Vec<(PathBuf, Value)> {
    let file = data().join(place).join("manifest.json");
    let manifest = fs::read_to_string(file).expect("the manifest is there");
    let manifest: Value = serde_json::from_str(&manifest).expect("the manifest is JSON");
    let entries = manifest.as_array().expect("the manifest is a list").clone();
    let folder = fixtures::root().join(place);
    entries.into_iter().map(|e| (folder.clone(), e)).collect()
}

/// All golden arrays: those of today's format and those that old releases wrote.
pub fn arrays() -> Vec<(PathBuf, Value)> {
    let mut arrays = manifest("arrays");
    arrays.extend(manifest("arrays/old"));
    arrays
}

/// Whether an array is read to the end, rather than refused.
pub fn is_read(entry: &Value) -> bool {
    entry.get("error").is_none()
}

/// A trial of `check` for each array that is read, which is shown its place and its entry in the manifest.
pub fn on_each_read<C, F>(check: C) -> Vec<SqlTrial>
where
    C: Fn(PathBuf, Value) -> F + Copy + Send + 'static,
    F: Future<Output = Result<(), Failed>>,
{
    let read = arrays().into_iter().filter(|(_, entry)| is_read(entry));
    read.map(|(folder, entry)| {
        let name = text(&entry, "name");
        trial(name.clone(), move || {
            block_on(check(folder.join(&name), entry))
        })
    })
    .collect()
}

/// Trials of `check` as [`on_each_read`] makes them, for one array of `of`, beginning with that of index `first`; for each one if
/// `GOLDEN=each` is set.
pub fn on_one_of<C, F>(of: usize, first: usize, check: C) -> Vec<SqlTrial>
where
    C: Fn(PathBuf, Value) -> F + Copy + Send + 'static,
    F: Future<Output = Result<(), Failed>>,
{
    turns::one_of(of, first, on_each_read(check))
}

/// Trials of `check` as [`on_each_read`] makes them, for one array of six, beginning with that of index `first`, in one format: the
/// oldest or the newest in which it was written, in turns; for each array in each format if `GOLDEN=each` is set. They are for tests
/// that do not ask how bytes lie.
pub fn on_oldest_or_newest<C, F>(first: usize, check: C) -> Vec<SqlTrial>
where
    C: Fn(PathBuf, Value) -> F + Copy + Send + 'static,
    F: Future<Output = Result<(), Failed>>,
{
    let all = on_each_read(check);
    if turns::wants_each() {
        return all;
    }
    let mut ends: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for trial in &all {
        if let Some((version, case)) = version_and_case(trial.name()) {
            let (oldest, newest) = ends.entry(case.to_owned()).or_insert((version, version));
            *oldest = version.min(*oldest);
            *newest = version.max(*newest);
        }
    }
    let in_turns = ends.iter().zip([false, true].into_iter().cycle());
    let chosen: BTreeMap<&str, u32> = in_turns
        .map(|((case, (oldest, newest)), is_newest)| {
            let version = if is_newest { newest } else { oldest };
            (case.as_str(), *version)
        })
        .collect();
    let is_chosen = |trial: &SqlTrial| match version_and_case(trial.name()) {
        Some((version, case)) => chosen[case] == version,
        None => true,
    };
    let chosen = all.into_iter().filter(is_chosen);
    chosen.skip(first).step_by(6).collect()
}

/// Of `v21_dense_1d` the version 21 and the case `dense_1d`.
fn version_and_case(name: &str) -> Option<(u32, &str)> {
    let (version, case) = name.strip_prefix('v')?.split_once('_')?;
    Some((version.parse().ok()?, case))
}

/// A text of an entry of the manifest.
pub fn text(entry: &Value, key: &str) -> String {
    entry[key].as_str().unwrap_or_default().to_owned()
}

/// How the session runs: answers must not depend on it.
const SESSIONS: [(usize, usize); 3] = [(2, 8192), (1, 7), (5, 1)];

/// An array, perhaps a copy, reads as libtiledb reads the one in `folder`.
pub async fn reads_now(array: &Path, folder: &Path, entry: &Value) -> Result<(), Failed> {
    let name = text(entry, "name");
    let always = options(entry);
    for variant in entry["variants"].as_array().into_iter().flatten() {
        let options = [always.clone(), options(variant)].concat();
        compare(array, &options, &folder.join(text(variant, "expected"))).await?;
    }
    if entry.get("error").is_some() {
        refused(array, &always).await?;
    } else {
        let expected = folder.join(format!("{name}.expected.jsonl"));
        compare(array, &always, &expected).await?;
    }
    Ok(())
}

/// An array, perhaps a copy, reads through every window of time as libtiledb reads the one in `folder`.
pub async fn reads_then(array: &Path, folder: &Path, entry: &Value) -> Result<(), Failed> {
    let name = text(entry, "name");
    let always = options(entry);
    for window in entry["windows"].as_array().into_iter().flatten() {
        let (start, end) = (window[0].to_string(), window[1].to_string());
        let expected = folder.join(format!("{name}@{start}-{end}.expected.jsonl"));
        let mut options = always.clone();
        options.extend([
            ("timestamp_start".to_owned(), start),
            ("timestamp_end".to_owned(), end),
        ]);
        compare(array, &options, &expected).await?;
    }
    Ok(())
}

/// The table options that an entry of the manifest, or a variant of one, names.
pub fn options(entry: &Value) -> Vec<(String, String)> {
    let options = entry["options"].as_object().into_iter().flatten();
    options
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// Options as functions take them, which name a file that holds the key in place of the key. The file lives as long as this.
pub struct Arguments {
    options: Vec<(String, String)>,
    _key: Option<NamedTempFile>,
}

impl Arguments {
    pub fn of(mut options: Vec<(String, String)>) -> io::Result<Self> {
        let mut holder = None;
        for (name, value) in &mut options {
            if name.ends_with("encryption_key") {
                let file = NamedTempFile::new()?;
                fs::write(file.path(), &*value)?;
                name.push_str("_file");
                *value = file.path().display().to_string();
                holder = Some(file);
            }
        }
        Ok(Self {
            options,
            _key: holder,
        })
    }

    pub fn options(&self) -> &[(String, String)] {
        &self.options
    }

    /// The list in the parentheses of a call that begins with `first`.
    pub fn after(&self, first: &str) -> String {
        let options = self
            .options
            .iter()
            .flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        let all = [first].into_iter().chain(options);
        let quoted: Vec<String> = all
            .map(|a| format!("'{}'", a.replace('\'', "''")))
            .collect();
        quoted.join(", ")
    }
}

/// Reading must fail, in opening or later.
async fn refused(array: &Path, options: &[(String, String)]) -> Result<(), Failed> {
    match read(array, options, SESSIONS[0]).await {
        Ok(_) => Err(format!("{} was read without an error", array.display()).into()),
        Err(_) => Ok(()),
    }
}

async fn compare(
    array: &Path,
    options: &[(String, String)],
    expected: &Path,
) -> Result<(), Failed> {
    let text = fs::read_to_string(expected).map_err(|e| format!("{}: {e}", expected.display()))?;
    let mut lines = text.lines();
    let header = ascii_json(lines.next().unwrap_or_default())?;
    let wanted: Vec<&str> = lines.collect();
    // Neighbours among the answers take turns with the sessions, of which each answer sees the first.
    let turn = expected.as_os_str().len() % (SESSIONS.len() - 1) + 1;
    let sessions = SESSIONS.into_iter().enumerate();
    let sessions =
        sessions.filter(|(number, _)| *number == 0 || *number == turn || turns::wants_each());
    for (_, session) in sessions {
        let (found_header, columns, found) = read(array, options, session).await?;
        let place = format!("{} under {session:?}", expected.display());
        if ascii_json(&found_header)? != header {
            return Err(format!(
                "{place}: columns differ\nexpected {header}\nfound    {found_header}"
            )
            .into());
        }
        if let Err(wrong) = columns.compare(&wanted, &found) {
            return Err(format!("{place}: {wrong}").into());
        }
    }
    Ok(())
}

/// A dictionary may hold any of Arrow's string types. An attribute for which 1.x stored `__attr` has no name.
fn ascii_json(text: &str) -> Result<Value, String> {
    let text = text
        .replace(", Utf8View)", ", Utf8)")
        .replace("\"__attr\"", "\"attr\"");
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

async fn read(
    array: &Path,
    options: &[(String, String)],
    (partitions, batch_size): (usize, usize),
) -> Result<(String, ShownColumns, Vec<String>), String> {
    let mut builder = TileDbTable::builder(array.display().to_string());
    // libtiledb's answers hold the bytes of text as they are stored.
    let raw = ("fixed_text".to_owned(), "raw".to_owned());
    for (key, value) in [&raw].into_iter().chain(options) {
        builder = builder.option(key, value).map_err(|e| e.to_string())?;
    }
    let table = builder.open().await.map_err(|e| e.to_string())?;
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(batch_size);
    let ctx = SessionContext::new_with_config_rt(config, allocations::runtime());
    let frame = ctx
        .read_table(std::sync::Arc::new(table))
        .map_err(|e| e.to_string())?;
    let header = neutral_rows::header(frame.schema().as_arrow());
    let columns = ShownColumns::of(frame.schema().as_arrow());
    let batches = frame.collect().await.map_err(|e| e.to_string())?;
    Ok((header, columns, neutral_rows::rows(&batches)))
}
