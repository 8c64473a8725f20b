//! An array as it lies on storage, for functions that describe it without reading cells.
//!
//! A [`Snapshot`](super::snapshot::Snapshot) refuses arrays for which a query could give wrong answers. An inspection
//! shows everything that can be decoded, because functions that describe an array must also work on one that cannot be
//! queried.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::commits::{self, ArrayCommit};
use super::deletes::{TimedDelete, load_all};
use super::directory::{ArrayDirectory, CommittedFragment};
use super::fragment::Fragment;
use super::snapshot::{load_enumerations, open_fragments, open_schema, read_schema};
use super::window::{OpenWindow, TimestampMs, WindowVisibility};
use crate::arrow::ArrayEnumerations;
use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::CommitKind;
use crate::format::schema::ArraySchema;
use crate::storage::Storage;

/// An array's listing, and the schema in effect at a time.
#[derive(Debug)]
pub struct ArrayInspection {
    storage: Storage,
    window: OpenWindow,
    directory: ArrayDirectory,
    /// The name of the schema's file.
    pub schema_name: String,
    /// The schema.
    pub schema: Arc<ArraySchema>,
}

/// A committed fragment.
#[derive(Debug)]
pub struct InspectedFragment {
    /// The fragment.
    pub fragment: Arc<Fragment>,
    /// Whether the window shows any of its cells.
    pub visible: bool,
    /// The `.vac` file that says another fragment replaces it.
    pub vacuumed_by: Option<String>,
}

impl ArrayInspection {
    /// Lists the array at `storage` and reads the schema that `window` shows.
    pub async fn open(storage: &Storage, window: OpenWindow) -> Result<Self> {
        let directory = ArrayDirectory::list(storage).await?;
        let file = directory.schema_at(&window)?;
        let schema_name = file.info.name.clone();
        let (storage, schema) = open_schema(storage, window, &directory)
            .await
            .map_err(|e| e.with("array", storage.uri()))?;
        Ok(Self {
            storage,
            schema_name,
            schema,
            window,
            directory,
        })
    }

    /// Whether an error is of a file that is gone since the array was listed, for example because another process vacuums it.
    pub async fn is_outdated(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::NotFound
            && matches!(self.directory.list_again(&self.storage).await, Ok(Some(_)))
    }

    /// The storage, with the key only if the array is encrypted.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The names of the files of all schemas, in the order in which readers look at them: the last one inside a window counts.
    pub fn schema_names(&self) -> impl Iterator<Item = &str> {
        let files = self.directory.schemas().iter();
        files.map(|file| file.info.name.as_str())
    }

    /// The committed fragments that the window shows, oldest first, before anything of them is read.
    pub async fn committed(&self) -> Result<Vec<CommittedFragment>> {
        let sparse = !self.schema.is_dense();
        let committed = self
            .directory
            .commits(&self.storage, &self.window, sparse)
            .await
            .map_err(|e| e.with("array", self.storage.uri()))?;
        Ok(committed.fragments)
    }

    /// The committed deletes that the window shows, oldest first, also those that apply to no fragment any more.
    pub async fn deletes(&self) -> Result<Vec<Arc<TimedDelete>>> {
        let sparse = !self.schema.is_dense();
        let load = async {
            let committed = self.directory.commits(&self.storage, &self.window, sparse);
            load_all(&self.storage, committed.await?.deletes).await
        };
        load.await.map_err(|e| e.with("array", self.storage.uri()))
    }

    /// The number of schemas.
    pub fn schema_count(&self) -> usize {
        self.directory.schemas().len()
    }

    /// The enumerations of the schema, or the reason why one cannot be read.
    pub async fn enumerations(&self) -> Result<ArrayEnumerations> {
        load_enumerations(&self.storage, &self.directory, &self.schema)
            .await
            .map_err(|e| e.with("array", self.storage.uri()))
    }

    /// The schema of a file in the folder of schemas, which may be newer than the listing, and its enumerations.
    ///
    /// # Errors
    /// A file cannot be read, or is not encrypted in an encrypted array and more than an evolution.
    pub async fn read_schema(&self, name: &str) -> Result<(ArraySchema, ArrayEnumerations)> {
        read_schema(&self.storage, &self.directory, name)
            .await
            .map_err(|e| e.with("array", self.storage.uri()))
    }

    /// All commits, whatever their time, oldest first.
    pub async fn commits(&self) -> Result<Vec<ArrayCommit>> {
        commits::load(&self.storage, &self.directory)
            .await
            .map_err(|e| e.with("array", self.storage.uri()))
    }

    /// All committed fragments, whatever their time, oldest first.
    pub async fn fragments(&self) -> Result<Vec<InspectedFragment>> {
        let sparse = !self.schema.is_dense();
        let (storage, directory) = (&self.storage, &self.directory);
        let visible: HashSet<String> = directory
            .commits(storage, &self.window, sparse)
            .await?
            .fragments
            .into_iter()
            .map(|f| f.name.name)
            .collect();
        let always = OpenWindow::new(TimestampMs(0), Some(TimestampMs(u64::MAX)))?;
        let mut committed: BTreeMap<_, _> = directory
            .commits(storage, &always, sparse)
            .await?
            .fragments
            .into_iter()
            .map(|fragment| (fragment.name.name.clone(), fragment))
            .collect();
        let mut vacuumed = HashMap::new();
        for commit in self.commits().await? {
            let writes = matches!(commit.kind, CommitKind::Write | CommitKind::Ok);
            if !writes || !commit.is_committed() {
                continue;
            }
            let name = commit.name.name.clone();
            if let Some(path) = &commit.vacuumed_by {
                vacuumed.insert(name.clone(), path.clone());
            }
            let hidden =
                CommittedFragment::committed(commit.name, WindowVisibility::Hidden, commit.info);
            if !directory.lacks(&hidden) {
                committed.entry(name).or_insert(hidden);
            }
        }
        let mut committed: Vec<_> = committed.into_values().collect();
        committed.sort_by(|a, b| a.age().cmp(&b.age()));
        let fragments = open_fragments(&self.storage, &self.directory, committed)
            .await
            .map_err(|e| e.with("array", self.storage.uri()))?;
        let inspected = |fragment: Arc<Fragment>| InspectedFragment {
            visible: visible.contains(&fragment.name.name),
            vacuumed_by: vacuumed.remove(&fragment.name.name),
            fragment,
        };
        Ok(fragments.into_iter().map(inspected).collect())
    }

    /// The fragments that the window shows, oldest first.
    pub async fn visible_fragments(&self) -> Result<Vec<Arc<Fragment>>> {
        let sparse = !self.schema.is_dense();
        let committed = self.directory.commits(&self.storage, &self.window, sparse);
        open_fragments(&self.storage, &self.directory, committed.await?.fragments)
            .await
            .map_err(|e| e.with("array", self.storage.uri()))
    }
}
