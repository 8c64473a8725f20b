//! The auditor: every golden array passes, and each damage is found where it is.

mod asked;
mod damages;
mod forge;
mod golden_arrays;
mod statistics;

use datafusion_tiledb::maintain::check::{CheckOptions, Finding, check};
use datafusion_tiledb::storage::{Location, Storage};
use futures::TryStreamExt;
use libtest_mimic::Trial;

use crate::workshop::Files;

pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(golden_arrays::trials());
    trials.extend(damages::trials());
    trials.extend(statistics::trials());
    trials.extend(asked::trials());
    trials
}

/// What is found at a place.
pub async fn findings(
    location: Location,
    options: CheckOptions,
) -> Result<Vec<Finding>, datafusion_tiledb::Error> {
    check(Storage::new(location), options).try_collect().await
}

/// What is found in files.
pub async fn of_files(files: &Files) -> Vec<Finding> {
    let found = findings(files.in_memory().await, CheckOptions::default()).await;
    found.expect("memory does not fail")
}
