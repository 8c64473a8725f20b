//! Every golden array, at every window of time, reads as libtiledb reads it.

use std::path::Path;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::support::golden::{self, text};
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

trials!(each_array());

/// A test of each golden array.
pub fn each_array() -> Vec<SqlTrial> {
    let arrays = golden::arrays().into_iter();
    let trials = arrays.map(|(folder, entry)| {
        trial(text(&entry, "name"), move || {
            block_on(check(&folder, &entry))
        })
    });
    trials.collect()
}

async fn check(folder: &Path, entry: &Value) -> Result<(), Failed> {
    let array = folder.join(text(entry, "name"));
    golden::reads_now(&array, folder, entry).await?;
    golden::reads_then(&array, folder, entry).await
}
