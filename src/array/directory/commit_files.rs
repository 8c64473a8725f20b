//! The files of an array's commits: which fragments they commit, list, ignore and replace, and which deletes they
//! contain.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;

use super::{ArrayFile, CommittedDelete};
use crate::array::window::{OpenWindow, Visibility};
use crate::error::{Result, ResultExt};
use crate::format::commit::{self, CommitEntryKind, CommitKind};
use crate::format::names::TimestampedName;
use crate::storage::Storage;

/// The contents of the commit files.
#[derive(Default)]
pub(super) struct Commits {
    /// Committed fragments, and the files that commit them.
    pub(super) committed: BTreeMap<String, ArrayFile>,
    /// The fragments that `.con` files list.
    pub(super) listed: HashSet<String>,
    /// The fragments that other fragments replace.
    pub(super) vacuumed: HashSet<String>,
    /// The deletes inside the window.
    deletes: BTreeMap<String, CommittedDelete>,
}

impl Commits {
    pub(super) async fn read(
        storage: &Storage,
        files: &[ArrayFile],
        window: &OpenWindow,
        sparse_array: bool,
    ) -> Result<Self> {
        let mut commits = Self::default();
        let mut ignored = HashSet::new();
        let mut listed: BTreeMap<String, ArrayFile> = BTreeMap::new();
        let mut staged = Vec::new();
        for file in files {
            let Some(kind) = CommitKind::of(&file.info.name) else {
                staged.extend(commit::staged_vacuum(&file.info.name).map(|name| (name, file)));
                continue;
            };
            let stem = commit::path_name(&file.info.name);
            let path = file.path();
            match kind {
                CommitKind::Write | CommitKind::Ok => {
                    commits.committed.insert(stem.to_owned(), file.clone());
                }
                CommitKind::Consolidated => {
                    let bytes = storage.read(&path).await?;
                    for entry in
                        commit::parse_consolidated_commits(&bytes).context("file", || &path)?
                    {
                        match entry.kind {
                            CommitEntryKind::Write | CommitEntryKind::Ok => {
                                listed.insert(entry.name, file.clone());
                            }
                            CommitEntryKind::Delete { range } if sparse_array => {
                                let start = range.start as u64;
                                let inline = Some((start, bytes.slice(range)));
                                let name = TimestampedName::parse(&entry.name)?;
                                commits.add_delete(name, file, inline, window);
                            }
                            CommitEntryKind::Delete { .. } => {}
                        }
                    }
                }
                CommitKind::Ignore => {
                    let bytes = storage.read(&path).await?;
                    let paths = commit::parse_ignore(&bytes).context("file", || &path)?;
                    ignored.extend(paths.iter().map(|p| commit::path_name(p).to_owned()));
                }
                CommitKind::Vacuum => {
                    let name = TimestampedName::parse(stem).context("file", || &path)?;
                    commits
                        .hide_replaced(storage, &name, &path, window, sparse_array)
                        .await?;
                }
                CommitKind::Delete | CommitKind::Update if sparse_array => {
                    let name = TimestampedName::parse(stem).context("file", || &path)?;
                    commits.add_delete(name, file, None, window);
                }
                CommitKind::Delete | CommitKind::Update => {}
            }
        }
        // `.ign` files remove fragments from the lists of `.con` files, and do not affect commit files.
        listed.retain(|name, _| !ignored.contains(name));
        for (name, file) in listed {
            commits.listed.insert(name.clone());
            commits.committed.entry(name).or_insert(file);
        }
        // What a fragment replaces is hidden from the moment of its commit on.
        staged.retain(|(name, _)| commits.committed.contains_key(*name));
        for (name, file) in staged {
            let path = file.path();
            let name = TimestampedName::parse(name).context("file", || &path)?;
            commits
                .hide_replaced(storage, &name, &path, window, sparse_array)
                .await?;
        }
        Ok(commits)
    }

    /// Hides what a `.vac` file lists, if the window shows the fragment it belongs to.
    async fn hide_replaced(
        &mut self,
        storage: &Storage,
        name: &TimestampedName,
        path: &str,
        window: &OpenWindow,
        sparse_array: bool,
    ) -> Result<()> {
        if window.sees_fragment(name, sparse_array) != Visibility::Hidden {
            let bytes = storage.read(path).await?;
            let paths = commit::parse_vacuum(&bytes).context("file", || path)?;
            let names = paths.iter().map(|p| commit::path_name(p).to_owned());
            self.vacuumed.extend(names);
        }
        Ok(())
    }

    /// Adds a delete or update once: one in a `.con` file often has a file of its own, too.
    fn add_delete(
        &mut self,
        name: TimestampedName,
        file: &ArrayFile,
        inline: Option<(u64, Bytes)>,
        window: &OpenWindow,
    ) {
        if !window.contains(&name) {
            return;
        }
        let is_inline = inline.is_some();
        let entry = self.deletes.entry(name.name.clone());
        let delete = CommittedDelete {
            name,
            update: CommitKind::of(&file.info.name) == Some(CommitKind::Update),
            file: file.clone(),
            inline,
        };
        match entry {
            Entry::Vacant(entry) => {
                entry.insert(delete);
            }
            // A delete that is already in memory saves a request.
            Entry::Occupied(mut entry) if is_inline => {
                entry.insert(delete);
            }
            Entry::Occupied(_) => {}
        }
    }

    pub(super) fn deletes_in_order(self) -> Vec<CommittedDelete> {
        let mut deletes = self.deletes.into_values().collect::<Vec<_>>();
        // The sort is stable, so deletes of one time stay sorted by name.
        deletes.sort_by_key(|delete| delete.name.t1);
        deletes
    }
}
