//! What a vacuum does, in order: one list that a dry run prints and a run follows.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::VacuumMode;
use crate::error::Result;
use crate::maintain::report::{Outcome, ReportRow};
use crate::storage::Storage;

/// Chains that are followed at the same time.
const CONCURRENCY: usize = 16;

/// One step.
#[derive(Debug, Clone)]
pub(super) struct Action {
    /// What is done.
    pub what: What,
    /// The file or folder, relative to the array.
    pub path: String,
    /// The bytes that it takes.
    pub bytes: u64,
    /// Why nobody needs it.
    pub why: &'static str,
}

/// What is done with a file or folder.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// A file is removed.
    File,
    /// A folder is removed with all that is in it.
    Folder,
    /// A file is created.
    Create(Bytes),
}

/// All steps.
#[derive(Debug, Default)]
pub(super) struct Plan {
    stages: Vec<Vec<Vec<Action>>>,
}

impl Action {
    /// The removal of a file.
    pub(super) fn file(path: impl Into<String>, bytes: u64, why: &'static str) -> Self {
        Self {
            what: What::File,
            path: path.into(),
            bytes,
            why,
        }
    }
}

impl Plan {
    /// Adds chains of steps, which begin when all chains before have ended.
    pub(super) fn then(&mut self, chains: Vec<Vec<Action>>) {
        self.stages.push(chains);
    }

    /// Does it.
    pub(super) async fn run(&self, storage: &Storage) -> Result<()> {
        for stage in &self.stages {
            stream::iter(stage.clone())
                .map(|chain| follow(storage.clone(), chain))
                .buffered(CONCURRENCY)
                .try_collect::<Vec<()>>()
                .await?;
        }
        Ok(())
    }

    /// What is done, one row for each step.
    pub(super) fn rows(&self, mode: VacuumMode, dry_run: bool) -> Vec<ReportRow> {
        let actions = self.stages.iter().flatten().flatten();
        let row = |action: &Action| {
            let created = match &action.what {
                What::Create(bytes) => bytes.len() as u64,
                What::File | What::Folder => 0,
            };
            ReportRow {
                mode: mode.name(),
                action: match action.what {
                    What::Create(_) => "create",
                    What::File | What::Folder => "remove",
                },
                object: action.path.clone(),
                inputs: 1,
                bytes_read: 0,
                bytes_written: Some(created),
                bytes_freed: action.bytes,
                gain: action.why.to_owned(),
                outcome: match dry_run {
                    true => Outcome::Planned,
                    false => Outcome::Done,
                },
            }
        };
        actions.map(row).collect()
    }
}

async fn follow(storage: Storage, chain: Vec<Action>) -> Result<()> {
    for action in chain {
        match action.what {
            What::File => storage.remove_file(&action.path).await?,
            What::Folder => storage.remove_folder(&action.path).await?,
            What::Create(bytes) => storage.create_file(&action.path, bytes).await?,
        }
    }
    Ok(())
}

/// The bytes of the files directly in a folder.
pub(super) async fn folder_bytes(storage: &Storage, folder: &str) -> Result<u64> {
    let listing = storage.list(folder).await?;
    let sizes = listing.files.iter().map(|file| file.bytes);
    Ok(sizes.fold(0, u64::saturating_add))
}
