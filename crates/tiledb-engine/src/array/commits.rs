//! Every commit of an array, by its files: for functions that describe the history, not for reading cells.
//!
//! A write or a delete has a file of its own, or is listed in `.con` files, or both; an `.ign` file removes it from
//! those lists, and a `.vac` file says that another fragment replaces it (specification: "Commits", "Vacuum Files").
//! Commits outside the window of time are included.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::directory::ArrayDirectory;
use crate::error::{Error, Result, ResultExt};
use crate::format::commit::{self, CommitEntryKind, CommitKind};
use crate::format::names::TimestampedName;
use crate::storage::{FileInfo, Storage};

/// Files read at the same time.
const LOAD_CONCURRENCY: usize = 16;

/// One commit.
#[derive(Debug, Clone)]
pub struct ArrayCommit {
    /// The kind of commit.
    pub kind: CommitKind,
    /// Its name: for a write, the fragment's; for a vacuum, that of the replacing fragment.
    pub name: TimestampedName,
    /// Its own file, relative to the array; `None` if only `.con` files list it.
    pub file: Option<String>,
    /// The store's information on that file, or on a `.con` file that lists it.
    pub(super) info: FileInfo,
    /// The `.con` files that list it.
    pub consolidated_in: Vec<String>,
    /// The `.ign` file that removes it from those lists.
    pub ignored_by: Option<String>,
    /// The `.vac` file that says another fragment replaces it.
    pub vacuumed_by: Option<String>,
    /// What a `.con`, `.ign` or `.vac` file lists.
    pub lists: Vec<String>,
    /// The tile of a delete that a `.con` file contains.
    pub inline: Option<Bytes>,
}

impl ArrayCommit {
    /// Whether it is committed: it has a file of its own, or a list that no `.ign` file removes it from. Deletes always
    /// stay listed.
    pub fn is_committed(&self) -> bool {
        let revocable = matches!(self.kind, CommitKind::Write | CommitKind::Ok);
        self.file.is_some() || self.ignored_by.is_none() || !revocable
    }
}

/// Reads all commits, in the order of their times, then names.
pub async fn load(storage: &Storage, directory: &ArrayDirectory) -> Result<Vec<ArrayCommit>> {
    let mut files = Vec::new();
    for (path, info) in directory.commit_files() {
        // Unrelated files may have such extensions, too.
        if let (Some(kind), Ok(name)) = (CommitKind::of(&path), TimestampedName::parse(&path)) {
            files.push((kind, name, path, info.clone()));
        }
    }
    let contents: Vec<_> = stream::iter(files)
        .map(|(kind, name, path, info)| async move {
            let lists = matches!(
                kind,
                CommitKind::Consolidated | CommitKind::Ignore | CommitKind::Vacuum
            );
            let bytes = if lists {
                Some(storage.read(&path).await?)
            } else {
                None
            };
            Ok::<_, Error>((kind, name, path, info, bytes))
        })
        .buffered(storage.reads_at_once(LOAD_CONCURRENCY))
        .try_collect()
        .await?;
    let mut log = CommitLog::default();
    for (kind, name, path, info, bytes) in contents {
        log.add_file(kind, name, &path, &info, bytes)
            .context("file", || path)?;
    }
    Ok(log.finish())
}

#[derive(Default)]
struct CommitLog {
    /// Writes, deletes and updates by kind and name.
    commits: BTreeMap<(&'static str, String), ArrayCommit>,
    /// The `.con`, `.ign` and `.vac` files.
    lists: Vec<ArrayCommit>,
    ignored: HashMap<String, String>,
    vacuumed: HashMap<String, String>,
}

impl CommitLog {
    fn add_file(
        &mut self,
        kind: CommitKind,
        name: TimestampedName,
        path: &str,
        info: &FileInfo,
        bytes: Option<Bytes>,
    ) -> Result<()> {
        let Some(bytes) = bytes else {
            let commit = self.entry(kind, name, info);
            commit.file = Some(path.to_owned());
            commit.info = info.clone();
            return Ok(());
        };
        let paths = match kind {
            CommitKind::Consolidated => self.add_entries(path, info, &bytes)?,
            CommitKind::Ignore => {
                let paths = commit::parse_ignore(&bytes)?;
                let names = paths.iter().map(|p| commit::path_name(p).to_owned());
                self.ignored.extend(names.map(|n| (n, path.to_owned())));
                paths
            }
            _ => {
                let paths = commit::parse_vacuum(&bytes)?;
                let names = paths.iter().map(|p| commit::path_name(p).to_owned());
                self.vacuumed.extend(names.map(|n| (n, path.to_owned())));
                paths
            }
        };
        let mut commit = ArrayCommit::new(kind, name, info);
        commit.file = Some(path.to_owned());
        commit.lists = paths;
        self.lists.push(commit);
        Ok(())
    }

