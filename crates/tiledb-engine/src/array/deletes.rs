//! Delete conditions, and the fragments that each applies to (specification: "Delete commit file").
//!
//! A delete of time T applies to what was written at T or before: never to a fragment that starts later, nor to one
//! that has *processed* the delete, that is, was consolidated after it and records when each cell was deleted. The
//! subtle thing: in a fragment that spans T and whose cells have their own times, the cells written after T are not
//! deleted.
//!
//! An update commit is read as a delete of the cells it matches, as in libtiledb: its values are not applied.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::directory::CommittedDelete;
use super::fragment::Fragment;
use crate::error::{Result, ResultExt};
use crate::format::delete_condition::DeleteCondition;
use crate::storage::{Storage, once_finished};

/// Delete files, or sections of fragments, read at the same time.
const LOAD_CONCURRENCY: usize = 16;

/// A delete condition with its time.
#[derive(Debug)]
pub struct TimedDelete {
    /// The name of its commit.
    pub name: String,
    /// Its file, relative to the array, as consolidated fragments name the deletes they have processed.
    pub marker: String,
    /// The time of the delete, in ms.
    pub time: u64,
    /// The condition that a cell must satisfy to survive.
    pub condition: Arc<DeleteCondition>,
    /// Its commit, from which it can be loaded again; `None` if it isn't committed.
    pub(super) commit: Option<CommittedDelete>,
}

/// A delete that applies to a fragment.
#[derive(Debug, Clone)]
pub struct PendingDelete {
    /// The delete.
    pub delete: Arc<TimedDelete>,
    /// Whether the fragment also has cells written after the delete, which are not deleted.
    pub by_cell_time: bool,
}

/// The deletes that a snapshot applies.
#[derive(Debug, Default)]
pub struct Deletes {
    /// The deletes, oldest first.
    deletes: Vec<Arc<TimedDelete>>,
    /// The processed deletes of each fragment that records deletes, by the fragment's name.
    processed: HashMap<String, Arc<HashSet<String>>>,
}

impl Deletes {
    /// Loads the deletes that apply to any of `fragments`, and no others.
    pub(super) async fn load(
        storage: &Storage,
        mut committed: Vec<CommittedDelete>,
        fragments: &[Arc<Fragment>],
    ) -> Result<Self> {
        let oldest = fragments.iter().map(|f| f.name.t1).min();
        committed.retain(|delete| oldest.is_some_and(|oldest| oldest <= delete.name.t1));
        if committed.is_empty() {
            return Ok(Self::default());
        }
        let processed = load_processed(storage, fragments).await?;
        committed.retain(|delete| {
            let (name, time) = (&delete.name.name, delete.name.t1);
            let pending = |f: &Arc<Fragment>| {
                let names = processed.get(&f.name.name);
                f.name.t1 <= time && names.is_none_or(|names| !names.contains(name))
            };
            fragments.iter().any(pending)
        });
        let deletes = load_all(storage, committed).await?;
        Ok(Self { deletes, processed })
    }

    /// The commits of all deletes, oldest first.
    pub(super) fn commits(&self) -> impl Iterator<Item = &CommittedDelete> {
        let deletes = self.deletes.iter();
        deletes.filter_map(|delete| delete.commit.as_ref())
    }

    /// The names of all deletes, oldest first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.deletes.iter().map(|delete| delete.name.as_str())
    }

    /// Whether the snapshot has seen a delete: it applies it, or one of its fragments has processed it.
    pub(super) fn knows(&self, name: &str) -> bool {
        let mut processed = self.processed.values();
        self.names().any(|known| known == name) || processed.any(|names| names.contains(name))
    }

    /// All deletes, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &TimedDelete> {
        self.deletes.iter().map(Arc::as_ref)
    }

    /// The times of all deletes, oldest first.
    pub fn times(&self) -> impl Iterator<Item = u64> {
        self.deletes.iter().map(|delete| delete.time)
    }

    /// Only the deletes with these names.
    pub(super) fn only(&self, names: &[String]) -> Self {
        let names: HashSet<&str> = names.iter().map(String::as_str).collect();
        let mut deletes = self.deletes.clone();
        deletes.retain(|delete| names.contains(delete.name.as_str()));
        Self {
            deletes,
            processed: self.processed.clone(),
        }
    }

    /// The deletes that apply to `fragment`, oldest first.
    pub fn of(&self, fragment: &Fragment) -> Vec<PendingDelete> {
        let first = self
            .deletes
            .partition_point(|delete| delete.time < fragment.name.t1);
        let processed = self.processed.get(&fragment.name.name);
        self.deletes
            .iter()
            .skip(first)
            .filter(|delete| processed.is_none_or(|names| !names.contains(&delete.name)))
            .map(|delete| PendingDelete {
                delete: Arc::clone(delete),
                by_cell_time: fragment.footer.has_timestamps && delete.time <= fragment.name.t2,
            })
            .collect()
    }
}

/// Loads deletes, whether they apply to a fragment or not.
pub(super) async fn load_all(
    storage: &Storage,
    committed: Vec<CommittedDelete>,
) -> Result<Vec<Arc<TimedDelete>>> {
    stream::iter(committed)
        .map(|delete| load(storage, delete))
        .buffered(storage.reads_at_once(LOAD_CONCURRENCY))
        .try_collect()
        .await
}

/// Loads the processed deletes of each of `fragments` that records deletes.
async fn load_processed(
    storage: &Storage,
    fragments: &[Arc<Fragment>],
) -> Result<HashMap<String, Arc<HashSet<String>>>> {
    let mut recording = fragments.to_vec();
    recording.retain(|fragment| fragment.footer.has_delete_metadata);
    stream::iter(recording)
        .map(|fragment| async move {
            let names = fragment.processed_conditions(storage).await?;
            Ok((fragment.name.name.clone(), names))
        })
        .buffered(storage.reads_at_once(LOAD_CONCURRENCY))
        .try_collect()
        .await
}

async fn load(storage: &Storage, delete: CommittedDelete) -> Result<Arc<TimedDelete>> {
    let CommittedDelete {
        name,
        update,
        file,
        inline,
    } = delete.clone();
    let extension = if update { "upd" } else { "del" };
    let marker = format!("__commits/{}.{extension}", name.name);
    let path = file.path();
    let start = inline.as_ref().map_or(0, |(start, _)| *start);
    let key = storage.cache_key(&path, start, &file.info);
    let load = || {
        async {
            let (what, bytes) = match &inline {
                Some((_, tile)) => ("delete condition", tile.clone()),
                None if update => ("update condition", storage.read(&path).await?),
                None => ("delete condition", storage.read(&path).await?),
            };
            let tile = storage.decode_generic_tile(&bytes, what)?;
            let condition = if update {
                DeleteCondition::decode_update(&tile.data)?
            } else {
                DeleteCondition::decode_delete(&tile.data)?
            };
            Ok((condition, tile.data.len().saturating_mul(2)))
        }
        .boxed()
    };
    let condition = storage
        .cache()
        .get_or_load(key, once_finished(&file.info, load))
        .await
        .context("delete", || &name.name)
        .context("file", || path)?;
    Ok(Arc::new(TimedDelete {
        time: name.t1,
        name: name.name,
        marker,
        condition,
        commit: Some(delete),
    }))
}