    fn add_entries(&mut self, path: &str, info: &FileInfo, bytes: &Bytes) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        for entry in commit::parse_consolidated_commits(bytes)? {
            let (kind, inline) = match entry.kind {
                CommitEntryKind::Write => (CommitKind::Write, None),
                CommitEntryKind::Ok => (CommitKind::Ok, None),
                CommitEntryKind::Delete { range } => {
                    let inside = range.end <= bytes.len() && range.start <= range.end;
                    (CommitKind::Delete, inside.then(|| bytes.slice(range)))
                }
            };
            let commit = self.entry(kind, TimestampedName::parse(&entry.name)?, info);
            commit.consolidated_in.push(path.to_owned());
            commit.inline = commit.inline.take().or(inline);
            paths.push(entry.path);
        }
        Ok(paths)
    }

    fn entry(
        &mut self,
        kind: CommitKind,
        name: TimestampedName,
        info: &FileInfo,
    ) -> &mut ArrayCommit {
        let key = (kind.word(), name.name.clone());
        self.commits
            .entry(key)
            .or_insert_with(|| ArrayCommit::new(kind, name, info))
    }

    fn finish(self) -> Vec<ArrayCommit> {
        let mut commits: Vec<ArrayCommit> = self.commits.into_values().chain(self.lists).collect();
        for commit in &mut commits {
            let stands_alone = !matches!(
                commit.kind,
                CommitKind::Consolidated | CommitKind::Ignore | CommitKind::Vacuum
            );
            if stands_alone {
                commit.ignored_by = self.ignored.get(&commit.name.name).cloned();
                commit.vacuumed_by = self.vacuumed.get(&commit.name.name).cloned();
            }
        }
        commits.sort_by(|a, b| {
            let key = |c: &ArrayCommit| (c.name.t1, c.name.t2, c.name.name.clone(), c.kind.word());
            key(a).cmp(&key(b))
        });
        commits
    }
}

impl ArrayCommit {
    fn new(kind: CommitKind, name: TimestampedName, info: &FileInfo) -> Self {
        Self {
            kind,
            name,
            file: None,
            info: info.clone(),
            consolidated_in: Vec::new(),
            ignored_by: None,
            vacuumed_by: None,
            lists: Vec::new(),
            inline: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::*;
    use crate::storage::{Location, MetadataCache};

    const UUID: &str = "0123456789abcdef0123456789abcdef";

    async fn load_from(files: &[(&str, &str)]) -> Result<Vec<ArrayCommit>> {
        let store = InMemory::new();
        for (name, text) in files {
            let path = Path::from(format!("a/{}", name.replace("UUID", UUID)));
            let text = text.replace("UUID", UUID);
            store.put(&path, text.into()).await.unwrap();
        }
        let store: Arc<dyn ObjectStore> = Arc::new(store);
        let location = Location::new(store, Path::from("a"), "memory:///a");
        let storage = Storage::new(location).with_cache(Arc::new(MetadataCache::new(1 << 20)));
        let directory = ArrayDirectory::list(&storage).await?;
        load(&storage, &directory).await
    }

    const SCHEMA: (&str, &str) = ("__schema/__1_1_UUID", "");

    #[tokio::test]
    async fn who_lists_whom() {
        let commits = load_from(&[
            SCHEMA,
            ("__commits/__1_1_UUID_22.wrt", ""),
            ("__commits/__5_5_UUID_22.del", "x"),
            ("__commits/__1_4_UUID_22.wrt", ""),
            (
                "__commits/__1_3_UUID_22.con",
                "__commits/__1_1_UUID_22.wrt\n__commits/__2_2_UUID_22.wrt\n__commits/__3_3_UUID_22.wrt\n",
            ),
            (
                "__commits/__1_2_UUID_22.ign",
                "__commits/__1_1_UUID_22.wrt\n__commits/__2_2_UUID_22.wrt\n",
            ),
            ("__commits/__1_4_UUID_22.vac", "/__fragments/__3_3_UUID_22\n"),
            ("__commits/notes.del", "not ours"),
        ])
        .await
        .unwrap();
        let told: Vec<_> = commits
            .iter()
            .map(|c| (c.kind.word(), c.name.t1, c.name.t2, c.is_committed()))
            .collect();
        assert_eq!(
            told,
            [
                ("write", 1, 1, true),
                ("ignore", 1, 2, true),
                ("consolidated", 1, 3, true),
                ("vacuum", 1, 4, true),
                ("write", 1, 4, true),
                ("write", 2, 2, false),
                ("write", 3, 3, true),
                ("delete", 5, 5, true),
            ]
        );
        // An ignore file does not undo a commit file.
        let [first, _, _, _, _, second, third, _] = commits.as_slice() else {
            panic!()
        };
        assert!(first.file.is_some() && first.ignored_by.is_some());
        assert!(second.file.is_none() && second.consolidated_in.len() == 1);
        assert!(
            third
                .vacuumed_by
                .as_ref()
                .is_some_and(|v| v.ends_with(".vac"))
        );
        assert_eq!(commits[2].lists.len(), 3);
    }

    #[tokio::test]
    async fn a_list_cut_short_is_an_error_that_names_it() {
        let cut = ("__commits/__1_3_UUID_22.con", "__commits/__1_1_UUID_22.wr");
        let error = load_from(&[SCHEMA, cut]).await.unwrap_err();
        assert!(error.to_string().contains(".con"), "{error}");
    }
}
